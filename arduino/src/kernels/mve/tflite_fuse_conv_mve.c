/* The packed convolution with Helium: four output channels of one pixel at a time, 16 values of its window at once.
 *
 * A quad of weights is a 32-bit word, so that loading every other word gives 16 weights of one channel. The window of
 * a pixel is copied together if it is small; if not, taps are read where they lie. Weights are looked up once for up to
 * eight pixels, and these are scaled when all their sums are there. */
#include "tflite_fuse_mve.h"

#if TFLITE_FUSE_MVE

enum { MOST_PIXELS = 8, PATCH_BYTES = 640, LANES = 16 };

/* The work on some pixels. */
typedef struct {
  const tflite_fuse_call* call;
  int32_t pixels, taps;
  int32_t weights;         /* of a channel and tap: the values of a tap, rounded up to a multiple of 4 */
  int32_t vectors;         /* whole ones of a tap */
  bool has_rest;           /* values behind them */
  mve_pred16_t rest;       /* these */
  uint32x4_t rest_offsets; /* to the words of one channel's weights */
  const int8_t* list[TFLITE_FUSE_MAX_LISTED_TAPS]; /* tap after tap, one pointer per pixel */
  int8_t patches[PATCH_BYTES + LANES]; /* copied windows */
} job;

/* ---- Pixels ---- */

/* Fills the last vector with zeros, over what is written next. */
static void copy(int8_t* to, const int8_t* from, int32_t count) {
  for (; count >= LANES; count -= LANES, to += LANES, from += LANES) {
    vstrbq_s8(to, vldrbq_s8(from));
  }
  if (count > 0) {
    vstrbq_s8(to, vldrbq_z_s8(from, vctp8q((uint32_t)count)));
  }
}

/* Copies what a pixel sees, each row with zeros to whole words. */
static void gather(const tflite_fuse_call* call, const int8_t* const* window, int8_t* patch) {
  const tflite_fuse_stage* stage = call->stage;
  const int32_t depth = call->inputs[0]->channels, width = stage->kernel_width;
  for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += call->columns, patch += (width * depth + 3) / 4 * 4) {
    if (stage->dilation_width == 1 && tflite_fuse_is_whole(call, window, width)) {
      copy(patch, *window, width * depth);
      continue;
    }
    for (int32_t kx = 0; kx < width; ++kx) {
      copy(patch + kx * depth, window[kx * stage->dilation_width], depth);
    }
  }
}

static void list_taps(job* j, const int8_t* const* window) {
  const tflite_fuse_stage* stage = j->call->stage;
  const int8_t** list = j->list;
  for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += j->call->columns) {
    for (int32_t kx = 0; kx < stage->kernel_width; ++kx) {
      const int8_t* const* tap = window + kx * stage->dilation_width;
      for (int32_t p = j->pixels; p > 0; --p, tap += stage->stride_width) {
        *list++ = *tap;
      }
    }
  }
}

/* ---- Sums ---- */

/* 16 values and the weights of two channels from v on, of two from w on. */
#define MAC_16(x, v0, v1, w0, w1)                     \
  do {                                                \
    a = vmladavaq_s8(a, x, vreinterpretq_s8_s32(v0)); \
    b = vmladavaq_s8(b, x, vreinterpretq_s8_s32(v1)); \
    c = vmladavaq_s8(c, x, vreinterpretq_s8_s32(w0)); \
    d = vmladavaq_s8(d, x, vreinterpretq_s8_s32(w1)); \
  } while (0)

