/* Declares functions of the kernels with packed weights: loads, products, and scaling of sums to int8.
 *
 * A stage of any layout but TFLITE_FUSE_LAYOUT_PLAIN has weights in the order in which its kernel reads them
 * (documented there), and one table entry per output channel, rounded up to a multiple of 2. */
#ifndef TFLITE_FUSE_PACKED_H_
#define TFLITE_FUSE_PACKED_H_

#include <string.h>

#include "dsp/tflite_fuse_dsp.h"
#include "../executor/tflite_fuse_machine.h"
#include "tflite_fuse_requantize.h"

TFLITE_FUSE_HIDDEN_BEGIN

/* 1 if loops in plain C may use some twenty registers. A build may define it. */
#if defined(TFLITE_FUSE_MANY_REGISTERS)
#elif defined(__x86_64__) || defined(__aarch64__) || (defined(__riscv) && !defined(__riscv_32e))
#define TFLITE_FUSE_MANY_REGISTERS 1
#else
#define TFLITE_FUSE_MANY_REGISTERS 0
#endif

/* Loads four bytes from any address. */
TFLITE_FUSE_INLINE uint32_t tflite_fuse_load_4(const void* from) {
  uint32_t word;
  memcpy(&word, from, sizeof(word));
  return word;
}

/* Returns total + the sum of the products of `count` values and weights. */
static inline int32_t tflite_fuse_add_products(int32_t total, const int8_t* value, const int8_t* weight,
                                               int32_t count) {
#if TFLITE_FUSE_DSP
  for (; count >= 4; count -= 4, value += 4, weight += 4) {
    const uint32_t values = tflite_fuse_load_4(value), weights = tflite_fuse_load_4(weight);
    total = tflite_fuse_mac_pair(total, tflite_fuse_even(values), tflite_fuse_even(weights));
    total = tflite_fuse_mac_pair(total, tflite_fuse_odd(values), tflite_fuse_odd(weights));
  }
#endif
  for (; count > 0; --count) {
    total = tflite_fuse_mac(total, *value++, *weight++);
  }
  return total;
}

/* Returns whether `columns` neighbouring pixels of a row are contiguous. Padding occurs only at a row's ends. */
TFLITE_FUSE_INLINE bool tflite_fuse_is_whole(const tflite_fuse_call* call, const int8_t* const* row, int32_t columns) {
  const int8_t *first = row[0], *last = row[columns - 1];
  return columns == 1 || (first != call->pad && last != call->pad &&
                          (uintptr_t)last - (uintptr_t)first ==
                              (uintptr_t)(columns - 1) * (uintptr_t)call->inputs[0]->channels);
}

/* Scale of a channel of layouts DOWN, which guarantee for every channel: multiplier >= 0; the table's `shift` is the
 * bits to shift right after the multiplication, minus one, 0...22; and the sum with its bias lies within +-2^30, or the
 * multiplier is 0.
 *
 * So the two roundings of tflite_fuse_multiply need one addition and one shift: adding half of the divisor, minus one
 * if the product is negative, rounds halves away from zero. The product is negative if the sum is, or it is 0, which
 * the one does not change. The zero point is added before the shift, too. */
typedef struct {
  int32_t multiplier;
  int32_t shift; /* right shift; clamping shifts by one more bit */
  int32_t half;  /* half of the divisor, plus the shifted zero point */
} tflite_fuse_scale;

TFLITE_FUSE_INLINE tflite_fuse_scale tflite_fuse_scale_of(const tflite_fuse_channel* channel, int32_t zero_point_half) {
  const tflite_fuse_scale scale = {channel->multiplier, channel->shift,
                                   (int32_t)((uint32_t)zero_point_half << channel->shift)};
  return scale;
}

#if !TFLITE_FUSE_DSP
/* Returns sum + a * b / 2^32, rounded to the nearest integer, halves up. b >= 0. */
TFLITE_FUSE_INLINE int32_t tflite_fuse_mac_top(int32_t sum, int32_t a, int32_t b) {
#if defined(__riscv)
  /* One instruction (mulhsu) returns the upper half of a signed times an unsigned number; twice the product keeps the
   * bit to round by. */
  const int32_t twice = (int32_t)(((int64_t)a * (int64_t)(uint64_t)((uint32_t)b << 1)) >> 32);
  return tflite_fuse_wrapping_add(sum, (twice + 1) >> 1);
#else
  const int32_t top = (int32_t)(((int64_t)a * b) >> 32);
  const int32_t rest = (int32_t)(((uint32_t)a * (uint32_t)b) >> 31);
  return tflite_fuse_wrapping_add(sum, tflite_fuse_wrapping_add(top, rest));
#endif
}
#endif

/* Scales twice a sum to int8; `signed_as` has the sign of the sum. */
TFLITE_FUSE_INLINE int8_t tflite_fuse_scale_signed(int32_t twice, int32_t signed_as, tflite_fuse_scale scale) {
  const int32_t half = tflite_fuse_wrapping_add(scale.half, signed_as >> 31);
  const int32_t top = tflite_fuse_mac_top(half, twice, scale.multiplier);
#if TFLITE_FUSE_DSP
  return tflite_fuse_halve_to_int8(top >> scale.shift);
#else
  return tflite_fuse_clamp(top >> (scale.shift + 1), INT8_MIN, INT8_MAX);
#endif
}

/* Scales a sum to int8; and twice a sum. */
TFLITE_FUSE_INLINE int8_t tflite_fuse_scale_down(int32_t sum, tflite_fuse_scale scale) {
  return tflite_fuse_scale_signed((int32_t)((uint32_t)sum << 1), sum, scale);
}
TFLITE_FUSE_INLINE int8_t tflite_fuse_scale_twice_down(int32_t twice, tflite_fuse_scale scale) {
  return tflite_fuse_scale_signed(twice, twice, scale);
}

/* Converts sums of layout PAIRED_DOWN, 256 a + b and b for each two of `channels` and each pixel, to twice the
 * sums a and b. */
TFLITE_FUSE_INLINE void tflite_fuse_split_pairs(int32_t* sums, int32_t channels, int32_t pixels) {
  for (; channels > 0; channels -= 2, sums += 2 * pixels) {
    for (int32_t p = 0; p < pixels; ++p) {
      const uint32_t second = (uint32_t)sums[pixels + p];
      sums[p] = (int32_t)((uint32_t)sums[p] - second) >> 7;
      sums[pixels + p] = (int32_t)(second << 1);
    }
  }
}

/* Scales a sum with its bias to an output value of any packed layout; layouts in halfwords pass twice the sum. */
int8_t tflite_fuse_finish(int32_t sum, const tflite_fuse_channel* channel, const tflite_fuse_call* call);

/* Returns whether tflite_fuse_scale_down scales this stage. */
TFLITE_FUSE_INLINE bool tflite_fuse_is_fast(const tflite_fuse_call* call) {
  return tflite_fuse_is_down(call->stage);
}

/* Clamps outputs of tflite_fuse_scale_down to the stage's range. */
void tflite_fuse_clamp_outputs(const tflite_fuse_call* call);

TFLITE_FUSE_HIDDEN_END

#endif
