// Which shape is on the picture? The sample model of tflite-fuse on TensorFlow Lite Micro, with a picture in flash.
//
// The model was rewritten for an input outside the arena, so the picture never gets into RAM:
//
//     tflite-fuse rewrite sample.tflite small.tflite --input external
//     tflite-fuse export small.tflite folder --format arduino
//
// The other files were made by scripts/build_sample_sketch.py.

// The header of your TensorFlow Lite Micro library. It has to come before the others.
#include <Chirale_TensorFlowLite.h>

#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/schema/schema_generated.h"
#include "tflite_fuse_tflm.h"

#include "model_data.h"
#include "model_ops.h"
#include "picture.h"

alignas(16) uint8_t arena[MODEL_ARENA_BYTES];
tflite::MicroInterpreter* interpreter = nullptr;

// Input 0 lies in memory that the arena does not own. A frame buffer or PSRAM would do as well.
const void* const frames[] = {picture};
const size_t frame_bytes[] = {PICTURE_BYTES};
const tflite_fuse_outside outside = {TFLITE_FUSE_OUTSIDE_MARK_2, 1, frames, frame_bytes, 0, nullptr, nullptr, 0};

void setup() {
  Serial.begin(115200);
  static tflite::micro::ModelOps ops;
  if (tflite::micro::RegisterModelOps(ops) != kTfLiteOk) {  // among others: tflite_fuse_register(ops)
    Serial.println("an operator could not be registered");
    return;
  }
  static tflite::MicroInterpreter built(tflite::GetModel(model_data), ops, arena, sizeof(arena));
  tflite_fuse_set_outside(&outside);
  if (built.AllocateTensors() == kTfLiteOk) {
    interpreter = &built;
  }
}

void loop() {
  delay(2000);
  if (interpreter == nullptr || interpreter->Invoke() != kTfLiteOk) {
    Serial.println("the model cannot be run; the line above says why");
    return;
  }
  const int8_t* scores = interpreter->output(0)->data.int8;
  int best = 0;
  bool same = true;
  for (int i = 0; i < MODEL_OUTPUT_0_BYTES; ++i) {
    best = scores[i] > scores[best] ? i : best;
    same = same && scores[i] == expected[i];
  }
  Serial.print("the picture shows a ");
  Serial.print(names[best]);
  Serial.println(same ? ", with the bytes of the original model" : ", with OTHER bytes than the original model");
}
