/* Computes int8 convolutions with any window from plain weights: sums of products over taps and input channels.
 *
 * Weights: [output channel][tap row][tap column][input channel]. Nearly all convolutions have packed weights, so this
 * code is optimised for size. */
#include "../../executor/tflite_fuse_checks.h"
#include "../tflite_fuse_requantize.h"

/* Computes one pixel, four output channels at a time: five loads feed four products. */
static TFLITE_FUSE_RARE void conv_1_pixel(const tflite_fuse_call* call, int32_t index) {
  const tflite_fuse_stage* stage = call->stage;
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const tflite_fuse_channel* table = call->table;
  const int32_t taps_height = stage->kernel_height, taps_width = stage->kernel_width;
  const int32_t depth = call->inputs[0]->channels, channels = call->output->channels;
  const int32_t filter_size = taps_height * taps_width * depth;
  const int8_t* const* window = call->windows[0] + index * stage->stride_width;
  int8_t* output = call->outputs[index];

  for (int32_t c = 0; c < channels; c += 4) {
    const int32_t in_group = tflite_fuse_min(channels - c, 4); /* absent channels repeat the last one, unused */
    const int8_t* w0 = call->weights + (size_t)c * (size_t)filter_size;
    const int8_t* w1 = in_group > 1 ? w0 + filter_size : w0;
    const int8_t* w2 = in_group > 2 ? w1 + filter_size : w1;
    const int8_t* w3 = in_group > 3 ? w2 + filter_size : w2;
    int32_t sums[4];
    int32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0;
    for (int32_t ky = 0; ky < taps_height; ++ky) {
      const int8_t* const* tap = window + ky * call->columns;
      for (int32_t kx = 0; kx < taps_width; ++kx, tap += tflite_fuse_to_next_tap(stage)) {
        const int8_t* x = *tap;
        for (const int8_t* end = x + depth; x != end; ++x) {
          a0 = tflite_fuse_mac(a0, *x, *w0++);
          a1 = tflite_fuse_mac(a1, *x, *w1++);
          a2 = tflite_fuse_mac(a2, *x, *w2++);
          a3 = tflite_fuse_mac(a3, *x, *w3++);
        }
      }
    }
    sums[0] = a0, sums[1] = a1, sums[2] = a2, sums[3] = a3;
    for (int32_t k = 0; k < in_group; ++k) {
      output[c + k] = tflite_fuse_requantize(sums[k], table[c + k], range);
    }
  }
}

static void conv_plain(const tflite_fuse_call* call) {
  for (int32_t i = 0; i < call->count; ++i) {
    conv_1_pixel(call, i);
  }
}

#define TFLITE_FUSE_LOOP(LAYOUT, loop) \
  [TFLITE_FUSE_LAYOUT_##LAYOUT] = TFLITE_FUSE_HAS_CONV(TFLITE_FUSE_LAYOUT_##LAYOUT) ? (loop) : NULL

void tflite_fuse_conv(const tflite_fuse_call* call) {
  static const tflite_fuse_kernel loops[] = {
      TFLITE_FUSE_LOOP(PLAIN, conv_plain),
      TFLITE_FUSE_LOOP(PACKED_DOWN, tflite_fuse_conv_packed),
      TFLITE_FUSE_LOOP(PACKED, tflite_fuse_conv_packed),
      TFLITE_FUSE_LOOP(INT16_DOWN, tflite_fuse_conv_int16),
      TFLITE_FUSE_LOOP(PAIRED_DOWN, tflite_fuse_conv_paired),
  };
  loops[call->stage->weight_layout](call);
}

static TFLITE_FUSE_RARE int64_t weight_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                             const tflite_fuse_tensor* output) {
  const int32_t taps = stage->kernel_height * stage->kernel_width;
  if (is_packed(stage)) {
    return tflite_fuse_quad_bytes(stage, input, output);
  }
  return TFLITE_FUSE_HAS_CONV(TFLITE_FUSE_LAYOUT_PLAIN)
             ? (int64_t)tflite_fuse_volume(taps, input->channels, output->channels)
             : -1;
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_conv = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .has_window = true,
    .has_padding = true,
    .cuts = true,
    .weight_bytes = weight_bytes,
    .table_is_sound = tflite_fuse_channels_are_sound,
    .compute = tflite_fuse_conv,
};
