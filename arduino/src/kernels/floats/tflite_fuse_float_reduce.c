/* Computes a sum, average or extreme of float32 values: of each channel over a whole tensor, as its pixels arrive, or
 * of each pixel over its channels. Start value and order are TFLM's, so signed zeros and NaN give the same results. */
#include <float.h>

#include "tflite_fuse_floats.h"

enum { SUM, MEAN, MAX, MIN, REDUCTIONS };

static inline int32_t reduction_of(const tflite_fuse_call* call) { return *(const int32_t*)call->table; }

static inline float first_of(int32_t reduction) {
  return reduction == MAX ? -FLT_MAX : reduction == MIN ? FLT_MAX : 0;
}

static inline float reduced(int32_t reduction, float current, float value) {
  switch (reduction) {
    case MAX:
      return value > current ? value : current;
    case MIN:
      return value < current ? value : current;
    default:
      return current + value;
  }
}

static void sum(const tflite_fuse_call* call, int32_t position, void* sums) {
  float* channel = sums;
  const int32_t reduction = reduction_of(call), channels = call->inputs[0]->channels;
  for (int32_t c = 0; position == 0 && c < channels; ++c) {
    channel[c] = first_of(reduction);
  }
  for (int32_t i = 0; i < call->count; ++i) {
    const float* pixel = tflite_fuse_floats_at(call->windows[0][i]);
    for (int32_t c = 0; c < channels; ++c) {
      channel[c] = reduced(reduction, channel[c], pixel[c]);
    }
  }
}

static TFLITE_FUSE_RARE void finish(const tflite_fuse_call* call, const void* sums) {
  const float* channel = sums;
  const float pixels = (float)tflite_fuse_pixels(call->inputs[0]); /* exact: at most 2^23 pixels */
  float* output = (float*)(void*)call->outputs[0];
  for (int32_t c = 0; c < call->output->channels; ++c) {
    output[c] = reduction_of(call) == MEAN ? channel[c] / pixels : channel[c];
  }
}

static void channel_reduce(const tflite_fuse_call* call) {
  const int32_t reduction = reduction_of(call), channels = call->inputs[0]->channels;
  for (int32_t i = 0; i < call->count; ++i) {
    const float* value = tflite_fuse_floats_at(call->windows[0][i]);
    float current = first_of(reduction);
    for (int32_t c = 0; c < channels; ++c) {
      current = reduced(reduction, current, value[c]);
    }
    *(float*)(void*)call->outputs[i] = reduction == MEAN ? current / (float)channels : current;
  }
}

static TFLITE_FUSE_RARE bool has_one_channel(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  return block->tensors[stage->output].channels == 1;
}

static TFLITE_FUSE_RARE bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                            const void* table, int64_t room) {
  (void)stage, (void)output;
  return room >= (int64_t)sizeof(int32_t) && within(*(const int32_t*)table, SUM, REDUCTIONS - 1);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_float_global_reduce = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .sums = TFLITE_FUSE_SUMS_REALS,
    .keeps_channels = true,
    .reads_float = true,
    .writes_float = true,
    .table_is_sound = table_is_sound,
    .keep = tflite_fuse_floats_are_ready,
    .sum = sum,
    .finish = finish,
};

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_float_channel_reduce = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .keeps_extent = true,
    .reads_float = true,
    .writes_float = true,
    .fits = has_one_channel,
    .table_is_sound = table_is_sound,
    .keep = tflite_fuse_floats_are_ready,
    .compute = channel_reduce,
};
