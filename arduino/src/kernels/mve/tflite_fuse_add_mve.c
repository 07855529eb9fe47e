/* ADD with Helium: four channels at a time, each step that of the plain kernel. */
#include "tflite_fuse_mve.h"

#if TFLITE_FUSE_MVE

/* One operand: its values, less its zero point, are shifted left and scaled. */
typedef struct {
  int32_t zero_point;
  int32x4_t left, multiplier, right;
} operand;

static operand operand_of(const tflite_fuse_call* call, int32_t number, int32_t multiplier, int32_t shift) {
  const tflite_fuse_addition* table = call->table;
  const operand o = {call->inputs[number]->zero_point, vdupq_n_s32(table->left_shift), vdupq_n_s32(multiplier),
                     vdupq_n_s32(shift)};
  return o;
}

TFLITE_FUSE_INLINE int32x4_t scale(const int8_t* from, mve_pred16_t some, const operand* o) {
  const int32x4_t value = vaddq_n_s32(vldrbq_z_s32(from, some), -o->zero_point);
  return tflite_fuse_multiply_4(vshlq_s32(value, o->left), o->multiplier, o->right);
}

void tflite_fuse_add_vectors(const tflite_fuse_call* call) {
  const tflite_fuse_addition* table = call->table;
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const bool subtracts = table->multiplier_1 < 0;
  const operand a = operand_of(call, 0, table->multiplier_0, table->shift_0);
  const operand b = operand_of(call, 1, subtracts ? -table->multiplier_1 : table->multiplier_1, table->shift_1);
  const int32x4_t multiplier = vdupq_n_s32(table->output_multiplier), shift = vdupq_n_s32(table->output_shift);
  for (int32_t i = 0; i < call->count; ++i) {
    for (int32_t c = 0, left = call->output->channels; left > 0; c += 4, left -= 4) {
      const mve_pred16_t some = vctp32q((uint32_t)left);
      const int32x4_t first = scale(call->windows[0][i] + c, some, &a);
      const int32x4_t second = scale(call->windows[1][i] + c, some, &b);
      const int32x4_t sum = subtracts ? vsubq_s32(first, second) : vaddq_s32(first, second);
      const int32x4_t value = vaddq_n_s32(tflite_fuse_multiply_4(sum, multiplier, shift), range.zero_point);
      const int32x4_t low = vmaxq_s32(value, vdupq_n_s32(range.low));
      tflite_fuse_store_4(call->outputs[i] + c, vminq_s32(low, vdupq_n_s32(range.high)), left);
    }
  }
}

#endif
