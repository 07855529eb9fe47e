#include "fragment.h"

#if defined(__IMXRT1062__) /* a Teensy 4 copies constants into RAM unless their section is in flash */
#define IN_FLASH __attribute__((section(".progmem"), aligned(16)))
#else
#define IN_FLASH __attribute__((aligned(16)))
#endif

