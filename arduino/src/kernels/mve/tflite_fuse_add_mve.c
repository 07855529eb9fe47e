/* ADD of multiples with Helium, four channels at a time. */
#include "tflite_fuse_mve.h"

#if TFLITE_FUSE_MVE

void tflite_fuse_add_vectors(const tflite_fuse_call* call, const int32_t* factors) {
  const int32_t first = factors[0], second = factors[1];
  const int32x4_t start = vdupq_n_s32(factors[2]);
  const tflite_fuse_range range = {0, call->stage->activation_min, call->stage->activation_max};
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t *a = call->windows[0][i], *b = call->windows[1][i];
    int8_t* output = call->outputs[i];
    for (int32_t left = call->output->channels; left > 0; left -= 4, a += 4, b += 4, output += 4) {
      const mve_pred16_t some = vctp32q((uint32_t)left);
      const int32x4_t one = vmlaq_n_s32(start, vldrbq_z_s32(a, some), first);
      const int32x4_t sum = vmlaq_n_s32(one, vldrbq_z_s32(b, some), second);
      tflite_fuse_store_4(output, vshrq_n_s32(sum, TFLITE_FUSE_ADD_BITS), range, left);
    }
  }
}

#endif
