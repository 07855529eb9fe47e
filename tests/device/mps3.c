/* Instruction counter of QEMU's mps3-an547: the system counter at 32 MHz, which with -icount shift=0 counts four ticks
 * per 125 instructions. */
#include "cortex_m.h"

static volatile uint32_t* const counter = (volatile uint32_t*)0x58100000; /* control, status, value low, value high */

void start_counter(void) { counter[0] = 1; }

uint64_t device_instructions(void) {
  uint32_t high, low;
  do {
    high = counter[3];
    low = counter[2];
  } while (high != counter[3]);
  return ((uint64_t)high << 32 | low) * 125 / 4;
}
