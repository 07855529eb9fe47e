/* Computes depthwise convolutions from plain weights with Helium, eight channels of a pixel at a time, depth
 * multiplier 1. */
#include "tflite_fuse_depthwise_mve.h"

#if TFLITE_FUSE_MVE

/* Adds the zero point to scaled sums and clamps them. */
static int32x4_t fit(int32x4_t scaled, tflite_fuse_range range) {
  const int32x4_t low = vmaxq_s32(vaddq_n_s32(scaled, range.zero_point), vdupq_n_s32(range.low));
  return vminq_s32(low, vdupq_n_s32(range.high));
}

int32_t tflite_fuse_depthwise_eights(const tflite_fuse_call* call) {
  const tflite_fuse_stage* stage = call->stage;
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  /* Convolutions along time have a single column of taps, which one loop reads like a row. */
  const bool is_column = stage->kernel_width == 1;
  const int32_t to_next = is_column ? call->columns : stage->dilation_width;
  const int32_t taps = is_column ? stage->kernel_height : stage->kernel_width;
  const int32_t rows = is_column ? 1 : stage->kernel_height;
  const int32_t all = call->output->channels, channels = all & ~7;
  const uint32x4_t entries = vmulq_n_u32(vidupq_n_u32(0, 2), sizeof(tflite_fuse_channel));
  const tflite_fuse_channel* entry = call->table;
  for (int32_t channel = 0; channel < channels; channel += 8, entry += 8) {
    const tflite_fuse_mve_scale even = tflite_fuse_mve_scale_of(entry, entries, false);
    const tflite_fuse_mve_scale odd = tflite_fuse_mve_scale_of(entry + 1, entries, false);
    for (int32_t i = 0; i < call->count; ++i) {
      const int8_t* const* window = call->windows[0] + i * stage->stride_width;
      const int8_t* weights = call->weights + channel;
      int32x4_t a = even.bias, b = odd.bias;
      for (int32_t remaining = rows; remaining > 0; --remaining, window += call->columns) {
        const int8_t* const* tap = window;
        for (int32_t kx = taps; kx > 0; --kx, tap += to_next, weights += all) {
          const int16x8_t value = vldrbq_s16(*tap + channel), weight = vldrbq_s16(weights);
          a = vaddq_s32(a, vmullbq_int_s16(value, weight));
          b = vaddq_s32(b, vmulltq_int_s16(value, weight));
        }
      }
      a = fit(tflite_fuse_scale_4(a, even, false), range);
      b = fit(tflite_fuse_scale_4(b, odd, false), range);
      vstrbq_s16(call->outputs[i] + channel, vqmovntq_s32(vqmovnbq_s32(vreinterpretq_s16_s32(a), a), b));
    }
  }
  return channels;
}

#endif
