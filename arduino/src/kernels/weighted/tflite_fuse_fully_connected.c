/* A fully connected layer over a tensor of several pixels, summed up as they arrive.
 * Weights: [output channel][input pixel][input channel]. */
#include "../../executor/tflite_fuse_checks.h"
#include "../tflite_fuse_packed.h"

static void sum(const tflite_fuse_call* call, int32_t position, void* sums) {
  int32_t* channel_sum = sums;
  const int32_t depth = call->inputs[0]->channels;
  const size_t filter = (size_t)tflite_fuse_pixels(call->inputs[0]) * (size_t)depth;
  const int8_t* weights = call->weights + (size_t)position * (size_t)depth;
  for (int32_t c = 0; c < call->output->channels; ++c, weights += filter) {
    const int8_t* w = weights;
    int32_t total = channel_sum[c];
    for (int32_t i = 0; i < call->count; ++i) {
      total = tflite_fuse_add_products(total, call->windows[0][i], w, depth);
      w += depth;
    }
    channel_sum[c] = total;
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

static int64_t weight_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                            const tflite_fuse_tensor* output) {
  const int32_t pixels = tflite_fuse_pixels(input);
  if (is_packed(stage)) {
    return pixels == 1 ? tflite_fuse_quad_bytes(stage, input, output) : -1;
  }
  return pixels > 1 || TFLITE_FUSE_HAS_CONV(TFLITE_FUSE_LAYOUT_PLAIN)
             ? (int64_t)tflite_fuse_volume(pixels, input->channels, output->channels)
             : -1;
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_fully_connected = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .sums = TFLITE_FUSE_SUMS_PRODUCTS,
    .keeps_extent = true,
    .weight_bytes = weight_bytes,
    .table_is_sound = tflite_fuse_channels_are_sound,
    .compute = tflite_fuse_conv, /* of one pixel */
    .sum = sum,
    .finish = finish,
};
