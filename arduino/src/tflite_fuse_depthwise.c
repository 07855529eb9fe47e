/* Depthwise convolution: output channel c sees input channel c / depth_multiplier alone.
 * Weights: [tap row][tap column][output channel]. */
#include "tflite_fuse_machine.h"
#include "tflite_fuse_requantize.h"

/* Four channels, each from its own input channel, of two pixels: twelve loads feed eight products. The two may be the
 * same pixel. */
static void depthwise_4_channels(const tflite_fuse_call* call, int32_t first, int32_t second, int32_t channel) {
  const tflite_fuse_stage* stage = call->stage;
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const tflite_fuse_channel* table = (const tflite_fuse_channel*)call->table + channel;
  const int32_t channels = call->output->channels, dilation = stage->dilation_width;
  const int32_t apart = (second - first) * stage->stride_width;
  const int8_t* const* window = call->windows[0] + first * stage->stride_width;
  const int8_t* w = call->weights + channel;
  int32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0;
  for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += call->columns) {
    const int8_t* const* tap = window;
    for (int32_t kx = stage->kernel_width; kx > 0; --kx, tap += dilation, w += channels) {
      const int8_t* x = tap[0] + channel;
      const int8_t* y = tap[apart] + channel;
      a0 = tflite_fuse_mac(a0, x[0], w[0]);
      b0 = tflite_fuse_mac(b0, y[0], w[0]);
      a1 = tflite_fuse_mac(a1, x[1], w[1]);
      b1 = tflite_fuse_mac(b1, y[1], w[1]);
      a2 = tflite_fuse_mac(a2, x[2], w[2]);
      b2 = tflite_fuse_mac(b2, y[2], w[2]);
      a3 = tflite_fuse_mac(a3, x[3], w[3]);
      b3 = tflite_fuse_mac(b3, y[3], w[3]);
    }
  }
  int8_t* out_a = call->outputs[first] + channel;
  int8_t* out_b = call->outputs[second] + channel;
  const tflite_fuse_channel t0 = table[0], t1 = table[1], t2 = table[2], t3 = table[3];
  out_a[0] = tflite_fuse_requantize(a0, t0, range);
  out_a[1] = tflite_fuse_requantize(a1, t1, range);
  out_a[2] = tflite_fuse_requantize(a2, t2, range);
  out_a[3] = tflite_fuse_requantize(a3, t3, range);
  if (second != first) {
    out_b[0] = tflite_fuse_requantize(b0, t0, range);
    out_b[1] = tflite_fuse_requantize(b1, t1, range);
    out_b[2] = tflite_fuse_requantize(b2, t2, range);
    out_b[3] = tflite_fuse_requantize(b3, t3, range);
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
  const int32_t channels = call->output->channels;
  const int32_t multiplier = call->stage->depth_multiplier;
  const int32_t in_fours = multiplier == 1 ? channels - channels % 4 : 0;
  for (int32_t i = 0; i < call->count; i += 2) {
    const int32_t second = tflite_fuse_min(i + 1, call->count - 1);
    for (int32_t c = 0; c < in_fours; c += 4) {
      depthwise_4_channels(call, i, second, c);
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
