// Stands in for the library PDM: time passes with every look at it, and each time a step of sound arrives.
#pragma once
#include "sweeps.h"

struct Microphone {
  void (*handler)() = nullptr;
  int bytes = 0, number = 0;
  void onReceive(void (*function)()) { handler = function; }
  void setBufferSize(int size) { bytes = size; }
  int begin(int channels, int rate) { return channels == 1 && rate == 16000; }
  int read(void* buffer, int size) {
    sweep(number++, static_cast<int16_t*>(buffer), size / 2);
    return size;
  }
};
static Microphone PDM;
static inline unsigned long millis() {
  static unsigned long now = 0;
  if (++now % 2 == 0) PDM.handler();
  return 0;
}
static inline void noInterrupts() {}
static inline void interrupts() {}
