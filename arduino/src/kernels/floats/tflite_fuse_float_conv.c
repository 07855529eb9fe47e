/* Computes float32 convolutions with any window: sums of products over taps, then input channels, then the bias; and
 * fully connected layers of one pixel, whose weights may be float16.
 *
 * Weights: [output channel][tap row][tap column][input channel]. Taps outside the image are skipped, as in TFLM: zero
 * times an infinite weight would be NaN. Input pixels that outputs replace are copied to the stack, 256 bytes at most. */
#include "tflite_fuse_floats.h"

/* Adds the products of one window to the sums of TFLITE_FUSE_TOGETHER channels, whose filters advance. */
static void sum_channels(const tflite_fuse_call* call, const int8_t* const* window, const int8_t** filters,
                         float* sums) {
  const tflite_fuse_stage* stage = call->stage;
  const int32_t depth = call->inputs[0]->channels;
  for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += call->columns) {
    const int8_t* const* tap = window;
    for (int32_t kx = 0; kx < stage->kernel_width; ++kx, tap += tflite_fuse_to_next_tap(stage)) {
      if (*tap == call->pad) {
        for (int32_t k = 0; k < TFLITE_FUSE_TOGETHER; ++k) {
          filters[k] += (size_t)depth * sizeof(float);
        }
      } else if (tflite_fuse_is_float16(stage)) {
        tflite_fuse_add_float16_products(tflite_fuse_floats_at(*tap), depth, filters, sums);
      } else {
        tflite_fuse_add_products(tflite_fuse_floats_at(*tap), depth, filters, sums);
      }
    }
  }
}

void tflite_fuse_float_conv(const tflite_fuse_call* call) {
  const tflite_fuse_stage* stage = call->stage;
  const tflite_fuse_float_table* table = call->table;
  const int32_t channels = call->output->channels;
  const size_t taps = (size_t)stage->kernel_height * (size_t)stage->kernel_width;
  const size_t depth = (size_t)call->inputs[0]->channels;
  const size_t filter = taps * depth * (tflite_fuse_is_float16(stage) ? sizeof(uint16_t) : sizeof(float));
  for (int32_t i = 0; i < call->count; ++i) {
    float copy[TFLITE_FUSE_MAX_COPIED_FLOATS];
    const int8_t* const copied = (const int8_t*)copy;
    const int8_t* const* window = call->windows[0] + i * stage->stride_width;
    /* Every channel needs all values of the pixel. No sound file replaces a larger one, or several. */
    if (call->output->overwrites != 0 && taps == 1 && depth <= TFLITE_FUSE_MAX_COPIED_FLOATS) {
      memcpy(copy, *window, depth * sizeof(float));
      window = &copied;
    }
    float* output = (float*)(void*)call->outputs[i];
    for (int32_t c = 0; c < channels; c += TFLITE_FUSE_TOGETHER) {
      const int8_t* filters[TFLITE_FUSE_TOGETHER];
      float sums[TFLITE_FUSE_TOGETHER] = {0};
      for (int32_t k = 0; k < TFLITE_FUSE_TOGETHER; ++k) {
        filters[k] = call->weights + (size_t)tflite_fuse_min(c + k, channels - 1) * filter;
      }
      sum_channels(call, window, filters, sums);
      for (int32_t k = 0; k < TFLITE_FUSE_TOGETHER && c + k < channels; ++k) {
        output[c + k] = tflite_fuse_bounded(sums[k] + table->bias[c + k], table->bounds);
      }
    }
  }
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_float_conv = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .has_window = true,
    .has_padding = true,
    .cuts = true,
    .reads_float = true,
    .writes_float = true,
    .weight_bytes = tflite_fuse_float_conv_bytes,
    .table_is_sound = tflite_fuse_float_table_is_sound,
    .keep = tflite_fuse_floats_are_ready,
    .compute = tflite_fuse_float_conv,
};
