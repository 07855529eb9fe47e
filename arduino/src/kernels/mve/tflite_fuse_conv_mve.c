/* Computes the packed convolution with Helium: four output channels of one pixel at a time, 16 values of its
 * window at once.
 *
 * A window is read in contiguous pieces: its rows, or its taps if it has large ones. Rows that are not contiguous, at
 * an edge of the image or the end of a ring, are copied once for all pixels of a group; windows with rows shorter than
 * a vector are copied whole.
 *
 * A quad of weights is a 32-bit word, so loading every other word gives 16 weights of one channel. */
#include "tflite_fuse_conv_mve.h"
#include "../weighted/tflite_fuse_conv_packed.h"

#if TFLITE_FUSE_MVE

enum { MOST_PIXELS = 8, PATCH_BYTES = 640, LANES = 16 };

/* A job: the windows of up to MOST_PIXELS pixels. */
typedef struct {
  const tflite_fuse_call* call;
  int32_t pixels, pieces;
  int32_t vectors; /* whole vectors per piece */
  int32_t rest;    /* remaining values per piece, 0...15 */
  const int8_t* list[TFLITE_FUSE_MAX_LISTED_TAPS]; /* pointers to pieces, pixel by pixel */
  int8_t patch[PATCH_BYTES + LANES];               /* copied rows of windows */
} job;

/* ---- Pixels ---- */

/* Copies `count` bytes, and may write zeros behind them, up to a whole vector. */
static void copy(int8_t* to, const int8_t* from, int32_t count) {
  for (; count >= LANES; count -= LANES, to += LANES, from += LANES) {
    vstrbq_s8(to, vldrbq_s8(from));
  }
  if (count > 0) {
    vstrbq_s8(to, vldrbq_z_s8(from, vctp8q((uint32_t)count)));
  }
}

/* Copies columns of a row, `apart` pointers apart, contiguous columns at once; returns the end of the copy. */
static int8_t* copy_row(int8_t* to, const int8_t* const* row, int32_t columns, int32_t apart, int32_t depth) {
  while (columns > 0) {
    const int8_t* first = *row;
    int32_t bytes = depth;
    for (row += apart, --columns; columns > 0 && *row == first + bytes; row += apart, --columns) {
      bytes += depth;
    }
    copy(to, first, bytes);
    to += bytes;
  }
  return to;
}

/* Returns the number of columns under the windows of `pixels` pixels with dilation 1. */
static int32_t columns_of(const tflite_fuse_stage* stage, int32_t pixels) {
  return (pixels - 1) * stage->stride_width + stage->kernel_width;
}

/* Returns whether each row of columns under the windows of all pixels is contiguous. */
static bool are_whole(const job* j, const int8_t* const* window) {
  const tflite_fuse_stage* stage = j->call->stage;
  int32_t remaining = stage->dilation_width == 1 ? stage->kernel_height : 0;
  const int32_t columns = columns_of(stage, j->pixels);
  for (; remaining > 0 && tflite_fuse_is_whole(j->call, window, columns); --remaining) {
    window += j->call->columns;
  }
  return stage->dilation_width == 1 && remaining == 0;
}

/* Copies the whole windows of all pixels; each row, shorter than a vector, is padded with zeros to whole words. */
static void copy_windows(job* j, const int8_t* const* window) {
  const tflite_fuse_stage* stage = j->call->stage;
  const int32_t depth = j->call->inputs[0]->channels, width = stage->kernel_width, length = width * depth;
  const bool is_whole = are_whole(j, window);
  const mve_pred16_t row_lanes = vctp8q((uint32_t)length);
  int8_t* free = j->patch;
  for (int32_t p = 0; p < j->pixels; ++p, window += stage->stride_width) {
    const int8_t* const* row = window;
    j->list[p] = free;
    for (int32_t ky = stage->kernel_height; ky > 0; --ky, row += j->call->columns, free += (length + 3) / 4 * 4) {
      if (is_whole || (stage->dilation_width == 1 && tflite_fuse_is_whole(j->call, row, width))) {
        vstrbq_s8(free, vldrbq_z_s8(*row, row_lanes));
      } else {
        copy_row(free, row, width, tflite_fuse_to_next_tap(stage), depth);
      }
    }
  }
}

