/* Start, output and instruction counter on QEMU's mps2 machines: semihosting, and timer 0, which with -icount shift=0
 * counts one tick of 40 ns per 40 instructions. */
#include "device.h"

extern uint32_t data_source, data_start, data_end, bss_start, bss_end, stack_top;

void reset(void);

__attribute__((section(".vectors"), used)) const void* const vectors[16] = {&stack_top, (const void*)reset};

static volatile uint32_t* const timer = (volatile uint32_t*)0x40000000; /* control, value, reload */
static volatile uint32_t* const coprocessor_access = (volatile uint32_t*)0xE000ED88;

static uint64_t ticks_before; /* of rounds the timer has completed */
static uint32_t last_value = UINT32_MAX;

uint64_t device_instructions(void) {
  const uint32_t value = timer[1];
  if (value > last_value) {
    ticks_before += UINT64_C(1) << 32;
  }
  last_value = value;
  return (ticks_before + (UINT32_MAX - value)) * 40;
}

static void semihost(uint32_t operation, const void* argument) {
  register uint32_t r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

void device_write(const char* text) { semihost(0x04, text); }

_Noreturn void device_exit(int code) {
  semihost(0x18, (const void*)(code == 0 ? 0x20026u : 0x20024u));
  for (;;) {
  }
}

void reset(void) {
  *coprocessor_access |= 0xFu << 20;
  __asm__ volatile("dsb\n\tisb");
  for (uint32_t *from = &data_source, *to = &data_start; to < &data_end;) {
    *to++ = *from++;
  }
  for (uint32_t* to = &bss_start; to < &bss_end;) {
    *to++ = 0;
  }
  timer[2] = UINT32_MAX;
  timer[1] = UINT32_MAX;
  timer[0] = 1;
  device_exit(main());
}
