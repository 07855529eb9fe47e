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

/* Whether loops in assembler stand in for those with intrinsics. */
#if TFLITE_FUSE_MVE && defined(__GNUC__) && !defined(TFLITE_FUSE_MVE_EMULATION)
#define TFLITE_FUSE_MVE_LOOPS 1
#else
#define TFLITE_FUSE_MVE_LOOPS 0
#endif

#include "../tflite_fuse_packed.h"

TFLITE_FUSE_HIDDEN_BEGIN

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

/* Four numbers as a vector; compilers left alone go through memory. */
TFLITE_FUSE_INLINE int32x4_t tflite_fuse_join_4(int32_t a, int32_t b, int32_t c, int32_t d) {
#if defined(__GNUC__) && !defined(TFLITE_FUSE_MVE_EMULATION)
  int32x4_t joined;
  __asm__("vmov %q0[2], %q0[0], %1, %3\n\tvmov %q0[3], %q0[1], %2, %4" : "=&w"(joined) : "r"(a), "r"(b), "r"(c), "r"(d));
  return joined;
#else
  return (int32x4_t){a, b, c, d};
#endif
}

/* How four channels are scaled. */
typedef struct {
  int32x4_t bias, multiplier, shift; /* a left shift; of layout DOWN negative */
} tflite_fuse_mve_scale;

/* Where the entries of channels `lanes` lie, in bytes, of which there are `channels`; the last one stands in for those
 * behind it. */
TFLITE_FUSE_INLINE uint32x4_t tflite_fuse_entries(uint32x4_t lanes, int32_t channels) {
  const uint32x4_t there = vminq_u32(lanes, vdupq_n_u32((uint32_t)channels - 1));
  return vmulq_n_u32(there, sizeof(tflite_fuse_channel));
}

TFLITE_FUSE_INLINE tflite_fuse_mve_scale tflite_fuse_mve_scale_of(const tflite_fuse_channel* entry, uint32x4_t entries,
                                                                  bool is_down) {
  const int32x4_t shift = vldrwq_gather_offset_s32(&entry->shift, entries);
  const tflite_fuse_mve_scale scale = {
      vldrwq_gather_offset_s32(&entry->bias, entries), vldrwq_gather_offset_s32(&entry->multiplier, entries),
      is_down ? vmvnq_s32(shift) : shift};
  return scale;
}

/* Four sums, bias included, scaled: outputs but for the zero point and the clamp. */
TFLITE_FUSE_INLINE int32x4_t tflite_fuse_scale_4(int32x4_t sums, tflite_fuse_mve_scale scale, bool is_down) {
  if (is_down) {
    const int32x4_t high = vqrdmulhq_s32(sums, scale.multiplier);
    return vrshlq_s32(vaddq_s32(high, vshrq_n_s32(high, 31)), scale.shift);
  }
  const int32x4_t left = vmaxq_s32(scale.shift, vdupq_n_s32(0)), right = vminq_s32(scale.shift, vdupq_n_s32(0));
  return tflite_fuse_multiply_4(vshlq_s32(sums, left), scale.multiplier, right);
}

/* Four outputs, or as many as there are. */
TFLITE_FUSE_INLINE void tflite_fuse_store_4(int8_t* output, int32x4_t scaled, tflite_fuse_range range,
                                            int32_t channels) {
  const int32x4_t low = vmaxq_s32(vaddq_n_s32(scaled, range.zero_point), vdupq_n_s32(range.low));
  const int32x4_t values = vminq_s32(low, vdupq_n_s32(range.high));
  if (channels >= 4) {
    vstrbq_s32(output, values);
  } else {
    vstrbq_p_s32(output, values, vctp32q((uint32_t)channels));
  }
}

/* ADD of multiples, as elementwise/tflite_fuse_add.c says. */
void tflite_fuse_add_vectors(const tflite_fuse_call* call, const int32_t* factors);

/* `count` values looked up in a table of 256 answers. */
TFLITE_FUSE_INLINE void tflite_fuse_look_up(const int8_t* value, int8_t* output, int32_t count, const uint8_t* table) {
  const uint8x16_t sign = vdupq_n_u8(0x80);
  for (; count > 0; count -= 16, value += 16, output += 16) {
    const mve_pred16_t some = vctp8q((uint32_t)count);
    const uint8x16_t places = veorq_u8(vldrbq_z_u8((const uint8_t*)value, some), sign);
    vstrbq_p_u8((uint8_t*)output, vldrbq_gather_offset_z_u8(table, places, some), some);
  }
}

#endif

TFLITE_FUSE_HIDDEN_END

#endif
