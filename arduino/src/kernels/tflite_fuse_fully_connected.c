/* A fully connected layer over a tensor of several pixels, summed up as they arrive.
 * Weights: [output channel][input pixel][input channel]. */
#include "../executor/tflite_fuse_machine.h"
#include "tflite_fuse_requantize.h"

void tflite_fuse_fully_connected_sum(const tflite_fuse_call* call, int32_t position, int32_t* sums) {
  const int32_t depth = call->inputs[0]->channels;
  const size_t filter = (size_t)tflite_fuse_pixels(call->inputs[0]) * (size_t)depth;
  const int8_t* weights = call->weights + (size_t)position * (size_t)depth;
  for (int32_t c = 0; c < call->output->channels; ++c, weights += filter) {
    const int8_t* w = weights;
    int32_t sum = sums[c];
    for (int32_t i = 0; i < call->count; ++i) {
      const int8_t* pixel = call->windows[0][i];
      for (int32_t k = 0; k < depth; ++k) {
        sum = tflite_fuse_mac(sum, pixel[k], *w++);
      }
    }
    sums[c] = sum;
  }
}

void tflite_fuse_fully_connected_finish(const tflite_fuse_call* call, const int32_t* sums) {
  const tflite_fuse_channel* table = call->table;
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  for (int32_t c = 0; c < call->output->channels; ++c) {
    call->outputs[0][c] = tflite_fuse_requantize(sums[c], table[c], range);
  }
}