/* Lists the rows of each pixel's window; returns false if the rows to copy exceed the patch. Windows of one pixel come
 * here only if outputs replace them: then they are copied, because every channel needs all values. */
static bool list_rows(job* j, const int8_t* const* window) {
  const tflite_fuse_stage* stage = j->call->stage;
  const int32_t depth = j->call->inputs[0]->channels, rows = stage->kernel_height;
  const int32_t columns = columns_of(stage, j->pixels), apart = columns > 1 ? stage->dilation_width : 1;
  int8_t* free = j->patch;
  for (int32_t ky = 0; ky < rows; ++ky, window += j->call->columns) {
    const int8_t* row = *window;
    if (apart != 1 || stage->kernel_width == 1 || !tflite_fuse_is_whole(j->call, window, columns)) {
      row = free;
      if (columns * depth > j->patch + PATCH_BYTES - free) {
        return false;
      }
      free = copy_row(free, window, columns, apart, depth);
    }
    const int8_t** list = j->list + ky;
    for (int32_t p = j->pixels; p > 0; --p, list += rows, row += stage->stride_width * depth) {
      *list = row;
    }
  }
  return true;
}

static void list_taps(job* j, const int8_t* const* window) {
  const tflite_fuse_stage* stage = j->call->stage;
  const int8_t** list = j->list;
  for (int32_t p = j->pixels; p > 0; --p, window += stage->stride_width) {
    const int8_t* const* row = window;
    for (int32_t ky = stage->kernel_height; ky > 0; --ky, row += j->call->columns) {
      const int8_t* const* tap = row;
      for (int32_t kx = stage->kernel_width; kx > 0; --kx, tap += tflite_fuse_to_next_tap(stage)) {
        *list++ = *tap;
      }
    }
  }
}

static void set_pieces(job* j, int32_t pieces, int32_t length) {
  j->pieces = pieces;
  j->vectors = length / LANES;
  j->rest = length % LANES;
}

/* Lists or copies the windows of at most `remaining` pixels, as many as fit. */
static void find_windows(job* j, const int8_t* const* window, int32_t remaining) {
  const tflite_fuse_stage* stage = j->call->stage;
  const int32_t depth = j->call->inputs[0]->channels, width = stage->kernel_width, rows = stage->kernel_height;
  if (width > 1 && width * depth < LANES) {
    set_pieces(j, 1, rows * ((width * depth + 3) / 4 * 4));
    const int32_t most = tflite_fuse_min(PATCH_BYTES / (j->vectors * LANES + j->rest), MOST_PIXELS);
    j->pixels = tflite_fuse_min(remaining, most);
    copy_windows(j, window);
    return;
  }
  if (width > 1 || j->call->output->overwrites != 0) {
    const int32_t most = tflite_fuse_min(TFLITE_FUSE_MAX_LISTED_TAPS / rows, MOST_PIXELS);
    set_pieces(j, rows, width * depth);
    for (j->pixels = stage->dilation_width > 1 ? 1 : tflite_fuse_min(remaining, most); j->pixels > 0; j->pixels /= 2) {
      if (list_rows(j, window)) {
        return;
      }
    }
  }
  /* The number of channels is a multiple of 4, so rows have no padding between their taps. */
  set_pieces(j, rows * width, depth);
  j->pixels = tflite_fuse_min(tflite_fuse_min(remaining, TFLITE_FUSE_MAX_LISTED_TAPS / j->pieces), MOST_PIXELS);
  list_taps(j, window);
}

/* ---- Sums ---- */

/* Sums of four channels of a pixel. x: next values, v: next weights of the first two channels, w: of the last two. */
typedef struct {
  int32_t a, b, c, d;
  const int8_t *x, *v, *w;
} sums;

