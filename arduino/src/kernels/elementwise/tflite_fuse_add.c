/* Adds or subtracts two int8 tensors of different scales and equal shape; one may have a single channel for all
 * channels of the other. */
#include "../../executor/tflite_fuse_checks.h"
#include "../mve/tflite_fuse_mve.h"
#include "../tflite_fuse_packed.h"

/* An operand: its values, minus the zero point, are shifted left and scaled. */
typedef struct {
  const int8_t* const* pixels;
  int32_t zero_point, multiplier, shift;
  int32_t step; /* bytes from channel to channel, 0 for a single one */
} operand;

static operand operand_of(const tflite_fuse_call* call, int32_t number, int32_t multiplier, int32_t shift) {
  const operand o = {call->windows[number], call->inputs[number]->zero_point, multiplier, shift,
                     call->inputs[number]->channels == call->output->channels};
  return o;
}

/* Adds with two factors, a start and a right shift. The encoder stores factors only if the result equals the scaled sum
 * for all pairs of values. */
static void add_multiples(const tflite_fuse_call* call, const uint32_t* factors) {
#if TFLITE_FUSE_MVE
  tflite_fuse_add_vectors(call, (const int32_t*)factors);
#else
  const uint32_t first = factors[0], second = factors[1], start = factors[2];
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const int32_t channels = call->output->channels;
  (void)range;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* a = call->windows[0][i];
    const int8_t* b = call->windows[1][i];
    int8_t* output = call->outputs[i];
    for (const int8_t* end = output + channels; output != end; ++output) {
      const int32_t value = *a++, other = *b++;
      uint32_t sum = start + first * (uint32_t)value;
      TFLITE_FUSE_HIDE(sum); /* so that compilers use two multiply-add instructions */
      sum += second * (uint32_t)other;
#if TFLITE_FUSE_DSP
      *output = tflite_fuse_added_to_int8((int32_t)sum);
#else
      *output = tflite_fuse_clamp((int32_t)sum >> TFLITE_FUSE_ADD_BITS, range.low, range.high);
#endif
    }
  }
#if TFLITE_FUSE_DSP
  tflite_fuse_clamp_outputs(call);
#endif
#endif
}

static int32_t scale_operand(int32_t value, const operand* o, int32_t left_shift) {
  return tflite_fuse_multiply((value - o->zero_point) * (1 << left_shift), o->multiplier, o->shift);
}

static TFLITE_FUSE_NOINLINE TFLITE_FUSE_RARE void add_any(const tflite_fuse_call* call) {
  const tflite_fuse_addition table = *(const tflite_fuse_addition*)call->table;
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const bool subtracts = table.multiplier_1 < 0;
  const operand a = operand_of(call, 0, table.multiplier_0, table.shift_0);
  const operand b = operand_of(call, 1, subtracts ? -table.multiplier_1 : table.multiplier_1, table.shift_1);
  for (int32_t i = 0; i < call->count; ++i) {
    for (int32_t c = 0; c < call->output->channels; ++c) {
      const int32_t first = scale_operand(a.pixels[i][c * a.step], &a, table.left_shift);
      const int32_t second = scale_operand(b.pixels[i][c * b.step], &b, table.left_shift);
      const int32_t sum = subtracts ? first - second : first + second;
      const int32_t scaled = tflite_fuse_multiply(sum, table.output_multiplier, table.output_shift);
      call->outputs[i][c] = tflite_fuse_fit(scaled, range);
    }
  }
}

static void add(const tflite_fuse_call* call) {
  if (call->stage->weights_offset == TFLITE_FUSE_NONE) {
    add_any(call);
  } else {
    add_multiples(call, (const uint32_t*)(const void*)call->weights);
  }
}

static int64_t factor_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                            const tflite_fuse_tensor* output) {
  (void)input, (void)output;
  const bool has_factors = stage->weights_offset != TFLITE_FUSE_NONE;
  return is_packed(stage) || (has_factors && stage->weights_offset % 4 != 0) ? -1 : 12 * has_factors;
}

static bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                           int64_t room) {
  const tflite_fuse_addition* t = table;
  (void)stage, (void)output;
  return room >= (int64_t)sizeof(*t) && within(t->left_shift, 0, TFLITE_FUSE_MAX_ADD_SHIFT) && t->multiplier_0 >= 0 &&
         t->multiplier_1 > INT32_MIN && t->output_multiplier >= 0 && within(t->shift_0, -31, 0) &&
         within(t->shift_1, -31, 0) && within(t->output_shift, -31, 0);
}

/* Factors require operands with the output's number of channels. */
static bool channels_fit(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  const int32_t channels = block->tensors[stage->output].channels;
  return tflite_fuse_broadcasts(block, stage) && (stage->weights_offset == TFLITE_FUSE_NONE ||
                                                  (tflite_fuse_input_of(block, stage, 0)->channels == channels &&
                                                   tflite_fuse_input_of(block, stage, 1)->channels == channels));
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_add = {
    .min_inputs = 2,
    .max_inputs = 2,
    .operands = 2,
    .keeps_extent = true,
    .fits = channels_fit,
    .weight_bytes = factor_bytes,
    .table_is_sound = table_is_sound,
    .compute = add,
};
