/* The larger, or the smaller, of the values of two tensors. */
#include "../../executor/tflite_fuse_machine.h"

static void extreme(const tflite_fuse_call* call, bool largest) {
  const int32_t low = call->stage->activation_min, high = call->stage->activation_max;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* a = call->windows[0][i];
    const int8_t* b = call->windows[1][i];
    int8_t* output = call->outputs[i];
    for (const int8_t* end = a + call->output->channels; a != end; ++a, ++b, ++output) {
      const int32_t value = (*a > *b) == largest ? *a : *b;
      *output = (int8_t)tflite_fuse_max(low, tflite_fuse_min(high, value));
    }
  }
}

static void maximum(const tflite_fuse_call* call) { extreme(call, true); }
static void minimum(const tflite_fuse_call* call) { extreme(call, false); }

#define ENTRY(name)                                   \
  const tflite_fuse_entry tflite_fuse_kind_##name = { \
      .min_inputs = 2,                                \
      .max_inputs = 2,                                \
      .operands = 2,                                  \
      .keeps_channels = true,                         \
      .keeps_extent = true,                           \
      .compute = name,                                \
  }

ENTRY(maximum);
ENTRY(minimum);
