/* Computes float32 transposed convolutions: the input's pixels lie dilation rows and columns apart, and a window reads
 * those that it covers. TFLM adds each input pixel to the outputs that its filter reaches, so products are added in the
 * order of the input's pixels.
 *
 * Weights: [output channel][tap row][tap column][input channel], in reverse order: the last tap is at the start
 * of the window. */
#include "tflite_fuse_floats.h"

static float add_pixel(float sum, const float* pixel, const float* weights, int32_t depth) {
  for (const float* end = pixel + depth; pixel != end; ++pixel, ++weights) {
    sum = tflite_fuse_add_product(sum, *pixel, *weights);
  }
  return sum;
}

static void transpose_conv_pixel(const tflite_fuse_call* call, int32_t index) {
  const tflite_fuse_stage* stage = call->stage;
  const tflite_fuse_float_table* table = call->table;
  const int32_t depth = call->inputs[0]->channels;
  const int32_t taps_height = stage->kernel_height, taps_width = stage->kernel_width;
  const size_t filter = (size_t)taps_height * (size_t)taps_width * (size_t)depth;
  const int32_t x = call->x + index;
  const int32_t column = tflite_fuse_position(x - stage->pad_left, stage->dilation_width);
  /* Taps at the first row and column of input pixels under the window. */
  const int32_t below = taps_height - 1 - (call->first_row * stage->dilation_height - call->y + stage->pad_top);
  const int32_t beside = taps_width - 1 - (column * stage->dilation_width - x + stage->pad_left);
  const int8_t* const* first = call->windows[0] + (column - call->first_column);
  const float* weights = tflite_fuse_floats_at(call->weights);
  float* output = (float*)(void*)call->outputs[index];
  for (int32_t c = 0; c < call->output->channels; ++c, weights += filter) {
    const int8_t* const* row = first;
    float sum = 0;
    for (int32_t ky = below; ky >= 0; ky -= stage->dilation_height, row += call->columns) {
      const int8_t* const* pixel = row;
      for (int32_t kx = beside; kx >= 0; kx -= stage->dilation_width, ++pixel) {
        if (*pixel != call->pad) {
          const float* of_tap = weights + (size_t)(ky * taps_width + kx) * (size_t)depth;
          sum = add_pixel(sum, tflite_fuse_floats_at(*pixel), of_tap, depth);
        }
      }
    }
    output[c] = tflite_fuse_bounded(sum + table->bias[c], table->bounds);
  }
}

static void transpose_conv(const tflite_fuse_call* call) {
  for (int32_t i = 0; i < call->count; ++i) {
    transpose_conv_pixel(call, i);
  }
}

static TFLITE_FUSE_RARE bool steps_by_one(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  (void)block;
  return stage->stride_height == 1 && stage->stride_width == 1;
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_float_transpose_conv = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .has_window = true,
    .has_padding = true,
    .spreads = true,
    .reads_float = true,
    .writes_float = true,
    .fits = steps_by_one,
    .weight_bytes = tflite_fuse_float_conv_bytes,
    .table_is_sound = tflite_fuse_float_table_is_sound,
    .keep = tflite_fuse_floats_are_ready,
    .compute = transpose_conv,
};
