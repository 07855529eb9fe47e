extern "C" void app_main(void) {
  tflite::micro::Benchmark();
  for (;;) {
    vTaskDelay(pdMS_TO_TICKS(1000));
  }
}
