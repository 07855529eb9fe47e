/* Computes the number of the first largest channel of each float32 pixel, written as four int8 channels: an
 * int32, little-endian. Comparisons with NaN are false, so a NaN is never chosen over another value, nor another
 * value over it. */
#include "tflite_fuse_floats.h"

static void arg_max(const tflite_fuse_call* call) {
  for (int32_t i = 0; i < call->count; ++i) {
    const float* value = tflite_fuse_floats_at(call->windows[0][i]);
    int32_t largest = 0;
    for (int32_t c = 1; c < call->inputs[0]->channels; ++c) {
      largest = value[c] > value[largest] ? c : largest;
    }
    memcpy(call->outputs[i], &largest, sizeof(largest));
  }
}

static TFLITE_FUSE_RARE bool has_four_channels(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  return block->tensors[stage->output].channels == (int32_t)sizeof(int32_t);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_float_arg_max = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .keeps_extent = true,
    .reads_float = true,
    .fits = has_four_channels,
    .keep = tflite_fuse_floats_are_ready,
    .compute = arg_max,
};
