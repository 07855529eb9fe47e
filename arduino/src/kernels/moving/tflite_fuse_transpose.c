/* Exchanges rows and columns: a run of an output row is a part of an input column. */
#include "../../executor/tflite_fuse_checks.h"

static void transpose(const tflite_fuse_call* call) {
  const int32_t bytes = tflite_fuse_pixel_bytes(call->output);
  const size_t row = (size_t)call->inputs[0]->width * (size_t)bytes;
  const int8_t* pixel = call->windows[0][0] + (size_t)call->x * row + (size_t)call->y * (size_t)bytes;
  for (int32_t i = 0; i < call->count; ++i, pixel += row) {
    int8_t* to = call->outputs[i];
    for (int32_t c = 0; c < bytes; ++c) { /* no memcpy: tensors of a hostile file may overlap */
      to[c] = pixel[c];
    }
  }
}

static TFLITE_FUSE_RARE bool is_turned(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  const tflite_fuse_tensor* input = tflite_fuse_input_of(block, stage, 0);
  const tflite_fuse_tensor* output = &block->tensors[stage->output];
  return input->height == output->width && input->width == output->height &&
         input->storage != TFLITE_FUSE_STORAGE_PERSISTENT &&
         (input->storage != TFLITE_FUSE_STORAGE_SCRATCH || input->capacity == tflite_fuse_pixels(input));
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_transpose = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .whole = 1,
    .keeps_channels = true,
    .moves = true,
    .fits = is_turned,
    .compute = transpose,
};
