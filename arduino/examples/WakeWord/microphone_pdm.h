// The PDM microphone of an Arduino Nano 33 BLE Sense, by the library PDM of its core.
#include <PDM.h>

const unsigned long PATIENCE_MS = 1000;
int16_t received[SAMPLES];
volatile bool is_there = false;

// Called in an interrupt. A step that the model has not fetched is replaced by the next one.
void on_samples() {
  is_there = PDM.read(received, sizeof(received)) == static_cast<int>(sizeof(received));
}

bool start_microphone() {
  PDM.onReceive(on_samples);
  PDM.setBufferSize(sizeof(received));
  return PDM.begin(1, SAMPLE_RATE);
}

// Waits for the next step and copies its SAMPLES samples.
bool read_samples(int16_t* samples) {
  const unsigned long since = millis();
  while (!is_there) {
    if (millis() - since > PATIENCE_MS) {
      return false;
    }
  }
  noInterrupts();
  memcpy(samples, received, sizeof(received));
  is_there = false;
  interrupts();
  return true;
}
