/* Converts int32 sums to int8 values exactly as TensorFlow Lite Micro's reference kernels do: rounding twice.
 *
 * >> of a negative number is assumed to be arithmetic, as with every compiler for the targets of this library. Sums
 * wrap like the reference's on real machines, without the undefined behaviour of signed overflow. */
#ifndef TFLITE_FUSE_REQUANTIZE_H_
#define TFLITE_FUSE_REQUANTIZE_H_

#include <stdint.h>

#include "../executor/tflite_fuse_machine.h"

static inline int32_t tflite_fuse_wrapping_add(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }

/* Returns sum + value * weight. */
static inline int32_t tflite_fuse_mac(int32_t sum, int32_t value, int32_t weight) {
  return tflite_fuse_wrapping_add(sum, value * weight);
}

/* Returns 2 * value * multiplier / 2^32, rounded to the nearest integer, halves up. multiplier > -2^31, so nothing
 * saturates and the result is > -2^31, too. */
static inline int32_t tflite_fuse_multiply_high(int32_t value, int32_t multiplier) {
  return (int32_t)(((int64_t)value * multiplier + (INT64_C(1) << 30)) >> 31);
}

/* Returns value * multiplier * 2^(shift - 31). shift: -31...30; a positive one may wrap.
 *
 * The second rounding, of a right shift, is to the nearest integer, halves away from zero: one is subtracted from a
 * negative number, then the highest bit shifted out decides. */
static inline int32_t tflite_fuse_multiply(int32_t value, int32_t multiplier, int32_t shift) {
  if (shift >= 0) {
    return tflite_fuse_multiply_high((int32_t)((uint32_t)value << shift), multiplier);
  }
  const int32_t high = tflite_fuse_multiply_high(value, multiplier);
  const int32_t nudged = high + (high >> 31);
  return (nudged >> -shift) + ((nudged >> (-1 - shift)) & 1);
}

/* Returns sum / count, rounded to the nearest integer, halves away from zero. count > 0. */
static inline int32_t tflite_fuse_rounding_divide(int32_t sum, int32_t count) {
  const int32_t half = count / 2;
  return tflite_fuse_wrapping_add(sum, sum > 0 ? half : -half) / count;
}

static inline int8_t tflite_fuse_clamp(int32_t value, int32_t low, int32_t high) {
  /* Statements, because GCC narrows each branch of a single expression to int8. */
  if (value < low) {
    value = low;
  }
  if (value > high) {
    value = high;
  }
  return (int8_t)value;
}

/* Zero point and clamp of a stage's output. Kernels keep a copy in a local variable: for the compiler every int8 they
 * write may change memory that they point to. */
typedef struct {
  int32_t zero_point, low, high;
} tflite_fuse_range;

static inline tflite_fuse_range tflite_fuse_range_of(const tflite_fuse_call* call) {
  const tflite_fuse_range range = {call->output->zero_point, call->stage->activation_min, call->stage->activation_max};
  return range;
}

/* Adds the zero point to a scaled value and clamps it. */
static inline int8_t tflite_fuse_fit(int32_t scaled, tflite_fuse_range range) {
  return tflite_fuse_clamp(tflite_fuse_wrapping_add(scaled, range.zero_point), range.low, range.high);
}

/* Requantizes a sum without its bias to the value of one output channel. */
static inline int8_t tflite_fuse_requantize(int32_t sum, tflite_fuse_channel channel, tflite_fuse_range range) {
  const int32_t biased = tflite_fuse_wrapping_add(sum, channel.bias);
  return tflite_fuse_fit(tflite_fuse_multiply(biased, channel.multiplier, channel.shift), range);
}

#endif
