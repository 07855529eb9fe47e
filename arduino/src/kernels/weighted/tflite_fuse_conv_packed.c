/* Computes int8 convolutions from packed weights, two pixels at a time, or one if one remains.
 *
 * Weights: [output channels / 2][values of a window / 4][2 channels][4 values], padded with zeros at the end. The
 * values of a window are its rows of taps, each tap with its channels, each row padded with zeros to whole words. If
 * the number of input channels is a multiple of 4, taps are read in place.
 *
 * Before the products, windows are widened to the form that the core's inner loops multiply fastest (`widen`, in
 * kernels/dsp and kernels/portable): once for all channels if the window fits on the stack, else part by part, each for
 * some channels. */
#include "tflite_fuse_conv_packed.h"

#if !TFLITE_FUSE_MVE

/* Words of a window widened whole; words and sums of a part. Cores that compute four pixels together have room for
 * windows of 144 values, 3 x 3 x 16. */
enum {
  WHOLE_WORDS = TFLITE_FUSE_CONV_FOUR ? 288 : TFLITE_FUSE_MAX_PATCH_VALUES,
  PART_WORDS = TFLITE_FUSE_MANY_REGISTERS && !TFLITE_FUSE_DSP ? 160 : 128,
  PART_SUMS = TFLITE_FUSE_MANY_REGISTERS && !TFLITE_FUSE_DSP ? 128 : 64
};

/* Inner loops for int8 weights; NULL if the core has a single set. */
#if TFLITE_FUSE_DSP
#define TFLITE_FUSE_LOOPS_OF_BYTES (&tflite_fuse_int8_loops)
#else
#define TFLITE_FUSE_LOOPS_OF_BYTES NULL
#endif

/* ---- Pixels ---- */

/* Stack memory of one call. Only windows that are widened whole and are small have copied rows, which lie behind the
 * widened words. */
typedef union {
  uint32_t wide[WHOLE_WORDS];
  struct {
    uint32_t wide[TFLITE_FUSE_MAX_PATCH_VALUES];
    int8_t rows[2][TFLITE_FUSE_MAX_ROW_VALUES];
  } copied;
  struct {
    int32_t sums[PART_SUMS];
    uint32_t wide[PART_WORDS];
  } part;
} workspace;

/* Returns whether `columns` pixels under the windows of a row are contiguous. */
TFLITE_FUSE_INLINE bool is_whole(const tflite_fuse_call* call, const int8_t* const* row, int32_t columns) {
  return call->stage->dilation_width == 1 && tflite_fuse_is_whole(call, row, columns);
}

