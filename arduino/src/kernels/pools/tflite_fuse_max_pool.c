/* Computes the largest int8 value of each channel under a window. Pixels outside the image are -128, the
 * least value. */
#include "../../executor/tflite_fuse_checks.h"
#include "../tflite_fuse_requantize.h"

static int32_t largest(const tflite_fuse_call* call, const int8_t* const* window, int32_t channel) {
  int32_t most = INT8_MIN;
  for (int32_t ky = 0; ky < call->stage->kernel_height; ++ky, window += call->columns) {
    for (int32_t kx = 0; kx < call->stage->kernel_width; ++kx) {
      most = tflite_fuse_max(most, window[kx][channel]);
    }
  }
  return most;
}

static TFLITE_FUSE_RARE void max_pool(const tflite_fuse_call* call) {
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* const* window = call->windows[0] + i * call->stage->stride_width;
    for (int32_t c = 0; c < call->output->channels; ++c) {
      call->outputs[i][c] =
          tflite_fuse_clamp(largest(call, window, c), call->stage->activation_min, call->stage->activation_max);
    }
  }
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_max_pool = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .has_window = true,
    .has_padding = true,
    .keeps_channels = true,
    .fits = tflite_fuse_pool_fits,
    .compute = max_pool,
};
