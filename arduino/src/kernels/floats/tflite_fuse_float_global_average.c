/* Computes the average of each channel of a whole float32 tensor, summed as its pixels arrive. */
#include "tflite_fuse_floats.h"

static void sum(const tflite_fuse_call* call, int32_t position, void* sums) {
  (void)position;
  float* channel_sum = sums;
  for (int32_t i = 0; i < call->count; ++i) {
    const float* pixel = tflite_fuse_floats_at(call->windows[0][i]);
    for (int32_t c = 0; c < call->inputs[0]->channels; ++c) {
      channel_sum[c] += pixel[c];
    }
  }
}

static TFLITE_FUSE_RARE void finish(const tflite_fuse_call* call, const void* sums) {
  const float* channel_sum = sums;
  const tflite_fuse_bounds bounds = *(const tflite_fuse_bounds*)call->table;
  const float pixels = (float)tflite_fuse_pixels(call->inputs[0]); /* exact: at most 2^23 pixels */
  float* output = (float*)(void*)call->outputs[0];
  for (int32_t c = 0; c < call->output->channels; ++c) {
    output[c] = tflite_fuse_bounded(channel_sum[c] / pixels, bounds);
  }
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_float_global_average = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .sums = TFLITE_FUSE_SUMS_REALS,
    .keeps_channels = true,
    .reads_float = true,
    .writes_float = true,
    .table_is_sound = tflite_fuse_bounds_are_sound,
    .keep = tflite_fuse_floats_are_ready,
    .sum = sum,
    .finish = finish,
};
