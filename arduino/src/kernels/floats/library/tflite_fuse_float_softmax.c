/* Computes float32 softmax over the channels of each pixel with the C library's expf. */
#include <float.h>
#include <math.h>

#include "../tflite_fuse_floats.h"

static void softmax(const tflite_fuse_call* call) {
  const float factor = *(const float*)call->table;
  const int32_t channels = call->output->channels;
  for (int32_t i = 0; i < call->count; ++i) {
    const float* value = tflite_fuse_floats_at(call->windows[0][i]);
    float* output = (float*)(void*)call->outputs[i];
    float largest = -FLT_MAX, sum = 0;
    for (int32_t c = 0; c < channels; ++c) {
      largest = largest < value[c] ? value[c] : largest;
    }
    for (int32_t c = 0; c < channels; ++c) {
      output[c] = expf((value[c] - largest) * factor);
      sum += output[c];
    }
    for (int32_t c = 0; c < channels; ++c) {
      output[c] /= sum;
    }
  }
}

static TFLITE_FUSE_RARE bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                            const void* table, int64_t room) {
  (void)stage, (void)output, (void)table;
  return room >= (int64_t)sizeof(float);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_float_softmax = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .keeps_channels = true,
    .keeps_extent = true,
    .reads_float = true,
    .writes_float = true,
    .table_is_sound = table_is_sound,
    .keep = tflite_fuse_floats_are_ready,
    .compute = softmax,
};
