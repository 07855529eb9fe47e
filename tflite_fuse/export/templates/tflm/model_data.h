/* $title for TensorFlow Lite Micro. Written by tflite-fuse; export again rather than change it. */
#ifndef MODEL_DATA_H_
#define MODEL_DATA_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MODEL_BYTES $size

/* Bytes of the arena that $runtime needs on a 32-bit target.
 * The program prints how many of them are used. If it says that they do not suffice, raise this number$exact. */
$arenas
$ports
/* The model file, aligned to 16 bytes. */
extern const unsigned char model_data[MODEL_BYTES];

#ifdef __cplusplus
}
#endif

#endif
