/* What the parts of the convolution with packed weights share: the work on one group of pixels, and its inner loops. */
#ifndef TFLITE_FUSE_CONV_PACKED_H_
#define TFLITE_FUSE_CONV_PACKED_H_

#include "../mve/tflite_fuse_mve.h"
#include "../tflite_fuse_packed.h"

/* Pixels computed together. */
#if TFLITE_FUSE_DSP
enum { TFLITE_FUSE_CONV_AT_ONCE = 2 };
#else
enum { TFLITE_FUSE_CONV_AT_ONCE = 4 };
#endif

/* The work on one group of pixels, all channels. */
typedef struct {
  int32_t depth;  /* values per tap, a multiple of 4 */
  int32_t values; /* of a window, as weights count them */
#if !TFLITE_FUSE_DSP
  const int8_t* const* taps; /* per tap one pointer per pixel */
  const int8_t* const* taps_end;
  int32_t rest; /* 0...3 more values per tap, whose four weights end with zeros */
#else
  const uint32_t* wide; /* per quad: pixel 0 values (0, 2), (1, 3), then pixel 1 */
  const uint32_t* wide_end;
  uint32_t quads; /* of the pairs */
#endif
  const int8_t* weights; /* of the next channels */
  const tflite_fuse_channel* channel;
  const tflite_fuse_channel* fast_end; /* channels before it may be finished the fast way */
  const tflite_fuse_channel* end;
  int32_t zero_point_half;
  int8_t* outputs[TFLITE_FUSE_CONV_AT_ONCE];
  const tflite_fuse_call* call;
} tflite_fuse_conv_job;

/* Finishes as many channels as there are from `entry` on; sums: [channel][pixel], bias included. */
void tflite_fuse_conv_finish(tflite_fuse_conv_job* j, const tflite_fuse_channel* entry, const int32_t* sums,
                             int32_t channels, int32_t pixels);

#if TFLITE_FUSE_DSP
/* The inner loops, of values that have been made pairs: all channels of two pixels, of one. */
void tflite_fuse_conv_wide(tflite_fuse_conv_job* j);
void tflite_fuse_conv_single(tflite_fuse_conv_job* j);

/* Adds what a part of two pixels' values, or of one's, gives to sums[channel][pixel], channels rounded up to pairs;
 * `skipped`: bytes of a pair's weights that belong to other parts. Sums start
 * with the biases; when all parts are added, `finish_parts` writes outputs. */
void tflite_fuse_conv_part(const tflite_fuse_conv_job* j, int32_t* sums, int32_t channels, int32_t skipped);
void tflite_fuse_conv_finish_parts(tflite_fuse_conv_job* j, const int32_t* sums, int32_t channels);
void tflite_fuse_conv_part_single(const tflite_fuse_conv_job* j, int32_t* sums, int32_t channels, int32_t skipped);
void tflite_fuse_conv_finish_parts_single(tflite_fuse_conv_job* j, const int32_t* sums, int32_t channels);
#else
/* The inner loops: all channels of TFLITE_FUSE_CONV_AT_ONCE pixels, of two, of one. */
void tflite_fuse_conv_group(tflite_fuse_conv_job* j);
void tflite_fuse_conv_pair(tflite_fuse_conv_job* j);
void tflite_fuse_conv_single(tflite_fuse_conv_job* j);
#endif

#endif
