/* Addition of two tensors of equal shape and different scales. */
#include "tflite_fuse_machine.h"
#include "tflite_fuse_requantize.h"

void tflite_fuse_add(const tflite_fuse_call* call) {
  const tflite_fuse_addition table = *(const tflite_fuse_addition*)call->table;
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const int32_t zero_a = call->inputs[0]->zero_point, zero_b = call->inputs[1]->zero_point;
  const int32_t channels = call->output->channels;
  const int32_t one = 1 << table.left_shift;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* a = call->windows[0][i];
    const int8_t* b = call->windows[1][i];
    int8_t* output = call->outputs[i];
    for (int32_t c = 0; c < channels; ++c) {
      const int32_t scaled_a =
          tflite_fuse_multiply((a[c] - zero_a) * one, table.inputs[0].multiplier, table.inputs[0].shift);
      const int32_t scaled_b =
          tflite_fuse_multiply((b[c] - zero_b) * one, table.inputs[1].multiplier, table.inputs[1].shift);
      const int32_t sum = tflite_fuse_multiply(scaled_a + scaled_b, table.output.multiplier, table.output.shift);
      output[c] = tflite_fuse_fit(sum, range);
    }
  }
}
