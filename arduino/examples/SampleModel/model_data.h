/* sample_shapes_int8.tflite for TensorFlow Lite Micro. Written by tflite-fuse; export again rather than change it. */
#ifndef MODEL_DATA_H_
#define MODEL_DATA_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MODEL_BYTES 98976

/* Bytes of the arena that TensorFlow Lite Micro of 2024 with CMSIS-NN needs on a 32-bit target.
 * The program prints how many of them are used. If it says that they do not suffice, raise this number. */
/* 23328 (activations, scratch) + 564 (the runtime's own data). */
#define MODEL_ARENA_BYTES 23904

/* Output 0: int8 [1, 6], StatefulPartitionedCall_1:0; value = SCALE * (element - ZERO_POINT) */
#define MODEL_OUTPUT_0_BYTES 6
#define MODEL_OUTPUT_0_SCALE 0.00390625f
#define MODEL_OUTPUT_0_ZERO_POINT (-128)


/* The model file, aligned to 16 bytes. */
extern const unsigned char model_data[MODEL_BYTES];

#ifdef __cplusplus
}
#endif

#endif
