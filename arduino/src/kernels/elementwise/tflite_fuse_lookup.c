/* Computes any function of one int8 value by a table of its 256 results. */
#include "../../executor/tflite_fuse_checks.h"
#include "../mve/tflite_fuse_mve.h"

enum { RESULTS = 256 };

static void look_up(const int8_t* value, int8_t* output, int32_t count, const void* table) {
#if TFLITE_FUSE_MVE
  tflite_fuse_look_up(value, output, count, table);
#else
  const int8_t* of_zero = (const int8_t*)table - INT8_MIN;
  for (const int8_t* end = value + count; value != end; ++value, ++output) {
    *output = of_zero[*value];
  }
#endif
}

static void lookup(const tflite_fuse_call* call) {
  const int32_t channels = call->output->channels;
  const int8_t* const* values = call->windows[0];
  for (int32_t i = 0; i < call->count;) {
    const int8_t* value = values[i];
    int8_t* output = call->outputs[i];
    int32_t bytes = channels;
    while (++i < call->count && values[i] == value + bytes && call->outputs[i] == output + bytes) {
      bytes += channels;
    }
    look_up(value, output, bytes, call->table);
  }
}

static bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                           int64_t room) {
  (void)stage, (void)output, (void)table;
  return room >= RESULTS;
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_lookup = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .keeps_channels = true,
    .keeps_extent = true,
    .table_is_sound = table_is_sound,
    .compute = lookup,
};
