/* Multiplies each channel, or a single one for all, by its own factor; values below zero have another factor. */
#include "../../executor/tflite_fuse_checks.h"
#include "../tflite_fuse_requantize.h"

enum { SIDES = 2 };

static void scale(const tflite_fuse_call* call) {
  const tflite_fuse_channel* sides = call->table;
  const tflite_fuse_channel above = sides[0], below = sides[1];
  const int16_t* factors = (const int16_t*)(sides + SIDES);
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const int32_t channels = call->output->channels, zero = call->inputs[0]->zero_point;
  const int32_t step = call->inputs[0]->channels == channels;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* input = call->windows[0][i];
    int8_t* output = call->outputs[i];
    for (int32_t c = 0; c < channels; ++c, input += step) {
      const int32_t value = *input - zero;
      output[c] = value >= 0 ? tflite_fuse_requantize(value * factors[SIDES * c], above, range)
                             : tflite_fuse_requantize(value * factors[SIDES * c + 1], below, range);
    }
  }
}

static bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                           int64_t room) {
  const int64_t factors = SIDES * (int64_t)sizeof(int16_t) * output->channels;
  return tflite_fuse_entries_are_sound(stage, table, SIDES, room - factors);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_scale = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .keeps_extent = true,
    .fits = tflite_fuse_broadcasts,
    .table_is_sound = table_is_sound,
    .compute = scale,
};
