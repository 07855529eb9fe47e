/* Computes int8 softmax over the channels of each pixel. */
#include "../../executor/tflite_fuse_checks.h"
#include "../tflite_fuse_requantize.h"

enum { DISTANCES = 256, MOST_CHANNELS = 511, SUM_BITS = 12 };

/* Returns value / 2^bits, rounded to the nearest integer, halves up. 1 <= bits <= 31, value >= 0. */
static uint32_t divide(uint32_t value, int32_t bits) { return (value >> bits) + (value >> (bits - 1) & 1); }

/* Returns 2^31 / (1 + x), x in 0...1 in units of 2^-31, by Newton's method; intermediate values have two
 * integer bits. */
static int32_t one_over_one_plus(int32_t x) {
  const int32_t half = (int32_t)(((int64_t)x + INT32_MAX + 1) >> 1);
  int32_t reciprocal = 1515870810 + tflite_fuse_multiply_high(half, -1010580540);
  for (int32_t step = 0; step < 3; ++step) {
    const int32_t error = (INT32_C(1) << 29) - tflite_fuse_multiply_high(half, reciprocal);
    reciprocal += tflite_fuse_multiply_high(reciprocal, error) * 4;
  }
  return reciprocal > INT32_MAX / 2 ? INT32_MAX : reciprocal * 2;
}

static TFLITE_FUSE_RARE void softmax(const tflite_fuse_call* call) {
  const int32_t* exponentials = call->table;
  const tflite_fuse_range range = {INT8_MIN, call->stage->activation_min, call->stage->activation_max};
  const int32_t channels = call->output->channels;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* input = call->windows[0][i];
    int8_t* output = call->outputs[i];
    int32_t largest = INT8_MIN, above = 0;
    for (int32_t c = 0; c < channels; ++c) {
      largest = tflite_fuse_max(largest, input[c]);
    }
    uint32_t sum = 0;
    for (int32_t c = 0; c < channels; ++c) {
      sum += divide((uint32_t)exponentials[(uint8_t)(largest - input[c])], SUM_BITS);
    }
    /* The sum is 2^above times a number in 1...2. */
    for (uint32_t rest = sum >> (31 - SUM_BITS); rest > 1; rest >>= 1) {
      ++above;
    }
    const int32_t scale = one_over_one_plus((int32_t)((sum << (SUM_BITS - above)) & INT32_MAX));
    for (int32_t c = 0; c < channels; ++c) {
      const int32_t share = tflite_fuse_multiply_high(scale, exponentials[(uint8_t)(largest - input[c])]);
      output[c] = tflite_fuse_fit((int32_t)divide((uint32_t)share, above + 23), range);
    }
  }
}

/* The first exponential, of the largest channel, must be INT32_MAX, so no sum is less; MOST_CHANNELS keeps sums
 * within 32 bits. */
static TFLITE_FUSE_RARE bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                            const void* table, int64_t room) {
  (void)stage;
  const int32_t* exponentials = table;
  if (room < DISTANCES * (int64_t)sizeof(int32_t) || output->channels > MOST_CHANNELS || *exponentials != INT32_MAX) {
    return false;
  }
  for (int32_t i = 0; i < DISTANCES; ++i) {
    if (exponentials[i] < 0) {
      return false;
    }
  }
  return true;
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_softmax = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .keeps_channels = true,
    .keeps_extent = true,
    .table_is_sound = table_is_sound,
    .compute = softmax,
};
