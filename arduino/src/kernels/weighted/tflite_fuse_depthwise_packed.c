/* Computes int8 depthwise convolutions with windows of 3 x 3, 5 x 5 or 7 x 7 taps, stride 1 or 2 and depth
 * multiplier 1.
 *
 * Computes one channel of four neighbouring pixels at a time, and of one or two at the end of a run. Their windows
 * overlap, so a value is loaded once for all of them, and the weights stay in registers. DSP instructions process two
 * rows at once: a pair of int16 holds a value of one row and the value below it, and one instruction multiplies two
 * such pairs and adds the products.
 *
 * Weights: [channel][pairs of rows][words], a word holding columns 0 and 1 (2 and 3, ...) of the upper row, then of the
 * lower row; then the columns of the last row. Both are padded with zeros to whole words. */
#include "../mve/tflite_fuse_mve.h"
#include "../tflite_fuse_packed.h"

#if !TFLITE_FUSE_MVE

enum { AT_ONCE = TFLITE_FUSE_DEPTHWISE_PIXELS };

/* Channels computed together. Cores that compute two also have code for one and two remaining pixels under large
 * windows: the code of four pixels would waste most of its work, and there is room for it. */
#if (TFLITE_FUSE_MANY_REGISTERS && !TFLITE_FUSE_DSP)
enum { CHANNELS_AT_ONCE = 2 };
#else
enum { CHANNELS_AT_ONCE = 1 };
#endif

/* A job: all channels of up to four pixels. */
typedef struct {
  const int8_t* const* window; /* pointers to pixels, column by column */
  const int8_t* weights;
  const tflite_fuse_channel* table;
  int32_t channels;
  int32_t zero_point_half;
  int8_t* outputs[AT_ONCE];
  const tflite_fuse_call* call;
} job;

/* Returns the channels to advance after the first step. If their number is odd, channel 1 is computed twice; there are
 * at least two. */
TFLITE_FUSE_INLINE int32_t first_step(const job* j) { return CHANNELS_AT_ONCE == 1 ? 1 : 2 - j->channels % 2; }

/* ---- From sums to bytes ---- */

/* Scaling of two channels at once, or of one. */
#if (TFLITE_FUSE_MANY_REGISTERS && !TFLITE_FUSE_DSP)
#define TFLITE_FUSE_SCALES()                                                       \
  const tflite_fuse_scale scale = tflite_fuse_scale_of(entry, j->zero_point_half); \
  const tflite_fuse_scale scale_b = tflite_fuse_scale_of(entry + 1, j->zero_point_half)

