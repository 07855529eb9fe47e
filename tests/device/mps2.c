/* Instruction counter of QEMU's mps2 machines: timer 0, which with -icount shift=0 counts one tick of 40 ns per 40
 * instructions. */
#include "cortex_m.h"

static volatile uint32_t* const timer = (volatile uint32_t*)0x40000000; /* control, value, reload */

static uint64_t ticks_before; /* of rounds the timer has completed */
static uint32_t last_value = UINT32_MAX;

void start_counter(void) {
  timer[2] = UINT32_MAX;
  timer[1] = UINT32_MAX;
  timer[0] = 1;
}

uint64_t device_instructions(void) {
  const uint32_t value = timer[1];
  if (value > last_value) {
    ticks_before += UINT64_C(1) << 32;
  }
  last_value = value;
  return (ticks_before + (UINT32_MAX - value)) * 40;
}
