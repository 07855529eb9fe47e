/* Declares functions of the float32 kernels: clamping, rounded products, and checks of constants.
 *
 * Every sum is computed in the order of TFLM's reference kernels, in single precision, each product rounded before it
 * is added. Kernels compute several outputs side by side, never several parts of one sum. */
#ifndef TFLITE_FUSE_FLOATS_H_
#define TFLITE_FUSE_FLOATS_H_

#include "../../executor/tflite_fuse_checks.h"
#include "../../executor/tflite_fuse_loops.h"

TFLITE_FUSE_HIDDEN_BEGIN

typedef struct {
  float low, high;
} tflite_fuse_bounds;

/* The table of kinds with weights. */
typedef struct {
  tflite_fuse_bounds bounds;
  float bias[1]; /* one per output channel */
} tflite_fuse_float_table;

/* Clamps a value; NaN stays NaN, as in TFLM. */
static inline float tflite_fuse_bounded(float value, tflite_fuse_bounds bounds) {
  const float raised = value < bounds.low ? bounds.low : value;
  return bounds.high < raised ? bounds.high : raised;
}

/* Returns sum + a * b, with the product rounded: hidden from compilers that may fuse the two operations
 * (-ffp-contract=fast, the default of GCC). */
static inline float tflite_fuse_add_product(float sum, float a, float b) {
  float product = a * b;
  TFLITE_FUSE_HIDE_FLOAT(product);
  return sum + product;
}

enum { TFLITE_FUSE_TOGETHER = 4 /* output channels computed together: five loads feed four products */ };

/* Returns the elements of a pixel, whose address is a multiple of 4. */
static inline const float* tflite_fuse_floats_at(const int8_t* pixel) { return (const float*)(const void*)pixel; }

/* Returns whether a stage's weights are float16; false in builds without such stages. */
static inline bool tflite_fuse_is_float16(const tflite_fuse_stage* stage) {
  return TFLITE_FUSE_FLOAT16_LOOPS != 0 && stage->weight_layout == TFLITE_FUSE_LAYOUT_FLOAT16;
}

/* Adds the products of `count` values and each of four filters to four sums; advances the filters. */
static inline void tflite_fuse_add_products(const float* values, int32_t count, const int8_t** filters, float* sums) {
  const float *w0 = tflite_fuse_floats_at(filters[0]), *w1 = tflite_fuse_floats_at(filters[1]);
  const float *w2 = tflite_fuse_floats_at(filters[2]), *w3 = tflite_fuse_floats_at(filters[3]);
  float a0 = sums[0], a1 = sums[1], a2 = sums[2], a3 = sums[3];
  for (const float* end = values + count; values != end; ++values) {
    a0 = tflite_fuse_add_product(a0, *values, *w0++);
    a1 = tflite_fuse_add_product(a1, *values, *w1++);
    a2 = tflite_fuse_add_product(a2, *values, *w2++);
    a3 = tflite_fuse_add_product(a3, *values, *w3++);
  }
  sums[0] = a0, sums[1] = a1, sums[2] = a2, sums[3] = a3;
  filters[0] = (const int8_t*)w0, filters[1] = (const int8_t*)w1;
  filters[2] = (const int8_t*)w2, filters[3] = (const int8_t*)w3;
}

/* Adds products as tflite_fuse_add_products does, with weights in float16. */
void tflite_fuse_add_float16_products(const float* values, int32_t count, const int8_t** filters, float* sums);

/* Returns whether float16 are widened exactly: not where the core flushes subnormals to zero. */
bool tflite_fuse_widens_float16(void);

/* Returns the bytes of a * b * c float32, at most INT32_MAX + 1. */
int64_t tflite_fuse_float_bytes(int32_t a, int32_t b, int32_t c);

/* `weight_bytes` of convolutions, whose filters have an element per tap and input channel. */
int64_t tflite_fuse_float_conv_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                     const tflite_fuse_tensor* output);

/* `table_is_sound` of kinds with bounds and a bias per output channel; and of kinds with bounds alone. */
bool tflite_fuse_float_table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                      const void* table, int64_t room);
bool tflite_fuse_bounds_are_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                                  int64_t room);

/* `keep` of all kinds on float32: checks that operands are aligned to 4 and that the library rounds products. */
tflite_fuse_status tflite_fuse_floats_are_ready(const tflite_fuse_block* block, const tflite_fuse_stage* stage,
                                                const tflite_fuse_io* io, bool is_done);

/* Kernels called by other files. */
void tflite_fuse_float_conv(const tflite_fuse_call* call);

TFLITE_FUSE_HIDDEN_END

#endif
