/* Convolution with weights in quads: [output channels / 2][values of a window / 4][2 channels][4 values], the ends
 * filled with zeros. The values of a window are its rows of taps, each tap with its channels, each row filled with zeros
 * to whole words. Where the number of input channels is a multiple of 4, taps are read where they lie.
 *
 * With DSP instructions two pixels by two channels are computed together: two instructions turn a word of four values
 * into two pairs of int16, one instruction multiplies two pairs and adds the products. The pairs of the pixels are made
 * once for all channels if they fit on the stack. Elsewhere it is four pixels by two channels. Pixels left over are
 * computed one by one, four channels at a time. */
#include "tflite_fuse_packed.h"

#if TFLITE_FUSE_DSP
enum { AT_ONCE = 2 }; /* pixels */
#else
enum { AT_ONCE = 4, MOST_TAPS_OF_4 = 16 };
#endif

/* The work on one group of pixels, all channels. */
typedef struct {
  const int8_t* const* taps; /* per tap one pointer per pixel */
  const int8_t* const* taps_end;
  int32_t depth;  /* values per tap, a multiple of 4 */
  int32_t values; /* of a window */
#if TFLITE_FUSE_DSP
  const uint32_t* wide; /* per quad: pixel 0 values (0, 2), (1, 3), then pixel 1 */
  const uint32_t* wide_end;
  uint32_t quads; /* of the pairs */
#endif
  const int8_t* weights; /* of the next channels */
  const tflite_fuse_channel* channel;
  const tflite_fuse_channel* fast_end; /* channels before it may be finished the fast way */
  const tflite_fuse_channel* end;
  int32_t zero_point_half;
  int8_t* outputs[AT_ONCE];
  const tflite_fuse_call* call;
} job;

/* Finishes as many channels as there are; sums: [channel][pixel], bias included. */
static TFLITE_FUSE_NOINLINE void finish_any(job* j, const tflite_fuse_channel* entry, const int32_t* sums,
                                            int32_t channels, int32_t pixels) {
  for (int32_t c = 0; c < channels && entry < j->end; ++c, ++entry) {
    for (int32_t p = 0; p < pixels; ++p) {
      *j->outputs[p]++ = tflite_fuse_finish(*sums++, entry, j->call);
    }
  }
}

#if TFLITE_FUSE_DSP

/* One quad of two channels: xe, xo: pixel 0, ye, yo: pixel 1. */
#define MAC_QUAD_2X2()                             \
  do {                                             \
    uint32_t v, w;                                 \
    TFLITE_FUSE_LOAD_2(v, w, weights, 8);          \
    const uint32_t ve = tflite_fuse_even(v);       \
    v = tflite_fuse_odd(v);                        \
    a0 = tflite_fuse_mac_pair(a0, xe, ve);         \
    a1 = tflite_fuse_mac_pair(a1, ye, ve);         \
    a0 = tflite_fuse_mac_pair(a0, xo, v);          \
    a1 = tflite_fuse_mac_pair(a1, yo, v);          \
    const uint32_t we = tflite_fuse_even(w);       \
    w = tflite_fuse_odd(w);                        \
    b0 = tflite_fuse_mac_pair(b0, xe, we);         \
    b1 = tflite_fuse_mac_pair(b1, ye, we);         \
    b0 = tflite_fuse_mac_pair(b0, xo, w);          \
    b1 = tflite_fuse_mac_pair(b1, yo, w);          \
  } while (0)

/* Two channels of two pixels. */
#define FINISH_2X2()                                                                     \
  do {                                                                                   \
    if (entry < j->fast_end) {                                                           \
      int8_t* output_0 = j->outputs[0];                                                  \
      int8_t* output_1 = j->outputs[1];                                                  \
      const tflite_fuse_scale a = tflite_fuse_scale_of(&entry[0], j->zero_point_half);   \
      output_0[0] = tflite_fuse_scale_down(a0, a);                                       \
      output_1[0] = tflite_fuse_scale_down(a1, a);                                       \
      const tflite_fuse_scale b = tflite_fuse_scale_of(&entry[1], j->zero_point_half);   \
      output_0[1] = tflite_fuse_scale_down(b0, b);                                       \
      output_1[1] = tflite_fuse_scale_down(b1, b);                                       \
      j->outputs[0] = output_0 + 2;                                                      \
      j->outputs[1] = output_1 + 2;                                                      \
    } else {                                                                             \
      const int32_t sums[] = {a0, a1, b0, b1};                                           \
      finish_any(j, entry, sums, 2, 2);                                                   \
    }                                                                                    \
    entry += 2;                                                                          \
    TFLITE_FUSE_HIDE(entry);                                                             \
    TFLITE_FUSE_HIDE(weights);                                                           \
  } while (0)

