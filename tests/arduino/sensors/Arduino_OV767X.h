// Stands in for the library Arduino_OV767X and for the pins of an OV7670: a sensor of 160 x 120 pixels whose time passes
// with every look at a pin. Lines follow each other whether they are read or not; every picture has other stripes.
#pragma once
#include <cstdint>
#include "stripes.h"

enum { LOW = 0, HIGH = 1, RISING = 3, A0 = 14, A1 = 15, QQVGA = 3, GRAYSCALE = 2 };

static void (*on_change[32])();
static int sensor_line = 119, sensor_byte = 320, sensor_gap = 0, sensor_picture = 0, sensor_clock = 0;

static inline void next_line() {
  sensor_line = (sensor_line + 1) % 120;
  sensor_byte = -1;
  sensor_gap = sensor_clock = 0;
  if (sensor_line == 0) {
    ++sensor_picture;
    on_change[8]();
  }
  on_change[A1]();
}

static inline int digitalPinToInterrupt(int pin) { return pin; }
static inline void attachInterrupt(int pin, void (*handler)(), int) { on_change[pin] = handler; }
static inline unsigned long millis() { return 0; }

static inline int digitalRead(int pin) {
  static const int data[] = {10, 1, 0, 2, 3, 5, 6, 4};
  const bool in_line = sensor_byte < 320;
  if (pin == A1) {
    if (in_line) {
      sensor_byte += 40;
    } else if (++sensor_gap == 4) {
      next_line();
    }
    return sensor_byte < 320;
  }
  if (pin == A0) {
    const int level = sensor_clock;
    if (in_line) {
      sensor_clock = !sensor_clock;
      sensor_byte += sensor_clock;
    }
    return level;
  }
  const int value = sensor_byte % 2 ? 77 : stripes(sensor_picture % 4, sensor_byte / 2 - 48, sensor_line - 28);
  for (int bit = 0; bit < 8; ++bit) {
    if (data[bit] == pin) return value >> bit & 1;
  }
  return 0;
}

struct Sensor {
  bool begin(int size, int format, int fps) { return size == QQVGA && format == GRAYSCALE && fps == 1; }
};
static Sensor Camera;
