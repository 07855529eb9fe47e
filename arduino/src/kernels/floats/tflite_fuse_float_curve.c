/* Computes functions of each float32 value that need no function of the C library. */
#include <math.h>

#include "tflite_fuse_floats.h"

enum { BOUNDS, LEAKY_RELU, HARD_SWISH, ABS, NEG, SQUARE, CURVES };

typedef struct {
  int32_t curve;
  tflite_fuse_bounds bounds; /* LEAKY_RELU: low is the factor of values below zero, high is unused */
} float_curve;

static inline float hard_swish(float value) {
  const float raised = 0 < value + 3 ? value + 3 : 0;
  return value * (raised < 6 ? raised : 6) / 6;
}

static inline float result_of(int32_t curve, float value, tflite_fuse_bounds bounds) {
  switch (curve) {
    case LEAKY_RELU:
      return value > 0 ? value : value * bounds.low;
    case HARD_SWISH:
      return hard_swish(value);
    case ABS:
      return fabsf(value);
    case NEG:
      return -value;
    case SQUARE:
      return value * value;
    default:
      return tflite_fuse_bounded(value, bounds);
  }
}

static void curve(const tflite_fuse_call* call) {
  const float_curve* table = call->table;
  const float_curve parameters = *table;
  for (int32_t i = 0; i < call->count; ++i) {
    const float* value = tflite_fuse_floats_at(call->windows[0][i]);
    float* output = (float*)(void*)call->outputs[i];
    for (const float* end = output + call->output->channels; output != end; ++output) {
      *output = result_of(parameters.curve, *value++, parameters.bounds);
    }
  }
}

static TFLITE_FUSE_RARE bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                            const void* table, int64_t room) {
  (void)stage, (void)output;
  const float_curve* parameters = table;
  return room >= (int64_t)sizeof(float_curve) && within(parameters->curve, BOUNDS, CURVES - 1);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_float_curve = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .keeps_channels = true,
    .keeps_extent = true,
    .reads_float = true,
    .writes_float = true,
    .table_is_sound = table_is_sound,
    .keep = tflite_fuse_floats_are_ready,
    .compute = curve,
};
