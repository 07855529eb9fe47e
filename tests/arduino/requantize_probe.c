/* The inline arithmetic of the C library as functions over arrays. */
#include <stddef.h>

#include "kernels/tflite_fuse_requantize.h"

void probe_multiply(const int32_t* values, const int32_t* multipliers, const int32_t* shifts, int32_t* results,
                    size_t count) {
  for (size_t i = 0; i < count; ++i) {
    results[i] = tflite_fuse_multiply(values[i], multipliers[i], shifts[i]);
  }
}

void probe_divide(const int32_t* sums, const int32_t* counts, int32_t* results, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    results[i] = tflite_fuse_rounding_divide(sums[i], counts[i]);
  }
}
