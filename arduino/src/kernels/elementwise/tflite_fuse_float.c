/* Between float32 and int8, without arithmetic on floats: nothing of a core's, or of a compiler's library, is asked for.
 *
 * DEQUANTIZE: there are 256 answers. QUANTIZE: a larger number never has a smaller answer, so the numbers at which the
 * answer changes say it all, and are found by halving. */
#include <string.h>

#define TFLITE_FUSE_UNROLL_STEPS
#include "../tflite_fuse_steps.h"

enum { ANSWERS = 256 };

static void quantize(const tflite_fuse_call* call) {
  const tflite_fuse_steps* table = call->table;
  const int32_t channels = call->output->channels;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* value = call->windows[0][i];
    int8_t* output = call->outputs[i];
    for (int8_t* end = output + channels; output != end; value += sizeof(uint32_t), ++output) {
      uint32_t bits;
      memcpy(&bits, value, sizeof(bits)); /* may lie anywhere */
      *output = tflite_fuse_answer_to(table, tflite_fuse_key_of(bits));
    }
  }
}

static bool steps_are_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                            int64_t room) {
  (void)stage, (void)output;
  const tflite_fuse_steps* found = table;
  return room >= (int64_t)sizeof(tflite_fuse_steps) && within(found->otherwise, INT8_MIN, INT8_MAX);
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
