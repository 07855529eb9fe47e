/* Computes the largest float32 value of each channel under a window, ignoring NaN as TFLM does. */
#include <float.h>

#include "tflite_fuse_floats.h"

static void max_pool(const tflite_fuse_call* call) {
  const tflite_fuse_stage* stage = call->stage;
  const tflite_fuse_bounds bounds = *(const tflite_fuse_bounds*)call->table;
  for (int32_t i = 0; i < call->count; ++i) {
    float* output = (float*)(void*)call->outputs[i];
    for (int32_t c = 0; c < call->output->channels; ++c) {
      const int8_t* const* window = call->windows[0] + i * stage->stride_width;
      float largest = -FLT_MAX;
      for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += call->columns) {
        for (int32_t kx = 0; kx < stage->kernel_width; ++kx) {
          if (window[kx] != call->pad) {
            const float value = tflite_fuse_floats_at(window[kx])[c];
            largest = largest < value ? value : largest;
          }
        }
      }
      output[c] = tflite_fuse_bounded(largest, bounds);
    }
  }
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_float_max_pool = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .has_window = true,
    .has_padding = true,
    .keeps_channels = true,
    .reads_float = true,
    .writes_float = true,
    .fits = tflite_fuse_pool_fits,
    .table_is_sound = tflite_fuse_bounds_are_sound,
    .keep = tflite_fuse_floats_are_ready,
    .compute = max_pool,
};