#define MAC_WIDE_QUAD()                  \
  do {                                   \
    TFLITE_FUSE_LOAD_4(xe, xo, ye, yo, wide);             \
    MAC_QUAD_2X2();                      \
  } while (0)

/* Two pixels whose pairs have been made. */
static TFLITE_FUSE_NOINLINE void compute_wide(job* j) {
  const int8_t* weights = j->weights;
  const tflite_fuse_channel* entry = j->channel;
  do {
    const uint32_t* wide = j->wide;
    const uint32_t* end = j->wide_end;
    int32_t a0 = entry[0].bias, a1 = a0, b0 = entry[1].bias, b1 = b0;
    if (j->quads % 2 != 0) {
      MAC_WIDE_QUAD();
    }
    if (j->quads % 4 >= 2) {
      MAC_WIDE_QUAD();
      MAC_WIDE_QUAD();
    }
    while (wide != end) {
      MAC_WIDE_QUAD();
      MAC_WIDE_QUAD();
      MAC_WIDE_QUAD();
      MAC_WIDE_QUAD();
    }
    FINISH_2X2();
  } while (entry < j->end);
}

#define MAC_NARROW_QUAD()                                   \
  do {                                                      \
    uint32_t xo, yo;                                        \
    TFLITE_FUSE_LOAD_1(xo, p, 4);                           \
    TFLITE_FUSE_LOAD_1(yo, q, 4);                           \
    const uint32_t xe = tflite_fuse_even(xo);               \
    const uint32_t ye = tflite_fuse_even(yo);               \
    xo = tflite_fuse_odd(xo);                               \
    yo = tflite_fuse_odd(yo);                               \
    MAC_QUAD_2X2();                                         \
  } while (0)

/* Two pixels. */
static TFLITE_FUSE_NOINLINE void compute_group(job* j) {
  const int8_t* weights = j->weights;
  const tflite_fuse_channel* entry = j->channel;
  do {
    const int8_t* const* tap = j->taps;
    int32_t a0 = entry[0].bias, a1 = a0, b0 = entry[1].bias, b1 = b0;
    do {
      const int8_t* p = tap[0];
      const int8_t* q = tap[1];
      const int8_t* end = p + j->depth;
      tap += 2;
      if (j->depth % 8 != 0) {
        MAC_NARROW_QUAD();
      }
      while (p != end) {
        MAC_NARROW_QUAD();
        MAC_NARROW_QUAD();
      }
    } while (tap != j->taps_end);
    FINISH_2X2();
  } while (entry < j->end);
}

#define MAC_WIDE_QUAD_OF_1()                 \
  do {                                       \
    uint32_t xe, xo, v, w;                   \
    TFLITE_FUSE_LOAD_2(xe, xo, wide, 8);     \
    TFLITE_FUSE_LOAD_2(v, w, weights, 8);    \
    const uint32_t ve = tflite_fuse_even(v); \
    v = tflite_fuse_odd(v);                  \
    a = tflite_fuse_mac_pair(a, xe, ve);     \
    a = tflite_fuse_mac_pair(a, xo, v);      \
    const uint32_t we = tflite_fuse_even(w); \
    w = tflite_fuse_odd(w);                  \
    b = tflite_fuse_mac_pair(b, xe, we);     \
    b = tflite_fuse_mac_pair(b, xo, w);      \
  } while (0)

