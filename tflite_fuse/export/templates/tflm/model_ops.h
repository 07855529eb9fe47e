// The operators of $title, and no others. Written by tflite-fuse; export again rather than change it.
#ifndef MODEL_OPS_H_
#define MODEL_OPS_H_

#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
$include
namespace tflite {
// TensorFlow Lite Micro's types are found from in here, whether it keeps them in tflite or in tflite::micro.
namespace micro {

typedef MicroMutableOpResolver<$count> ModelOps;

inline TfLiteStatus RegisterModelOps(ModelOps& ops) {
$body  return kTfLiteOk;
}

}  // namespace micro
}  // namespace tflite

#endif
