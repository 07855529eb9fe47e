/* The number of the first largest channel of each pixel of float32, written as four channels of int8: the bytes of an int32,
 * the lowest first. A NaN is not larger than another value, and no value is larger than a NaN. */
#include "tflite_fuse_floats.h"

static void arg_max(const tflite_fuse_call* call) {
  for (int32_t i = 0; i < call->count; ++i) {
    const float* value = tflite_fuse_floats_at(call->windows[0][i]);
    int32_t found = 0;
    for (int32_t c = 1; c < call->inputs[0]->channels; ++c) {
      found = value[c] > value[found] ? c : found;
    }
    memcpy(call->outputs[i], &found, sizeof(found));
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
