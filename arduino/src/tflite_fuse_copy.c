/* Pixels as they are: PAD, where the pixels outside the image are the padding, and one input of CONCATENATION. */
#include <string.h>

#include "tflite_fuse_machine.h"

void tflite_fuse_copy(const tflite_fuse_call* call) {
  for (int32_t i = 0; i < call->count; ++i) {
    memcpy(call->outputs[i], call->windows[0][i], (size_t)call->inputs[0]->channels);
  }
}
