/* Depthwise convolution with Helium: plain weights, and what the loops of windows of 3 x 3 are called with. */
#ifndef TFLITE_FUSE_DEPTHWISE_MVE_H_
#define TFLITE_FUSE_DEPTHWISE_MVE_H_

#include "tflite_fuse_mve.h"

#if TFLITE_FUSE_MVE

TFLITE_FUSE_HIDDEN_BEGIN
/* Whole eights of channels of plain weights, where each sees the input channel of its number; returns how many channels. */
int32_t tflite_fuse_depthwise_eights(const tflite_fuse_call* call);
TFLITE_FUSE_HIDDEN_END

#endif

#if TFLITE_FUSE_MVE_LOOPS

/* Whole eights of channels of a pixel, or of two whose windows lie one column apart, scaled down. */
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
