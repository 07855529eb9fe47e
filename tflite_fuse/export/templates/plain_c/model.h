/* $title for the C library of tflite-fuse. Written by tflite-fuse; export again rather than change it.$notes */
#ifndef ${NAME}_H_
#define ${NAME}_H_

#include "tflite_fuse_model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ${NAME}_STEPS $steps
#define ${NAME}_ARENA_BYTES $arena$state

$ports
extern const tflite_fuse_model $name;

#ifdef __cplusplus
}
#endif

#endif
