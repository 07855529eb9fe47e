void setup() {
  Serial.begin(115200);
  delay(3000);  // for the monitor
  tflite::micro::Benchmark();
}

void loop() { delay(1000); }
