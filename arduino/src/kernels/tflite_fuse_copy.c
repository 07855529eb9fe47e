/* Pixels as they are: PAD, where the pixels outside the image are the padding, and one input of CONCATENATION. */
#include "../executor/tflite_fuse_machine.h"

void tflite_fuse_copy(const tflite_fuse_call* call) {
  const int32_t channels = call->inputs[0]->channels;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* from = call->windows[0][i];
    int8_t* to = call->outputs[i];
    for (int32_t c = 0; c < channels; ++c) {
      to[c] = from[c]; /* no memcpy: tensors of a hostile file may overlap */
    }
  }
}
