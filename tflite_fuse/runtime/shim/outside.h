/* Model inputs outside the arena, which the Python side sets before every inference.
 *
 * Each input with data is an external tensor and a source of the same number. Its source behaves like a camera: it
 * supplies pixels in raster order, each once, so a block that requests a pixel again fails. An input with a function is
 * a source only. */
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

/* Sets the inputs that blocks may read until the next call. Descriptions are copied; data must live until then.
 * Returns 0, or -1 if there are more than TFLITE_FUSE_MAX_OPERANDS. */
int tflite_fuse_shim_set_outside(const shim_input* inputs, int32_t count);

/* Returns the inputs in the form that the C library checks and reads. */
const tflite_fuse_outside* shim_outside(void);

#endif
