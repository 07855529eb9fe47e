/* Declares depthwise convolutions with Helium: of plain weights, and assembler loops for windows of 3 x 3. */
#ifndef TFLITE_FUSE_DEPTHWISE_MVE_H_
#define TFLITE_FUSE_DEPTHWISE_MVE_H_

#include "tflite_fuse_mve.h"

#if TFLITE_FUSE_MVE

TFLITE_FUSE_HIDDEN_BEGIN
/* Computes all groups of eight channels from plain weights and depth multiplier 1; returns the number of channels. */
int32_t tflite_fuse_depthwise_eights(const tflite_fuse_call* call);
TFLITE_FUSE_HIDDEN_END

#endif

#if TFLITE_FUSE_MVE_LOOPS

/* A run: groups of eight channels of one pixel, or of two whose windows are one column apart, in a layout DOWN. */
typedef struct {
  const int8_t* const* window;
  const int8_t* weights;
  const tflite_fuse_channel* entry;
  int8_t* outputs[2];
  int32_t channels; /* a multiple of 8 */
  int32_t zero_point, low, high;
} tflite_fuse_depthwise_mve_run;

TFLITE_FUSE_HIDDEN_BEGIN
void tflite_fuse_depthwise_mve_1(const tflite_fuse_depthwise_mve_run* run);
void tflite_fuse_depthwise_mve_2(const tflite_fuse_depthwise_mve_run* run);
TFLITE_FUSE_HIDDEN_END

#endif

#endif
