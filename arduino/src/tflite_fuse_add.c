/* Addition of two tensors of equal shape and different scales. */
#include "tflite_fuse_machine.h"
#include "tflite_fuse_requantize.h"

void tflite_fuse_add(const tflite_fuse_call* call) {
  const tflite_fuse_addition* table = call->table;
  const int32_t channels = call->output->channels;
  const int32_t one = 1 << table->left_shift;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* a = call->windows[0][i];
    const int8_t* b = call->windows[1][i];
    int8_t* output = call->outputs[i];
    for (int32_t c = 0; c < channels; ++c) {
      const int32_t scaled_a = tflite_fuse_multiply((a[c] - call->inputs[0]->zero_point) * one,
                                                    table->inputs[0].multiplier, table->inputs[0].shift);
      const int32_t scaled_b = tflite_fuse_multiply((b[c] - call->inputs[1]->zero_point) * one,
                                                    table->inputs[1].multiplier, table->inputs[1].shift);
      const int32_t sum = tflite_fuse_multiply(scaled_a + scaled_b, table->output.multiplier, table->output.shift);
      output[c] = tflite_fuse_clamp(tflite_fuse_wrapping_add(sum, call->output->zero_point),
                                    call->stage->activation_min, call->stage->activation_max);
    }
  }
}
