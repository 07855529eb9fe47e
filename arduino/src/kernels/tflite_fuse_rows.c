/* Row kernels of the application beside the library's: asked first, and compared before they are trusted. */
#include "../executor/tflite_fuse_small.h"

#include "../tflite_fuse_rows.h"

#include "../executor/tflite_fuse_checks.h"
#include "tflite_fuse_rows_internal.h"

enum { TRIES = 4 };

static int ask(const tflite_fuse_rows* rows, const tflite_fuse_call* call) {
  const tflite_fuse_stage* stage = call->stage;
  const tflite_fuse_row_kernel kernel = stage->kind == TFLITE_FUSE_KIND_CONV        ? rows->convolution
                                        : stage->kind == TFLITE_FUSE_KIND_DEPTHWISE ? rows->depthwise
                                                                                    : NULL;
  const tflite_fuse_row row = {
      .weights = call->weights,
      .table = call->table,
      .window = call->windows[0],
      .outputs = call->outputs,
      .count = call->count,
      .columns = call->columns,
      .at_once = call->at_once,
      .kernel_height = stage->kernel_height,
      .kernel_width = stage->kernel_width,
      .stride_width = stage->stride_width,
      .dilation_width = stage->dilation_width,
      .input_channels = call->inputs[0]->channels,
      .output_channels = call->output->channels,
      .depth_multiplier = stage->depth_multiplier,
      .output_zero_point = call->output->zero_point,
      .activation_min = stage->activation_min,
      .activation_max = stage->activation_max,
      .weight_layout = stage->weight_layout,
  };
  return kernel != NULL && kernel(rows->user, &row);
}

/* A number that changes with any byte of the call's outputs: comparing needs no second copy of them. */
static uint32_t sum_of(const tflite_fuse_call* call) {
  uint32_t sum = 0;
  for (int32_t i = 0; i < call->count; ++i) {
    for (int32_t c = 0; c < call->output->channels; ++c) {
      sum = (sum ^ (uint8_t)call->outputs[i][c]) * UINT32_C(16777619);
    }
  }
  return sum;
}

bool tflite_fuse_ask_rows(const tflite_fuse_block* block, const tflite_fuse_entry* entry, const tflite_fuse_call* call) {
  const tflite_fuse_rows* rows = block->rows;
  if (!ask(rows, call)) {
    return false;
  }
  if (rows->differences != NULL) {
    const uint32_t theirs = sum_of(call);
    entry->compute(call);
    *rows->differences += theirs != sum_of(call);
  }
  return true;
}

static void fill_inputs(const tflite_fuse_block* block, const tflite_fuse_io* io, uint32_t* state) {
  const int32_t count = tflite_fuse_operand_count(block, TFLITE_FUSE_INPUT);
  for (int32_t number = 0; number < count; ++number) {
    int8_t* values = (int8_t*)io->inputs[number];
    for (int32_t i = tflite_fuse_operand_bytes(block, TFLITE_FUSE_INPUT, number); i > 0; --i) {
      *state = *state * UINT32_C(1664525) + UINT32_C(1013904223);
      *values++ = (int8_t)(*state >> 24);
    }
  }
}

tflite_fuse_status tflite_fuse_use_rows(tflite_fuse_block* block, const tflite_fuse_rows* rows,
                                        const tflite_fuse_io* io) {
  uint32_t differences = 0, state = 1;
  tflite_fuse_status status = TFLITE_FUSE_OK;
  if (rows != NULL) {
    tflite_fuse_rows tried = *rows;
    tried.differences = &differences;
    block->rows = &tried;
    for (int i = 0; i < TRIES && status == TFLITE_FUSE_OK; ++i) {
      fill_inputs(block, io, &state);
      status = tflite_fuse_invoke(block, io);
    }
  }
  if (status == TFLITE_FUSE_OK && differences != 0) {
    status = TFLITE_FUSE_WRONG_ROWS;
  }
  block->rows = status == TFLITE_FUSE_OK ? rows : NULL;
  return status;
}
