// The gray value of a pixel of stripes in one of four directions.
#pragma once
#include <cstdint>

static inline uint8_t stripes(int direction, int x, int y) {
  static const int right[] = {1, 0, 1, 1}, down[] = {0, 1, 1, -1};
  return (x * right[direction] + y * down[direction]) & 8 ? 228 : 28;
}
