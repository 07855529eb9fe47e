/* From float32 to int8: the numbers at which the answer changes, found by halving. Private to the library. */
#ifndef TFLITE_FUSE_STEPS_H_
#define TFLITE_FUSE_STEPS_H_

#include "../executor/tflite_fuse_checks.h"

/* The table of QUANTIZE. Numbers are keys; see tflite_fuse_key_of. */
typedef struct {
  int32_t from[256]; /* [0]: the least with an answer. [i]: the least whose answer is INT8_MIN + i */
  int32_t end;       /* behind the last with an answer */
  int32_t otherwise; /* the answer to all others, NaN among them */
} tflite_fuse_steps;

/* The bits of a float32 as an int32 that is in order as the number is. */
static inline int32_t tflite_fuse_key_of(uint32_t bits) {
  int32_t key;
  memcpy(&key, &bits, sizeof(key));
  return key < 0 ? key ^ INT32_MAX : key;
}

static inline int8_t tflite_fuse_answer_to(const tflite_fuse_steps* table, int32_t key) {
  const int32_t* from = table->from;
  if (key < from[0] || key >= table->end) {
    return (int8_t)table->otherwise;
  }
#if defined(TFLITE_FUSE_UNROLL_STEPS) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 8 /* four instructions a step instead of eight, for a hundred bytes */
#endif
  for (int32_t step = 128; step > 0; step /= 2) {
    from += key >= from[step] ? step : 0;
  }
  return (int8_t)(INT8_MIN + (int32_t)(from - table->from));
}

#endif
