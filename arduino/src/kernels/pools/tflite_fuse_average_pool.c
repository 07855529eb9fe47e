/* Computes the rounded average of the int8 pixels under a window. Pixels outside the image are 0 and do not count. */
#include "../../executor/tflite_fuse_checks.h"
#include "../tflite_fuse_requantize.h"

/* Returns the number of pixels inside the image, at least 1: prepare checks it, but a hostile caller's input may lie at
 * the address of the padding. */
static int32_t count_inside(const tflite_fuse_call* call, const int8_t* const* window) {
  int32_t inside = 0;
  for (int32_t ky = 0; ky < call->stage->kernel_height; ++ky, window += call->columns) {
    for (int32_t kx = 0; kx < call->stage->kernel_width; ++kx) {
      inside += window[kx] != call->pad;
    }
  }
  return tflite_fuse_max(inside, 1);
}

static TFLITE_FUSE_RARE int32_t sum_channel(const tflite_fuse_call* call, const int8_t* const* window,
                                            int32_t channel) {
  int32_t sum = 0;
  for (int32_t ky = 0; ky < call->stage->kernel_height; ++ky, window += call->columns) {
    for (int32_t kx = 0; kx < call->stage->kernel_width; ++kx) {
      sum += window[kx][channel];
    }
  }
  return sum;
}

static TFLITE_FUSE_RARE void average_pool(const tflite_fuse_call* call) {
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* const* window = call->windows[0] + i * call->stage->stride_width;
    const int32_t inside = count_inside(call, window);
    for (int32_t c = 0; c < call->output->channels; ++c) {
      const int32_t average = tflite_fuse_rounding_divide(sum_channel(call, window, c), inside);
      call->outputs[i][c] = tflite_fuse_clamp(average, call->stage->activation_min, call->stage->activation_max);
    }
  }
}

/* Returns whether every window contains a pixel of the image; otherwise the average would divide by zero. */
TFLITE_FUSE_RARE bool tflite_fuse_pool_fits(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  const tflite_fuse_tensor* input = tflite_fuse_input_of(block, stage, 0);
  const tflite_fuse_tensor* output = &block->tensors[stage->output];
  return stage->dilation_height == 1 && stage->dilation_width == 1 && stage->pad_top < stage->kernel_height &&
         stage->pad_left < stage->kernel_width &&
         reach(output->height, stage->stride_height, 1, 1, stage->pad_top) < input->height &&
         reach(output->width, stage->stride_width, 1, 1, stage->pad_left) < input->width;
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_average_pool = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .has_window = true,
    .has_padding = true,
    .keeps_channels = true,
    .fits = tflite_fuse_pool_fits,
    .compute = average_pool,
};
