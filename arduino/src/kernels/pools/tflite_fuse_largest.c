/* Computes the largest int8 value of each channel over a whole tensor, as its pixels arrive, or of each pixel over
 * its channels.
 *
 * Accumulators hold the largest value plus 128, so that they can start at zero. */
#include "../../executor/tflite_fuse_machine.h"

static void sum(const tflite_fuse_call* call, int32_t position, void* sums) {
  (void)position;
  uint8_t* largest = sums;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* pixel = call->windows[0][i];
    for (int32_t c = 0; c < call->inputs[0]->channels; ++c) {
      const uint8_t value = (uint8_t)(pixel[c] ^ INT8_MIN);
      largest[c] = largest[c] > value ? largest[c] : value;
    }
  }
}

static int8_t clamped(const tflite_fuse_call* call, int32_t value) {
  return (int8_t)tflite_fuse_max(call->stage->activation_min, tflite_fuse_min(call->stage->activation_max, value));
}

static TFLITE_FUSE_RARE void finish(const tflite_fuse_call* call, const void* sums) {
  const uint8_t* largest = sums;
  for (int32_t c = 0; c < call->output->channels; ++c) {
    call->outputs[0][c] = clamped(call, largest[c] + INT8_MIN);
  }
}

static void channel_max(const tflite_fuse_call* call) {
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* value = call->windows[0][i];
    int32_t largest = INT8_MIN;
    for (const int8_t* end = value + call->inputs[0]->channels; value != end; ++value) {
      largest = tflite_fuse_max(largest, *value);
    }
    *call->outputs[i] = clamped(call, largest);
  }
}

static bool has_one_channel(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  return block->tensors[stage->output].channels == 1;
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_global_max = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .sums = TFLITE_FUSE_SUMS_LARGEST,
    .keeps_channels = true,
    .sum = sum,
    .finish = finish,
};

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_channel_max = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .keeps_extent = true,
    .fits = has_one_channel,
    .compute = channel_max,
};
