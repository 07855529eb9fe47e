// An I2S microphone (INMP441 and its like) on an ESP32, by ESP_I2S of the ESP32 core from 3.0 on.
#include <ESP_I2S.h>

const int PIN_CLOCK = 26, PIN_WORD = 25, PIN_DATA = 33;
I2SClass microphone;

bool start_microphone() {
  microphone.setPins(PIN_CLOCK, PIN_WORD, -1, PIN_DATA);
  return microphone.begin(I2S_MODE_STD, SAMPLE_RATE, I2S_DATA_BIT_WIDTH_16BIT, I2S_SLOT_MODE_MONO);
}

// Waits for the next SAMPLES samples.
bool read_samples(int16_t* samples) {
  const size_t bytes = SAMPLES * sizeof(int16_t);
  return microphone.readBytes(reinterpret_cast<char*>(samples), bytes) == bytes;
}
