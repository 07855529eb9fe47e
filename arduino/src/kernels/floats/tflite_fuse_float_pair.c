/* Computes an operation on float32 values: of two tensors, or of a tensor and a constant for each channel. */
#include "tflite_fuse_floats.h"

enum { ADD, SUB, MUL, DIV, MAXIMUM, MINIMUM, SQUARED_DIFFERENCE, PRELU, BITWISE_XOR, OPERATIONS };

/* The table, followed by the values of a constant operand. */
typedef struct {
  int32_t operation;
  int32_t constant_first;
  tflite_fuse_bounds bounds;
  float constants[1];
} float_operation;

static inline float xor_of(float a, float b) {
  uint32_t bits_a, bits_b;
  memcpy(&bits_a, &a, sizeof bits_a), memcpy(&bits_b, &b, sizeof bits_b);
  bits_a ^= bits_b;
  memcpy(&a, &bits_a, sizeof a);
  return a;
}

static inline float result_of(int32_t operation, float a, float b) {
  switch (operation) {
    case ADD:
      return a + b;
    case SUB:
      return a - b;
    case MUL:
      return a * b;
    case DIV:
      return a / b;
    case MAXIMUM:
      return a > b ? a : b;
    case MINIMUM:
      return a < b ? a : b;
    case SQUARED_DIFFERENCE:
      return (a - b) * (a - b);
    case PRELU:
      return a >= 0 ? a : a * b;
    default:
      return xor_of(a, b);
  }
}

/* Computes one pixel. step_a, step_b: floats from channel to channel of an operand, 0 if a single value
 * applies to all. */
static void compute(const tflite_fuse_call* call, int32_t i, const float* a, int32_t step_a, const float* b,
                    int32_t step_b) {
  const float_operation* table = call->table;
  const int32_t operation = table->operation, channels = call->output->channels;
  float* output = (float*)(void*)call->outputs[i];
  for (const float* end = output + channels; output != end; a += step_a, b += step_b, ++output) {
    *output = tflite_fuse_bounded(result_of(operation, *a, *b), table->bounds);
  }
}

static void pair(const tflite_fuse_call* call) {
  const int32_t channels = call->output->channels;
  for (int32_t i = 0; i < call->count; ++i) {
    compute(call, i, tflite_fuse_floats_at(call->windows[0][i]), call->inputs[0]->channels == channels,
            tflite_fuse_floats_at(call->windows[1][i]), call->inputs[1]->channels == channels);
  }
}

static void by_channel(const tflite_fuse_call* call) {
  const float_operation* table = call->table;
  const int32_t step = call->inputs[0]->channels == call->output->channels;
  for (int32_t i = 0; i < call->count; ++i) {
    const float* pixel = tflite_fuse_floats_at(call->windows[0][i]);
    if (table->constant_first != 0) {
      compute(call, i, table->constants, 1, pixel, step);
    } else {
      compute(call, i, pixel, step, table->constants, 1);
    }
  }
}

static TFLITE_FUSE_RARE bool operation_is_sound(const void* table, int64_t room, int64_t constants) {
  const float_operation* parameters = table;
  return room >= (int64_t)offsetof(float_operation, constants) + 4 * constants &&
         within(parameters->operation, ADD, OPERATIONS - 1) && within(parameters->constant_first, 0, constants > 0);
}

static TFLITE_FUSE_RARE bool pair_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                           const void* table, int64_t room) {
  (void)stage, (void)output;
  return operation_is_sound(table, room, 0);
}

static TFLITE_FUSE_RARE bool by_channel_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                                 const void* table, int64_t room) {
  (void)stage;
  return operation_is_sound(table, room, output->channels);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_float_pair = {
    .min_inputs = 2,
    .max_inputs = 2,
    .operands = 2,
    .keeps_extent = true,
    .reads_float = true,
    .writes_float = true,
    .fits = tflite_fuse_broadcasts,
    .table_is_sound = pair_is_sound,
    .keep = tflite_fuse_floats_are_ready,
    .compute = pair,
};

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_float_by_channel = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .keeps_extent = true,
    .reads_float = true,
    .writes_float = true,
    .fits = tflite_fuse_broadcasts,
    .table_is_sound = by_channel_is_sound,
    .keep = tflite_fuse_floats_are_ready,
    .compute = by_channel,
};
