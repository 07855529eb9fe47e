// The sound of a step of 20 ms: tones that rise and fall in turn through eight bands, and silence between them.
#pragma once
#include <cmath>
#include <cstdint>

static inline void sweep(int number, int16_t* samples, int count) {
  static const double hertz[] = {500, 700, 1000, 1400, 2000, 2800, 4000, 5600};
  const int at = number % 32, band = number / 32 % 2 == 0 ? at / 2 : 7 - at / 2;
  for (int i = 0; i < count; ++i) {
    const double angle = 2 * 3.14159265358979 * i / 16000;
    samples[i] = at < 16 ? static_cast<int16_t>(9000 * std::sin(angle * hertz[band])) : static_cast<int16_t>(i % 7 - 3);
  }
}
