/* Quantizes float32 numbers to int8 by binary search for the thresholds at which the result changes. Private to
 * the library. */
#ifndef TFLITE_FUSE_STEPS_H_
#define TFLITE_FUSE_STEPS_H_

#include "../executor/tflite_fuse_checks.h"

/* The table of QUANTIZE. Numbers are keys: see tflite_fuse_key_of. */
typedef struct {
  int32_t from[256]; /* [0]: least number in range; [i]: least number with result INT8_MIN + i */
  int32_t end;       /* end of the range */
  int32_t otherwise; /* result for all other numbers, including NaN */
} tflite_fuse_steps;

/* Returns an int32 key from the bits of a float32; keys compare like the numbers. */
static inline int32_t tflite_fuse_key_of(uint32_t bits) {
  int32_t key;
  memcpy(&key, &bits, sizeof(key));
  return key < 0 ? key ^ INT32_MAX : key;
}

static inline int8_t tflite_fuse_quantize_key(const tflite_fuse_steps* table, int32_t key) {
  const int32_t* from = table->from;
  if (key < from[0] || key >= table->end) {
    return (int8_t)table->otherwise;
  }
#if defined(TFLITE_FUSE_UNROLL_STEPS) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 8 /* halves the instructions per step for a hundred bytes */
#endif
  for (int32_t step = 128; step > 0; step /= 2) {
    from += key >= from[step] ? step : 0;
  }
  return (int8_t)(INT8_MIN + (int32_t)(from - table->from));
}

#endif
