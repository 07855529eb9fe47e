/* Convolution with weights in quads: [output channels / 2][values of a window / 4][2 channels][4 values], the ends
 * filled with zeros. The values of a window are its rows of taps, each tap with its channels, each row filled with
 * zeros to whole words. Where the number of input channels is a multiple of 4, taps are read where they lie.
 *
 * With DSP instructions two pixels by two channels are computed together: two instructions turn a word of four values
 * into two pairs of int16, one instruction multiplies two pairs and adds the products. The pairs of the pixels are made
 * once for all channels if they fit on the stack, else part by part, each for some channels.
 *
 * Elsewhere it is four pixels by two channels, and two pixels or one by four channels for those left over; rows of any
 * number of channels are read where they lie, too, if in one piece. */
#include "tflite_fuse_conv_packed.h"

#if !TFLITE_FUSE_MVE

/* PART_...: what parts are made of with DSP instructions, as much as takes no more memory than whole windows do.
 * MOST_TAPS_OF_4: elsewhere, of windows whose taps are listed for four pixels. */
enum { PART_SUMS = 64, PART_WORDS = 128, MOST_TAPS_OF_4 = 16 };

/* ---- Pixels ---- */

/* Memory of a call: pointers to taps, or copies of windows, or pairs, perhaps with sums. */
typedef struct {
#if TFLITE_FUSE_DSP
  union {
    struct {
      int8_t rows[2][TFLITE_FUSE_MAX_ROW_VALUES];
      uint32_t wide[TFLITE_FUSE_MAX_PATCH_VALUES];
    } whole;
    struct {
      int32_t sums[PART_SUMS];
      uint32_t wide[PART_WORDS];
    } part;
  } of;
#else
  int8_t row[TFLITE_FUSE_MAX_ROW_VALUES];
  const int8_t* copies[TFLITE_FUSE_CONV_AT_ONCE];
  union {
    const int8_t* list[TFLITE_FUSE_CONV_AT_ONCE * MOST_TAPS_OF_4];
    int8_t values[TFLITE_FUSE_CONV_AT_ONCE][TFLITE_FUSE_MAX_PATCH_VALUES];
  } of;
#endif
} workspace;

/* The values of a row of a window in one piece: where they lie, or copied. */
static const int8_t* row_of(const tflite_fuse_call* call, const int8_t* const* row, int8_t* copy) {
  const tflite_fuse_stage* stage = call->stage;
  if (stage->kernel_width == 1 ||
      (stage->dilation_width == 1 && tflite_fuse_is_whole(call, row, stage->kernel_width))) {
    return *row; /* `copy` has no room for rows of a single tap */
  }
  const int32_t depth = call->inputs[0]->channels, dilation = stage->dilation_width;
  int8_t* to = copy;
  for (int32_t kx = stage->kernel_width; kx > 0; --kx, row += dilation) {
    for (int32_t c = 0; c < depth; ++c) {
      *to++ = (*row)[c];
    }
  }
  return copy;
}

#if TFLITE_FUSE_DSP

/* The word at `from`, of which 1...3 bytes are values; zeros behind. */
static uint32_t load_rest(const int8_t* from, int32_t count) {
  uint32_t word = (uint8_t)from[0];
  if (count > 1) {
    word |= (uint32_t)(uint8_t)from[1] << 8;
  }
  return count > 2 ? word | (uint32_t)(uint8_t)from[2] << 16 : word;
}

#define WIDEN(from, at)                        \
  do {                                         \
    uint32_t word_;                            \
    TFLITE_FUSE_LOAD_1(word_, from, 4);        \
    wide[at] = tflite_fuse_even(word_);        \
    wide[(at) + 1] = tflite_fuse_odd(word_);   \
  } while (0)

#define WIDEN_REST(from, at)                             \
  do {                                                   \
    const uint32_t word_ = load_rest(from, count % 4);   \
    wide[at] = tflite_fuse_even(word_);                  \
    wide[(at) + 1] = tflite_fuse_odd(word_);             \
  } while (0)