/* One pixel whose pairs have been made. */
static TFLITE_FUSE_NOINLINE void compute_single(job* j) {
  const int8_t* weights = j->weights;
  const tflite_fuse_channel* entry = j->channel;
  do {
    const uint32_t* wide = j->wide;
    const uint32_t* end = j->wide_end;
    int32_t a = entry[0].bias, b = entry[1].bias;
    for (uint32_t odd = j->quads % 4; odd > 0; --odd) {
      MAC_WIDE_QUAD_OF_1();
    }
    while (wide != end) {
      MAC_WIDE_QUAD_OF_1();
      MAC_WIDE_QUAD_OF_1();
      MAC_WIDE_QUAD_OF_1();
      MAC_WIDE_QUAD_OF_1();
    }
    if (entry < j->fast_end) {
      int8_t* output = j->outputs[0];
      output[0] = tflite_fuse_scale_down(a, tflite_fuse_scale_of(&entry[0], j->zero_point_half));
      output[1] = tflite_fuse_scale_down(b, tflite_fuse_scale_of(&entry[1], j->zero_point_half));
      j->outputs[0] = output + 2;
    } else {
      const int32_t sums[] = {a, b};
      finish_any(j, entry, sums, 2, 1);
    }
    entry += 2;
    TFLITE_FUSE_HIDE(entry);
    TFLITE_FUSE_HIDE(weights);
  } while (entry < j->end);
}

#else

#define MAC_VALUE(i)                                     \
  do {                                                   \
    const int32_t x0 = p0[i], x1 = p1[i], x2 = p2[i], x3 = p3[i]; \
    const int32_t v = weights[i];                        \
    a0 = tflite_fuse_mac(a0, x0, v);                     \
    a1 = tflite_fuse_mac(a1, x1, v);                     \
    a2 = tflite_fuse_mac(a2, x2, v);                     \
    a3 = tflite_fuse_mac(a3, x3, v);                     \
    TFLITE_FUSE_SETTLE(a0, a1, a2, a3);                  \
    const int32_t w = weights[4 + (i)];                  \
    b0 = tflite_fuse_mac(b0, x0, w);                     \
    b1 = tflite_fuse_mac(b1, x1, w);                     \
    b2 = tflite_fuse_mac(b2, x2, w);                     \
    b3 = tflite_fuse_mac(b3, x3, w);                     \
    TFLITE_FUSE_SETTLE(b0, b1, b2, b3);                  \
  } while (0)

/* Four pixels. */
static TFLITE_FUSE_NOINLINE void compute_group(job* j) {
  const int8_t* weights = j->weights;
  const tflite_fuse_channel* entry = j->channel;
  do {
    const int8_t* const* tap = j->taps;
    int32_t a0 = entry[0].bias, a1 = a0, a2 = a0, a3 = a0;
    int32_t b0 = entry[1].bias, b1 = b0, b2 = b0, b3 = b0;
    do {
      const int8_t *p0 = tap[0], *p1 = tap[1], *p2 = tap[2], *p3 = tap[3];
      const int8_t* end = p0 + j->depth;
      tap += 4;
      do {
        MAC_VALUE(0);
        MAC_VALUE(1);
        MAC_VALUE(2);
        MAC_VALUE(3);
        p0 += 4;
        p1 += 4;
        p2 += 4;
        p3 += 4;
        weights += 8;
      } while (p0 != end);
    } while (tap != j->taps_end);
    const int32_t sums[] = {a0, a1, a2, a3, b0, b1, b2, b3};
    finish_any(j, entry, sums, 2, 4);
    entry += 2;
    TFLITE_FUSE_HIDE(entry);
    TFLITE_FUSE_HIDE(weights);
  } while (entry < j->end);
}

#define MAC_VALUE_1(i)                           \
  do {                                           \
    const int32_t x = p[i];                      \
    a = tflite_fuse_mac(a, x, weights[i]);       \
    b = tflite_fuse_mac(b, x, weights[4 + (i)]); \
    c = tflite_fuse_mac(c, x, others[i]);        \
    d = tflite_fuse_mac(d, x, others[4 + (i)]);  \
    TFLITE_FUSE_SETTLE(a, b, c, d);              \
  } while (0)

