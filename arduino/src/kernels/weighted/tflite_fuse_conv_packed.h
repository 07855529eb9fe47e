/* What the parts of the convolution with packed weights share: the work on one pixel or two, and its inner loops. */
#ifndef TFLITE_FUSE_CONV_PACKED_H_
#define TFLITE_FUSE_CONV_PACKED_H_

#include "../mve/tflite_fuse_mve.h"
#include "../tflite_fuse_packed.h"

TFLITE_FUSE_HIDDEN_BEGIN

/* Pixels computed together at least. */
enum { TFLITE_FUSE_CONV_AT_ONCE = 2 };

/* What inner loops work on: pairs of channels of four pixels, of two or of one, finished, or a part of their windows, added
 * to sums. Those in assembler move on all that points to what comes next. */
typedef struct {
  const tflite_fuse_channel* entry; /* of the next channel in the table */
  int8_t* outputs[TFLITE_FUSE_CONV_AT_ONCE]; /* of the first two pixels; of four the others' lie as far apart */
  int32_t zero_point_half;
  const uint32_t* wide; /* values, widened */
  uint32_t start;       /* what tflite_fuse_conv_start found out */
  const uint32_t* wide_end;
  const tflite_fuse_channel* entry_end;
  const int8_t* weights; /* of the next channels */
  int32_t* sums;
  const int32_t* sums_end;
  uint32_t skip; /* bytes of weights behind a part of a window, until that of the next two channels */
} tflite_fuse_conv_run;

/* Inner loops for one form of weights, where a core has several sets of them: kernels/dsp/tflite_fuse_conv_loops_dsp.h. */
typedef struct tflite_fuse_conv_loops tflite_fuse_conv_loops;
extern const tflite_fuse_conv_loops tflite_fuse_int8_loops; /* of weights in bytes */

/* Whether four pixels are computed together where their windows are small. */
#define TFLITE_FUSE_CONV_FOUR (TFLITE_FUSE_DSP || TFLITE_FUSE_MANY_REGISTERS)

/* Words that a quad of one pixel's values takes when it is widened; two pixels' take four. */
#if TFLITE_FUSE_DSP
enum { TFLITE_FUSE_QUAD_OF_1_WORDS = 2 };
#else
enum { TFLITE_FUSE_QUAD_OF_1_WORDS = 1 };
#endif

/* The work on some pixels, all channels. */
typedef struct {
  tflite_fuse_conv_run run; /* entries up to entry_end may be finished the fast way */
  const tflite_fuse_channel* end;
  int32_t depth;  /* values per tap */
  int32_t values; /* of a window, as weights count them */
  int32_t* sums;  /* those that parts of windows are added to */
  int32_t weight_bytes; /* of one weight */
  const tflite_fuse_call* call;
  const tflite_fuse_conv_loops* loops; /* NULL where there is one set only */
} tflite_fuse_conv_job;

/* The packed convolution with one of the core's sets of inner loops. */
void tflite_fuse_conv_with(const tflite_fuse_call* call, const tflite_fuse_conv_loops* loops);

/* Adds what pixels of the input give to the sums of a fully connected layer over all of them, whose weights are packed as
 * those of a convolution whose window is the whole input. Channels are a multiple of 4.
 *
 * call: `count` pixels, those from number `position` on. sums: one for each output channel. */
void tflite_fuse_conv_add(const tflite_fuse_call* call, int32_t position, int32_t* sums);

/* Finishes as many channels as there are from `entry` on; sums: [channel][pixel], bias included. */
void tflite_fuse_conv_finish(tflite_fuse_conv_job* j, const tflite_fuse_channel* entry, const int32_t* sums,
                             int32_t channels, int32_t pixels);

/* Brings `count` values of two pixels, or of one, into the form the inner loops read, with zeros to a whole quad; returns
 * the word behind. */
uint32_t* tflite_fuse_widen_2(uint32_t* wide, const int8_t* p, const int8_t* q, int32_t count);
uint32_t* tflite_fuse_widen_1(uint32_t* wide, const int8_t* p, int32_t count);

#if TFLITE_FUSE_CONV_FOUR
/* The same of four pixels, `to_next` pointers apart. */
uint32_t* tflite_fuse_widen_4(uint32_t* wide, const int8_t* const* pixels, int32_t to_next, int32_t count);

/* All channels of four pixels, to outputs one behind the other; finished the fast way. */
void tflite_fuse_conv_four(tflite_fuse_conv_job* j, const uint32_t* wide, int8_t* output);
#endif

/* Sets what the inner loops need to know of so many widened values of each pixel. */
void tflite_fuse_conv_start(tflite_fuse_conv_job* j, int32_t values, int32_t pixels);

/* The inner loops, of widened values: all channels of two pixels or of one. */
void tflite_fuse_conv_all(tflite_fuse_conv_job* j, int32_t pixels);

/* Adds what a part of two pixels' values, or of one's, gives to sums[channel][pixel], channels rounded up to pairs. Sums
 * start with the biases; when all parts are added, `finish_parts` writes outputs. */
void tflite_fuse_conv_part(tflite_fuse_conv_job* j, int32_t* sums, int32_t channels, int32_t pixels);
void tflite_fuse_conv_finish_parts(tflite_fuse_conv_job* j, int32_t* sums, int32_t channels, int32_t pixels);

TFLITE_FUSE_HIDDEN_END

#endif
