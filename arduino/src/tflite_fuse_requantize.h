/* From int32 sums to int8 values, exactly as TensorFlow Lite Micro's reference kernels do it: rounding twice.
 *
 * >> of a negative number is taken to be arithmetic, as on every compiler for the targets of this library. Sums wrap
 * like the reference's do on real machines, without the undefined behaviour of signed overflow. */
#ifndef TFLITE_FUSE_REQUANTIZE_H_
#define TFLITE_FUSE_REQUANTIZE_H_

#include <stdint.h>

#include "tflite_fuse_format.h"

static inline int32_t tflite_fuse_wrapping_add(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }

/* sum + value * weight */
static inline int32_t tflite_fuse_mac(int32_t sum, int32_t value, int32_t weight) {
  return tflite_fuse_wrapping_add(sum, value * weight);
}

/* 2 * value * multiplier / 2^32 to the nearest integer, halves up. multiplier > -2^31, so nothing saturates and the
 * result is > -2^31, too. */
static inline int32_t tflite_fuse_multiply_high(int32_t value, int32_t multiplier) {
  return (int32_t)(((int64_t)value * multiplier + (INT64_C(1) << 30)) >> 31);
}

/* value * multiplier * 2^(shift - 31). shift: -31...30, a positive one may wrap.
 *
 * The second rounding, of a right shift, is to the nearest integer, halves away from zero: one is taken off a negative
 * number, then the bit behind the point decides. */
static inline int32_t tflite_fuse_multiply(int32_t value, int32_t multiplier, int32_t shift) {
  if (shift >= 0) {
    return tflite_fuse_multiply_high((int32_t)((uint32_t)value << shift), multiplier);
  }
  const int32_t high = tflite_fuse_multiply_high(value, multiplier);
  const int32_t nudged = high + (high >> 31);
  return (nudged >> -shift) + ((nudged >> (-1 - shift)) & 1);
}

/* sum / count to the nearest integer, halves away from zero. count > 0. */
static inline int32_t tflite_fuse_rounding_divide(int32_t sum, int32_t count) {
  const int32_t half = count / 2;
  return tflite_fuse_wrapping_add(sum, sum > 0 ? half : -half) / count;
}

static inline int8_t tflite_fuse_clamp(int32_t value, int32_t low, int32_t high) {
  return (int8_t)(value < low ? low : value > high ? high : value);
}

/* From a sum without its bias to the value of one output channel. */
static inline int8_t tflite_fuse_requantize(int32_t sum, const tflite_fuse_channel* channel, int32_t zero_point,
                                            const tflite_fuse_stage* stage) {
  const int32_t scaled =
      tflite_fuse_multiply(tflite_fuse_wrapping_add(sum, channel->bias), channel->multiplier, channel->shift);
  return tflite_fuse_clamp(tflite_fuse_wrapping_add(scaled, zero_point), stage->activation_min, stage->activation_max);
}

#endif
