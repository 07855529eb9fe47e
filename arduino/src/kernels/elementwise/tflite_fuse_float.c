/* Between float32 and int8, without arithmetic on floats: nothing of a core's, or of a compiler's library, is asked for.
 *
 * DEQUANTIZE: there are 256 answers. QUANTIZE: a larger number never has a smaller answer, so the numbers at which the
 * answer changes say it all, and are found by halving. */
#include <string.h>

#include "../../executor/tflite_fuse_checks.h"

enum { ANSWERS = 256 };

/* The table of QUANTIZE. Numbers are keys; see key_of. */
typedef struct {
  int32_t from[ANSWERS]; /* [0]: the least with an answer. [i]: the least whose answer is INT8_MIN + i */
  int32_t end;           /* behind the last with an answer */
  int32_t otherwise;     /* the answer to all others, NaN among them */
} steps;

/* The bits of a float32 as an int32 that is in order as the number is. */
static int32_t key_of(const int8_t* bytes) {
  int32_t bits;
  memcpy(&bits, bytes, sizeof(bits)); /* may lie anywhere */
  return bits < 0 ? bits ^ INT32_MAX : bits;
}

static int8_t answer_to(const steps* table, int32_t key) {
  const int32_t* from = table->from;
  if (key < from[0] || key >= table->end) {
    return (int8_t)table->otherwise;
  }
  for (int32_t step = ANSWERS / 2; step > 0; step /= 2) {
    from += key >= from[step] ? step : 0;
  }
  return (int8_t)(INT8_MIN + (int32_t)(from - table->from));
}

static void quantize(const tflite_fuse_call* call) {
  const steps* table = call->table;
  const int32_t channels = call->output->channels;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* value = call->windows[0][i];
    int8_t* output = call->outputs[i];
    for (int8_t* end = output + channels; output != end; value += sizeof(int32_t), ++output) {
      *output = answer_to(table, key_of(value));
    }
  }
}

static bool steps_are_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                            int64_t room) {
  (void)stage, (void)output;
  const steps* found = table;
  return room >= (int64_t)sizeof(steps) && within(found->otherwise, INT8_MIN, INT8_MAX);
}

const tflite_fuse_entry tflite_fuse_kind_quantize = {
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

const tflite_fuse_entry tflite_fuse_kind_dequantize = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .keeps_channels = true,
    .keeps_extent = true,
    .writes_float = true,
    .table_is_sound = answers_are_there,
    .compute = dequantize,
};