/* One pixel, four channels at a time; where there are but two more, these twice. */
static TFLITE_FUSE_NOINLINE void compute_single(job* j) {
  const int8_t* weights = j->weights;
  const tflite_fuse_channel* entry = j->channel;
  do {
    const int32_t second = j->end - entry > 2 ? 2 : 0;
    const int8_t* others = weights + (second != 0 ? 2 * j->values : 0);
    const int8_t* const* tap = j->taps;
    int32_t a = entry[0].bias, b = entry[1].bias, c = entry[second].bias, d = entry[second + 1].bias;
    do {
      const int8_t* p = *tap++;
      const int8_t* end = p + j->depth;
      do {
        MAC_VALUE_1(0);
        MAC_VALUE_1(1);
        MAC_VALUE_1(2);
        MAC_VALUE_1(3);
        p += 4;
        weights += 8;
        others += 8;
      } while (p != end);
    } while (tap != j->taps_end);
    const int32_t sums[] = {a, b, c, d};
    finish_any(j, entry, sums, second + 2, 1);
    entry += 4;
    weights = others;
    TFLITE_FUSE_HIDE(entry);
    TFLITE_FUSE_HIDE(weights);
  } while (entry < j->end);
}

#endif

/* ---- Pixels ---- */

/* Memory of a call: pointers to taps, or pairs, or copies of windows. */
typedef struct {
#if TFLITE_FUSE_DSP
  int8_t rows[2][TFLITE_FUSE_ROW_VALUES];
  union {
    const int8_t* list[2 * TFLITE_FUSE_LISTED_TAPS];
    uint32_t wide[TFLITE_FUSE_PATCH_VALUES];
  } of;
#else
  int8_t row[TFLITE_FUSE_ROW_VALUES];
  const int8_t* copies[AT_ONCE];
  union {
    const int8_t* list[AT_ONCE * MOST_TAPS_OF_4];
    int8_t values[AT_ONCE][TFLITE_FUSE_PATCH_VALUES];
  } of;
#endif
} workspace;

/* One pointer per pixel, tap after tap; the pixels lie `apart` columns apart. */
static void list_taps(job* j, workspace* space, const int8_t* const* window, int32_t pixels, int32_t apart) {
  const tflite_fuse_stage* stage = j->call->stage;
  const int8_t** list = space->of.list;
  for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += j->call->columns) {
    const int8_t* const* tap = window;
    for (int32_t kx = 0; kx < stage->kernel_width; ++kx, tap += stage->dilation_width) {
      for (int32_t p = 0; p < pixels; ++p) {
        *list++ = tap[p * apart];
      }
    }
  }
  j->taps = space->of.list;
  j->taps_end = list;
}

