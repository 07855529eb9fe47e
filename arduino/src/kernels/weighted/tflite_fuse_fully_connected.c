/* Computes int8 fully connected layers: of one pixel as a convolution, of a tensor of several pixels as sums that grow
 * as pixels arrive.
 *
 * Plain weights: [output channel][input pixel][input channel]; packed weights are those of a convolution with the whole
 * tensor as its window. */
#include "../../executor/tflite_fuse_checks.h"
#include "tflite_fuse_conv_packed.h"

/* Returns total + the products of one channel's plain weights from w on. Not inlined: its caller would have too
 * few registers. */
static TFLITE_FUSE_NOINLINE TFLITE_FUSE_OFTEN int32_t add_plain(int32_t total, const tflite_fuse_call* call,
                                                                const int8_t* w) {
  const int32_t depth = call->inputs[0]->channels;
  for (int32_t i = 0; i < call->count; ++i, w += depth) {
    total = tflite_fuse_add_products(total, call->windows[0][i], w, depth);
  }
  return total;
}

static TFLITE_FUSE_RARE void sum(const tflite_fuse_call* call, int32_t position, void* sums) {
  int32_t* channel_sum = sums;
  const int32_t depth = call->inputs[0]->channels;
  const size_t filter = (size_t)tflite_fuse_pixels(call->inputs[0]) * (size_t)depth;
  const int8_t* weights = call->weights + (size_t)position * (size_t)depth;
  if (TFLITE_FUSE_HAS_CONV(TFLITE_FUSE_LAYOUT_PACKED) && is_packed(call->stage)) {
    tflite_fuse_conv_add(call, position, channel_sum);
    return;
  }
  for (int32_t c = 0; c < call->output->channels; ++c, weights += filter) {
    channel_sum[c] = add_plain(channel_sum[c], call, weights);
  }
}

static TFLITE_FUSE_RARE void finish(const tflite_fuse_call* call, const void* sums) {
  const int32_t* channel_sum = sums;
  const tflite_fuse_channel* table = call->table;
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  for (int32_t c = 0; c < call->output->channels; ++c) {
    call->outputs[0][c] = tflite_fuse_requantize(channel_sum[c], table[c], range);
  }
}

static TFLITE_FUSE_RARE int64_t weight_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                             const tflite_fuse_tensor* output) {
  const int32_t pixels = tflite_fuse_pixels(input), channels = output->channels;
  if (is_packed(stage) && pixels == 1) {
    return tflite_fuse_quad_bytes(stage, input, output);
  }
  const bool is_summed = stage->weight_layout == TFLITE_FUSE_LAYOUT_PACKED && input->channels % 4 == 0 &&
                         TFLITE_FUSE_HAS_CONV(TFLITE_FUSE_LAYOUT_PACKED);
  const bool is_plain = !is_packed(stage) && (pixels > 1 || TFLITE_FUSE_HAS_CONV(TFLITE_FUSE_LAYOUT_PLAIN));
  const int32_t stored = is_summed ? (channels + 1) & ~1 : channels;
  return is_summed || is_plain ? (int64_t)tflite_fuse_volume(pixels, input->channels, stored) : -1;
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_fully_connected = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .sums = TFLITE_FUSE_SUMS_PRODUCTS,
    .keeps_extent = true,
    .weight_bytes = weight_bytes,
    .table_is_sound = tflite_fuse_channels_are_sound,
    .compute = tflite_fuse_conv, /* inputs of one pixel */
    .sum = sum,
    .finish = finish,
};
