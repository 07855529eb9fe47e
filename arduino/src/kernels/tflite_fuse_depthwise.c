/* Depthwise convolution: output channel c sees input channel c / depth_multiplier alone.
 * Plain weights: [tap row][tap column][output channel]. */
#include "../executor/tflite_fuse_machine.h"
#include "tflite_fuse_requantize.h"

/* Four channels, each from its own input channel. */
static void depthwise_4_channels(const tflite_fuse_call* call, int32_t index, int32_t channel) {
  const tflite_fuse_stage* stage = call->stage;
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const tflite_fuse_channel* table = (const tflite_fuse_channel*)call->table + channel;
  const int32_t channels = call->output->channels, dilation = stage->dilation_width;
  const int8_t* const* window = call->windows[0] + index * stage->stride_width;
  const int8_t* w = call->weights + channel;
  int32_t sums[4];
  int32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0;
  for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += call->columns) {
    const int8_t* const* tap = window;
    for (int32_t kx = stage->kernel_width; kx > 0; --kx, tap += dilation, w += channels) {
      const int8_t* x = *tap + channel;
      a0 = tflite_fuse_mac(a0, x[0], w[0]);
      a1 = tflite_fuse_mac(a1, x[1], w[1]);
      a2 = tflite_fuse_mac(a2, x[2], w[2]);
      a3 = tflite_fuse_mac(a3, x[3], w[3]);
    }
  }
  sums[0] = a0, sums[1] = a1, sums[2] = a2, sums[3] = a3;
  for (int32_t k = 0; k < 4; ++k) {
    call->outputs[index][channel + k] = tflite_fuse_requantize(sums[k], table[k], range);
  }
}

static void depthwise_1_channel(const tflite_fuse_call* call, int32_t index, int32_t input_channel, int32_t channel) {
  const tflite_fuse_stage* stage = call->stage;
  const tflite_fuse_channel* table = call->table;
  const int8_t* const* window = call->windows[0] + index * stage->stride_width;
  const int8_t* w = call->weights + channel;
  int32_t sum = 0;
  for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += call->columns) {
    const int8_t* const* tap = window;
    for (int32_t kx = 0; kx < stage->kernel_width; ++kx, tap += stage->dilation_width, w += call->output->channels) {
      sum = tflite_fuse_mac(sum, (*tap)[input_channel], *w);
    }
  }
  call->outputs[index][channel] = tflite_fuse_requantize(sum, table[channel], tflite_fuse_range_of(call));
}

void tflite_fuse_depthwise(const tflite_fuse_call* call) {
  if (call->stage->weight_layout != TFLITE_FUSE_LAYOUT_PLAIN) {
    if (tflite_fuse_packs_as_conv(call->stage, call->inputs[0])) {
      tflite_fuse_conv_packed(call);
    } else {
      tflite_fuse_depthwise_packed(call);
    }
    return;
  }
  const int32_t channels = call->output->channels;
  const int32_t multiplier = call->stage->depth_multiplier;
  const int32_t in_fours = multiplier == 1 ? channels - channels % 4 : 0;
  for (int32_t i = 0; i < call->count; ++i) {
    for (int32_t c = 0; c < in_fours; c += 4) {
      depthwise_4_channels(call, i, c);
    }
  }
  for (int32_t i = 0; i < call->count && in_fours < channels; ++i) {
    int32_t channel = in_fours;
    for (int32_t input_channel = in_fours; channel < channels; ++input_channel) {
      for (int32_t k = 0; k < multiplier; ++k, ++channel) {
        depthwise_1_channel(call, i, input_channel, channel);
      }
    }
  }
}
