/* What checking the shape of a block and checking its constants share. Private to the library.
 *
 * Options and constants come from a file and are treated as hostile: every offset, index and extent is checked before
 * it is used, in 64-bit arithmetic, and the memory a run touches is shown to lie inside what it is given. What is not
 * checked is whether the rings are long enough for the schedule: positions are taken modulo the capacity, so one that
 * is too short makes wrong values but no wild access.
 */
#ifndef TFLITE_FUSE_CHECKS_H_
#define TFLITE_FUSE_CHECKS_H_

#include "tflite_fuse_machine.h"

/* Whether everything a stage reads from the constants lies in their `size` bytes and holds numbers its kernel can take.
 * The stage's numbers are in range and its shapes fit. */
bool tflite_fuse_constants_are_sound(const tflite_fuse_block* block, const tflite_fuse_stage* stage, size_t size);

/* Weights of a stage in bytes, at most INT32_MAX + 1. */
int64_t tflite_fuse_weight_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                 const tflite_fuse_tensor* output);

static inline bool within(int32_t value, int32_t low, int32_t high) { return value >= low && value <= high; }

/* a * b, any product above INT32_MAX being just that. 0 <= a, b <= INT32_MAX + 1. */
static inline int64_t bounded(int64_t a, int64_t b) {
  const int64_t product = a * b;
  return product > INT32_MAX ? (int64_t)INT32_MAX + 1 : product;
}

/* Whether `bytes` bytes from `offset` on lie in [low, high), `offset` a multiple of 4 where that matters. */
static inline bool fits(int32_t offset, int64_t bytes, int32_t low, int64_t high) {
  return offset >= low && offset + bytes <= high;
}

static inline bool fits_aligned(int32_t offset, int64_t bytes, int32_t low, int64_t high) {
  return offset % 4 == 0 && fits(offset, bytes, low, high);
}

/* Pointers a call for one output pixel needs. */
static inline int32_t pointers_of_one(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input) {
  return tflite_fuse_pointers(stage, tflite_fuse_columns(stage, input, 1), 1);
}

/* The last row (or column) the windows reach, counted from the input's first. */
static inline int64_t reach(int32_t size, int32_t stride, int32_t kernel, int32_t dilation, int32_t pad) {
  return (int64_t)(size - 1) * stride + (int64_t)(kernel - 1) * dilation - pad;
}

#endif
