// Runs $run and prints its outputs. Written by tflite-fuse; yours to change.
$first
// The header of your TensorFlow Lite Micro library. It has to come before the others.
#include <$runtime>

$includes
$setup
void setup() {
  Serial.begin(115200);
  const char* reason = tflite::micro::SetUp();
  while (reason != nullptr) {
    Serial.println(reason);
    delay(5000);
  }
}

void loop() {
  tflite::micro::FillInputs();
  const unsigned long start = micros();
  if (tflite::micro::interpreter->Invoke() == 0) {  // kTfLiteOk
    Serial.print("microseconds: ");
    Serial.println(micros() - start);
    tflite::micro::PrintOutputs();
  } else {
    Serial.println("Invoke failed");
  }
  delay($pause);
}