/* The values of row ky of a window in one piece: where they lie, or copied. */
static const int8_t* row_of(const tflite_fuse_call* call, const int8_t* const* row, int32_t ky, int8_t* copy) {
  const tflite_fuse_stage* stage = call->stage;
  const bool is_whole = ky < 32 && (call->whole_rows >> ky & 1) != 0 && stage->dilation_width == 1;
  if (is_whole || stage->kernel_width == 1) {
    return *row;
  }
  int8_t* to = copy;
  for (int32_t kx = 0; kx < stage->kernel_width; ++kx, row += stage->dilation_width) {
    for (int32_t c = 0; c < call->inputs[0]->channels; ++c) {
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

/* Pairs of two pixels' values, each in one piece. */
static uint32_t* widen_2(uint32_t* wide, const int8_t* p, const int8_t* q, int32_t count) {
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

static uint32_t* widen_1(uint32_t* wide, const int8_t* p, int32_t count) {
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
static void look_wide(job* j, workspace* space, const int8_t* const* window, int32_t pixels) {
  const tflite_fuse_call* call = j->call;
  const tflite_fuse_stage* stage = call->stage;
  const int32_t depth = call->inputs[0]->channels, to_next = stage->stride_width;
  const bool by_tap = depth % 4 == 0;
  const int32_t pieces = by_tap ? stage->kernel_width : 1, length = by_tap ? depth : stage->kernel_width * depth;
  uint32_t* wide = space->of.wide;
  for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += call->columns) {
    const int8_t* const* tap = window;
    for (int32_t i = 0; i < pieces; ++i, tap += stage->dilation_width) {
      const int8_t* p = by_tap ? *tap : row_of(call, tap, ky, space->rows[0]);
      if (pixels == 1) {
        wide = widen_1(wide, p, length);
      } else {
        wide = widen_2(wide, p, by_tap ? tap[to_next] : row_of(call, tap + to_next, ky, space->rows[1]), length);
      }
    }
  }
  j->wide = space->of.wide;
  j->wide_end = wide;
  j->quads = (uint32_t)j->values / 4;
}

#else

/* Copies what some pixels see, each row with zeros to whole words. */
static void gather(job* j, workspace* space, const int8_t* const* windows, int32_t pixels) {
  const tflite_fuse_stage* stage = j->call->stage;
  const int32_t count = stage->kernel_width * j->call->inputs[0]->channels;
  for (int32_t p = 0; p < pixels; ++p) {
    const int8_t* const* window = windows + p * stage->stride_width;
    int8_t* values = space->of.values[p];
    space->copies[p] = values;
    for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += j->call->columns) {
      const int8_t* row = row_of(j->call, window, ky, space->row);
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

#endif

/* ---- All channels of some pixels ---- */

static void compute(job* j, int32_t first, int32_t pixels, void (*kernel)(job*)) {
  const tflite_fuse_call* call = j->call;
  for (int32_t p = 0; p < AT_ONCE; ++p) {
    j->outputs[p] = call->outputs[first + tflite_fuse_min(p, pixels - 1)];
  }
  j->weights = call->weights;
  j->channel = call->table;
  kernel(j);
}

#if TFLITE_FUSE_DSP

/* A pixel left over is computed twice where it has too many values for pairs. */
static void compute_pixels(job* j, workspace* space, int32_t first, int32_t pixels) {
  const tflite_fuse_stage* stage = j->call->stage;
  const int8_t* const* window = j->call->windows[0] + first * stage->stride_width;
  if (j->values * pixels <= 2 * TFLITE_FUSE_PATCH_VALUES) {
    look_wide(j, space, window, pixels);
    compute(j, first, pixels, pixels == 2 ? compute_wide : compute_single);
  } else {
    list_taps(j, space, window, 2, (pixels - 1) * stage->stride_width);
    compute(j, first, pixels, compute_group);
  }
}

#else

static void compute_pixels(job* j, workspace* space, int32_t first, int32_t pixels) {
  const tflite_fuse_stage* stage = j->call->stage;
  const bool is_group = pixels == AT_ONCE && stage->kernel_height * stage->kernel_width <= MOST_TAPS_OF_4;
  const int32_t some = is_group ? pixels : 1;
  for (int32_t p = 0; p < pixels; p += some) {
    const int8_t* const* window = j->call->windows[0] + (first + p) * stage->stride_width;
    if (j->call->inputs[0]->channels % 4 != 0) {
      gather(j, space, window, some);
    } else {
      list_taps(j, space, window, some, stage->stride_width);
    }
    compute(j, first + p, some, is_group ? compute_group : compute_single);
  }
}

#endif

void tflite_fuse_conv_packed(const tflite_fuse_call* call) {
  const tflite_fuse_channel* table = call->table;
  const int32_t channels = call->output->channels, depth = call->inputs[0]->channels;
  const bool is_fast = tflite_fuse_is_fast(call);
  workspace space;
  job j; /* field by field: clearing it first takes longer than some calls */
  j.values = (int32_t)tflite_fuse_packed_values(call->stage, call->inputs[0]);
  j.depth = depth % 4 == 0 ? depth : j.values;
  j.end = table + channels;
  j.fast_end = is_fast ? table + (channels - channels % 2) : table;
  j.zero_point_half = 2 * call->output->zero_point + 1;
  j.call = call;
  for (int32_t i = 0; i < call->count; i += AT_ONCE) {
    compute_pixels(&j, &space, i, tflite_fuse_min(AT_ONCE, call->count - i));
  }
}
