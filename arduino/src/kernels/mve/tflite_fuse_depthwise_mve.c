/* Computes the packed depthwise convolution with Helium: eight channels of two neighbouring pixels at a time.
 *
 * Weights, stored channel by channel, are gathered as int16 once for all pixels of a call, tap by tap in the order of
 * the pixels' pointers. Products of even and odd lanes are int32 and stay separate until they are outputs. */
#include "tflite_fuse_depthwise_mve.h"

#if TFLITE_FUSE_MVE

enum { LANES = 8, MOST_TAPS = 7 * 7 };

/* A job: up to eight channels of all pixels of a call. */
typedef struct {
  int32_t taps;
  int32_t channel;   /* number of the first channel */
  mve_pred16_t lanes; /* lanes of existing channels */
  tflite_fuse_range range;
  tflite_fuse_mve_scale even, odd;
  int16_t weights[MOST_TAPS * LANES]; /* eight per tap */
} job;

/* Computes byte offsets of a channel's weights in the order of the pixels' pointers, column by column. */
static void find_places(uint8_t* places, int32_t size) {
  const int32_t two_rows = (size + 1) / 2 * 4;
  for (int32_t kx = 0; kx < size; ++kx) {
    int32_t place = kx / 2 * 4 + kx % 2;
    for (int32_t ky = size / 2; ky > 0; --ky, place += two_rows, places += 2) {
      places[0] = (uint8_t)place;
      places[1] = (uint8_t)(place + 2);
    }
    *places++ = (uint8_t)(size / 2 * two_rows + kx);
  }
}

/* Offsets for windows of 3 x 3. */
static const uint8_t PLACES_OF_3[] = {0, 2, 8, 1, 3, 9, 4, 6, 10};

/* Gathers the weights of `channels` channels, `apart` bytes apart. */
static void collect(job* j, const int8_t* weights, const uint8_t* places, int32_t channels, int32_t apart) {
  const uint16x8_t lanes = vminq_u16(vidupq_n_u16(0, 1), vdupq_n_u16((uint16_t)(channels - 1)));
  const uint16x8_t offsets = vmulq_n_u16(lanes, (uint16_t)apart);
  int16_t* to = j->weights;
  for (int32_t t = j->taps; t > 0; --t, to += LANES) {
    vstrhq_s16(to, vldrbq_gather_offset_s16(weights + *places++, offsets));
  }
}

/* Clamps scaled sums of a pixel and stores them. */
TFLITE_FUSE_INLINE void store_8(int8_t* output, int32x4_t even, int32x4_t odd, tflite_fuse_range range,
                                const mve_pred16_t* lanes) {
  const int16x8_t both = vqmovntq_s32(vqmovnbq_s32(vreinterpretq_s16_s32(even), even), odd);
  const int16x8_t low = vmaxq_s16(vqaddq_n_s16(both, (int16_t)range.zero_point), vdupq_n_s16((int16_t)range.low));
  const int16x8_t values = vminq_s16(low, vdupq_n_s16((int16_t)range.high));
  if (lanes == NULL) {
    vstrbq_s16(output, values);
  } else {
    vstrbq_p_s16(output, values, *lanes);
  }
}

/* Computes two pixels; the same pixel may be passed twice. */
TFLITE_FUSE_INLINE void compute_2(const job* j, const int8_t* const* window_0, const int8_t* const* window_1,
                                  int8_t* output_0, int8_t* output_1, bool is_down, bool are_all) {
  const int16_t* weights = j->weights;
  const int32_t channel = j->channel;
  int32x4_t even_0 = j->even.bias, odd_0 = j->odd.bias, even_1 = even_0, odd_1 = odd_0;
  for (int32_t t = j->taps; t > 0; --t, weights += LANES) {
    const int16x8_t w = vldrhq_s16(weights);
    const int8_t *p_0 = *window_0++ + channel, *p_1 = *window_1++ + channel;
    const int16x8_t v_0 = are_all ? vldrbq_s16(p_0) : vldrbq_z_s16(p_0, j->lanes);
    even_0 = vaddq_s32(even_0, vmullbq_int_s16(v_0, w));
    odd_0 = vaddq_s32(odd_0, vmulltq_int_s16(v_0, w));
    const int16x8_t v_1 = are_all ? vldrbq_s16(p_1) : vldrbq_z_s16(p_1, j->lanes);
    even_1 = vaddq_s32(even_1, vmullbq_int_s16(v_1, w));
    odd_1 = vaddq_s32(odd_1, vmulltq_int_s16(v_1, w));
  }
  const mve_pred16_t* lanes = are_all ? NULL : &j->lanes;
  store_8(output_0 + channel, tflite_fuse_scale_4(even_0, j->even, is_down),
          tflite_fuse_scale_4(odd_0, j->odd, is_down), j->range, lanes);
  store_8(output_1 + channel, tflite_fuse_scale_4(even_1, j->even, is_down),
          tflite_fuse_scale_4(odd_1, j->odd, is_down), j->range, lanes);
}

