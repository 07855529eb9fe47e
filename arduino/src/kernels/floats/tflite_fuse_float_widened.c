/* Computes products with finite weights in float16, each widened to the float32 that it equals. */
#include "tflite_fuse_floats.h"

/* The bits of a float16 in the places of a float32 are 2^-112 times the number, because their exponents have other
 * biases. Cores with an FPU multiply; others add to the exponent, except of subnormals, which are rare. */
static inline float widened(const int16_t* weight) {
  uint32_t bits = ((uint32_t)(int32_t)*weight << 13) & UINT32_C(0x8fffe000);
  const bool is_subnormal = (bits & INT32_MAX) < UINT32_C(0x00800000);
  float value;
  if (!TFLITE_FUSE_HAS_FPU && !is_subnormal) {
    bits += UINT32_C(0x38000000);
  }
  memcpy(&value, &bits, sizeof(value));
  return TFLITE_FUSE_HAS_FPU || is_subnormal ? value * 5.192296858534828e33F : value;
}

TFLITE_FUSE_RARE bool tflite_fuse_widens_float16(void) {
  const volatile int16_t least = 1; /* 2^-24, a subnormal before the product */
  const int16_t weight = least;
  return widened(&weight) == 0.000000059604644775390625F;
}

void tflite_fuse_add_float16_products(const float* values, int32_t count, const int8_t** filters, float* sums) {
  const int16_t *w0 = (const void*)filters[0], *w1 = (const void*)filters[1];
  const int16_t *w2 = (const void*)filters[2], *w3 = (const void*)filters[3];
  float a0 = sums[0], a1 = sums[1], a2 = sums[2], a3 = sums[3];
  for (const float* end = values + count; values != end; ++values) {
    a0 = tflite_fuse_add_product(a0, *values, widened(w0++));
    a1 = tflite_fuse_add_product(a1, *values, widened(w1++));
    a2 = tflite_fuse_add_product(a2, *values, widened(w2++));
    a3 = tflite_fuse_add_product(a3, *values, widened(w3++));
  }
  sums[0] = a0, sums[1] = a1, sums[2] = a2, sums[3] = a3;
  filters[0] = (const int8_t*)w0, filters[1] = (const int8_t*)w1;
  filters[2] = (const int8_t*)w2, filters[3] = (const int8_t*)w3;
}
