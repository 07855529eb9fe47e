/* Functions of one float32 value. */
#include "tflite_fuse_floats.h"

enum { BOUNDS, CURVES };

typedef struct {
  int32_t curve;
  tflite_fuse_bounds bounds;
} float_curve;

static void curve(const tflite_fuse_call* call) {
  const float_curve* table = call->table;
  const tflite_fuse_bounds bounds = table->bounds;
  for (int32_t i = 0; i < call->count; ++i) {
    const float* value = tflite_fuse_floats_at(call->windows[0][i]);
    float* output = (float*)(void*)call->outputs[i];
    for (const float* end = output + call->output->channels; output != end; ++output) {
      *output = tflite_fuse_bounded(*value++, bounds);
    }
  }
}

static TFLITE_FUSE_RARE bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                            const void* table, int64_t room) {
  (void)stage, (void)output;
  const float_curve* found = table;
  return room >= (int64_t)sizeof(float_curve) && within(found->curve, BOUNDS, CURVES - 1);
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
    .compute = curve,
};
