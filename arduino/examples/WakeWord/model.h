/* sweep.tflite for the C library of tflite-fuse. Written by tflite-fuse; export again rather than change it. */
#ifndef MODEL_H_
#define MODEL_H_

#include "tflite_fuse_model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MODEL_STEPS 1
#define MODEL_ARENA_BYTES 272
/* From here on: zeros before the first run, the library's own between runs. */
#define MODEL_STATE_OFFSET 80

/* Input 0: int8 [1, 1, 8, 1], steps_1; value = SCALE * (element - ZERO_POINT) */
#define MODEL_INPUT_0_BYTES 8
#define MODEL_INPUT_0_OFFSET 48
#define MODEL_INPUT_0_SCALE 0.003921569f
#define MODEL_INPUT_0_ZERO_POINT (-128)

/* Output 0: int8 [1, 1], probability; value = SCALE * (element - ZERO_POINT) */
#define MODEL_OUTPUT_0_BYTES 1
#define MODEL_OUTPUT_0_OFFSET 64
#define MODEL_OUTPUT_0_SCALE 0.00390625f
#define MODEL_OUTPUT_0_ZERO_POINT (-128)


extern const tflite_fuse_model model;

#ifdef __cplusplus
}
#endif

#endif
