/* Computes functions of each float32 value with the C library: the bits are those of TFLM linked with the
 * same library. */
#include <math.h>

#include "../tflite_fuse_floats.h"

enum { LOGISTIC, TANH, ELU, EXP, LOG, SQRT, RSQRT, SIN, COS, CURVES };

/* TFLM's limits: above the first the sum would round to 1; below the second the exponential alone is exact enough, and
 * some cores would overflow. */
static float logistic(float value) {
  if (value > 16.619047164916992188F) {
    return 1;
  }
  return value < -9.0F ? expf(value) : 1.0F / (1.0F + expf(-value));
}

static float result_of(int32_t curve, float value) {
  switch (curve) {
    case LOGISTIC:
      return logistic(value);
    case TANH:
      return tanhf(value);
    case EXP:
      return expf(value);
    case LOG:
      return logf(value);
    case SQRT:
      return sqrtf(value);
    case RSQRT:
      return 1.0F / sqrtf(value);
    case SIN:
      return sinf(value);
    case COS:
      return cosf(value);
    default:
      return value < 0 ? expm1f(value) : value;
  }
}

static void curve(const tflite_fuse_call* call) {
  const int32_t function = *(const int32_t*)call->table;
  for (int32_t i = 0; i < call->count; ++i) {
    const float* value = tflite_fuse_floats_at(call->windows[0][i]);
    float* output = (float*)(void*)call->outputs[i];
    for (const float* end = output + call->output->channels; output != end; ++output) {
      *output = result_of(function, *value++);
    }
  }
}

static TFLITE_FUSE_RARE bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                            const void* table, int64_t room) {
  (void)stage, (void)output;
  return room >= (int64_t)sizeof(int32_t) && within(*(const int32_t*)table, LOGISTIC, CURVES - 1);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_float_library_curve = {
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
