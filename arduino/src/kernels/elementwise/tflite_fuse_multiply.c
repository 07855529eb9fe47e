/* Multiplies two int8 tensors of equal shape, value by value; one may have a single channel for all channels
 * of the other. */
#include "../../executor/tflite_fuse_checks.h"
#include "../tflite_fuse_requantize.h"

static void multiply(const tflite_fuse_call* call) {
  const tflite_fuse_channel entry = *(const tflite_fuse_channel*)call->table;
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const int32_t zero_0 = call->inputs[0]->zero_point, zero_1 = call->inputs[1]->zero_point;
  const int32_t channels = call->output->channels;
  const int32_t step_0 = call->inputs[0]->channels == channels, step_1 = call->inputs[1]->channels == channels;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* a = call->windows[0][i];
    const int8_t* b = call->windows[1][i];
    int8_t* output = call->outputs[i];
    for (const int8_t* end = output + channels; output != end; a += step_0, b += step_1, ++output) {
      const int32_t product = (*a - zero_0) * (*b - zero_1);
      *output = tflite_fuse_requantize(product, entry, range);
    }
  }
}

static bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                           int64_t room) {
  (void)output;
  return tflite_fuse_entries_are_sound(stage, table, 1, room);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_multiply = {
    .min_inputs = 2,
    .max_inputs = 2,
    .operands = 2,
    .keeps_extent = true,
    .fits = tflite_fuse_broadcasts,
    .table_is_sound = table_is_sound,
    .compute = multiply,
};
