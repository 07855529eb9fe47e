/* What programs tell in the emulators, and how much stack they take. */
#ifndef REPORT_H_
#define REPORT_H_

#include <string.h>

#include "device.h"

static void write_number(uint64_t value) {
  /* Powers of ten by subtraction: there is no 64-bit division on every target. */
  static const uint64_t powers[] = {1000000000000, 100000000000, 10000000000, 1000000000, 100000000, 10000000, 1000000,
                                    100000,        10000,        1000,        100,        10,        1};
  char text[16];
  int length = 0;
  for (unsigned i = 0; i < sizeof(powers) / sizeof(powers[0]); ++i) {
    char digit = '0';
    while (value >= powers[i]) {
      value -= powers[i];
      ++digit;
    }
    if (length > 0 || digit != '0' || powers[i] == 1) {
      text[length++] = digit;
    }
  }
  text[length] = 0;
  device_write(text);
}

static void write_line(const char* word, uint64_t a, uint64_t b, uint64_t c) {
  device_write(word);
  write_number(a);
  device_write(" ");
  write_number(b);
  device_write(" ");
  write_number(c);
  device_write("\n");
}

static void write_bytes(const int8_t* bytes, uint32_t count) {
  static const char digits[] = "0123456789abcdef";
  char text[129];
  device_write("output ");
  while (count > 0) {
    uint32_t some = count < 64 ? count : 64;
    for (uint32_t i = 0; i < some; ++i) {
      text[2 * i] = digits[(uint8_t)bytes[i] >> 4];
      text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * some] = 0;
    device_write(text);
    bytes += some;
    count -= some;
  }
  device_write("\n");
}

/* The stack below the caller is painted, and later found painted but for what was used: exact but for the few bytes that
 * these two functions push themselves. */
enum { DEEP = 8192, PAINT = 0xA5 };

static __attribute__((noinline)) void paint_stack(void) {
  volatile uint8_t below[DEEP];
  for (uint32_t i = 0; i < DEEP; ++i) {
    below[i] = PAINT;
  }
}

static __attribute__((noinline)) uint32_t stack_used(void) {
  volatile uint8_t below[DEEP];
  uint32_t untouched = 0;
  __asm__ volatile("" : : "r"(below) : "memory");
  while (untouched < DEEP && below[untouched] == PAINT) {
    ++untouched;
  }
  return DEEP - untouched;
}

#endif
