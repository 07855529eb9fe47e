/* Converts float32 to int8 and back without float arithmetic that needs a compiler's library.
 *
 * DEQUANTIZE looks up one of 256 results. QUANTIZE is monotonic, so the thresholds at which its result
 * changes determine it. They are searched by bisection; cores that multiply floats guess the result first and
 * check the guess. */
#include <string.h>

#define TFLITE_FUSE_UNROLL_STEPS
#include "../mve/tflite_fuse_mve.h"
#include "../tflite_fuse_steps.h"

enum { RESULTS = 256 };

#if TFLITE_FUSE_MVE

/* Quantizes four keys as tflite_fuse_quantize_key does. Positions in the table of thresholds are counted in bytes. */
static int32x4_t quantize_4(const tflite_fuse_steps* table, int32x4_t bits) {
  const int32x4_t keys = veorq_s32(bits, vandq_s32(vshrq_n_s32(bits, 31), vdupq_n_s32(INT32_MAX)));
  uint32x4_t places = vdupq_n_u32(0);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 8
#endif
  for (uint32_t step = 128 * sizeof(int32_t); step >= sizeof(int32_t); step /= 2) {
    const uint32x4_t next_places = vaddq_n_u32(places, step);
    const int32x4_t from = vldrwq_gather_offset_s32(table->from, next_places);
    places = vpselq_u32(next_places, places, vcmpgeq_s32(keys, from));
  }
  const int32x4_t results = vaddq_n_s32(vreinterpretq_s32_u32(vshrq_n_u32(places, 2)), INT8_MIN);
  const int32x4_t otherwise = vdupq_n_s32(table->otherwise);
  const int32x4_t in_range = vpselq_s32(results, otherwise, vcmpgeq_n_s32(keys, table->from[0]));
  return vpselq_s32(otherwise, in_range, vcmpgeq_n_s32(keys, table->end));
}

static void quantize_values(const tflite_fuse_steps* table, const int8_t* value, int8_t* output, int32_t remaining) {
  const int32_t width = (int32_t)sizeof(int32_t);
  for (; remaining > 0; remaining -= 4, value += 4 * width, output += 4) {
    const mve_pred16_t lanes = vctp8q((uint32_t)(remaining * width)); /* read as bytes: values may be unaligned */
    vstrbq_p_s32(output, quantize_4(table, vreinterpretq_s32_s8(vldrbq_z_s8(value, lanes))), lanes);
  }
}

/* Quantizes contiguous pixels together. */
static void quantize(const tflite_fuse_call* call) {
  const int8_t* const* pixel = call->windows[0];
  const int32_t channels = call->output->channels, bytes = channels * (int32_t)sizeof(int32_t);
  for (int32_t i = 0, next; i < call->count; i = next) {
    for (next = i + 1; next < call->count && pixel[next] == pixel[next - 1] + bytes &&
                       call->outputs[next] == call->outputs[next - 1] + channels; ++next) {
    }
    quantize_values(call->table, pixel[i], call->outputs[i], (next - i) * channels);
  }
}

#else

#if TFLITE_FUSE_HAS_FPU

/* Thresholds are nearly equidistant: threshold i is about `first` + (i - 1) / `per_one`. */
typedef struct {
  float first, per_one;
} guess;

static float float_of(int32_t key) {
  const int32_t bits = key < 0 ? key ^ INT32_MAX : key;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

static guess guess_of(const tflite_fuse_steps* table) {
  const float first = float_of(table->from[1]), last = float_of(table->from[RESULTS - 1]);
  const guess line = {first, (float)(RESULTS - 2) / (last - first)};
  return line;
}

/* Quantizes one number. A guess that is off by one because floats are rounded fails the check, and
 * bisection follows. */
static int8_t quantize_value(const tflite_fuse_steps* table, guess g, uint32_t bits) {
  const int32_t key = tflite_fuse_key_of(bits);
  const float place = (float_of(key) - g.first) * g.per_one;
  const int32_t number = place >= 0 ? place < RESULTS - 2 ? (int32_t)place + 1 : RESULTS - 1 : 0;
  const int32_t* from = (const int32_t*)(const void*)table + number; /* `end` follows the last threshold */
  return key >= from[0] && key < from[1] ? (int8_t)(number + INT8_MIN) : tflite_fuse_quantize_key(table, key);
}

#else

typedef int guess;
static guess guess_of(const tflite_fuse_steps* table) { return (void)table, 0; }
static int8_t quantize_value(const tflite_fuse_steps* table, guess g, uint32_t bits) {
  (void)g;
  return tflite_fuse_quantize_key(table, tflite_fuse_key_of(bits));
}

#endif

static void quantize(const tflite_fuse_call* call) {
  const tflite_fuse_steps* table = call->table;
  const guess g = guess_of(table);
  const int32_t channels = call->output->channels;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* value = call->windows[0][i];
    int8_t* output = call->outputs[i];
    for (int8_t* end = output + channels; output != end; value += sizeof(uint32_t), ++output) {
      uint32_t bits;
      memcpy(&bits, value, sizeof(bits)); /* may be unaligned */
      *output = quantize_value(table, g, bits);
    }
  }
}

#endif

static bool steps_are_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                            int64_t room) {
  (void)stage, (void)output;
  const tflite_fuse_steps* steps = table;
  return room >= (int64_t)sizeof(tflite_fuse_steps) && within(steps->otherwise, INT8_MIN, INT8_MAX);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_quantize = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .keeps_channels = true,
    .keeps_extent = true,
    .reads_float = true,
    .table_is_sound = steps_are_sound,
    .compute = quantize,
};

static void dequantize(const tflite_fuse_call* call) {
  const int32_t* of_zero = (const int32_t*)call->table - INT8_MIN;
  const int32_t channels = call->output->channels;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* value = call->windows[0][i];
    int8_t* output = call->outputs[i];
    for (const int8_t* end = value + channels; value != end; ++value, output += sizeof(int32_t)) {
      memcpy(output, &of_zero[*value], sizeof(int32_t));
    }
  }
}

static bool table_fits(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                       int64_t room) {
  (void)stage, (void)output, (void)table;
  return room >= (int64_t)(RESULTS * sizeof(int32_t));
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_dequantize = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .keeps_channels = true,
    .keeps_extent = true,
    .writes_float = true,
    .table_is_sound = table_fits,
    .compute = dequantize,
};
