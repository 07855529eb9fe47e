/* The rounded average of the pixels under a window. Pixels outside the image are 0 and do not count. */
#include "../executor/tflite_fuse_machine.h"
#include "tflite_fuse_requantize.h"

/* At least 1: prepare has seen to it, unless a hostile caller's input lies where the padding does. */
static int32_t count_inside(const tflite_fuse_call* call, const int8_t* const* window) {
  int32_t inside = 0;
  for (int32_t ky = 0; ky < call->stage->kernel_height; ++ky, window += call->columns) {
    for (int32_t kx = 0; kx < call->stage->kernel_width; ++kx) {
      inside += window[kx] != call->pad;
    }
  }
  return tflite_fuse_max(inside, 1);
}

static int32_t sum_channel(const tflite_fuse_call* call, const int8_t* const* window, int32_t channel) {
  int32_t sum = 0;
  for (int32_t ky = 0; ky < call->stage->kernel_height; ++ky, window += call->columns) {
    for (int32_t kx = 0; kx < call->stage->kernel_width; ++kx) {
      sum += window[kx][channel];
    }
  }
  return sum;
}

void tflite_fuse_average_pool(const tflite_fuse_call* call) {
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* const* window = call->windows[0] + i * call->stage->stride_width;
    const int32_t inside = count_inside(call, window);
    for (int32_t c = 0; c < call->output->channels; ++c) {
      const int32_t average = tflite_fuse_rounding_divide(sum_channel(call, window, c), inside);
      call->outputs[i][c] = tflite_fuse_clamp(average, call->stage->activation_min, call->stage->activation_max);
    }
  }
}
