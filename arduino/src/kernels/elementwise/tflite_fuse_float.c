/* Between float32 and int8, without arithmetic on floats that a compiler's library would have to do.
 *
 * DEQUANTIZE: there are 256 answers. QUANTIZE: a larger number never has a smaller answer, so the numbers at which the
 * answer changes say it all, and are found by halving; where the core multiplies floats, by a guess that is checked. */
#include <string.h>

#define TFLITE_FUSE_UNROLL_STEPS
#include "../mve/tflite_fuse_mve.h"
#include "../tflite_fuse_steps.h"

enum { ANSWERS = 256 };

#if TFLITE_FUSE_MVE

/* As tflite_fuse_answer_to, of four numbers at once: places are looked for in bytes from the first. */
static int32x4_t answers_to_4(const tflite_fuse_steps* table, int32x4_t bits) {
  const int32x4_t keys = veorq_s32(bits, vandq_s32(vshrq_n_s32(bits, 31), vdupq_n_s32(INT32_MAX)));
  uint32x4_t places = vdupq_n_u32(0);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 8
#endif
  for (uint32_t step = 128 * sizeof(int32_t); step >= sizeof(int32_t); step /= 2) {
    const uint32x4_t further = vaddq_n_u32(places, step);
    const int32x4_t from = vldrwq_gather_offset_s32(table->from, further);
    places = vpselq_u32(further, places, vcmpgeq_s32(keys, from));
  }
  const int32x4_t answers = vaddq_n_s32(vreinterpretq_s32_u32(vshrq_n_u32(places, 2)), INT8_MIN);
  const int32x4_t otherwise = vdupq_n_s32(table->otherwise);
  const int32x4_t found = vpselq_s32(answers, otherwise, vcmpgeq_n_s32(keys, table->from[0]));
  return vpselq_s32(otherwise, found, vcmpgeq_n_s32(keys, table->end));
}

static void quantize_values(const tflite_fuse_steps* table, const int8_t* value, int8_t* output, int32_t left) {
  const int32_t width = (int32_t)sizeof(int32_t);
  for (; left > 0; left -= 4, value += 4 * width, output += 4) {
    const mve_pred16_t some = vctp8q((uint32_t)(left * width)); /* values may lie anywhere: they are read as bytes */
    vstrbq_p_s32(output, answers_to_4(table, vreinterpretq_s32_s8(vldrbq_z_s8(value, some))), some);
  }
}

/* Pixels that lie one behind the other are one piece. */
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

/* Whether the core multiplies floats by itself. */
#if (defined(__ARM_FP) && (__ARM_FP & 4) != 0) || defined(__SSE2__) || defined(__riscv_flen)
#define TFLITE_FUSE_GUESSES 1
#else
#define TFLITE_FUSE_GUESSES 0
#endif

#if TFLITE_FUSE_GUESSES

/* The numbers at which answers change lie equally far apart, nearly: number i is at `first` + (i - 1) / `per_one`. */
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
  const float first = float_of(table->from[1]), last = float_of(table->from[ANSWERS - 1]);
  const guess found = {first, (float)(ANSWERS - 2) / (last - first)};
  return found;
}

/* A guess that lies next to the answer, as floats are rounded, is none: halving finds it. */
static int8_t answer_to(const tflite_fuse_steps* table, guess g, uint32_t bits) {
  const int32_t key = tflite_fuse_key_of(bits);
  const float place = (float_of(key) - g.first) * g.per_one;
  const int32_t number = place >= 0 ? place < ANSWERS - 2 ? (int32_t)place + 1 : ANSWERS - 1 : 0;
  const int32_t* from = (const int32_t*)(const void*)table + number; /* `end` is behind the last one */
  return key >= from[0] && key < from[1] ? (int8_t)(number + INT8_MIN) : tflite_fuse_answer_to(table, key);
}

#else

typedef int guess;
static guess guess_of(const tflite_fuse_steps* table) { return (void)table, 0; }
static int8_t answer_to(const tflite_fuse_steps* table, guess g, uint32_t bits) {
  (void)g;
  return tflite_fuse_answer_to(table, tflite_fuse_key_of(bits));
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
      memcpy(&bits, value, sizeof(bits)); /* may lie anywhere */
      *output = answer_to(table, g, bits);
    }
  }
}

#endif

static bool steps_are_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                            int64_t room) {
  (void)stage, (void)output;
  const tflite_fuse_steps* found = table;
  return room >= (int64_t)sizeof(tflite_fuse_steps) && within(found->otherwise, INT8_MIN, INT8_MAX);
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

static bool answers_are_there(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                              int64_t room) {
  (void)stage, (void)output, (void)table;
  return room >= (int64_t)(ANSWERS * sizeof(int32_t));
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_dequantize = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .keeps_channels = true,
    .keeps_extent = true,
    .writes_float = true,
    .table_is_sound = answers_are_there,
    .compute = dequantize,
};