/* Adds the products of whole vectors; advances x, v and w. */
TFLITE_FUSE_INLINE void add_vectors(sums* s, int32_t vectors) {
  for (; vectors > 0; --vectors, s->x += LANES, s->v += 2 * LANES, s->w += 2 * LANES) {
    const int8x16_t values = vldrbq_s8(s->x);
    const int32x4x2_t first = vld2q_s32((const int32_t*)(const void*)s->v);
    const int32x4x2_t second = vld2q_s32((const int32_t*)(const void*)s->w);
    s->a = vmladavaq_s8(s->a, values, vreinterpretq_s8_s32(first.val[0]));
    s->b = vmladavaq_s8(s->b, values, vreinterpretq_s8_s32(first.val[1]));
    s->c = vmladavaq_s8(s->c, values, vreinterpretq_s8_s32(second.val[0]));
    s->d = vmladavaq_s8(s->d, values, vreinterpretq_s8_s32(second.val[1]));
  }
}

/* Loads weights at `offsets` bytes from a pair's. */
TFLITE_FUSE_INLINE int8x16_t weights_at(const int8_t* weights, uint32x4_t offsets) {
  return vreinterpretq_s8_s32(vldrwq_gather_offset_s32((const int32_t*)(const void*)weights, offsets));
}

/* Lanes and weights of a piece's remaining values, fewer than a vector. */
typedef struct {
  mve_pred16_t lanes;
  int32_t bytes;            /* bytes of weights of two channels */
  uint32x4_t first, second; /* byte offsets of the weights of the first channel, and of the second */
} remainder;

/* Absent weights repeat the last ones; their values are zero. */
TFLITE_FUSE_INLINE remainder remainder_of(const job* j) {
  remainder rest = {vctp8q((uint32_t)j->rest), (j->rest + 3) / 4 * 8, vidupq_n_u32(0, 8), vdupq_n_u32(0)};
  rest.first = vminq_u32(rest.first, vdupq_n_u32((uint32_t)rest.bytes - 8));
  rest.second = vaddq_n_u32(rest.first, 4);
  return rest;
}

/* Adds the products of remaining values; advances v and w. */
TFLITE_FUSE_INLINE void add_rest(sums* s, remainder rest) {
  const int8x16_t values = vldrbq_z_s8(s->x, rest.lanes);
  s->a = vmladavaq_s8(s->a, values, weights_at(s->v, rest.first));
  s->b = vmladavaq_s8(s->b, values, weights_at(s->v, rest.second));
  s->c = vmladavaq_s8(s->c, values, weights_at(s->w, rest.first));
  s->d = vmladavaq_s8(s->d, values, weights_at(s->w, rest.second));
  s->v += rest.bytes;
  s->w += rest.bytes;
}

/* Returns the bytes of the weights of two channels. */
static inline int32_t pair_bytes_of(const job* j) {
  return j->pieces * (j->vectors * 2 * LANES + (j->rest + 3) / 4 * 8);
}

/* Returns the sums of four channels of one pixel, whose pieces are those from `list` on; v: weights of the first two
 * channels, w: of the last two. */
static int32x4_t sum_4(const job* j, const int8_t* const* list, const int8_t* v, const int8_t* w) {
  sums s = {0, 0, 0, 0, NULL, v, w};
  for (int32_t remaining = j->pieces; remaining > 0; --remaining) {
    s.x = *list++;
    add_vectors(&s, j->vectors);
    if (j->rest > 0) {
      add_rest(&s, remainder_of(j));
    }
  }
  return tflite_fuse_join_4(s.a, s.b, s.c, s.d);
}

