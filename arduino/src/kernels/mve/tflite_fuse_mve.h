/* Scales sums with Helium, the vector extension of Cortex-M55, M85 and others (MVE; its integer part suffices).
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

/* 1 if loops in assembler replace those with intrinsics. */
#if TFLITE_FUSE_MVE && defined(__GNUC__) && !defined(TFLITE_FUSE_MVE_EMULATION)
#define TFLITE_FUSE_MVE_LOOPS 1
#else
#define TFLITE_FUSE_MVE_LOOPS 0
#endif

#include "../tflite_fuse_packed.h"

TFLITE_FUSE_HIDDEN_BEGIN

#if TFLITE_FUSE_MVE

/* Returns tflite_fuse_multiply of four values. shift: -31...0.
 *
 * VQRDMULH computes (2 * value * multiplier + 2^31) / 2^32 rounded down, like tflite_fuse_multiply_high: it saturates
 * only for -2^31 times -2^31, and no multiplier is -2^31. VRSHL adds half of the divisor without overflow and shifts:
 * halves go up, so one is subtracted from negative numbers first if there is a shift. */
TFLITE_FUSE_INLINE int32x4_t tflite_fuse_multiply_4(int32x4_t value, int32x4_t multiplier, int32x4_t shift) {
  const int32x4_t high = vqrdmulhq_s32(value, multiplier);
  const int32x4_t one_off = vshrq_n_s32(vandq_s32(high, shift), 31);
  return vrshlq_s32(vaddq_s32(high, one_off), shift);
}

/* Joins four numbers to a vector in two instructions; compilers on their own use memory. */
TFLITE_FUSE_INLINE int32x4_t tflite_fuse_join_4(int32_t a, int32_t b, int32_t c, int32_t d) {
#if defined(__GNUC__) && !defined(TFLITE_FUSE_MVE_EMULATION)
  int32x4_t joined;
  __asm__("vmov %q0[2], %q0[0], %1, %3\n\tvmov %q0[3], %q0[1], %2, %4"
          : "=&w"(joined)
          : "r"(a), "r"(b), "r"(c), "r"(d));
  return joined;
#else
  return (int32x4_t){a, b, c, d};
#endif
}

/* Scales of four channels. */
typedef struct {
  int32x4_t bias, multiplier, shift; /* shift: to the left; negative in layouts DOWN */
} tflite_fuse_mve_scale;

/* Returns the byte offsets of the entries of channels `lanes`; lanes beyond `channels` repeat the last entry. */
TFLITE_FUSE_INLINE uint32x4_t tflite_fuse_entries(uint32x4_t lanes, int32_t channels) {
  const uint32x4_t channel = vminq_u32(lanes, vdupq_n_u32((uint32_t)channels - 1));
  return vmulq_n_u32(channel, sizeof(tflite_fuse_channel));
}

TFLITE_FUSE_INLINE tflite_fuse_mve_scale tflite_fuse_mve_scale_of(const tflite_fuse_channel* entry, uint32x4_t entries,
                                                                  bool is_down) {
  const int32x4_t shift = vldrwq_gather_offset_s32(&entry->shift, entries);
  const tflite_fuse_mve_scale scale = {
      vldrwq_gather_offset_s32(&entry->bias, entries), vldrwq_gather_offset_s32(&entry->multiplier, entries),
      is_down ? vmvnq_s32(shift) : shift};
  return scale;
}

/* Scales four sums, bias included, to outputs without zero point and clamp. */
TFLITE_FUSE_INLINE int32x4_t tflite_fuse_scale_4(int32x4_t sums, tflite_fuse_mve_scale scale, bool is_down) {
  if (is_down) {
    const int32x4_t high = vqrdmulhq_s32(sums, scale.multiplier);
    return vrshlq_s32(vaddq_s32(high, vshrq_n_s32(high, 31)), scale.shift);
  }
  const int32x4_t left = vmaxq_s32(scale.shift, vdupq_n_s32(0)), right = vminq_s32(scale.shift, vdupq_n_s32(0));
  return tflite_fuse_multiply_4(vshlq_s32(sums, left), scale.multiplier, right);
}

/* Clamps and stores four outputs, or `channels` if fewer. */
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

/* Computes ADD by factors, see elementwise/tflite_fuse_add.c. */
void tflite_fuse_add_vectors(const tflite_fuse_call* call, const int32_t* factors);

/* Looks up `count` values in a table of 256 results. */
TFLITE_FUSE_INLINE void tflite_fuse_look_up(const int8_t* value, int8_t* output, int32_t count, const uint8_t* table) {
  const uint8x16_t sign = vdupq_n_u8(0x80);
  for (; count > 0; count -= 16, value += 16, output += 16) {
    const mve_pred16_t lanes = vctp8q((uint32_t)count);
    const uint8x16_t places = veorq_u8(vldrbq_z_u8((const uint8_t*)value, lanes), sign);
    vstrbq_p_u8((uint8_t*)output, vldrbq_gather_offset_z_u8(table, places, lanes), lanes);
  }
}

#endif

TFLITE_FUSE_HIDDEN_END

#endif
