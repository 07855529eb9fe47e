/* Computes float32 depthwise convolutions: output channel c reads input channel c / depth_multiplier alone.
 *
 * Weights: [tap row][tap column][output channel]. Taps outside the image are skipped. */
#include "tflite_fuse_floats.h"

/* Sums four channels of a pixel, each over the input channel of the same number. */
static void sum_four(const tflite_fuse_call* call, const int8_t* const* window, int32_t channel, float* sums) {
  const tflite_fuse_stage* stage = call->stage;
  const int32_t channels = call->output->channels;
  const float* w = tflite_fuse_floats_at(call->weights) + channel;
  float a0 = 0, a1 = 0, a2 = 0, a3 = 0;
  for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += call->columns) {
    const int8_t* const* tap = window;
    for (int32_t kx = 0; kx < stage->kernel_width; ++kx, tap += tflite_fuse_to_next_tap(stage), w += channels) {
      if (*tap == call->pad) {
        continue;
      }
      const float* x = tflite_fuse_floats_at(*tap) + channel;
      a0 = tflite_fuse_add_product(a0, x[0], w[0]);
      a1 = tflite_fuse_add_product(a1, x[1], w[1]);
      a2 = tflite_fuse_add_product(a2, x[2], w[2]);
      a3 = tflite_fuse_add_product(a3, x[3], w[3]);
    }
  }
  sums[0] = a0, sums[1] = a1, sums[2] = a2, sums[3] = a3;
}

static float sum_one(const tflite_fuse_call* call, const int8_t* const* window, int32_t channel) {
  const tflite_fuse_stage* stage = call->stage;
  const int32_t input_channel = channel / stage->depth_multiplier;
  const float* w = tflite_fuse_floats_at(call->weights) + channel;
  float sum = 0;
  for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += call->columns) {
    const int8_t* const* tap = window;
    for (int32_t kx = 0; kx < stage->kernel_width; ++kx, tap += tflite_fuse_to_next_tap(stage)) {
      if (*tap != call->pad) {
        sum = tflite_fuse_add_product(sum, tflite_fuse_floats_at(*tap)[input_channel], *w);
      }
      w += call->output->channels;
    }
  }
  return sum;
}

static void depthwise(const tflite_fuse_call* call) {
  const tflite_fuse_float_table* table = call->table;
  const int32_t channels = call->output->channels;
  const int32_t in_fours = call->stage->depth_multiplier == 1 ? channels - channels % 4 : 0;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* const* window = call->windows[0] + i * call->stage->stride_width;
    float* output = (float*)(void*)call->outputs[i];
    for (int32_t c = 0; c < in_fours; c += 4) {
      float sums[4];
      sum_four(call, window, c, sums);
      for (int32_t k = 0; k < 4; ++k) {
        output[c + k] = tflite_fuse_bounded(sums[k] + table->bias[c + k], table->bounds);
      }
    }
    for (int32_t c = in_fours; c < channels; ++c) {
      output[c] = tflite_fuse_bounded(sum_one(call, window, c) + table->bias[c], table->bounds);
    }
  }
}

static TFLITE_FUSE_RARE bool fits_multiplier(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  const tflite_fuse_tensor* input = tflite_fuse_input_of(block, stage, 0);
  return stage->depth_multiplier >= 1 &&
         tflite_fuse_volume(1, input->channels, stage->depth_multiplier) ==
             (uint32_t)block->tensors[stage->output].channels;
}

static TFLITE_FUSE_RARE int64_t weight_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                             const tflite_fuse_tensor* output) {
  (void)input;
  return is_packed(stage) ? -1 : tflite_fuse_float_bytes(stage->kernel_height, stage->kernel_width, output->channels);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_float_depthwise = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .has_window = true,
    .has_padding = true,
    .cuts = true,
    .reads_float = true,
    .writes_float = true,
    .fits = fits_multiplier,
    .weight_bytes = weight_bytes,
    .table_is_sound = tflite_fuse_float_table_is_sound,
    .keep = tflite_fuse_floats_are_ready,
    .compute = depthwise,
};
