/* Compares kernels of the application with the library's on a block before they are used. */
#include "tflite_fuse_machine.h"

enum { TRIES = 4 };

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

/* Kernels under test, and the number of calls with results that differ from the library's. */
typedef struct {
  const tflite_fuse_rows* rows;
  uint32_t differences;
} trial;

/* Returns a hash of the call's outputs, so the comparison needs no copy of them. */
static uint32_t sum_of(const tflite_fuse_call* call) {
  uint32_t sum = 0;
  for (int32_t i = 0; i < call->count; ++i) {
    for (int32_t c = 0; c < tflite_fuse_pixel_bytes(call->output); ++c) {
      sum = (sum ^ (uint8_t)call->outputs[i][c]) * UINT32_C(16777619);
    }
  }
  return sum;
}

/* Computes a call with both kernels and compares the hashes. */
static void compare(const tflite_fuse_call* call) {
  trial* test = call->user;
  tflite_fuse_call application_call = *call;
  application_call.user = test->rows->user;
  tflite_fuse_row_kernel(test->rows, call->stage->kind)(&application_call);
  const uint32_t sum = sum_of(call);
  tflite_fuse_entry_of(call->stage)->compute(call);
  test->differences += sum != sum_of(call);
}

static tflite_fuse_kernel compared(tflite_fuse_kernel kernel) { return kernel == NULL ? NULL : compare; }

TFLITE_FUSE_RARE tflite_fuse_status tflite_fuse_use_rows(tflite_fuse_block* block, const tflite_fuse_rows* rows,
                                                         const tflite_fuse_io* io) {
  trial test = {rows, 0};
  uint32_t state = 1;
  tflite_fuse_status status = TFLITE_FUSE_OK;
  if (rows != NULL) {
    const tflite_fuse_rows both = {compared(rows->convolution), compared(rows->depthwise), &test,
                                   compared(rows->others)};
    block->rows = &both;
    for (int i = 0; i < TRIES && status == TFLITE_FUSE_OK; ++i) {
      fill_inputs(block, io, &state);
      status = tflite_fuse_invoke(block, io);
    }
  }
  if (status == TFLITE_FUSE_OK && test.differences != 0) {
    status = TFLITE_FUSE_WRONG_ROWS;
  }
  block->rows = status == TFLITE_FUSE_OK ? rows : NULL;
  return status;
}
