/* Copies channels of the input in any order, and fills others with a constant. */
#include "../../executor/tflite_fuse_checks.h"

/* The table: the fill byte, then the input channel of each output channel. Channels with a number out of range, such as
 * -1, are filled. */
static void channels(const tflite_fuse_call* call) {
  const int16_t* table = (const int16_t*)call->table;
  const int32_t depth = call->inputs[0]->channels, size = tflite_fuse_pixel_bytes(call->inputs[0]) / depth;
  const int8_t fill = (int8_t)table[0], filled[4] = {fill, fill, fill, fill};
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* from = call->windows[0][i];
    int8_t* to = call->outputs[i];
    for (int32_t c = 0; c < call->output->channels; ++c, to += size) {
      const int32_t source = table[1 + c];
      const int8_t* value = source >= 0 && source < depth ? from + source * size : filled;
      to[0] = value[0];
      if (size > 1) { /* float32 */
        to[1] = value[1], to[2] = value[2], to[3] = value[3];
      }
    }
  }
}

static bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                           int64_t room) {
  (void)stage, (void)table;
  return room >= 2 + 2 * (int64_t)output->channels;
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_channels = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .keeps_extent = true,
    .moves = true,
    .table_is_sound = table_is_sound,
    .compute = channels,
};
