/* The board this benchmark runs on: yours to change. */
#ifndef BOARD_H_
#define BOARD_H_

#include <stdint.h>
$includes
/* As `tflite-fuse boards` lists it, and the clock of its core. */
#define BENCHMARK_BOARD $name
#define BENCHMARK_CLOCK_HZ $hertz

#define BENCHMARK_TICKS_PER_SECOND 1000000
static inline uint32_t benchmark_ticks() { return (uint32_t)$now; }

/* Where lines go, piece by piece. */
static inline void benchmark_print(const char* text) { $print; }

$core
#endif
