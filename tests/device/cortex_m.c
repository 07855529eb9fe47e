/* Start and output on QEMU's mps2 and mps3 machines: semihosting. */
#include "cortex_m.h"

extern uint32_t data_source, data_start, data_end, bss_start, bss_end, stack_top;

void reset(void);

__attribute__((section(".vectors"), used)) const void* const vectors[16] = {&stack_top, (const void*)reset};

static volatile uint32_t* const coprocessor_access = (volatile uint32_t*)0xE000ED88;

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

/* Floating-point and, where there are some, vector instructions are off at first: nothing before may be compiled to
 * them. */
void reset(void) {
  *coprocessor_access |= 0xFu << 20;
  __asm__ volatile("dsb\n\tisb" : : : "memory");
  for (uint32_t *from = &data_source, *to = &data_start; to < &data_end;) {
    *to++ = *from++;
  }
  for (uint32_t* to = &bss_start; to < &bss_end;) {
    *to++ = 0;
  }
  start_counter();
  device_exit(main());
}