/* Pairs of two pixels' values, each in one piece. Not inlined: callers would run out of registers. */
static TFLITE_FUSE_NOINLINE uint32_t* widen_2(uint32_t* wide, const int8_t* p, const int8_t* q, int32_t count) {
  for (const int8_t* end = p + (count & ~3); p != end; wide += 4) {
    WIDEN(p, 0);
    WIDEN(q, 2);
  }
  if (count % 4 != 0) {
    WIDEN_REST(p, 0);
    WIDEN_REST(q, 2);
    wide += 4;
  }
  return wide;
}

static TFLITE_FUSE_NOINLINE uint32_t* widen_1(uint32_t* wide, const int8_t* p, int32_t count) {
  for (const int8_t* end = p + (count & ~3); p != end; wide += 2) {
    WIDEN(p, 0);
  }
  if (count % 4 != 0) {
    WIDEN_REST(p, 0);
    wide += 2;
  }
  return wide;
}

/* Makes pairs of what one or two pixels see. */
static void look_wide(tflite_fuse_conv_job* j, workspace* space, const int8_t* const* window, int32_t pixels) {
  const tflite_fuse_call* call = j->call;
  const tflite_fuse_stage* stage = call->stage;
  const int32_t depth = call->inputs[0]->channels, to_next = stage->stride_width;
  const bool by_tap = depth % 4 == 0;
  const int32_t pieces = by_tap ? stage->kernel_width : 1, length = by_tap ? depth : stage->kernel_width * depth;
  uint32_t* wide = space->of.whole.wide;
  for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += call->columns) {
    const int8_t* const* tap = window;
    for (int32_t i = 0; i < pieces; ++i, tap += stage->dilation_width) {
      const int8_t* p = by_tap ? *tap : row_of(call, tap, space->of.whole.rows[0]);
      if (pixels == 1) {
        wide = widen_1(wide, p, length);
      } else {
        wide = widen_2(wide, p, by_tap ? tap[to_next] : row_of(call, tap + to_next, space->of.whole.rows[1]), length);
      }
    }
  }
  j->wide = space->of.whole.wide;
  j->wide_end = wide;
  j->quads = (uint32_t)j->values / 4;
}

#else

/* One pointer per pixel, for each row `pieces` times; the pixels lie `apart` columns apart. */
static void list_taps(tflite_fuse_conv_job* j, workspace* space, const int8_t* const* window, int32_t pieces,
                      int32_t pixels, int32_t apart) {
  const tflite_fuse_stage* stage = j->call->stage;
  const int8_t** list = space->of.list;
  for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += j->call->columns) {
    const int8_t* const* tap = window;
    for (int32_t i = 0; i < pieces; ++i, tap += stage->dilation_width) {
      for (int32_t p = 0; p < pixels; ++p) {
        *list++ = tap[p * apart];
      }
    }
  }
  j->taps = space->of.list;
  j->taps_end = list;
}

/* Copies what some pixels see, each row with zeros to whole words. */
static void gather(tflite_fuse_conv_job* j, workspace* space, const int8_t* const* windows, int32_t pixels) {
  const tflite_fuse_stage* stage = j->call->stage;
  const int32_t count = stage->kernel_width * j->call->inputs[0]->channels;
  for (int32_t p = 0; p < pixels; ++p) {
    const int8_t* const* window = windows + p * stage->stride_width;
    int8_t* values = space->of.values[p];
    space->copies[p] = values;
    for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += j->call->columns) {
      const int8_t* row = row_of(j->call, window, space->row);
      for (int32_t i = 0; i < count; ++i) {
        *values++ = row[i];
      }
      for (int32_t i = count; i % 4 != 0; ++i) {
        *values++ = 0;
      }
    }
  }
  j->taps = space->copies;
  j->taps_end = space->copies + pixels;
}

