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

#define TFLITE_FUSE_HALVE(step) from += key >= from[step] ? (step) : 0

static inline int8_t tflite_fuse_answer_to(const tflite_fuse_steps* table, int32_t key) {
  const int32_t* from = table->from;
  if (key < from[0] || key >= table->end) {
    return (int8_t)table->otherwise;
  }
  /* Written out: nine instructions a step would be twice as many. */
  TFLITE_FUSE_HALVE(128);
  TFLITE_FUSE_HALVE(64);
  TFLITE_FUSE_HALVE(32);
  TFLITE_FUSE_HALVE(16);
  TFLITE_FUSE_HALVE(8);
  TFLITE_FUSE_HALVE(4);
  TFLITE_FUSE_HALVE(2);
  TFLITE_FUSE_HALVE(1);
  return (int8_t)(INT8_MIN + (int32_t)(from - table->from));
}

#endif