/* Computes channels from `channel` on, a multiple of 4, with any scale. Absent channels repeat the last one. */
static TFLITE_FUSE_NOINLINE TFLITE_FUSE_RARE void compute_any(const job* j, int8_t* const* outputs, int32_t channel,
                                                              bool is_down) {
  const tflite_fuse_call* call = j->call;
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const int32_t pair_bytes = pair_bytes_of(j);
  for (; channel < call->output->channels; channel += 4) {
    const int32_t in_group = call->output->channels - channel;
    const int8_t* weights = call->weights + channel / 2 * pair_bytes;
    const tflite_fuse_channel* entry = (const tflite_fuse_channel*)call->table + channel;
    const tflite_fuse_mve_scale scale =
        tflite_fuse_mve_scale_of(entry, tflite_fuse_entries(vidupq_n_u32(0, 1), in_group), is_down);
    for (int32_t p = 0; p < j->pixels; ++p) {
      const int8_t* last_two = in_group > 2 ? weights + pair_bytes : weights;
      const int32x4_t products = sum_4(j, j->list + p * j->pieces, weights, last_two);
      const int32x4_t scaled = tflite_fuse_scale_4(vaddq_s32(products, scale.bias), scale, is_down);
      tflite_fuse_store_4(outputs[p] + channel, scaled, range, in_group);
    }
  }
}

TFLITE_FUSE_RARE void tflite_fuse_conv_add(const tflite_fuse_call* call, int32_t position, int32_t* total) {
  const int32_t depth = call->inputs[0]->channels, channels = call->output->channels;
  const ptrdiff_t pair_bytes = 2 * (ptrdiff_t)tflite_fuse_pixels(call->inputs[0]) * depth;
  const int8_t* weights = call->weights + 2 * position * depth;
  job j;
  set_pieces(&j, call->count, depth);
  int32_t products[4];
  for (int32_t c = 0; c < channels; ++c, ++total) {
    if ((c & 3) == 0) { /* if only two channels remain, two more sums are computed and unused */
      vstrwq_s32(products, sum_4(&j, call->windows[0], weights, channels - c > 2 ? weights + pair_bytes : weights));
      weights += 2 * pair_bytes;
    }
    *total = tflite_fuse_wrapping_add(*total, products[c & 3]);
  }
}

#if TFLITE_FUSE_MVE_LOOPS

/* Computes all whole quads of channels of a layout DOWN. */
static void compute_quads(const job* j, int8_t* const* outputs) {
  const tflite_fuse_call* call = j->call;
  tflite_fuse_mve_run run;
  run.apart = j->pieces * (int32_t)sizeof(*j->list);
  run.vectors = j->vectors;
  run.pair_bytes = pair_bytes_of(j);
  run.rest_bytes = (j->rest + 3) / 4 * 8 - 4;
  run.entry = call->table;
  run.entry_end = run.entry + (call->output->channels & ~3);
  run.weights = call->weights;
  run.zero_point = call->output->zero_point;
  run.low = call->stage->activation_min;
  run.high = call->stage->activation_max;
  run.rest_lanes = vctp8q((uint32_t)j->rest);
  for (int32_t p = 0; p < j->pixels; p += 2) {
    run.list = j->list + p * j->pieces;
    run.list_end = run.list + j->pieces;
    run.outputs[0] = outputs[p];
    if (p + 1 < j->pixels) {
      run.outputs[1] = outputs[p + 1];
      (j->rest > 0 ? tflite_fuse_conv_mve_rest_2 : tflite_fuse_conv_mve_2)(&run);
    } else {
      (j->rest > 0 ? tflite_fuse_conv_mve_rest_1 : tflite_fuse_conv_mve_1)(&run);
    }
  }
}

#endif

void tflite_fuse_conv_packed(const tflite_fuse_call* call) {
  const bool is_down = call->stage->weight_layout == TFLITE_FUSE_LAYOUT_PACKED_DOWN;
  const int32_t channels = call->output->channels, in_quads = TFLITE_FUSE_MVE_LOOPS && is_down ? channels & ~3 : 0;
  job j;
  j.call = call;
  for (int32_t i = 0; i < call->count; i += j.pixels) {
    find_windows(&j, call->windows[0] + i * call->stage->stride_width, call->count - i);
#if TFLITE_FUSE_MVE_LOOPS
    if (in_quads > 0) {
      compute_quads(&j, call->outputs + i);
    }
#endif
    if (in_quads < channels) {
      compute_any(&j, call->outputs + i, in_quads, is_down);
    }
  }
}

#endif
