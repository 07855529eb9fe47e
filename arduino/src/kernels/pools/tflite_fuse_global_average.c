/* Computes the average of each channel of a whole int8 tensor, summed as its pixels arrive.
 *
 * MEAN scales the sum once, by multiplier and shift; AVERAGE_POOL_2D over the whole image, which has no table, divides
 * it and rounds. Sums of small maps are int16. */
#include "../../executor/tflite_fuse_checks.h"
#include "../mve/tflite_fuse_mve.h"
#include "../tflite_fuse_requantize.h"

static void sum(const tflite_fuse_call* call, int32_t position, void* sums) {
  (void)position;
  const int32_t channels = call->inputs[0]->channels;
  int16_t* narrow = sums;
  int32_t* wide = sums;
  const bool is_narrow = tflite_fuse_sums_fit_int16(call->inputs[0]);
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* pixel = call->windows[0][i];
    if (is_narrow) {
      int32_t c = 0;
#if TFLITE_FUSE_MVE
      for (; channels - c >= 8; c += 8) {
        vstrhq_s16(narrow + c, vaddq_s16(vldrhq_s16(narrow + c), vldrbq_s16(pixel + c)));
      }
#endif
      for (; c < channels; ++c) {
        narrow[c] = (int16_t)(narrow[c] + pixel[c]);
      }
    } else {
      for (int32_t c = 0; c < channels; ++c) {
        wide[c] = tflite_fuse_wrapping_add(wide[c], pixel[c]);
      }
    }
  }
}

static TFLITE_FUSE_RARE void finish(const tflite_fuse_call* call, const void* sums) {
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const tflite_fuse_channel* table = call->table;
  const int16_t* narrow = sums;
  const int32_t* wide = sums;
  const bool is_narrow = tflite_fuse_sums_fit_int16(call->inputs[0]);
  const bool is_scaled = call->stage->table_offset != TFLITE_FUSE_NONE;
  const int32_t pixels = tflite_fuse_pixels(call->inputs[0]);
  int8_t* output = call->outputs[0];
  for (int32_t c = 0; c < call->output->channels; ++c) {
    const int32_t total = is_narrow ? narrow[c] : wide[c];
    output[c] = is_scaled ? tflite_fuse_requantize(total, *table, range)
                          : tflite_fuse_clamp(tflite_fuse_rounding_divide(total, pixels), range.low, range.high);
  }
}

static bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                           int64_t room) {
  (void)output;
  return stage->table_offset == TFLITE_FUSE_NONE || tflite_fuse_entries_are_sound(stage, table, 1, room);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_global_average = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .sums = TFLITE_FUSE_SUMS_VALUES,
    .keeps_channels = true,
    .table_is_sound = table_is_sound,
    .sum = sum,
    .finish = finish,
};
