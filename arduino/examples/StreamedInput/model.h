/* stripes.tflite for the C library of tflite-fuse. Written by tflite-fuse; export again rather than change it. */
#ifndef MODEL_H_
#define MODEL_H_

#include "tflite_fuse_model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MODEL_STEPS 1
#define MODEL_ARENA_BYTES 288

/* Output 0: int8 [1, 4], directions; value = SCALE * (element - ZERO_POINT) */
#define MODEL_OUTPUT_0_BYTES 4
#define MODEL_OUTPUT_0_OFFSET 272
#define MODEL_OUTPUT_0_SCALE 2.0f
#define MODEL_OUTPUT_0_ZERO_POINT (-128)


extern const tflite_fuse_model model;

#ifdef __cplusplus
}
#endif

#endif
