/* Helium, the vector extension of Cortex-M55, M85 and others (MVE; its integer part is enough), and scaling with it.
 *
 * For tests TFLITE_FUSE_MVE_EMULATION names a header that defines the same types and functions in portable C. */
#ifndef TFLITE_FUSE_MVE_H_
#define TFLITE_FUSE_MVE_H_

#if defined(TFLITE_FUSE_MVE_EMULATION)
#define TFLITE_FUSE_MVE 1
#include TFLITE_FUSE_MVE_EMULATION
#elif defined(__ARM_FEATURE_MVE)
#define TFLITE_FUSE_MVE 1
#include <arm_mve.h>
#else
#define TFLITE_FUSE_MVE 0
#endif

#include "../tflite_fuse_packed.h"

#if TFLITE_FUSE_MVE

/* tflite_fuse_multiply four times, shift: -31...0.
 *
 * VQRDMULH is (2 * value * multiplier + 2^31) / 2^32 rounded down, which is tflite_fuse_multiply_high: it saturates for
 * -2^31 times -2^31 alone, and there is no such multiplier. VRSHL adds half of the divisor as if nothing overflowed and
 * shifts: halves go up, so that one is taken off negative numbers first where there is a shift. */
TFLITE_FUSE_INLINE int32x4_t tflite_fuse_multiply_4(int32x4_t value, int32x4_t multiplier, int32x4_t shift) {
  const int32x4_t high = vqrdmulhq_s32(value, multiplier);
  const int32x4_t one_off = vshrq_n_s32(vandq_s32(high, shift), 31);
  return vrshlq_s32(vaddq_s32(high, one_off), shift);
}

/* How four channels of layout DOWN are scaled. */
typedef struct {
  int32x4_t bias, multiplier, shift; /* a left shift, negative */
} tflite_fuse_mve_scale;

/* Of the channels from `entry` on, of which there are `channels`; the last one stands in for those behind it. */
TFLITE_FUSE_INLINE tflite_fuse_mve_scale tflite_fuse_mve_scale_of(const tflite_fuse_channel* entry, int32_t channels) {
  const uint32x4_t lanes = vminq_u32(vidupq_n_u32(0, 1), vdupq_n_u32((uint32_t)channels - 1));
  const uint32x4_t offsets = vmulq_n_u32(lanes, sizeof(*entry));
  const tflite_fuse_mve_scale scale = {vldrwq_gather_offset_s32(&entry->bias, offsets),
                                       vldrwq_gather_offset_s32(&entry->multiplier, offsets),
                                       vmvnq_s32(vldrwq_gather_offset_s32(&entry->shift, offsets))};
  return scale;
}

/* The outputs of four sums, bias included. */
TFLITE_FUSE_INLINE int32x4_t tflite_fuse_scale_4_down(int32x4_t sums, tflite_fuse_mve_scale scale,
                                                      tflite_fuse_range range) {
  const int32x4_t high = vqrdmulhq_s32(sums, scale.multiplier);
  const int32x4_t value = vrshlq_s32(vaddq_s32(high, vshrq_n_s32(high, 31)), scale.shift);
  return vminq_s32(vmaxq_s32(vaddq_n_s32(value, range.zero_point), vdupq_n_s32(range.low)), vdupq_n_s32(range.high));
}

/* Four outputs, or as many as there are. */
TFLITE_FUSE_INLINE void tflite_fuse_store_4(int8_t* output, int32x4_t values, int32_t channels) {
  if (channels >= 4) {
    vstrbq_s32(output, values);
  } else {
    vstrbq_p_s32(output, values, vctp32q((uint32_t)channels));
  }
}

/* Writes output channels channel...channel + 3, as many as there are, of some pixels with packed weights. sums: of the
 * four channels of a pixel, without bias; those of the next pixel are `step` further on. */
TFLITE_FUSE_INLINE void tflite_fuse_finish_4(const tflite_fuse_call* call, int32_t channel, const int32_t* sums,
                                             int32_t step, int8_t* const* outputs, int32_t pixels) {
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const tflite_fuse_channel* entry = (const tflite_fuse_channel*)call->table + channel;
  const int32_t channels = call->output->channels - channel;
  const tflite_fuse_mve_scale scale = tflite_fuse_mve_scale_of(entry, channels);
  if (call->stage->weight_layout == TFLITE_FUSE_LAYOUT_PACKED_DOWN) {
    for (; pixels > 0; --pixels, sums += step) {
      const int32x4_t biased = vaddq_s32(vldrwq_s32(sums), scale.bias);
      tflite_fuse_store_4(*outputs++ + channel, tflite_fuse_scale_4_down(biased, scale, range), channels);
    }
    return;
  }
  const int32x4_t shift = vmvnq_s32(scale.shift); /* the table's own */
  const int32x4_t left = vmaxq_s32(shift, vdupq_n_s32(0)), right = vminq_s32(shift, vdupq_n_s32(0));
  for (; pixels > 0; --pixels, sums += step) {
    const int32x4_t sum = vshlq_s32(vaddq_s32(vldrwq_s32(sums), scale.bias), left);
    const int32x4_t value = vaddq_n_s32(tflite_fuse_multiply_4(sum, scale.multiplier, right), range.zero_point);
    const int32x4_t low = vmaxq_s32(value, vdupq_n_s32(range.low));
    tflite_fuse_store_4(*outputs++ + channel, vminq_s32(low, vdupq_n_s32(range.high)), channels);
  }
}

/* ADD, of any scales. */
void tflite_fuse_add_vectors(const tflite_fuse_call* call);

#endif

#endif
