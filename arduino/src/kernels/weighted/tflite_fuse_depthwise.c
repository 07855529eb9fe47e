/* Computes int8 depthwise convolutions from plain weights: output channel c reads input channel c /
 * depth_multiplier alone.
 *
 * Weights: [tap row][tap column][output channel]. Usual windows have packed weights instead. Code that convolutions
 * along time use is optimised for speed, the rest for size. */
#include "../../executor/tflite_fuse_checks.h"
#include "../mve/tflite_fuse_depthwise_mve.h"
#include "../tflite_fuse_requantize.h"

/* Computes four channels of a pixel, each from the input channel of the same number. */
static void depthwise_4_channels(const tflite_fuse_call* call, int32_t index, int32_t channel) {
  const tflite_fuse_stage* stage = call->stage;
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const tflite_fuse_channel* table = (const tflite_fuse_channel*)call->table + channel;
  /* Convolutions along time have a single column of taps, which one loop reads like a row. */
  const bool is_column = stage->kernel_width == 1;
  const int32_t channels = call->output->channels, to_next = is_column ? call->columns : stage->dilation_width;
  const int32_t taps = is_column ? stage->kernel_height : stage->kernel_width;
  const int8_t* const* window = call->windows[0] + index * stage->stride_width;
  const int8_t* w = call->weights + channel;
  int32_t sums[4];
  int32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0;
  for (int32_t rows = is_column ? 1 : stage->kernel_height; rows > 0; --rows, window += call->columns) {
    const int8_t* const* tap = window;
    for (int32_t kx = taps; kx > 0; --kx, tap += to_next, w += channels) {
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

static TFLITE_FUSE_NOINLINE TFLITE_FUSE_RARE void depthwise_1_channel(const tflite_fuse_call* call, int32_t index,
                                                                      int32_t input_channel, int32_t channel) {
  const tflite_fuse_stage* stage = call->stage;
  const tflite_fuse_channel* table = call->table;
  const int8_t* const* window = call->windows[0] + index * stage->stride_width;
  const int8_t* w = call->weights + channel;
  const int32_t to_next = tflite_fuse_to_next_tap(stage);
  int32_t sum = 0;
  for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += call->columns) {
    const int8_t* const* tap = window;
    for (int32_t kx = 0; kx < stage->kernel_width; ++kx, tap += to_next, w += call->output->channels) {
      sum = tflite_fuse_mac(sum, (*tap)[input_channel], *w);
    }
  }
  call->outputs[index][channel] = tflite_fuse_requantize(sum, table[channel], tflite_fuse_range_of(call));
}

/* One function, because GCC inlines the computation of four channels into this loop only. Packed weights of a single
 * input channel are those of a convolution. */
static void depthwise(const tflite_fuse_call* call) {
  if (!TFLITE_FUSE_HAS_PLAIN_DEPTHWISE || is_packed(call->stage)) {
    (TFLITE_FUSE_HAS_PACKED_DEPTHWISE && call->inputs[0]->channels > 1 ? tflite_fuse_depthwise_packed
                                                                      : tflite_fuse_conv)(call);
    return;
  }
  const int32_t channels = call->output->channels;
  const int32_t multiplier = call->stage->depth_multiplier;
  const int32_t in_fours = multiplier == 1 ? channels - channels % 4 : 0;
  int32_t done = 0;
#if TFLITE_FUSE_MVE
  done = multiplier == 1 ? tflite_fuse_depthwise_eights(call) : 0;
#endif
  for (int32_t i = 0; i < call->count; ++i) {
    for (int32_t c = done; c < in_fours; c += 4) {
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

/* ---- The kind ---- */

static TFLITE_FUSE_RARE bool fits_multiplier(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  const tflite_fuse_tensor* input = tflite_fuse_input_of(block, stage, 0);
  return stage->depth_multiplier >= 1 &&
         tflite_fuse_volume(1, input->channels, stage->depth_multiplier) ==
             (uint32_t)block->tensors[stage->output].channels;
}

/* Returns the bytes of weights packed by pairs of rows, -1 if the window is not supported. */
static int64_t row_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                         const tflite_fuse_tensor* output) {
  const int32_t rows = stage->kernel_height, columns = stage->kernel_width;
  const bool fits_kernel =
      !tflite_fuse_is_halfword(stage) && stage->depth_multiplier == 1 && within(stage->kernel_width, 3, 7) &&
      columns % 2 == 1 && rows == columns && stage->stride_width <= 2 && stage->dilation_width == 1 &&
      TFLITE_FUSE_HAS_DEPTHWISE(stage->kernel_width, stage->stride_width) &&
      pointers_of_one(stage, input) + TFLITE_FUSE_DEPTHWISE_PIXELS <= TFLITE_FUSE_STACK_POINTERS;
  const int32_t pairs = rows / 2 * ((columns + 1) / 2 * 4), last = rows % 2 != 0 ? (columns + 3) / 4 * 4 : 0;
  return fits_kernel ? (int64_t)tflite_fuse_volume(1, pairs + last, output->channels) : -1;
}

static int64_t weight_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                            const tflite_fuse_tensor* output) {
  if (!is_packed(stage)) {
    return TFLITE_FUSE_HAS_PLAIN_DEPTHWISE
               ? (int64_t)tflite_fuse_volume(stage->kernel_height, stage->kernel_width, output->channels)
               : -1;
  }
  return input->channels == 1 ? tflite_fuse_quad_bytes(stage, input, output) : row_bytes(stage, input, output);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_depthwise = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .packed_pixels = TFLITE_FUSE_DEPTHWISE_PIXELS,
    .has_window = true,
    .has_padding = true,
    .cuts = true,
    .fits = fits_multiplier,
    .weight_bytes = weight_bytes,
    .table_is_sound = tflite_fuse_channels_are_sound,
    .compute = depthwise,
};
