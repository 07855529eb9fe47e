/* What the runner needs of a target. */
#ifndef DEVICE_H_
#define DEVICE_H_

#include <stdint.h>

/* Instructions executed so far, in steps of up to 40. */
uint64_t device_instructions(void);

void device_write(const char* text);

_Noreturn void device_exit(int code);

int main(void);

#endif