/* Computes pixels whose windows are `apart` pointers apart; the last pixel of an odd number is computed twice. */
TFLITE_FUSE_INLINE void compute(const job* j, const int8_t* const* window, int32_t apart, int8_t* const* outputs,
                                int32_t pixels, bool is_down, bool are_all) {
  for (; pixels > 1; pixels -= 2, window += 2 * apart, outputs += 2) {
    compute_2(j, window, window + apart, outputs[0], outputs[1], is_down, are_all);
  }
  if (pixels > 0) {
    compute_2(j, window, window, outputs[0], outputs[0], is_down, are_all);
  }
}

static TFLITE_FUSE_NOINLINE void compute_down(const job* j, const int8_t* const* window, int32_t apart,
                                              int8_t* const* outputs, int32_t pixels) {
  compute(j, window, apart, outputs, pixels, true, true);
}

static TFLITE_FUSE_NOINLINE void compute_any(const job* j, const int8_t* const* window, int32_t apart,
                                             int8_t* const* outputs, int32_t pixels, bool is_down) {
  compute(j, window, apart, outputs, pixels, is_down, false);
}

/* Computes channels from `first` on, at least one. */
static TFLITE_FUSE_NOINLINE void compute_from(const tflite_fuse_call* call, int32_t first) {
  const tflite_fuse_stage* stage = call->stage;
  const int32_t size = stage->kernel_width, apart = stage->stride_width * size, channels = call->output->channels;
  const int32_t filter_bytes = size / 2 * ((size + 1) / 2 * 4) + (size + 3) / 4 * 4;
  const bool is_down = stage->weight_layout == TFLITE_FUSE_LAYOUT_PACKED_DOWN;
  const tflite_fuse_channel* entry = (const tflite_fuse_channel*)call->table + first;
  const int8_t* weights = call->weights + first * filter_bytes;
  uint8_t computed[MOST_TAPS];
  const uint8_t* places = PLACES_OF_3;
  job j;
  if (size != 3) {
    find_places(computed, size);
    places = computed;
  }
  j.range = tflite_fuse_range_of(call);
  j.taps = size * size;
  j.lanes = vctp16q(LANES);
  uint32x4_t even = tflite_fuse_entries(vidupq_n_u32(0, 2), LANES);
  uint32x4_t odd = tflite_fuse_entries(vidupq_n_u32(1, 2), LANES);
  for (j.channel = first; j.channel < channels; j.channel += LANES, entry += LANES, weights += LANES * filter_bytes) {
    const int32_t in_group = tflite_fuse_min(channels - j.channel, LANES);
    if (in_group < LANES) {
      j.lanes = vctp16q((uint32_t)in_group);
      even = tflite_fuse_entries(vidupq_n_u32(0, 2), in_group);
      odd = tflite_fuse_entries(vidupq_n_u32(1, 2), in_group);
    }
    j.even = tflite_fuse_mve_scale_of(entry, even, is_down);
    j.odd = tflite_fuse_mve_scale_of(entry, odd, is_down);
    collect(&j, weights, places, in_group, filter_bytes);
    if (is_down && in_group == LANES) {
      compute_down(&j, call->windows[0], apart, call->outputs, call->count);
    } else {
      compute_any(&j, call->windows[0], apart, call->outputs, call->count, is_down);
    }
  }
}

#if TFLITE_FUSE_MVE_LOOPS

/* Computes all groups of eight channels under windows of 3 x 3 in layout PACKED_DOWN; returns the number
 * of channels. */
static int32_t compute_3(const tflite_fuse_call* call) {
  const int32_t stride = call->stage->stride_width;
  int8_t* const* outputs = call->outputs;
  tflite_fuse_depthwise_mve_run run;
  run.window = call->windows[0];
  run.weights = call->weights;
  run.entry = call->table;
  run.channels = call->output->channels & ~(LANES - 1);
  run.zero_point = call->output->zero_point;
  run.low = call->stage->activation_min;
  run.high = call->stage->activation_max;
  int32_t remaining = run.channels > 0 ? call->count : 0;
  for (int32_t done; remaining > 0; remaining -= done, outputs += done) {
    done = stride == 1 && remaining > 1 ? 2 : 1;
    run.outputs[0] = outputs[0];
    run.outputs[1] = outputs[done - 1];
    (done == 2 ? tflite_fuse_depthwise_mve_2 : tflite_fuse_depthwise_mve_1)(&run);
    run.window += 3 * stride * done;
  }
  return run.channels;
}

#endif

void tflite_fuse_depthwise_packed(const tflite_fuse_call* call) {
  int32_t done = 0;
#if TFLITE_FUSE_MVE_LOOPS
  if (call->stage->kernel_width == 3 && call->stage->weight_layout == TFLITE_FUSE_LAYOUT_PACKED_DOWN) {
    done = compute_3(call);
  }
#endif
  if (done < call->output->channels) {
    compute_from(call, done);
  }
}

#endif