/* Whether every row of these pixels' windows lies in one piece. */
static bool rows_are_whole(const tflite_fuse_call* call, const int8_t* const* windows, int32_t pixels) {
  const tflite_fuse_stage* stage = call->stage;
  const int32_t columns = (pixels - 1) * stage->stride_width + stage->kernel_width;
  bool are_whole = stage->dilation_width == 1;
  for (int32_t ky = 0; ky < stage->kernel_height && are_whole; ++ky, windows += call->columns) {
    are_whole = tflite_fuse_is_whole(call, windows, columns);
  }
  return are_whole || stage->kernel_width == 1;
}

#endif

/* ---- All channels of some pixels ---- */

#if TFLITE_FUSE_DSP

/* Values of one pixel, or of each of two, whose pairs take so many words. */
static inline int32_t values_in(ptrdiff_t words, int32_t pixels) { return (int32_t)words << (2 - pixels); }

/* Adds the part of the pairs that has been made to the sums of some channels. */
static const int8_t* add_part(tflite_fuse_conv_job* j, workspace* space, const uint32_t* wide_end,
                              const int8_t* weights, int32_t channels, int32_t pixels) {
  const int32_t values = values_in(wide_end - space->of.part.wide, pixels);
  j->wide = space->of.part.wide;
  j->wide_end = wide_end;
  j->quads = (uint32_t)values / 4;
  j->weights = weights;
  if (pixels == 2) {
    tflite_fuse_conv_part(j, space->of.part.sums, channels, 2 * (j->values - values));
  } else {
    tflite_fuse_conv_part_single(j, space->of.part.sums, channels, 2 * (j->values - values));
  }
  return weights + 2 * values;
}

/* Sums start with the biases of their channels, which are rounded up to pairs. */
static void start_sums(int32_t* sums, const tflite_fuse_channel* entry, int32_t channels, int32_t pixels) {
  for (const tflite_fuse_channel* end = entry + (channels + 1) / 2 * 2; entry != end; ++entry) {
    *sums++ = entry->bias;
    if (pixels == 2) {
      *sums++ = entry->bias;
    }
  }
}

/* Adds to the sums of some channels of two pixels, or of one, what their windows give, part by part. Taps are read where they lie. */
TFLITE_FUSE_INLINE void sum_parts(tflite_fuse_conv_job* j, workspace* space, const int8_t* const* window, int32_t pixels,
                      const int8_t* weights, int32_t channels) {
  const tflite_fuse_stage* stage = j->call->stage;
  const int32_t to_next = stage->stride_width;
  uint32_t *wide = space->of.part.wide, *const end = wide + PART_WORDS;
  for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += j->call->columns) {
    const int8_t* const* tap = window;
    for (int32_t kx = 0; kx < stage->kernel_width; ++kx, tap += stage->dilation_width) {
      for (int32_t at = 0, count; at < j->depth; at += count) {
        count = tflite_fuse_min(j->depth - at, values_in(end - wide, pixels));
        wide = pixels == 2 ? widen_2(wide, tap[0] + at, tap[to_next] + at, count) : widen_1(wide, tap[0] + at, count);
        if (wide == end) {
          weights = add_part(j, space, wide, weights, channels, pixels);
          wide = space->of.part.wide;
        }
      }
    }
  }
  if (wide != space->of.part.wide) {
    add_part(j, space, wide, weights, channels, pixels);
  }
}

static void compute_in_parts(tflite_fuse_conv_job* j, workspace* space, const int8_t* const* window, int32_t pixels) {
  const tflite_fuse_channel* table = j->call->table;
  const int8_t* weights = j->call->weights;
  const int32_t channels = j->call->output->channels, at_once = pixels == 2 ? PART_SUMS / 2 : PART_SUMS;
  for (int32_t first = 0; first < channels; first += at_once) {
    const int32_t some = tflite_fuse_min(at_once, channels - first);
    j->channel = table + first;
    start_sums(space->of.part.sums, j->channel, some, pixels);
    if (pixels == 2) {
      sum_parts(j, space, window, 2, weights + first * j->values, some);
      tflite_fuse_conv_finish_parts(j, space->of.part.sums, some);
    } else {
      sum_parts(j, space, window, 1, weights + first * j->values, some);
      tflite_fuse_conv_finish_parts_single(j, space->of.part.sums, some);
    }
  }
}

