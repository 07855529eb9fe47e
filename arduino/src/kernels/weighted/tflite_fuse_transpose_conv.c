/* Computes int8 transposed convolutions: the input's pixels lie dilation rows and columns apart, and a window reads
 * those that it covers.
 *
 * Weights: [output channel][tap row][tap column][input channel], in reverse order: the last tap is at the start
 * of the window. */
#include "../../executor/tflite_fuse_checks.h"
#include "../tflite_fuse_requantize.h"

/* Adds the products of one input pixel, minus its zero point, to a sum. */
static int32_t add_pixel(int32_t sum, const int8_t* pixel, const int8_t* weights, int32_t depth, int32_t zero_point) {
  for (const int8_t* end = pixel + depth; pixel != end; ++pixel, ++weights) {
    sum = tflite_fuse_mac(sum, *pixel - zero_point, *weights);
  }
  return sum;
}

static void transpose_conv_pixel(const tflite_fuse_call* call, int32_t index) {
  const tflite_fuse_stage* stage = call->stage;
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const tflite_fuse_channel* table = call->table;
  const int32_t depth = call->inputs[0]->channels, zero_point = call->inputs[0]->zero_point;
  const int32_t taps_height = stage->kernel_height, taps_width = stage->kernel_width;
  const int32_t filter_size = taps_height * taps_width * depth;
  const int32_t x = call->x + index;
  const int32_t column = tflite_fuse_position(x - stage->pad_left, stage->dilation_width);
  /* Taps at the first row and column of input pixels under the window. */
  const int32_t below = taps_height - 1 - (call->first_row * stage->dilation_height - call->y + stage->pad_top);
  const int32_t beside = taps_width - 1 - (column * stage->dilation_width - x + stage->pad_left);
  const int8_t* const* first = call->windows[0] + (column - call->first_column);
  const int8_t* weights = call->weights;
  for (int32_t c = 0; c < call->output->channels; ++c, weights += filter_size) {
    const int8_t* const* row = first;
    int32_t sum = 0;
    for (int32_t ky = below; ky >= 0; ky -= stage->dilation_height, row += call->columns) {
      const int8_t* const* pixel = row;
      for (int32_t kx = beside; kx >= 0; kx -= stage->dilation_width, ++pixel) {
        sum = add_pixel(sum, *pixel, weights + (ky * taps_width + kx) * depth, depth, zero_point);
      }
    }
    call->outputs[index][c] = tflite_fuse_requantize(sum, table[c], range);
  }
}

static void transpose_conv(const tflite_fuse_call* call) {
  for (int32_t i = 0; i < call->count; ++i) {
    transpose_conv_pixel(call, i);
  }
}

static bool steps_by_one(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  (void)block;
  return stage->stride_height == 1 && stage->stride_width == 1;
}

static int64_t weight_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                            const tflite_fuse_tensor* output) {
  const int32_t taps = stage->kernel_height * stage->kernel_width;
  return is_packed(stage) ? -1 : (int64_t)tflite_fuse_volume(taps, input->channels, output->channels);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_transpose_conv = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .has_window = true,
    .has_padding = true,
    .spreads = true,
    .fits = steps_by_one,
    .weight_bytes = weight_bytes,
    .table_is_sound = tflite_fuse_channels_are_sound,
    .compute = transpose_conv,
};
