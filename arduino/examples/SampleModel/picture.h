/* A picture of a star: 128 x 128 pixels, red, green, blue. Written by scripts/build_sample_sketch.py. */
#ifndef PICTURE_H_
#define PICTURE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PICTURE_BYTES 49152

extern const int8_t picture[PICTURE_BYTES];

/* Outputs of TensorFlow Lite Micro with the original model: one number for each class. */
extern const int8_t expected[6];

/* The classes, in that order. */
extern const char* const names[6];

#ifdef __cplusplus
}
#endif

#endif