#define TFLITE_FUSE_FINISH(pixel)                          \
  do {                                                     \
    int8_t* output = j->outputs[pixel] + channel;          \
    output[0] = tflite_fuse_scale_down(a##pixel, scale);   \
    output[1] = tflite_fuse_scale_down(b##pixel, scale_b); \
  } while (0)

#else
#define TFLITE_FUSE_SCALES() const tflite_fuse_scale scale = tflite_fuse_scale_of(entry, j->zero_point_half)
#define TFLITE_FUSE_FINISH(pixel) j->outputs[pixel][channel] = tflite_fuse_scale_down(a##pixel, scale)

#endif

/* Writes outputs from the last pixel down: absent pixels share their output with the last one, which
 * overwrites theirs. */
#define TFLITE_FUSE_DOWN_1() TFLITE_FUSE_FINISH(0)
#define TFLITE_FUSE_DOWN_2() TFLITE_FUSE_FINISH(1); TFLITE_FUSE_FINISH(0)
#define TFLITE_FUSE_DOWN_4() TFLITE_FUSE_FINISH(3); TFLITE_FUSE_FINISH(2); TFLITE_FUSE_FINISH(1); TFLITE_FUSE_FINISH(0)

/* ---- Columns ---- */

/* Adds the product of column value x to the sums (s0...s3) of the pixels whose windows contain the column. */
#define TFLITE_FUSE_ADD_TO_4(mac, s, column, width, stride)                \
  do {                                                                     \
    if ((column) < (width)) {                                              \
      s##0 = mac(s##0, (column) % (width));                                \
    }                                                                      \
    if ((column) >= (stride) && (column) < (stride) + (width)) {           \
      s##1 = mac(s##1, ((column) + (width) - (stride)) % (width));         \
    }                                                                      \
    if ((column) >= 2 * (stride) && (column) < 2 * (stride) + (width)) {   \
      s##2 = mac(s##2, ((column) + 2 * (width) - 2 * (stride)) % (width)); \
    }                                                                      \
    if ((column) >= 3 * (stride)) {                                        \
      s##3 = mac(s##3, ((column) + 3 * (width) - 3 * (stride)) % (width)); \
    }                                                                      \
  } while (0)

#define TFLITE_FUSE_ADD_TO_2(mac, s, column, width, stride)        \
  do {                                                             \
    if ((column) < (width)) {                                      \
      s##0 = mac(s##0, (column) % (width));                        \
    }                                                              \
    if ((column) >= (stride)) {                                    \
      s##1 = mac(s##1, ((column) + (width) - (stride)) % (width)); \
    }                                                              \
  } while (0)

#define TFLITE_FUSE_ADD_TO_1(mac, s, column, width, stride) s##0 = mac(s##0, column)

/* Calls C(add, column, width, stride) for all columns under the windows: (pixels - 1) * stride + width. */
#define TFLITE_FUSE_COLUMNS_3(C, a, w, s) C(a, 0, w, s) C(a, 1, w, s) C(a, 2, w, s)
#define TFLITE_FUSE_COLUMNS_4(C, a, w, s) TFLITE_FUSE_COLUMNS_3(C, a, w, s) C(a, 3, w, s)
#define TFLITE_FUSE_COLUMNS_5(C, a, w, s) TFLITE_FUSE_COLUMNS_4(C, a, w, s) C(a, 4, w, s)
#define TFLITE_FUSE_COLUMNS_6(C, a, w, s) TFLITE_FUSE_COLUMNS_5(C, a, w, s) C(a, 5, w, s)
#define TFLITE_FUSE_COLUMNS_7(C, a, w, s) TFLITE_FUSE_COLUMNS_6(C, a, w, s) C(a, 6, w, s)
#define TFLITE_FUSE_COLUMNS_8(C, a, w, s) TFLITE_FUSE_COLUMNS_7(C, a, w, s) C(a, 7, w, s)
#define TFLITE_FUSE_COLUMNS_9(C, a, w, s) TFLITE_FUSE_COLUMNS_8(C, a, w, s) C(a, 8, w, s)
#define TFLITE_FUSE_COLUMNS_10(C, a, w, s) TFLITE_FUSE_COLUMNS_9(C, a, w, s) C(a, 9, w, s)
#define TFLITE_FUSE_COLUMNS_11(C, a, w, s) TFLITE_FUSE_COLUMNS_10(C, a, w, s) C(a, 10, w, s)
#define TFLITE_FUSE_COLUMNS_13(C, a, w, s) TFLITE_FUSE_COLUMNS_11(C, a, w, s) C(a, 11, w, s) C(a, 12, w, s)

#include "../dsp/tflite_fuse_depthwise_dsp.h"
#include "../portable/tflite_fuse_depthwise_portable.h"

/* ---- Kernels ---- */

/* Bytes of one channel's weights. */
#define TFLITE_FUSE_WEIGHT_BYTES(width) ((width) / 2 * (((width) + 1) / 2 * 4) + ((width) + 3) / 4 * 4)

#define TFLITE_FUSE_DEFINE_COMPUTE(name, columns, pixels, width, stride)          \
  static TFLITE_FUSE_NOINLINE void name(const job* j) {                           \
    enum { CHANNEL_BYTES = TFLITE_FUSE_WEIGHT_BYTES(width) };                     \
    const int8_t* weights = j->weights;                                           \
    const tflite_fuse_channel* entry = j->table;                                  \
    int32_t channel = 0, step = first_step(j);                                    \
    do {                                                                          \
      const int8_t* const* window = j->window;                                    \
      const int8_t* const* last_row = window + (width) - 1;                       \
      int32_t a0 = entry[0].bias, a1 = a0, a2 = a0, a3 = a0;                      \
      int32_t b0 = entry[CHANNELS_AT_ONCE - 1].bias, b1 = b0, b2 = b0, b3 = b0;   \
      do {                                                                        \
        TFLITE_FUSE_TWO_ROWS(columns, TFLITE_FUSE_ADD_TO_##pixels, width, stride) \
        weights += ((width) + 1) / 2 * 4;                                         \
        window += 2;                                                              \
      } while (window != last_row);                                               \
      TFLITE_FUSE_ONE_ROW(columns, TFLITE_FUSE_ADD_TO_##pixels, width, stride)    \
      weights += ((width) + 3) / 4 * 4 + (step - 1) * CHANNEL_BYTES;              \
      (void)a1, (void)a2, (void)a3, (void)b0, (void)b1, (void)b2, (void)b3;       \
      TFLITE_FUSE_SCALES();                                                       \
      TFLITE_FUSE_DOWN_##pixels();                                                \
      entry += step;                                                              \
      channel += step;                                                            \
      step = CHANNELS_AT_ONCE;                                                    \
      TFLITE_FUSE_HIDE(entry);                                                    \
      TFLITE_FUSE_HIDE(weights);                                                  \
      TFLITE_FUSE_HIDE(channel);                                                  \
    } while (channel < j->channels);                                              \
  }

TFLITE_FUSE_DEFINE_COMPUTE(compute_3_2, 9, 4, 3, 2)
TFLITE_FUSE_DEFINE_COMPUTE(compute_5_1, 8, 4, 5, 1)
TFLITE_FUSE_DEFINE_COMPUTE(compute_5_2, 11, 4, 5, 2)
TFLITE_FUSE_DEFINE_COMPUTE(compute_7_1, 10, 4, 7, 1)
TFLITE_FUSE_DEFINE_COMPUTE(compute_7_2, 13, 4, 7, 2)

/* Only windows of 3 x 3 have code for one and two remaining pixels, as tflite_fuse_windows_read assumes. */
#if TFLITE_FUSE_DSP && TFLITE_FUSE_DUAL_ISSUE

/* Computes pixels `first` and `first` + 1. */
static TFLITE_FUSE_NOINLINE void compute_two(const job* j, int32_t first) {
  static const uint8_t order[] = {0, 1, 3, 4, 6, 7, 9, 10, 2, 8, 5, 11};
  const int8_t* const* window = j->window + 3 * first;
  tflite_fuse_depthwise_run run;
  for (int32_t i = 0; i < 12; ++i) {
    run.pixels[i] = window[order[i]];
  }
  run.channel = 0;
  run.weights = j->weights;
  run.entry = j->table;
  run.zero_point_half = j->zero_point_half;
  run.outputs[0] = j->outputs[first];
  run.outputs[1] = j->outputs[first + 1];
  if (j->channels % 2 != 0) { /* channels 0 and 1; channel 1 is computed again below */
    run.entry_end = run.entry + 2;
    tflite_fuse_depthwise_3_1(&run);
    run.channel = 1;
    run.weights += 12;
    run.entry += 1;
  }
  run.entry_end = j->table + j->channels;
  tflite_fuse_depthwise_3_1(&run);
}

static void compute_3_1_of_2(const job* j) { compute_two(j, 0); }
static void compute_3_1(const job* j) { compute_two(j, 2), compute_two(j, 0); } /* absent pixels come first */

#else
TFLITE_FUSE_DEFINE_COMPUTE(compute_3_1, 6, 4, 3, 1)
TFLITE_FUSE_DEFINE_COMPUTE(compute_3_1_of_2, 4, 2, 3, 1)
#endif

#if TFLITE_FUSE_DSP

/* Computes two channels at a time, whose values are loaded together: loads dominate the work on one pixel. */
#define TFLITE_FUSE_MAC_HALVES(part)                           \
  do {                                                         \
    a = tflite_fuse_mac_pair(a, tflite_fuse_even(x), part(v)); \
    b = tflite_fuse_mac_pair(b, tflite_fuse_odd(x), part(w));  \
  } while (0)

#define TFLITE_FUSE_LOAD_WEIGHTS(word)                            \
  do {                                                            \
    v = tflite_fuse_load_4(weights + 4 * (word));                 \
    w = tflite_fuse_load_4(weights + CHANNEL_BYTES + 4 * (word)); \
  } while (0)

static TFLITE_FUSE_NOINLINE void compute_3_of_1(const job* j) {
  enum { CHANNEL_BYTES = 12 };
  const int8_t* const* window = j->window;
  const int8_t* weights = j->weights;
  const tflite_fuse_channel* entry = j->table;
  int32_t step = 2 - j->channels % 2; /* if their number is odd, channel 1 is computed twice */
  for (int32_t channel = 0; channel < j->channels; channel += step, step = 2) {
    uint32_t v, w, x, third;
    int32_t a = entry[0].bias, b = entry[1].bias;
    TFLITE_FUSE_LOAD_WEIGHTS(0);
    TFLITE_FUSE_LOAD_HALVES_2(x, window, 0, channel);
    TFLITE_FUSE_MAC_HALVES(tflite_fuse_even);
    TFLITE_FUSE_LOAD_HALVES_2(x, window, 3, channel);
    TFLITE_FUSE_MAC_HALVES(tflite_fuse_odd);
    TFLITE_FUSE_LOAD_WEIGHTS(1);
    TFLITE_FUSE_LOAD_HALVES_2(x, window, 6, channel);
    TFLITE_FUSE_MAC_HALVES(tflite_fuse_even);
    TFLITE_FUSE_LOAD_WEIGHTS(2);
    TFLITE_FUSE_LOAD_HALVES_1(x, window, 2, channel);
    TFLITE_FUSE_LOAD_HALVES_1(third, window, 8, channel);
    x = tflite_fuse_pair((int32_t)x, (int32_t)third);
    TFLITE_FUSE_MAC_HALVES(tflite_fuse_even);
    TFLITE_FUSE_LOAD_HALVES_1(x, window, 5, channel);
    TFLITE_FUSE_MAC_HALVES(tflite_fuse_odd);
    int8_t* output = j->outputs[0] + channel;
    output[0] = tflite_fuse_scale_down(a, tflite_fuse_scale_of(&entry[0], j->zero_point_half));
    output[1] = tflite_fuse_scale_down(b, tflite_fuse_scale_of(&entry[1], j->zero_point_half));
    entry += step;
    weights += step * CHANNEL_BYTES;
  }
}

#else

TFLITE_FUSE_DEFINE_COMPUTE(compute_3_of_1, 3, 1, 3, 1)

#endif

#if (TFLITE_FUSE_MANY_REGISTERS && !TFLITE_FUSE_DSP)
TFLITE_FUSE_DEFINE_COMPUTE(compute_5_of_1, 5, 1, 5, 1)
TFLITE_FUSE_DEFINE_COMPUTE(compute_5_1_of_2, 6, 2, 5, 1)
TFLITE_FUSE_DEFINE_COMPUTE(compute_5_2_of_2, 7, 2, 5, 2)
TFLITE_FUSE_DEFINE_COMPUTE(compute_7_of_1, 7, 1, 7, 1)
TFLITE_FUSE_DEFINE_COMPUTE(compute_7_1_of_2, 8, 2, 7, 1)
TFLITE_FUSE_DEFINE_COMPUTE(compute_7_2_of_2, 9, 2, 7, 2)
#endif

typedef void (*kernel)(const job*);

/* A loop, or NULL if this build omits its window and stride; blocks that need it are refused. */
#define TFLITE_FUSE_LOOP(width, stride, loop) (TFLITE_FUSE_HAS_DEPTHWISE(width, stride) ? (loop) : NULL)
#define TFLITE_FUSE_LOOP_OF_1(width, loop) \
  (TFLITE_FUSE_HAS_DEPTHWISE(width, 1) || TFLITE_FUSE_HAS_DEPTHWISE(width, 2) ? (loop) : NULL)
#define TFLITE_FUSE_LOOPS(width) \
  {TFLITE_FUSE_LOOP(width, 1, compute_##width##_1), TFLITE_FUSE_LOOP(width, 2, compute_##width##_2)}
#define TFLITE_FUSE_LOOPS_OF_FEW(width)                                                                        \
  {TFLITE_FUSE_LOOP_OF_1(width, compute_##width##_of_1), TFLITE_FUSE_LOOP(width, 1, compute_##width##_1_of_2), \
   TFLITE_FUSE_LOOP(width, 2, compute_##width##_2_of_2)}

/* Returns the kernel for `remaining` pixels of a run, which reads the windows of `windows_read` pixels. */
static kernel kernel_for(const tflite_fuse_stage* stage, int32_t remaining, int32_t windows_read) {
  static const kernel of_4[3][2] = {TFLITE_FUSE_LOOPS(3), TFLITE_FUSE_LOOPS(5), TFLITE_FUSE_LOOPS(7)};
  if (windows_read < AT_ONCE) {
    return windows_read == 1 ? TFLITE_FUSE_LOOP_OF_1(3, compute_3_of_1) : TFLITE_FUSE_LOOP(3, 1, compute_3_1_of_2);
  }
#if (TFLITE_FUSE_MANY_REGISTERS && !TFLITE_FUSE_DSP)
  static const kernel of_few[2][3] = {TFLITE_FUSE_LOOPS_OF_FEW(5), TFLITE_FUSE_LOOPS_OF_FEW(7)};
  if (remaining <= 2 && stage->kernel_width > 3) {
    return of_few[(stage->kernel_width - 5) / 2][remaining == 1 ? 0 : stage->stride_width];
  }
#else
  (void)remaining;
#endif
  return of_4[(stage->kernel_width - 3) / 2][stage->stride_width - 1];
}

/* Computes value by value, for outputs that tflite_fuse_scale_down does not scale. */
static TFLITE_FUSE_NOINLINE TFLITE_FUSE_RARE void compute_any(const tflite_fuse_call* call) {
  const tflite_fuse_stage* stage = call->stage;
  const tflite_fuse_channel* entry = call->table;
  const int32_t width = stage->kernel_width;
  const int32_t pair_bytes = (width + 1) / 2 * 4, channel_bytes = TFLITE_FUSE_WEIGHT_BYTES(width);
  for (int32_t c = 0; c < call->output->channels; ++c, ++entry) {
    for (int32_t i = 0; i < call->count; ++i) {
      const int8_t* const* window = call->windows[0] + i * stage->stride_width * width;
      const int8_t* weights = call->weights + c * channel_bytes;
      int32_t sum = entry->bias;
      for (int32_t tap = 0; tap < width * width; ++tap) {
        const int32_t kx = tap / width, ky = tap % width; /* pixels are listed column by column */
        const int32_t at = ky == width - 1 ? kx : kx / 2 * 4 + ky % 2 * 2 + kx % 2;
        sum = tflite_fuse_mac(sum, window[tap][c], weights[ky / 2 * pair_bytes + at]);
      }
      call->outputs[i][c] = tflite_fuse_finish(sum, entry, call);
    }
  }
}

void tflite_fuse_depthwise_packed(const tflite_fuse_call* call) {
  const tflite_fuse_stage* stage = call->stage;
  if (!tflite_fuse_is_fast(call)) {
    compute_any(call);
    return;
  }
  job j;
  j.weights = call->weights;
  j.table = call->table;
  j.channels = call->output->channels;
  j.zero_point_half = 2 * call->output->zero_point + 1;
  j.call = call;
  for (int32_t i = 0; i < call->count; i += AT_ONCE) {
    j.window = call->windows[0] + i * stage->stride_width * stage->kernel_height;
    const int32_t remaining = call->count - i, windows_read = tflite_fuse_windows_read(stage, AT_ONCE, remaining);
    for (int32_t p = 0; p < AT_ONCE && p < windows_read; ++p) {
      j.outputs[p] = call->outputs[i + tflite_fuse_min(p, remaining - 1)];
    }
    kernel_for(stage, remaining, windows_read)(&j);
  }
  tflite_fuse_clamp_outputs(call);
}

#endif
