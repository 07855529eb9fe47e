/* Declares the assembler loops of the packed convolution with Helium and their argument. */
#ifndef TFLITE_FUSE_CONV_MVE_H_
#define TFLITE_FUSE_CONV_MVE_H_

#include "tflite_fuse_mve.h"

#if TFLITE_FUSE_MVE_LOOPS

/* A run: quads of channels of one or two pixels, in a layout DOWN. A window is read in pieces of whole
 * vectors and a rest. */
typedef struct {
  const int8_t* const* list; /* pointers to the pieces of the first pixel */
  int32_t apart;             /* bytes from a pointer to the same one of the second pixel */
  const int8_t* const* list_end; /* end of the first pixel's pointers */
  int32_t vectors;
  int32_t pair_bytes; /* bytes of weights of two channels */
  int32_t rest_bytes; /* bytes of weights of a rest of two channels, minus 4; unused without a rest */
  const tflite_fuse_channel* entry;
  int8_t* outputs[2];
  const tflite_fuse_channel* entry_end;
  const int8_t* weights;
  int32_t zero_point, low, high;
  uint32_t rest_lanes; /* lanes of the rest's values */
} tflite_fuse_mve_run;

TFLITE_FUSE_HIDDEN_BEGIN
void tflite_fuse_conv_mve_1(const tflite_fuse_mve_run* run);
void tflite_fuse_conv_mve_2(const tflite_fuse_mve_run* run);
void tflite_fuse_conv_mve_rest_1(const tflite_fuse_mve_run* run);
void tflite_fuse_conv_mve_rest_2(const tflite_fuse_mve_run* run);
TFLITE_FUSE_HIDDEN_END

#endif

#endif
