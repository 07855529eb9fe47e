/* Adds to each channel, or to a single one for all, its own constant. */
#include "../../executor/tflite_fuse_checks.h"
#include "../tflite_fuse_requantize.h"

enum { MOST = 1 << 28 };

static void offset(const tflite_fuse_call* call) {
  const tflite_fuse_offset_table table = *(const tflite_fuse_offset_table*)call->table;
  const int32_t* offsets = (const int32_t*)((const tflite_fuse_offset_table*)call->table + 1);
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const int32_t channels = call->output->channels, zero = call->inputs[0]->zero_point, up = 1 << table.left_shift;
  const int32_t step = call->inputs[0]->channels == channels;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* input = call->windows[0][i];
    int8_t* output = call->outputs[i];
    for (int32_t c = 0; c < channels; ++c, input += step) {
      const int32_t term = tflite_fuse_multiply((*input - zero) * up, table.multiplier, table.shift);
      const int32_t sum = table.sign * term + offsets[c];
      output[c] = tflite_fuse_fit(tflite_fuse_multiply(sum, table.output_multiplier, table.output_shift), range);
    }
  }
}

static bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                           int64_t room) {
  const tflite_fuse_offset_table* t = table;
  (void)stage;
  if (room < (int64_t)sizeof(*t) + (int64_t)sizeof(int32_t) * output->channels ||
      !within(t->left_shift, 0, TFLITE_FUSE_MAX_ADD_SHIFT) || t->multiplier < 0 || !within(t->shift, -31, 0) ||
      t->output_multiplier < 0 || !within(t->output_shift, -31, 0) || (t->sign != 1 && t->sign != -1)) {
    return false;
  }
  const int32_t* offsets = (const int32_t*)(t + 1);
  for (int32_t c = 0; c < output->channels; ++c) {
    if (!within(offsets[c], -MOST, MOST)) {
      return false;
    }
  }
  return true;
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_offset = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .keeps_extent = true,
    .fits = tflite_fuse_broadcasts,
    .table_is_sound = table_is_sound,
    .compute = offset,
};
