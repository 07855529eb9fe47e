/* Declares the job of the packed convolution on up to four pixels, and the inner loops that each core implements. */
#ifndef TFLITE_FUSE_CONV_PACKED_H_
#define TFLITE_FUSE_CONV_PACKED_H_

#include "../mve/tflite_fuse_mve.h"
#include "../tflite_fuse_packed.h"

TFLITE_FUSE_HIDDEN_BEGIN

/* Pixels computed together on every core; some also compute four. */
enum { TFLITE_FUSE_CONV_AT_ONCE = 2 };

/* Operands of an inner loop: pairs of output channels of one, two or four pixels. A loop computes whole windows and
 * writes outputs, or adds a part of the windows to sums. Loops in assembler advance all pointers to the next pair. */
typedef struct {
  const tflite_fuse_channel* entry; /* entry of the next channel in the table */
  int8_t* outputs[TFLITE_FUSE_CONV_AT_ONCE]; /* next outputs of two pixels; of four, the rest are as far apart */
  int32_t zero_point_half;
  const uint32_t* wide; /* widened values */
  uint32_t start;       /* entry point of the loop, set by tflite_fuse_conv_start; its meaning depends on the core */
  const uint32_t* wide_end;
  const tflite_fuse_channel* entry_end;
  const int8_t* weights; /* weights of the next pair of channels */
  int32_t* sums;
  const int32_t* sums_end;
  uint32_t skip; /* bytes of weights from the end of a part to the same part of the next pair of channels */
} tflite_fuse_conv_run;

/* A set of inner loops for one form of weights, on cores with several: kernels/dsp/tflite_fuse_conv_loops_dsp.h. */
typedef struct tflite_fuse_conv_loops tflite_fuse_conv_loops;
extern const tflite_fuse_conv_loops tflite_fuse_int8_loops; /* int8 weights */

/* 1 if the core computes four pixels together where their windows are small. */
#define TFLITE_FUSE_CONV_FOUR (TFLITE_FUSE_DSP || TFLITE_FUSE_MANY_REGISTERS)

/* Words of four widened values of one pixel; of two pixels four words. */
#if TFLITE_FUSE_DSP
enum { TFLITE_FUSE_QUAD_OF_1_WORDS = 2 };
#else
enum { TFLITE_FUSE_QUAD_OF_1_WORDS = 1 };
#endif

/* A job: all channels of one, two or four pixels. */
typedef struct {
  tflite_fuse_conv_run run; /* channels before entry_end are scaled by tflite_fuse_scale_down */
  const tflite_fuse_channel* end;
  int32_t depth;  /* values per tap: input channels */
  int32_t values; /* values per window, padding included */
  int32_t* sums;  /* sums of a window that is computed in parts */
  int32_t weight_bytes; /* bytes per weight */
  const tflite_fuse_call* call;
  const tflite_fuse_conv_loops* loops; /* NULL if the core has a single set */
} tflite_fuse_conv_job;

/* Computes the packed convolution with one of the core's sets of inner loops. */
void tflite_fuse_conv_with(const tflite_fuse_call* call, const tflite_fuse_conv_loops* loops);

/* Adds the products of some input pixels to the sums of a fully connected layer over all of them, whose weights are
 * packed like those of a convolution with the whole input as its window. Input channels are a multiple of 4.
 *
 * call: `count` pixels; position: number of the first one. sums: one per output channel. */
void tflite_fuse_conv_add(const tflite_fuse_call* call, int32_t position, int32_t* sums);

/* Scales and writes up to `channels` channels from `entry` on, as far as the output has channels; sums:
 * [channel][pixel], bias included. */
void tflite_fuse_conv_finish(tflite_fuse_conv_job* j, const tflite_fuse_channel* entry, const int32_t* sums,
                             int32_t channels, int32_t pixels);

/* Widens `count` values of one or two pixels to the form that the inner loops read, padded with zeros to a multiple of
 * 4; returns the end of the words. */
uint32_t* tflite_fuse_widen_2(uint32_t* wide, const int8_t* p, const int8_t* q, int32_t count);
uint32_t* tflite_fuse_widen_1(uint32_t* wide, const int8_t* p, int32_t count);

#if TFLITE_FUSE_CONV_FOUR
/* Widens the values of four pixels, `to_next` pointers apart: with DSP instructions the whole quads in assembler, then
 * the rest. */
#if TFLITE_FUSE_DSP
uint32_t* tflite_fuse_int8_widen_4(uint32_t* wide, const int8_t* const* pixels, int32_t to_next, int32_t whole);
uint32_t* tflite_fuse_widen_rest_4(uint32_t* wide, const int8_t* const* pixels, int32_t to_next, int32_t count);
TFLITE_FUSE_INLINE uint32_t* tflite_fuse_widen_4(uint32_t* wide, const int8_t* const* pixels, int32_t to_next,
                                                 int32_t count) {
  if (count >= 4) {
    wide = tflite_fuse_int8_widen_4(wide, pixels, to_next, count & ~3);
  }
  return count % 4 == 0 ? wide : tflite_fuse_widen_rest_4(wide, pixels, to_next, count);
}
#else
uint32_t* tflite_fuse_widen_4(uint32_t* wide, const int8_t* const* pixels, int32_t to_next, int32_t count);
#endif

/* Computes and scales all channels of four pixels, whose outputs are contiguous. */
void tflite_fuse_conv_four(tflite_fuse_conv_job* j, int8_t* output);
#endif

/* Sets run.start for `values` widened values per pixel. */
void tflite_fuse_conv_start(tflite_fuse_conv_job* j, int32_t values, int32_t pixels);

/* Computes all channels of one or two pixels from widened values. */
void tflite_fuse_conv_all(tflite_fuse_conv_job* j, int32_t pixels);

/* Adds the products of a widened part of the windows of one or two pixels to sums[channel][pixel], channels rounded up
 * to pairs. Sums start with the biases; after all parts `finish_parts` writes the outputs. */
void tflite_fuse_conv_part(tflite_fuse_conv_job* j, int32_t* sums, int32_t channels, int32_t pixels);
void tflite_fuse_conv_finish_parts(tflite_fuse_conv_job* j, int32_t* sums, int32_t channels, int32_t pixels);

TFLITE_FUSE_HIDDEN_END

#endif
