/* Computes the number of the first largest channel of each int8 pixel, written as four channels: an int32,
 * little-endian. */
#include "../../executor/tflite_fuse_machine.h"

static void arg_max(const tflite_fuse_call* call) {
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* value = call->windows[0][i];
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

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_arg_max = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .keeps_extent = true,
    .fits = has_four_channels,
    .compute = arg_max,
};
