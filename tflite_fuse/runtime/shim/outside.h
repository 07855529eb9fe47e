/* Model inputs that lie outside the arena, handed over by the Python side before every inference.
 *
 * Each is external tensor and source of the same number. One with data behaves, as a source, like a camera: pixels come
 * in raster order and none comes twice, so a block that asks for one again fails. One with a function is a source
 * alone. */
#ifndef TFLITE_FUSE_SHIM_OUTSIDE_H_
#define TFLITE_FUSE_SHIM_OUTSIDE_H_

#include "tflite_fuse_outside.h"

typedef struct {
  const void* data;      /* NULL if there is a function */
  tflite_fuse_read read; /* NULL if there is data */
  int32_t height;
  int32_t width;
  int32_t channels;
  int32_t type; /* a tflite_fuse_type */
} shim_input;

/* What blocks may read until the next call. The data must live as long; the descriptions are copied.
 * Returns 0, or -1 if there are more than TFLITE_FUSE_MAX_OPERANDS. */
int tflite_fuse_shim_set_outside(const shim_input* inputs, int32_t count);

/* In the form the C library checks and reads. */
const tflite_fuse_outside* shim_outside(void);

#endif
