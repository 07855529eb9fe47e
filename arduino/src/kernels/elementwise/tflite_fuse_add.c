/* Addition of two tensors of equal shape and different scales, or subtraction. */
#include "../../executor/tflite_fuse_checks.h"
#include "../mve/tflite_fuse_mve.h"
#include "../tflite_fuse_packed.h"

/* One operand: its values, less its zero point, are shifted left by 20 and scaled. */
typedef struct {
  const int8_t* const* pixels;
  int32_t zero_point, multiplier, shift;
} operand;

static operand operand_of(const tflite_fuse_call* call, int32_t number, int32_t multiplier, int32_t shift) {
  const operand o = {call->windows[number], call->inputs[number]->zero_point, multiplier, shift};
  return o;
}

/* The operand of the larger scale is halved: that is exact. */
static bool is_halved(const operand* o) { return o->multiplier == 1 << 30 && o->shift == 0; }

/* The usual case: one operand halved, the other and the sum scaled down, as tflite_fuse_scale_down does it. */
static void add_down(const tflite_fuse_call* call, const operand* halved, const operand* scaled) {
#if TFLITE_FUSE_MVE
  (void)scaled;
  tflite_fuse_add_vectors(call, halved->pixels == call->windows[1]);
#else
  const tflite_fuse_addition* table = call->table;
  const tflite_fuse_channel entry = {0, table->output_multiplier, -1 - table->output_shift};
  const tflite_fuse_scale scale = tflite_fuse_scale_of(&entry, 2 * call->output->zero_point + 1);
  const int32_t halved_zero = -halved->zero_point * (1 << 19), scaled_zero = -scaled->zero_point * (1 << 21);
  const int32_t half = (int32_t)(UINT32_C(1) << (-1 - scaled->shift)), shift = -scaled->shift;
  const int32_t channels = call->output->channels, multiplier = scaled->multiplier;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* a = halved->pixels[i];
    const int8_t* b = scaled->pixels[i];
    int8_t* output = call->outputs[i];
    for (const int8_t* end = output + channels; output != end; ++output) {
      const int32_t twice = scaled_zero + *b++ * (1 << 21);
      const int32_t other = tflite_fuse_mac_top(half + (twice >> 31), twice, multiplier) >> shift;
      *output = tflite_fuse_scale_down(halved_zero + *a++ * (1 << 19) + other, scale);
    }
  }
  tflite_fuse_clamp_outputs(call);
#endif
}

static int32_t scale_operand(int32_t value, const operand* o, int32_t left_shift) {
  return tflite_fuse_multiply((value - o->zero_point) * (1 << left_shift), o->multiplier, o->shift);
}

static TFLITE_FUSE_RARE void add_any(const tflite_fuse_call* call, const operand* a, const operand* b) {
  const tflite_fuse_addition table = *(const tflite_fuse_addition*)call->table;
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  for (int32_t i = 0; i < call->count; ++i) {
    for (int32_t c = 0; c < call->output->channels; ++c) {
      const int32_t first = scale_operand(a->pixels[i][c], a, table.left_shift);
      const int32_t second = scale_operand(b->pixels[i][c], b, table.left_shift);
      const int32_t sum = table.multiplier_1 < 0 ? first - second : first + second;
      const int32_t scaled = tflite_fuse_multiply(sum, table.output_multiplier, table.output_shift);
      call->outputs[i][c] = tflite_fuse_fit(scaled, range);
    }
  }
}

static void add(const tflite_fuse_call* call) {
  const tflite_fuse_addition* table = call->table;
  const operand a = operand_of(call, 0, table->multiplier_0, table->shift_0);
  const bool subtracts = table->multiplier_1 < 0;
  const operand b = operand_of(call, 1, subtracts ? -table->multiplier_1 : table->multiplier_1, table->shift_1);
  const bool goes_down = !subtracts && table->left_shift == 20 && table->output_shift < 0 &&
                         table->output_shift >= -1 - TFLITE_FUSE_MAX_DOWN_SHIFT;
  if (goes_down && is_halved(&a) && b.shift < 0) {
    add_down(call, &a, &b);
  } else if (goes_down && is_halved(&b) && a.shift < 0) {
    add_down(call, &b, &a);
  } else {
    add_any(call, &a, &b);
  }
}

static bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                           int64_t room) {
  const tflite_fuse_addition* t = table;
  (void)stage, (void)output;
  return room >= (int64_t)sizeof(*t) && within(t->left_shift, 0, TFLITE_FUSE_MAX_ADD_SHIFT) && t->multiplier_0 >= 0 &&
         t->multiplier_1 > INT32_MIN && t->output_multiplier >= 0 && within(t->shift_0, -31, 0) &&
         within(t->shift_1, -31, 0) && within(t->output_shift, -31, 0);
}

const tflite_fuse_entry tflite_fuse_kind_add = {
    .min_inputs = 2,
    .max_inputs = 2,
    .operands = 2,
    .keeps_channels = true,
    .keeps_extent = true,
    .table_is_sound = table_is_sound,
    .compute = add,
};
