/* Depthwise convolution: output channel c sees input channel c / depth_multiplier alone.
 * Weights: [tap row][tap column][output channel]. */
#include "tflite_fuse_machine.h"
#include "tflite_fuse_requantize.h"

enum { CHANNELS = 4 };

static int8_t finish(const tflite_fuse_call* call, int32_t sum, int32_t channel) {
  const tflite_fuse_channel* table = call->table;
  return tflite_fuse_requantize(sum, &table[channel], call->output->zero_point, call->stage);
}

/* Four channels, each from its own input channel. */
static void depthwise_4_channels(const tflite_fuse_call* call, const int8_t* const* window, int32_t channel,
                                 int8_t* output) {
  const tflite_fuse_stage* stage = call->stage;
  const int32_t channels = call->output->channels;
  const int8_t* w = call->weights + channel;
  int32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0;
  for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += call->columns) {
    const int8_t* const* tap = window;
    for (int32_t kx = 0; kx < stage->kernel_width; ++kx, tap += stage->dilation_width, w += channels) {
      const int8_t* x = *tap + channel;
      a0 = tflite_fuse_mac(a0, x[0], w[0]);
      a1 = tflite_fuse_mac(a1, x[1], w[1]);
      a2 = tflite_fuse_mac(a2, x[2], w[2]);
      a3 = tflite_fuse_mac(a3, x[3], w[3]);
    }
  }
  output[channel] = finish(call, a0, channel);
  output[channel + 1] = finish(call, a1, channel + 1);
  output[channel + 2] = finish(call, a2, channel + 2);
  output[channel + 3] = finish(call, a3, channel + 3);
}

static int8_t depthwise_1_channel(const tflite_fuse_call* call, const int8_t* const* window, int32_t input_channel,
                                  int32_t channel) {
  const tflite_fuse_stage* stage = call->stage;
  const int8_t* w = call->weights + channel;
  int32_t sum = 0;
  for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += call->columns) {
    const int8_t* const* tap = window;
    for (int32_t kx = 0; kx < stage->kernel_width; ++kx, tap += stage->dilation_width) {
      sum = tflite_fuse_mac(sum, (*tap)[input_channel], *w);
      w += call->output->channels;
    }
  }
  return finish(call, sum, channel);
}

void tflite_fuse_depthwise(const tflite_fuse_call* call) {
  const int32_t channels = call->output->channels;
  const int32_t multiplier = call->stage->depth_multiplier;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* const* window = call->windows[0] + i * call->stage->stride_width;
    int8_t* output = call->outputs[i];
    int32_t c = 0;
    for (; multiplier == 1 && c + CHANNELS <= channels; c += CHANNELS) {
      depthwise_4_channels(call, window, c, output);
    }
    for (int32_t input = c / multiplier, left = multiplier; c < channels; ++c) {
      output[c] = depthwise_1_channel(call, window, input, c);
      if (--left == 0) {
        left = multiplier;
        ++input;
      }
    }
  }
}