/* Adds one tap of all pixels to their sums, four per pixel. A function of its own for the registers' sake. */
static TFLITE_FUSE_NOINLINE void add_tap(const job* j, const int8_t* const* tap, const int8_t* weights,
                                         const int8_t* others, int32_t* sums) {
  const mve_pred16_t rest = j->rest;
  const uint32x4_t offsets = j->rest_offsets;
  for (int32_t p = j->pixels; p > 0; --p, sums += 4) {
    const int8_t *x = *tap++, *v = weights, *w = others;
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
    for (int32_t i = j->vectors; i > 0; --i, x += LANES, v += 2 * LANES, w += 2 * LANES) {
      const int8x16_t values = vldrbq_s8(x);
      const int32x4x2_t first = vld2q_s32((const int32_t*)(const void*)v);
      const int32x4x2_t second = vld2q_s32((const int32_t*)(const void*)w);
      MAC_16(values, first.val[0], first.val[1], second.val[0], second.val[1]);
    }
    if (j->has_rest) {
      const int8x16_t values = vldrbq_z_s8(x, rest);
      const int32_t* first = (const int32_t*)(const void*)v;
      const int32_t* second = (const int32_t*)(const void*)w;
      MAC_16(values, vldrwq_gather_offset_s32(first, offsets), vldrwq_gather_offset_s32(first + 1, offsets),
             vldrwq_gather_offset_s32(second, offsets), vldrwq_gather_offset_s32(second + 1, offsets));
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
  }
}

/* The sums of four channels of one pixel: its values, and the weights of two channels each. */
TFLITE_FUSE_INLINE int32x4_t sums_of(const job* j, const int8_t* x, const int8_t* v, const int8_t* w) {
  int32_t a = 0, b = 0, c = 0, d = 0;
  for (int32_t i = j->vectors; i > 0; --i, x += LANES, v += 2 * LANES, w += 2 * LANES) {
    const int8x16_t values = vldrbq_s8(x);
    const int32x4x2_t first = vld2q_s32((const int32_t*)(const void*)v);
    const int32x4x2_t second = vld2q_s32((const int32_t*)(const void*)w);
    MAC_16(values, first.val[0], first.val[1], second.val[0], second.val[1]);
  }
  if (j->has_rest) {
    const int8x16_t values = vldrbq_z_s8(x, j->rest);
    const int32_t* first = (const int32_t*)(const void*)v;
    const int32_t* second = (const int32_t*)(const void*)w;
    const uint32x4_t offsets = j->rest_offsets;
    MAC_16(values, vldrwq_gather_offset_s32(first, offsets), vldrwq_gather_offset_s32(first + 1, offsets),
           vldrwq_gather_offset_s32(second, offsets), vldrwq_gather_offset_s32(second + 1, offsets));
  }
  return (int32x4_t){a, b, c, d};
}

/* ---- All channels of some pixels ---- */

/* Of windows in one piece, from sums to outputs without a detour through memory; layout DOWN. */
static TFLITE_FUSE_NOINLINE void compute_down(const job* j, int8_t* const* outputs) {
  const tflite_fuse_call* call = j->call;
  const tflite_fuse_channel* entry = call->table;
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const int32_t channels = call->output->channels, pair_bytes = 2 * j->weights;
  const int8_t* weights = call->weights;
  for (int32_t channel = 0; channel < channels; channel += 4, entry += 4, weights += 2 * pair_bytes) {
    const int32_t some = channels - channel;
    const int8_t* others = some > 2 ? weights + pair_bytes : weights;
    const tflite_fuse_mve_scale scale = tflite_fuse_mve_scale_of(entry, some);
    for (int32_t p = 0; p < j->pixels; ++p) {
      const int32x4_t sums = vaddq_s32(sums_of(j, j->list[p], weights, others), scale.bias);
      tflite_fuse_store_4(outputs[p] + channel, tflite_fuse_scale_4_down(sums, scale, range), some);
    }
  }
}

static void compute(const job* j, int8_t* const* outputs) {
  const int32_t channels = j->call->output->channels, tap_bytes = 2 * j->weights, pair_bytes = tap_bytes * j->taps;
  const int8_t* weights = j->call->weights;
  for (int32_t channel = 0; channel < channels; channel += 4, weights += 2 * pair_bytes) {
    const int8_t* others = channels - channel > 2 ? weights + pair_bytes : weights;
    int32_t sums[4 * MOST_PIXELS];
    for (int32_t p = 0; p < MOST_PIXELS; ++p) {
      vstrwq_s32(sums + 4 * p, vdupq_n_s32(0));
    }
    for (int32_t t = 0; t < j->taps; ++t) {
      add_tap(j, j->list + t * j->pixels, weights + t * tap_bytes, others + t * tap_bytes, sums);
    }
    tflite_fuse_finish_4(j->call, channel, sums, 4, outputs, j->pixels);
  }
}

static void set_length(job* j, int32_t length) {
  const int32_t rest = length % LANES;
  j->weights = (length + 3) / 4 * 4;
  j->vectors = length / LANES;
  j->has_rest = rest != 0;
  j->rest = vctp8q((uint32_t)rest);
  /* Where there are no weights, the last ones are read: they meet zeros. */
  j->rest_offsets = vminq_u32(vidupq_n_u32(0, 8), vdupq_n_u32((uint32_t)(rest + 3) / 4 * 8 - 8));
}

void tflite_fuse_conv_packed(const tflite_fuse_call* call) {
  const tflite_fuse_stage* stage = call->stage;
  const int32_t taps = stage->kernel_height * stage->kernel_width;
  const int32_t values = (int32_t)tflite_fuse_packed_values(stage, call->inputs[0]);
  const bool is_copied = taps > 1 && values <= PATCH_BYTES;
  const int32_t most = tflite_fuse_min(is_copied ? PATCH_BYTES / values : TFLITE_FUSE_MAX_LISTED_TAPS / taps, MOST_PIXELS);
  job j;
  j.call = call;
  j.taps = is_copied ? 1 : taps;
  const bool is_down = j.taps == 1 && stage->weight_layout == TFLITE_FUSE_LAYOUT_PACKED_DOWN;
  set_length(&j, is_copied ? values : call->inputs[0]->channels);
  for (int32_t i = 0; i < call->count; i += most) {
    const int8_t* const* window = call->windows[0] + i * stage->stride_width;
    j.pixels = tflite_fuse_min(most, call->count - i);
    if (is_copied) {
      for (int32_t p = 0; p < j.pixels; ++p) {
        j.list[p] = j.patches + p * values;
        gather(call, window + p * stage->stride_width, j.patches + p * values);
      }
    } else {
      list_taps(&j, window);
    }
    (is_down ? compute_down : compute)(&j, call->outputs + i);
  }
}

#endif