/* Returns the values of one row of a window, contiguous: in place, or copied to `copy`. */
static const int8_t* row_of(const tflite_fuse_call* call, const int8_t* const* row, int8_t* copy) {
  const tflite_fuse_stage* stage = call->stage;
  if (stage->kernel_width == 1 || is_whole(call, row, stage->kernel_width)) {
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

/* Returns the number of values per pixel that fill `words` words once widened; pixels: 1 or 2. */
static inline int32_t values_in(ptrdiff_t words, int32_t pixels) {
  return (int32_t)words * (pixels == 2 ? 1 : 4 / TFLITE_FUSE_QUAD_OF_1_WORDS);
}

TFLITE_FUSE_INLINE uint32_t* widen(uint32_t* wide, const int8_t* p, const int8_t* q, int32_t count, int32_t pixels) {
  return pixels == 2 ? tflite_fuse_widen_2(wide, p, q, count) : tflite_fuse_widen_1(wide, p, count);
}

/* Widens one row of taps in place, for one or two pixels. */
TFLITE_FUSE_INLINE uint32_t* widen_taps(uint32_t* wide, const tflite_fuse_call* call, const int8_t* const* tap,
                                        int32_t pixels) {
  const tflite_fuse_stage* stage = call->stage;
  const int32_t depth = call->inputs[0]->channels, to_next = stage->stride_width;
  const int32_t next_tap = tflite_fuse_to_next_tap(stage);
  int32_t kx = stage->kernel_width;
  do {
    wide = widen(wide, tap[0], pixels == 2 ? tap[to_next] : NULL, depth, pixels);
    tap += next_tap;
  } while (--kx > 0);
  return wide;
}

/* Widens one row of taps for one or two pixels: at once if the row is contiguous or its channels need padding (after a
 * copy), else tap by tap. */
TFLITE_FUSE_INLINE uint32_t* widen_row(uint32_t* wide, const tflite_fuse_call* call, workspace* space,
                                       const int8_t* const* row, int32_t pixels) {
  const tflite_fuse_stage* stage = call->stage;
  const int32_t width = stage->kernel_width, to_next = (pixels - 1) * stage->stride_width;
  const int32_t depth = call->inputs[0]->channels;
  const int8_t *p = row[0], *q = row[to_next];
  if (!is_whole(call, row, to_next + width)) {
    if (depth % 4 == 0) {
      return widen_taps(wide, call, row, pixels);
    }
    p = row_of(call, row, space->copied.rows[0]);
    q = pixels == 2 ? row_of(call, row + to_next, space->copied.rows[1]) : NULL;
  }
  return widen(wide, p, q, width * depth, pixels);
}

/* Sets the run for all channels of pixels whose whole windows are widened up to `wide_end`. */
static void start_run(tflite_fuse_conv_job* j, const workspace* space, const uint32_t* wide_end, int32_t pixels) {
  j->run.entry = j->call->table;
  j->run.weights = j->call->weights;
  j->run.wide = space->wide;
  j->run.wide_end = wide_end;
  tflite_fuse_conv_start(j, j->values, pixels);
}

/* Widens the whole windows of one or two pixels. */
static void widen_windows(tflite_fuse_conv_job* j, workspace* space, const int8_t* const* window, int32_t pixels) {
  const tflite_fuse_call* call = j->call;
  uint32_t* wide = space->wide;
  int32_t ky = call->stage->kernel_height;
  do {
    wide = widen_row(wide, call, space, window, pixels);
    window += call->columns;
  } while (--ky > 0);
  start_run(j, space, wide, pixels);
}

/* ---- All channels of some pixels ---- */

/* Adds the widened part to the sums of `channels` channels; returns the weights of the next part. */
static const int8_t* add_part(tflite_fuse_conv_job* j, workspace* space, const uint32_t* wide_end,
                              const int8_t* weights, int32_t channels, int32_t pixels) {
  const int32_t values = values_in(wide_end - space->part.wide, pixels);
  j->run.wide = space->part.wide;
  j->run.wide_end = wide_end;
  j->run.weights = weights;
  tflite_fuse_conv_start(j, values, pixels);
  tflite_fuse_conv_part(j, j->sums, channels, pixels);
  return weights + 2 * values * j->weight_bytes;
}

/* Sets sums to the biases of their channels, the number of channels rounded up to pairs. */
static void start_sums(int32_t* sums, const tflite_fuse_channel* entry, int32_t channels, int32_t pixels) {
  for (const tflite_fuse_channel* end = entry + (channels + 1) / 2 * 2; entry != end; ++entry) {
    *sums++ = entry->bias;
    if (pixels == 2) {
      *sums++ = entry->bias;
    }
  }
}

/* Adds the products of the windows of one or two pixels to the sums of `channels` channels, part by part. Taps are
 * read in place. */
static TFLITE_FUSE_OFTEN void sum_parts(tflite_fuse_conv_job* j, workspace* space, const int8_t* const* window,
                                        int32_t pixels, const int8_t* weights, int32_t channels) {
  const tflite_fuse_stage* stage = j->call->stage;
  const int32_t to_next = stage->stride_width, next_tap = tflite_fuse_to_next_tap(stage);
  uint32_t *wide = space->part.wide, *const end = wide + PART_WORDS;
  for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += j->call->columns) {
    const int8_t* const* tap = window;
    for (int32_t kx = 0; kx < stage->kernel_width; ++kx, tap += next_tap) {
      for (int32_t at = 0, count; at < j->depth; at += count) {
        count = tflite_fuse_min(j->depth - at, values_in(end - wide, pixels));
        wide = widen(wide, tap[0] + at, pixels == 2 ? tap[to_next] + at : NULL, count, pixels);
        if (wide == end) {
          weights = add_part(j, space, wide, weights, channels, pixels);
          wide = space->part.wide;
        }
      }
    }
  }
  if (wide != space->part.wide) {
    add_part(j, space, wide, weights, channels, pixels);
  }
}

static void compute_in_parts(tflite_fuse_conv_job* j, workspace* space, const int8_t* const* window, int32_t pixels) {
  const tflite_fuse_channel* table = j->call->table;
  const int8_t* weights = j->call->weights;
  const int32_t channels = j->call->output->channels, at_once = pixels == 2 ? PART_SUMS / 2 : PART_SUMS;
  for (int32_t first = 0; first < channels; first += at_once) {
    const int32_t in_part = tflite_fuse_min(at_once, channels - first);
    j->run.entry = table + first;
    j->sums = space->part.sums;
    start_sums(space->part.sums, j->run.entry, in_part, pixels);
    sum_parts(j, space, window, pixels, weights + first * j->values * j->weight_bytes, in_part);
    tflite_fuse_conv_finish_parts(j, space->part.sums, in_part, pixels);
  }
}

/* Treats the call's pixels as the taps of a window of one row, which is a part of the whole input. */
TFLITE_FUSE_RARE void tflite_fuse_conv_add(const tflite_fuse_call* call, int32_t position, int32_t* sums) {
  const int32_t odd = call->output->channels % 2, even = call->output->channels - odd;
  tflite_fuse_stage row = *call->stage;
  tflite_fuse_call part = *call;
  workspace space;
  tflite_fuse_conv_job j;
  part.stage = &row;
  row.kernel_width = call->count;
  j.depth = call->inputs[0]->channels;
  j.values = tflite_fuse_pixels(call->inputs[0]) * j.depth;
  j.weight_bytes = 1;
  j.loops = TFLITE_FUSE_LOOPS_OF_BYTES;
  j.call = &part;
  const int8_t* weights = call->weights + 2 * position * j.depth;
  if (even > 0) {
    j.sums = sums;
    sum_parts(&j, &space, call->windows[0], 1, weights, even);
  }
  if (odd > 0) { /* the last pair ends with a channel of zero weights, which has no sum */
    int32_t last[] = {sums[even], 0};
    j.sums = last;
    sum_parts(&j, &space, call->windows[0], 1, weights + (ptrdiff_t)even * j.values, 1);
    sums[even] = last[0];
  }
}

/* Computes one or two pixels from `first` on. */
static TFLITE_FUSE_NOINLINE void compute_pixels(tflite_fuse_conv_job* j, workspace* space, int32_t first,
                                                int32_t pixels) {
  const int32_t to_next = j->call->stage->stride_width;
  const int8_t* const* window = j->call->windows[0] + first * to_next;
  j->run.outputs[0] = j->call->outputs[first];
  j->run.outputs[1] = j->call->outputs[first + pixels - 1];
  if (j->values > values_in(WHOLE_WORDS, pixels)) {
    compute_in_parts(j, space, window, pixels);
    return;
  }
  widen_windows(j, space, window, pixels);
  tflite_fuse_conv_all(j, pixels);
}

/* ---- Four pixels ---- */

#if TFLITE_FUSE_CONV_FOUR

enum { FOUR_PIXELS = 4 };

/* Computes pixels in fours from the first one on, while four remain whose outputs are contiguous and whose windows have
 * rows that are contiguous or read tap by tap; returns the number of pixels computed. */
static TFLITE_FUSE_NOINLINE int32_t compute_fours(tflite_fuse_conv_job* j, workspace* space) {
  const tflite_fuse_call* call = j->call;
  const tflite_fuse_stage* stage = call->stage;
  const bool by_tap = j->depth % 4 == 0;
  const int32_t taps = by_tap ? stage->kernel_width : 1, values = by_tap ? j->depth : stage->kernel_width * j->depth;
  const int32_t to_next = stage->stride_width, columns = (FOUR_PIXELS - 1) * to_next + stage->kernel_width;
  int32_t first = 0;
  start_run(j, space, space->wide + 2 * j->values, FOUR_PIXELS);
  for (; call->count - first >= FOUR_PIXELS; first += FOUR_PIXELS) {
    int8_t* const* outputs = call->outputs + first;
    const int8_t* const* window = call->windows[0] + first * to_next;
    uint32_t* wide = space->wide;
    if (outputs[FOUR_PIXELS - 1] - outputs[0] != (FOUR_PIXELS - 1) * call->output->channels) {
      break;
    }
    int32_t ky = stage->kernel_height;
    do {
      if (!by_tap && !is_whole(call, window, columns)) {
        return first;
      }
      const int8_t* const* tap = window;
      int32_t kx = taps;
      do {
        wide = tflite_fuse_widen_4(wide, tap, to_next, values);
        tap += stage->dilation_width;
      } while (--kx > 0);
      window += call->columns;
    } while (--ky > 0);
    tflite_fuse_conv_four(j, outputs[0]);
  }
  return first;
}

#endif

void tflite_fuse_conv_with(const tflite_fuse_call* call, const tflite_fuse_conv_loops* loops) {
  const tflite_fuse_channel* table = call->table;
  const int32_t channels = call->output->channels;
  const bool is_fast = tflite_fuse_is_fast(call);
  workspace space;
  tflite_fuse_conv_job j; /* an initializer would clear all of it, which takes longer than some calls */
  j.depth = call->inputs[0]->channels;
  j.values = call->stage->kernel_height * ((call->stage->kernel_width * j.depth + 3) & ~3);
  j.weight_bytes = call->stage->weight_layout == TFLITE_FUSE_LAYOUT_INT16_DOWN ? 2 : 1;
  j.loops = loops;
  j.end = table + channels;
  j.run.entry_end = is_fast ? table + (channels & ~1) : table;
  j.run.zero_point_half = 2 * call->output->zero_point + 1;
  j.call = call;
  int32_t i = 0;
#if TFLITE_FUSE_CONV_FOUR
  if (is_fast && j.weight_bytes == 1 && j.values <= WHOLE_WORDS / 2) {
    i = compute_fours(&j, &space);
  }
#endif
  for (; i < call->count; i += TFLITE_FUSE_CONV_AT_ONCE) {
    compute_pixels(&j, &space, i, tflite_fuse_min(TFLITE_FUSE_CONV_AT_ONCE, call->count - i));
  }
  if (is_fast) {
    tflite_fuse_clamp_outputs(call);
  }
}

void tflite_fuse_conv_packed(const tflite_fuse_call* call) {
  tflite_fuse_conv_with(call, TFLITE_FUSE_LOOPS_OF_BYTES);
}

#endif
