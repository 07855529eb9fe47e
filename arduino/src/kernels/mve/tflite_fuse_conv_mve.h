/* What the loops of the packed convolution with Helium are called with. */
#ifndef TFLITE_FUSE_CONV_MVE_H_
#define TFLITE_FUSE_CONV_MVE_H_

#include "tflite_fuse_mve.h"

#if TFLITE_FUSE_MVE_LOOPS

/* Quads of channels of a pixel, or of two, scaled down. A window is read in pieces of so many vectors and a rest. */
typedef struct {
  const int8_t* const* list; /* pieces of the first pixel */
  int32_t apart;             /* bytes from there to those of the second */
  const int8_t* const* list_end; /* of the first pixel's */
  int32_t vectors;
  int32_t pair_bytes; /* of the weights of two channels */
  int32_t rest_bytes; /* of those of a rest, less 4; of no meaning without one */
  const tflite_fuse_channel* entry;
  int8_t* outputs[2];
  const tflite_fuse_channel* entry_end;
  const int8_t* weights;
  int32_t zero_point, low, high;
  uint32_t there; /* the values that a rest has, as a predicate */
} tflite_fuse_mve_run;

TFLITE_FUSE_HIDDEN_BEGIN
void tflite_fuse_conv_mve_1(const tflite_fuse_mve_run* run);
void tflite_fuse_conv_mve_2(const tflite_fuse_mve_run* run);
void tflite_fuse_conv_mve_rest_1(const tflite_fuse_mve_run* run);
void tflite_fuse_conv_mve_rest_2(const tflite_fuse_mve_run* run);
TFLITE_FUSE_HIDDEN_END

#endif

#endif
