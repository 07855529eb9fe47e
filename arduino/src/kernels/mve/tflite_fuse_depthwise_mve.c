/* The packed depthwise convolution with Helium: eight channels of two neighbouring pixels at a time.
 *
 * Weights, which lie channel by channel, are brought together as int16 once for up to eight pixels, tap by tap in the
 * order of the pixels' pointers. The products of even and of odd lanes are int32. */
#include "tflite_fuse_mve.h"

#if TFLITE_FUSE_MVE

enum { AT_ONCE = 2, MOST_PIXELS = 2 * TFLITE_FUSE_DEPTHWISE_PIXELS, LANES = 8, MOST_TAPS = 7 * 7 };

/* The work on eight channels, or fewer, of some pixels. */
typedef struct {
  int32_t taps;
  int32_t channel;   /* the first one */
  mve_pred16_t some; /* the channels there are */
  int16_t weights[MOST_TAPS * LANES]; /* eight for each tap */
} job;

/* weights: of the first channel, those of the next are `apart` bytes further on. */
static void collect(job* j, const int8_t* weights, int32_t size, int32_t channels, int32_t apart) {
  const uint16x8_t lanes = vminq_u16(vidupq_n_u16(0, 1), vdupq_n_u16((uint16_t)(channels - 1)));
  const uint16x8_t offsets = vmulq_n_u16(lanes, (uint16_t)apart);
  const int32_t two_rows = (size + 1) / 2 * 4;
  int16_t* to = j->weights;
  for (int32_t kx = 0; kx < size; ++kx) {
    const int8_t* from = weights + kx / 2 * 4 + kx % 2;
    for (int32_t ky = size / 2; ky > 0; --ky, from += two_rows, to += 2 * LANES) {
      vstrhq_s16(to, vldrbq_gather_offset_s16(from, offsets));
      vstrhq_s16(to + LANES, vldrbq_gather_offset_s16(from + 2, offsets));
    }
    vstrhq_s16(to, vldrbq_gather_offset_s16(weights + size / 2 * two_rows + kx, offsets));
    to += LANES;
  }
}

TFLITE_FUSE_INLINE int16x8_t values_of(const int8_t* pixel, const job* j, bool are_all) {
  return are_all ? vldrbq_s16(pixel + j->channel) : vldrbq_z_s16(pixel + j->channel, j->some);
}

/* sums: eight per pixel. */
TFLITE_FUSE_INLINE void add_taps(const job* j, const int8_t* const* window_0, const int8_t* const* window_1,
                                 int32_t* sums, bool are_all) {
  const int16_t* weights = j->weights;
  int32x4_t even_0 = vdupq_n_s32(0), odd_0 = even_0, even_1 = even_0, odd_1 = even_0;
  for (int32_t t = j->taps; t > 0; --t, weights += LANES) {
    const int16x8_t w = vldrhq_s16(weights);
    const int16x8_t v_0 = values_of(*window_0++, j, are_all);
    even_0 = vaddq_s32(even_0, vmullbq_int_s16(v_0, w));
    odd_0 = vaddq_s32(odd_0, vmulltq_int_s16(v_0, w));
    const int16x8_t v_1 = values_of(*window_1++, j, are_all);
    even_1 = vaddq_s32(even_1, vmullbq_int_s16(v_1, w));
    odd_1 = vaddq_s32(odd_1, vmulltq_int_s16(v_1, w));
  }
  vst2q_s32(sums, ((int32x4x2_t){{even_0, odd_0}}));
  vst2q_s32(sums + LANES, ((int32x4x2_t){{even_1, odd_1}}));
}

static TFLITE_FUSE_NOINLINE void add_taps_of_all(const job* j, const int8_t* const* window_0,
                                                 const int8_t* const* window_1, int32_t* sums) {
  add_taps(j, window_0, window_1, sums, true);
}

static TFLITE_FUSE_NOINLINE void add_taps_of_some(const job* j, const int8_t* const* window_0,
                                                  const int8_t* const* window_1, int32_t* sums) {
  add_taps(j, window_0, window_1, sums, false);
}

/* All channels of up to eight pixels; sums of a last pixel are made in vain if their number is odd. */
static void compute(job* j, const tflite_fuse_call* call, const int8_t* const* window, int8_t* const* outputs,
                    int32_t pixels) {
  const int32_t size = call->stage->kernel_width, to_next = call->stage->stride_width * size;
  const int32_t channels = call->output->channels;
  const int32_t filter_bytes = size / 2 * ((size + 1) / 2 * 4) + (size + 3) / 4 * 4;
  const int8_t* weights = call->weights;
  j->taps = size * size;
  for (j->channel = 0; j->channel < channels; j->channel += LANES, weights += LANES * filter_bytes) {
    int32_t sums[MOST_PIXELS * LANES];
    const int32_t some = tflite_fuse_min(channels - j->channel, LANES);
    j->some = vctp16q((uint32_t)some);
    collect(j, weights, size, some, filter_bytes);
    for (int32_t p = 0; p < pixels; p += AT_ONCE) {
      const int8_t* const* first = window + p * to_next;
      const int8_t* const* second = p + 1 < pixels ? first + to_next : first;
      (some == LANES ? add_taps_of_all : add_taps_of_some)(j, first, second, sums + p * LANES);
    }
    for (int32_t c = 0; c < some; c += 4) {
      tflite_fuse_finish_4(call, j->channel + c, sums + c, LANES, outputs, pixels);
    }
  }
}

void tflite_fuse_depthwise_packed(const tflite_fuse_call* call) {
  const tflite_fuse_stage* stage = call->stage;
  job j;
  for (int32_t i = 0; i < call->count; i += MOST_PIXELS) {
    compute(&j, call, call->windows[0] + i * stage->stride_width * stage->kernel_height, call->outputs + i,
            tflite_fuse_min(call->count - i, MOST_PIXELS));
  }
}

#endif
