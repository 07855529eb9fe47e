/* Computes ADD by factors (elementwise/tflite_fuse_add.c) with Helium, four channels at a time. */
#include "tflite_fuse_mve.h"

#if TFLITE_FUSE_MVE

/* Returns the scaled sums of four channels. */
TFLITE_FUSE_INLINE int32x4_t add(int32x4_t start, int32x4_t a, int32_t first, int32x4_t b, int32_t second) {
  return vshrq_n_s32(vmlaq_n_s32(vmlaq_n_s32(start, a, first), b, second), TFLITE_FUSE_ADD_BITS);
}

void tflite_fuse_add_vectors(const tflite_fuse_call* call, const int32_t* factors) {
  const int32_t first = factors[0], second = factors[1];
  const int32x4_t start = vdupq_n_s32(factors[2]);
  const tflite_fuse_range range = {0, call->stage->activation_min, call->stage->activation_max};
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t *a = call->windows[0][i], *b = call->windows[1][i];
    int8_t* output = call->outputs[i];
    int32_t remaining = call->output->channels;
    for (; remaining >= 4; remaining -= 4, a += 4, b += 4, output += 4) {
      tflite_fuse_store_4(output, add(start, vldrbq_s32(a), first, vldrbq_s32(b), second), range, 4);
    }
    if (remaining > 0) {
      const mve_pred16_t lanes = vctp32q((uint32_t)remaining);
      const int32x4_t sum = add(start, vldrbq_z_s32(a, lanes), first, vldrbq_z_s32(b, lanes), second);
      tflite_fuse_store_4(output, sum, range, remaining);
    }
  }
}

#endif
