/* The average of a whole tensor, channel by channel, summed up as its pixels arrive.
 *
 * MEAN scales the sum once, by multiplier and shift; AVERAGE_POOL_2D over the whole image, which has no table, divides
 * it and rounds. Sums of small maps are kept in int16. */
#include "../executor/tflite_fuse_machine.h"
#include "tflite_fuse_requantize.h"

void tflite_fuse_global_average_sum(const tflite_fuse_call* call, void* sums) {
  const int32_t channels = call->inputs[0]->channels;
  int16_t* narrow = sums;
  int32_t* wide = sums;
  const bool is_narrow = tflite_fuse_sums_fit_int16(call->inputs[0]);
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* pixel = call->windows[0][i];
    if (is_narrow) {
      for (int32_t c = 0; c < channels; ++c) {
        narrow[c] = (int16_t)(narrow[c] + pixel[c]);
      }
    } else {
      for (int32_t c = 0; c < channels; ++c) {
        wide[c] = tflite_fuse_wrapping_add(wide[c], pixel[c]);
      }
    }
  }
}

void tflite_fuse_global_average_finish(const tflite_fuse_call* call, const void* sums) {
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const tflite_fuse_channel* table = call->table;
  const int16_t* narrow = sums;
  const int32_t* wide = sums;
  const bool is_narrow = tflite_fuse_sums_fit_int16(call->inputs[0]);
  const bool is_scaled = call->stage->table_offset != TFLITE_FUSE_NONE;
  const int32_t pixels = tflite_fuse_pixels(call->inputs[0]);
  int8_t* output = call->outputs[0];
  for (int32_t c = 0; c < call->output->channels; ++c) {
    const int32_t sum = is_narrow ? narrow[c] : wide[c];
    output[c] = is_scaled ? tflite_fuse_requantize(sum, *table, range)
                          : tflite_fuse_clamp(tflite_fuse_rounding_divide(sum, pixels), range.low, range.high);
  }
}
