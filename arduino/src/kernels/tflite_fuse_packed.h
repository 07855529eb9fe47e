/* What the fast kernels share: how their channels are scaled, and the way from sums to bytes.
 *
 * A stage of any layout but TFLITE_FUSE_LAYOUT_PLAIN has its weights in the order its fast kernel reads them (described
 * there) and as many channel entries as there are output channels, rounded up to a multiple of 2. */
#ifndef TFLITE_FUSE_PACKED_H_
#define TFLITE_FUSE_PACKED_H_

#include <string.h>

#include "dsp/tflite_fuse_dsp.h"
#include "../executor/tflite_fuse_machine.h"
#include "tflite_fuse_requantize.h"

TFLITE_FUSE_HIDDEN_BEGIN

/* Whether loops in plain C may keep some twenty numbers at hand. A build may say so itself. */
#if defined(TFLITE_FUSE_MANY_REGISTERS)
#elif defined(__x86_64__) || defined(__aarch64__) || (defined(__riscv) && !defined(__riscv_32e))
#define TFLITE_FUSE_MANY_REGISTERS 1
#else
#define TFLITE_FUSE_MANY_REGISTERS 0
#endif

/* Four bytes from any address. */
TFLITE_FUSE_INLINE uint32_t tflite_fuse_load_4(const void* from) {
  uint32_t word;
  memcpy(&word, from, sizeof(word));
  return word;
}

/* total + the products of `count` values and weights */
static inline int32_t tflite_fuse_add_products(int32_t total, const int8_t* value, const int8_t* weight, int32_t count) {
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

/* Whether `columns` neighbouring columns of a row of pixels lie one behind the other. Padding is only at a row's ends. */
TFLITE_FUSE_INLINE bool tflite_fuse_is_whole(const tflite_fuse_call* call, const int8_t* const* row, int32_t columns) {
  const int8_t *first = row[0], *last = row[columns - 1];
  return columns == 1 || (first != call->pad && last != call->pad &&
                          (uintptr_t)last - (uintptr_t)first ==
                              (uintptr_t)(columns - 1) * (uintptr_t)call->inputs[0]->channels);
}

/* Layouts DOWN promise of every channel: multiplier >= 0; the table's `shift` is the number of bits to shift right
 * after the multiplication, less one, 0...22; and the sum with its bias lies inside +-2^30, or the multiplier is 0.
 *
 * So the two roundings of tflite_fuse_multiply need one addition and one shift: a product halfway between two results
 * is rounded away from zero by adding half of the divisor, less one where the product is negative. It is just where the
 * sum is, or it is 0, which the one does not change. The zero point, too, is added before the shift. */
typedef struct {
  int32_t multiplier;
  int32_t shift; /* the last bit is left to whoever clamps */
  int32_t half;  /* half of the divisor and the zero point */
} tflite_fuse_scale;

TFLITE_FUSE_INLINE tflite_fuse_scale tflite_fuse_scale_of(const tflite_fuse_channel* channel, int32_t zero_point_half) {
  const tflite_fuse_scale scale = {channel->multiplier, channel->shift,
                                   (int32_t)((uint32_t)zero_point_half << channel->shift)};
  return scale;
}

#if !TFLITE_FUSE_DSP
/* sum + a * b / 2^32 to the nearest integer, halves up. b >= 0 */
TFLITE_FUSE_INLINE int32_t tflite_fuse_mac_top(int32_t sum, int32_t a, int32_t b) {
#if defined(__riscv)
  /* One instruction multiplies a signed number by an unsigned one: of twice the product the upper half is enough. */
  const int32_t twice = (int32_t)(((int64_t)a * (int64_t)(uint64_t)((uint32_t)b << 1)) >> 32);
  return tflite_fuse_wrapping_add(sum, (twice + 1) >> 1);
#else
  const int32_t top = (int32_t)(((int64_t)a * b) >> 32);
  const int32_t rest = (int32_t)(((uint32_t)a * (uint32_t)b) >> 31);
  return tflite_fuse_wrapping_add(sum, tflite_fuse_wrapping_add(top, rest));
#endif
}
#endif

/* Twice a sum to int8; `signed_as` has its sign. */
TFLITE_FUSE_INLINE int8_t tflite_fuse_scale_signed(int32_t twice, int32_t signed_as, tflite_fuse_scale scale) {
  const int32_t half = tflite_fuse_wrapping_add(scale.half, signed_as >> 31);
  const int32_t top = tflite_fuse_mac_top(half, twice, scale.multiplier);
#if TFLITE_FUSE_DSP
  return tflite_fuse_halve_to_int8(top >> scale.shift);
#else
  return tflite_fuse_clamp(top >> (scale.shift + 1), INT8_MIN, INT8_MAX);
#endif
}

/* A sum to int8, and twice a sum. */
TFLITE_FUSE_INLINE int8_t tflite_fuse_scale_down(int32_t sum, tflite_fuse_scale scale) {
  return tflite_fuse_scale_signed((int32_t)((uint32_t)sum << 1), sum, scale);
}
TFLITE_FUSE_INLINE int8_t tflite_fuse_scale_twice_down(int32_t twice, tflite_fuse_scale scale) {
  return tflite_fuse_scale_signed(twice, twice, scale);
}

/* Of layout PAIRED_DOWN: from sums of two channels, 256 a + b, and of the second, b, to twice their sums, for each two of
 * `channels` and each pixel. */
TFLITE_FUSE_INLINE void tflite_fuse_split_pairs(int32_t* sums, int32_t channels, int32_t pixels) {
  for (; channels > 0; channels -= 2, sums += 2 * pixels) {
    for (int32_t p = 0; p < pixels; ++p) {
      const uint32_t second = (uint32_t)sums[pixels + p];
      sums[p] = (int32_t)((uint32_t)sums[p] - second) >> 7;
      sums[pixels + p] = (int32_t)(second << 1);
    }
  }
}

/* From a sum with its bias, or of layouts in halfwords from twice a sum, to an output value of any packed layout. */
int8_t tflite_fuse_finish(int32_t sum, const tflite_fuse_channel* channel, const tflite_fuse_call* call);

/* Whether tflite_fuse_scale_down does it. */
TFLITE_FUSE_INLINE bool tflite_fuse_is_fast(const tflite_fuse_call* call) {
  return tflite_fuse_is_down(call->stage);
}

/* Clamps outputs of the fast way, which are any int8, to the stage's range. */
void tflite_fuse_clamp_outputs(const tflite_fuse_call* call);

TFLITE_FUSE_HIDDEN_END

#endif