static void compute_pixels(tflite_fuse_conv_job* j, workspace* space, int32_t first, int32_t pixels) {
  const int32_t to_next = j->call->stage->stride_width;
  const int8_t* const* window = j->call->windows[0] + first * to_next;
  j->outputs[0] = j->call->outputs[first];
  j->outputs[1] = j->call->outputs[first + pixels - 1];
  if (j->values * pixels > 2 * TFLITE_FUSE_MAX_PATCH_VALUES) {
    compute_in_parts(j, space, window, pixels);
    return;
  }
  look_wide(j, space, window, pixels);
  j->weights = j->call->weights;
  j->channel = j->call->table;
  if (pixels == 2) {
    tflite_fuse_conv_wide(j);
  } else {
    tflite_fuse_conv_single(j);
  }
}

#else

/* Lets an inner loop read taps, or rows of taps, where they lie, or else copies of them. */
static void look(tflite_fuse_conv_job* j, workspace* space, int32_t first, int32_t pixels) {
  const tflite_fuse_call* call = j->call;
  const tflite_fuse_stage* stage = call->stage;
  const int8_t* const* window = call->windows[0] + first * stage->stride_width;
  const int32_t channels = call->inputs[0]->channels;
  j->rest = 0;
  if (channels % 4 == 0) {
    j->depth = channels;
    list_taps(j, space, window, stage->kernel_width, pixels, stage->stride_width);
  } else if (stage->kernel_height <= MOST_TAPS_OF_4 && rows_are_whole(call, window, pixels)) {
    j->rest = stage->kernel_width * channels % 4;
    j->depth = stage->kernel_width * channels - j->rest;
    list_taps(j, space, window, 1, pixels, stage->stride_width);
  } else {
    j->depth = j->values;
    gather(j, space, window, pixels);
  }
}

static void compute(tflite_fuse_conv_job* j, int32_t first, int32_t pixels, void (*kernel)(tflite_fuse_conv_job*)) {
  const tflite_fuse_call* call = j->call;
  for (int32_t p = 0; p < TFLITE_FUSE_CONV_AT_ONCE; ++p) {
    j->outputs[p] = call->outputs[first + tflite_fuse_min(p, pixels - 1)];
  }
  j->weights = call->weights;
  j->channel = call->table;
  kernel(j);
}

static void compute_pixels(tflite_fuse_conv_job* j, workspace* space, int32_t first, int32_t pixels) {
  const bool has_few_taps = j->call->stage->kernel_height * j->call->stage->kernel_width <= MOST_TAPS_OF_4;
  for (int32_t end = first + pixels; first < end; first += pixels) {
    pixels = end - first;
    if (pixels == TFLITE_FUSE_CONV_AT_ONCE && has_few_taps) {
      look(j, space, first, pixels);
      compute(j, first, pixels, tflite_fuse_conv_group);
    } else {
      pixels = tflite_fuse_min(pixels, 2);
      look(j, space, first, pixels);
      compute(j, first, pixels, pixels == 2 ? tflite_fuse_conv_pair : tflite_fuse_conv_single);
    }
  }
}

#endif

void tflite_fuse_conv_packed(const tflite_fuse_call* call) {
  const tflite_fuse_channel* table = call->table;
  const int32_t channels = call->output->channels;
  const bool is_fast = tflite_fuse_is_fast(call);
  workspace space;
  tflite_fuse_conv_job j; /* field by field: clearing it first takes longer than some calls */
  j.values = (int32_t)tflite_fuse_packed_values(call->stage, call->inputs[0]);
  j.depth = call->inputs[0]->channels;
  j.end = table + channels;
  j.fast_end = is_fast ? table + (channels - channels % 2) : table;
  j.zero_point_half = 2 * call->output->zero_point + 1;
  j.call = call;
  for (int32_t i = 0; i < call->count; i += TFLITE_FUSE_CONV_AT_ONCE) {
    compute_pixels(&j, &space, i, tflite_fuse_min(TFLITE_FUSE_CONV_AT_ONCE, call->count - i));
  }
}

#endif
