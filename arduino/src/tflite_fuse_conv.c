/* Convolution with any window: sums of int8 products over taps and input channels.
 * Weights: [output channel][tap row][tap column][input channel]. A 1x1 convolution is a window of one tap. */
#include "tflite_fuse_machine.h"
#include "tflite_fuse_requantize.h"

enum { PIXELS = 4, CHANNELS = 4 };

typedef struct {
  int32_t taps_height, taps_width, stride, dilation, columns; /* of the window */
  int32_t depth;                                              /* input channels */
  int32_t filter;                                             /* weights per output channel */
} shape;

/* Two output channels of four pixels: six loads feed eight products. */
static void sum_4_pixels(const int8_t* const* window, const shape* s, const int8_t* filter_0, const int8_t* filter_1,
                         int32_t sums[2][PIXELS]) {
  int32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0;
  for (int32_t ky = 0; ky < s->taps_height; ++ky, window += s->columns) {
    const int8_t* const* tap = window;
    for (int32_t kx = 0; kx < s->taps_width; ++kx, tap += s->dilation) {
      const int8_t* x0 = tap[0];
      const int8_t* x1 = tap[s->stride];
      const int8_t* x2 = tap[2 * s->stride];
      const int8_t* x3 = tap[3 * s->stride];
      for (int32_t i = 0; i < s->depth; ++i) {
        const int32_t w0 = *filter_0++, w1 = *filter_1++;
        const int32_t v0 = x0[i], v1 = x1[i], v2 = x2[i], v3 = x3[i];
        a0 = tflite_fuse_mac(a0, v0, w0);
        a1 = tflite_fuse_mac(a1, v1, w0);
        a2 = tflite_fuse_mac(a2, v2, w0);
        a3 = tflite_fuse_mac(a3, v3, w0);
        b0 = tflite_fuse_mac(b0, v0, w1);
        b1 = tflite_fuse_mac(b1, v1, w1);
        b2 = tflite_fuse_mac(b2, v2, w1);
        b3 = tflite_fuse_mac(b3, v3, w1);
      }
    }
  }
  sums[0][0] = a0, sums[0][1] = a1, sums[0][2] = a2, sums[0][3] = a3;
  sums[1][0] = b0, sums[1][1] = b1, sums[1][2] = b2, sums[1][3] = b3;
}

/* Four output channels of one pixel: five loads feed four products. */
static void sum_4_channels(const int8_t* const* window, const shape* s, const int8_t* const filters[CHANNELS],
                           int32_t sums[CHANNELS]) {
  const int8_t *f0 = filters[0], *f1 = filters[1], *f2 = filters[2], *f3 = filters[3];
  int32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0;
  for (int32_t ky = 0; ky < s->taps_height; ++ky, window += s->columns) {
    const int8_t* const* tap = window;
    for (int32_t kx = 0; kx < s->taps_width; ++kx, tap += s->dilation) {
      const int8_t* x = *tap;
      for (int32_t i = 0; i < s->depth; ++i) {
        const int32_t v = x[i];
        a0 = tflite_fuse_mac(a0, v, *f0++);
        a1 = tflite_fuse_mac(a1, v, *f1++);
        a2 = tflite_fuse_mac(a2, v, *f2++);
        a3 = tflite_fuse_mac(a3, v, *f3++);
      }
    }
  }
  sums[0] = a0, sums[1] = a1, sums[2] = a2, sums[3] = a3;
}

static void conv_4_pixels(const tflite_fuse_call* call, const shape* s, int32_t first) {
  const tflite_fuse_channel* table = call->table;
  const int8_t* const* window = call->windows[0] + first * s->stride;
  int8_t* const* outputs = call->outputs + first;
  for (int32_t c = 0; c < call->output->channels; c += 2) {
    const int32_t pair = tflite_fuse_min(2, call->output->channels - c);
    const int8_t* filter = call->weights + (size_t)c * (size_t)s->filter;
    int32_t sums[2][PIXELS];
    sum_4_pixels(window, s, filter, pair == 2 ? filter + s->filter : filter, sums);
    for (int32_t k = 0; k < pair; ++k) {
      for (int32_t i = 0; i < PIXELS; ++i) {
        outputs[i][c + k] = tflite_fuse_requantize(sums[k][i], &table[c + k], call->output->zero_point, call->stage);
      }
    }
  }
}

static void conv_1_pixel(const tflite_fuse_call* call, const shape* s, int32_t index) {
  const tflite_fuse_channel* table = call->table;
  const int8_t* const* window = call->windows[0] + index * s->stride;
  int8_t* output = call->outputs[index];
  for (int32_t c = 0; c < call->output->channels; c += CHANNELS) {
    const int32_t some = tflite_fuse_min(CHANNELS, call->output->channels - c);
    const int8_t* filters[CHANNELS];
    int32_t sums[CHANNELS];
    for (int32_t k = 0; k < CHANNELS; ++k) {
      filters[k] = call->weights + (size_t)(c + (k < some ? k : 0)) * (size_t)s->filter;
    }
    sum_4_channels(window, s, filters, sums);
    for (int32_t k = 0; k < some; ++k) {
      output[c + k] = tflite_fuse_requantize(sums[k], &table[c + k], call->output->zero_point, call->stage);
    }
  }
}

void tflite_fuse_conv(const tflite_fuse_call* call) {
  const tflite_fuse_stage* stage = call->stage;
  const int32_t depth = call->inputs[0]->channels;
  const shape s = {
      .taps_height = stage->kernel_height,
      .taps_width = stage->kernel_width,
      .stride = stage->stride_width,
      .dilation = stage->dilation_width,
      .columns = call->columns,
      .depth = depth,
      .filter = stage->kernel_height * stage->kernel_width * depth,
  };
  int32_t i = 0;
  for (; i + PIXELS <= call->count; i += PIXELS) {
    conv_4_pixels(call, &s, i);
  }
  for (; i < call->count; ++i) {
    conv_1_pixel(call, &s, i);
  }
}
