/* The usual ADD with Helium, four channels at a time: one operand halved, the other and the sum scaled down. */
#include "tflite_fuse_mve.h"

#if TFLITE_FUSE_MVE

/* The same for all values. */
typedef struct {
  int32_t halved_zero, scaled_zero, multiplier, shift, output_multiplier, output_shift;
  tflite_fuse_range range;
} addition;

/* A product scaled down: as tflite_fuse_multiply_4 where there is a shift. */
TFLITE_FUSE_INLINE int32x4_t scale_down(int32x4_t value, int32_t multiplier, int32_t shift) {
  const int32x4_t high = vqrdmulhq_n_s32(value, multiplier);
  return vrshlq_n_s32(vaddq_s32(high, vshrq_n_s32(high, 31)), shift);
}

TFLITE_FUSE_INLINE int32x4_t add_4(const addition* t, int32x4_t halved, int32x4_t scaled) {
  const int32x4_t other = scale_down(vaddq_n_s32(vshlq_n_s32(scaled, 20), t->scaled_zero), t->multiplier, t->shift);
  const int32x4_t sum = vaddq_s32(vaddq_n_s32(vshlq_n_s32(halved, 19), t->halved_zero), other);
  return scale_down(sum, t->output_multiplier, t->output_shift);
}

void tflite_fuse_add_vectors(const tflite_fuse_call* call, int32_t halved) {
  const tflite_fuse_addition* table = call->table;
  const int32_t scaled = 1 - halved, channels = call->output->channels;
  const addition t = {-call->inputs[halved]->zero_point * (1 << 19),
                      -call->inputs[scaled]->zero_point * (1 << 20),
                      halved ? table->multiplier_0 : table->multiplier_1,
                      halved ? table->shift_0 : table->shift_1,
                      table->output_multiplier,
                      table->output_shift,
                      tflite_fuse_range_of(call)};
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t *a = call->windows[halved][i], *b = call->windows[scaled][i];
    int8_t* output = call->outputs[i];
    int32_t left = channels;
    for (; left >= 4; left -= 4, a += 4, b += 4, output += 4) {
      tflite_fuse_store_4(output, add_4(&t, vldrbq_s32(a), vldrbq_s32(b)), t.range, 4);
    }
    if (left > 0) {
      const mve_pred16_t some = vctp32q((uint32_t)left);
      tflite_fuse_store_4(output, add_4(&t, vldrbq_z_s32(a, some), vldrbq_z_s32(b, some)), t.range, left);
    }
  }
}

#endif
