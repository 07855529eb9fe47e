/* Computes the squared difference of two int8 tensors of equal shape, value by value; one may have a single channel for
 * all channels of the other. */
#include "../../executor/tflite_fuse_checks.h"
#include "../tflite_fuse_requantize.h"

enum { MOST_LEFT = 7, HALF = 1 << 30 };

static TFLITE_FUSE_RARE void squared_difference(const tflite_fuse_call* call) {
  const tflite_fuse_addition table = *(const tflite_fuse_addition*)call->table;
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const int32_t zero_0 = call->inputs[0]->zero_point, zero_1 = call->inputs[1]->zero_point;
  const int32_t channels = call->output->channels, up = 1 << table.left_shift;
  const int32_t step_0 = call->inputs[0]->channels == channels, step_1 = call->inputs[1]->channels == channels;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* a = call->windows[0][i];
    const int8_t* b = call->windows[1][i];
    int8_t* output = call->outputs[i];
    for (const int8_t* end = output + channels; output != end; a += step_0, b += step_1, ++output) {
      const int32_t first = tflite_fuse_multiply((*a - zero_0) * up, table.multiplier_0, table.shift_0);
      const int32_t second = tflite_fuse_multiply((*b - zero_1) * up, table.multiplier_1, table.shift_1);
      const int32_t square = (first - second) * (first - second);
      *output = tflite_fuse_fit(tflite_fuse_multiply(square, table.output_multiplier, table.output_shift), range);
    }
  }
}

/* Returns whether a multiplier and shift scale by at most 1/2: then the square of the difference of two
 * operands fits int32. */
static bool halves(int32_t multiplier, int32_t shift) {
  return multiplier >= 0 && within(shift, -31, multiplier > HALF ? -1 : 0);
}

static TFLITE_FUSE_RARE bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                            const void* table, int64_t room) {
  const tflite_fuse_addition* t = table;
  (void)stage, (void)output;
  return room >= (int64_t)sizeof(*t) && within(t->left_shift, 0, MOST_LEFT) && halves(t->multiplier_0, t->shift_0) &&
         halves(t->multiplier_1, t->shift_1) && t->output_multiplier >= 0 && within(t->output_shift, -31, 30);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_squared_difference = {
    .min_inputs = 2,
    .max_inputs = 2,
    .operands = 2,
    .keeps_extent = true,
    .fits = tflite_fuse_broadcasts,
    .table_is_sound = table_is_sound,
    .compute = squared_difference,
};
