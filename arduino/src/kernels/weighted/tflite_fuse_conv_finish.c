/* Requantizes and clamps outputs of the packed kernels where tflite_fuse_scale_down does not apply, for the inner loops
 * of all cores. */
#include "tflite_fuse_conv_packed.h"

#if !TFLITE_FUSE_MVE

TFLITE_FUSE_RARE int8_t tflite_fuse_finish(int32_t sum, const tflite_fuse_channel* channel,
                                           const tflite_fuse_call* call) {
  const tflite_fuse_stage* stage = call->stage;
  const int32_t zero_point = call->output->zero_point;
  if (tflite_fuse_is_down(stage)) {
    const tflite_fuse_scale scale = tflite_fuse_scale_of(channel, 2 * zero_point + 1);
    return tflite_fuse_is_halfword(stage) ? tflite_fuse_scale_twice_down(sum, scale)
                                          : tflite_fuse_scale_down(sum, scale);
  }
  const int32_t scaled = tflite_fuse_multiply(sum, channel->multiplier, channel->shift);
  return tflite_fuse_clamp(tflite_fuse_wrapping_add(scaled, zero_point), stage->activation_min,
                           stage->activation_max);
}

void tflite_fuse_clamp_outputs(const tflite_fuse_call* call) {
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  if (range.low == INT8_MIN && range.high == INT8_MAX) {
    return;
  }
  for (int32_t i = 0; i < call->count; ++i) {
    int8_t* output = call->outputs[i];
    for (const int8_t* end = output + call->output->channels; output != end; ++output) {
      *output = tflite_fuse_clamp(*output, range.low, range.high);
    }
  }
}

void tflite_fuse_conv_finish(tflite_fuse_conv_job* j, const tflite_fuse_channel* entry, const int32_t* sums,
                             int32_t channels, int32_t pixels) {
  for (int32_t c = 0; c < channels && entry < j->end; ++c, ++entry) {
    for (int32_t p = 0; p < pixels; ++p) {
      *j->run.outputs[p]++ = tflite_fuse_finish(*sums++, entry, j->call);
    }
  }
}

#endif
