/* Computes float32 fully connected layers: of one pixel as a convolution, of a tensor of several pixels as sums that
 * grow as pixels arrive.
 *
 * Weights: [output channel][input pixel][input channel], float32 or float16. */
#include "tflite_fuse_floats.h"

static void sum(const tflite_fuse_call* call, int32_t position, void* sums) {
  float* channel_sum = sums;
  const int32_t depth = call->inputs[0]->channels, channels = call->output->channels;
  const bool is_float16 = tflite_fuse_is_float16(call->stage);
  const size_t pixel = (size_t)depth * (is_float16 ? sizeof(uint16_t) : sizeof(float));
  const size_t filter = (size_t)tflite_fuse_pixels(call->inputs[0]) * pixel;
  for (int32_t c = 0; c < channels; c += TFLITE_FUSE_TOGETHER) {
    const int8_t* filters[TFLITE_FUSE_TOGETHER];
    float totals[TFLITE_FUSE_TOGETHER];
    for (int32_t k = 0; k < TFLITE_FUSE_TOGETHER; ++k) { /* absent channels repeat the last one, unused */
      const int32_t channel = tflite_fuse_min(c + k, channels - 1);
      filters[k] = call->weights + (size_t)channel * filter + (size_t)position * pixel;
      totals[k] = channel_sum[channel];
    }
    for (int32_t i = 0; i < call->count; ++i) {
      const float* values = tflite_fuse_floats_at(call->windows[0][i]);
      if (is_float16) {
        tflite_fuse_add_float16_products(values, depth, filters, totals);
      } else {
        tflite_fuse_add_products(values, depth, filters, totals);
      }
    }
    for (int32_t k = 0; k < TFLITE_FUSE_TOGETHER && c + k < channels; ++k) {
      channel_sum[c + k] = totals[k];
    }
  }
}

static TFLITE_FUSE_RARE void finish(const tflite_fuse_call* call, const void* sums) {
  const float* channel_sum = sums;
  const tflite_fuse_float_table* table = call->table;
  float* output = (float*)(void*)call->outputs[0];
  for (int32_t c = 0; c < call->output->channels; ++c) {
    output[c] = tflite_fuse_bounded(channel_sum[c] + table->bias[c], table->bounds);
  }
}

static TFLITE_FUSE_RARE int64_t weight_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                             const tflite_fuse_tensor* output) {
  const int64_t bytes = tflite_fuse_float_bytes(tflite_fuse_pixels(input), input->channels, output->channels);
  if (tflite_fuse_is_float16(stage)) {
    return bytes > INT32_MAX ? bytes : bytes / 2; /* too many stay too many */
  }
  return is_packed(stage) ? -1 : bytes;
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_float_fully_connected = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .sums = TFLITE_FUSE_SUMS_PRODUCTS,
    .keeps_extent = true,
    .reads_float = true,
    .writes_float = true,
    .weight_bytes = weight_bytes,
    .table_is_sound = tflite_fuse_float_table_is_sound,
    .keep = tflite_fuse_floats_are_ready,
    .compute = tflite_fuse_float_conv, /* inputs of one pixel */
    .sum = sum,
    .finish = finish,
};
