// Runs $run and prints its outputs. Written by tflite-fuse; yours to change.
#include "esp_timer.h"
#include "freertos/FreeRTOS.h"
#include "freertos/task.h"

$includes
$setup
extern "C" void app_main(void) {
  const char* reason = tflite::micro::SetUp();
  while (reason != nullptr) {
    printf("%s\n", reason);
    vTaskDelay(pdMS_TO_TICKS(5000));
  }
  for (;;) {
    tflite::micro::FillInputs();
    const int64_t start = esp_timer_get_time();
    if (tflite::micro::interpreter->Invoke() == 0) {  // kTfLiteOk
      printf("microseconds: %ld\n", static_cast<long>(esp_timer_get_time() - start));
      tflite::micro::PrintOutputs();
    } else {
      printf("Invoke failed\n");
    }
    vTaskDelay(pdMS_TO_TICKS($pause));
  }
}
