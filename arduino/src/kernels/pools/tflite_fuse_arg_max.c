/* The number of the first largest channel of each pixel, written as four channels: the bytes of an int32, the lowest first. */
#include "../../executor/tflite_fuse_machine.h"

static void arg_max(const tflite_fuse_call* call) {
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* value = call->windows[0][i];
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

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_arg_max = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .keeps_extent = true,
    .fits = has_four_channels,
    .compute = arg_max,
};
