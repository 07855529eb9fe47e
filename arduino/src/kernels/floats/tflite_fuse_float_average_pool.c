/* Computes the average of the float32 pixels under a window: their sum, row by row, divided by their number. Pixels
 * outside the image do not count. */
#include "tflite_fuse_floats.h"

static void average_pool(const tflite_fuse_call* call) {
  const tflite_fuse_stage* stage = call->stage;
  const tflite_fuse_bounds bounds = *(const tflite_fuse_bounds*)call->table;
  for (int32_t i = 0; i < call->count; ++i) {
    float* output = (float*)(void*)call->outputs[i];
    for (int32_t c = 0; c < call->output->channels; ++c) {
      const int8_t* const* window = call->windows[0] + i * stage->stride_width;
      float total = 0, inside = 0;
      for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += call->columns) {
        for (int32_t kx = 0; kx < stage->kernel_width; ++kx) {
          if (window[kx] != call->pad) {
            total += tflite_fuse_floats_at(window[kx])[c];
            inside += 1;
          }
        }
      }
      output[c] = tflite_fuse_bounded(total / inside, bounds);
    }
  }
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_float_average_pool = {
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
    .compute = average_pool,
};
