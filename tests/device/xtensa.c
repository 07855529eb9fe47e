/* Output, instruction counter and what Debian's libgcc lacks on QEMU's Xtensa sim machine: with -icount shift=0 the
 * cycle counter ticks once per 25 instructions. */
#include <string.h>

#include "device.h"

void simcall(uint32_t operation, uintptr_t a, uintptr_t b, uintptr_t c);
uint32_t cycle_count(void);

static uint64_t cycles_before;
static uint32_t last_count;

uint64_t device_instructions(void) {
  const uint32_t count = cycle_count();
  if (count < last_count) {
    cycles_before += UINT64_C(1) << 32;
  }
  last_count = count;
  const uint64_t cycles = cycles_before + count;
  return (cycles << 4) + (cycles << 3) + cycles;
}

void device_write(const char* text) { simcall(4, 1, (uintptr_t)text, strlen(text)); }

_Noreturn void device_exit(int code) {
  simcall(1, (uintptr_t)code, 0, 0);
  for (;;) {
  }
}

/* ---- libgcc ---- */

static uint32_t divide(uint32_t dividend, uint32_t divisor, uint32_t* remainder) {
  uint32_t quotient = 0, rest = 0;
  for (int bit = 31; bit >= 0; --bit) {
    rest = rest << 1 | (dividend >> bit & 1);
    if (rest >= divisor) {
      rest -= divisor;
      quotient |= UINT32_C(1) << bit;
    }
  }
  *remainder = rest;
  return quotient;
}

uint32_t __udivsi3(uint32_t a, uint32_t b) {
  uint32_t rest;
  return divide(a, b, &rest);
}

uint32_t __umodsi3(uint32_t a, uint32_t b) {
  uint32_t rest;
  divide(a, b, &rest);
  return rest;
}

static uint32_t magnitude(int32_t value) { return value < 0 ? 0u - (uint32_t)value : (uint32_t)value; }

int32_t __divsi3(int32_t a, int32_t b) {
  uint32_t rest;
  const uint32_t quotient = divide(magnitude(a), magnitude(b), &rest);
  return (int32_t)((a < 0) != (b < 0) ? 0u - quotient : quotient);
}

int32_t __modsi3(int32_t a, int32_t b) {
  uint32_t rest;
  divide(magnitude(a), magnitude(b), &rest);
  return (int32_t)(a < 0 ? 0u - rest : rest);
}

int64_t __muldi3(int64_t a, int64_t b) {
  const uint32_t a0 = (uint32_t)a & 0xFFFF, a1 = (uint32_t)a >> 16;
  const uint32_t b0 = (uint32_t)b & 0xFFFF, b1 = (uint32_t)b >> 16;
  const uint32_t low = a0 * b0, middle = a1 * b0 + (low >> 16), other = a0 * b1 + (middle & 0xFFFF);
  const uint32_t high = a1 * b1 + (middle >> 16) + (other >> 16) + (uint32_t)a * (uint32_t)((uint64_t)b >> 32) +
                        (uint32_t)((uint64_t)a >> 32) * (uint32_t)b;
  return (int64_t)((uint64_t)high << 32 | other << 16 | (low & 0xFFFF));
}
