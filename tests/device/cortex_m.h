/* What cortex_m.c needs of a machine beside its instruction counter. */
#ifndef CORTEX_M_H_
#define CORTEX_M_H_

#include "device.h"

void start_counter(void);

#endif
