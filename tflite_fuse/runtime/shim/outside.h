/* Model inputs that lie outside the arena, handed over by the Python side before every inference.
 *
 * Each array serves as external tensor and as source of the same number. As a source it behaves like a camera: pixels
 * come in raster order and none comes twice, so a block that asks for one again fails. */
#ifndef TFLITE_FUSE_SHIM_OUTSIDE_H_
#define TFLITE_FUSE_SHIM_OUTSIDE_H_

#include "tflite_fuse_outside.h"

typedef struct {
  const int8_t* data;
  int32_t height;
  int32_t width;
  int32_t channels;
} shim_array;

/* What blocks may read until the next call. The data must live as long; the descriptions are copied.
 * Returns 0, or -1 if there are more than TFLITE_FUSE_MAX_OPERANDS. */
int tflite_fuse_shim_set_outside(const shim_array* arrays, int32_t count);

/* In the form the C library checks and reads. */
const tflite_fuse_outside* shim_outside(void);

#endif
