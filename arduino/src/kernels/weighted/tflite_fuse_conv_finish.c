/* The packed convolution's way from sums to outputs where it cannot be the fast one, for the inner loops of all cores. */
#define TFLITE_FUSE_NO_INNER_LOOPS
#include "tflite_fuse_conv_packed.h"

#if !TFLITE_FUSE_MVE

void tflite_fuse_conv_finish(tflite_fuse_conv_job* j, const tflite_fuse_channel* entry, const int32_t* sums,
                             int32_t channels, int32_t pixels) {
  for (int32_t c = 0; c < channels && entry < j->end; ++c, ++entry) {
    for (int32_t p = 0; p < pixels; ++p) {
      *j->outputs[p]++ = tflite_fuse_finish(*sums++, entry, j->call);
    }
  }
}

#endif
