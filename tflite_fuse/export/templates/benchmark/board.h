/* The board this benchmark runs on: yours to change. */
#ifndef BOARD_H_
#define BOARD_H_

#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* As `tflite-fuse boards` lists it, and the clock of its core. */
#define BENCHMARK_BOARD $name
#define BENCHMARK_CLOCK_HZ $hertz

#if defined(__ARM_ARCH_7M__) || defined(__ARM_ARCH_7EM__) || defined(__ARM_ARCH_8M_MAIN__)

/* Cycles of the core, which debug logic counts. */
#define BENCHMARK_TICKS_PER_SECOND BENCHMARK_CLOCK_HZ
static inline void benchmark_start(void) {
  *(volatile uint32_t*)0xE000EDFC |= UINT32_C(1) << 24; /* DEMCR: the unit is on */
  *(volatile uint32_t*)0xE0001000 |= 1;                 /* DWT_CTRL: it counts */
}
static inline uint32_t benchmark_ticks(void) { return *(volatile uint32_t*)0xE0001004; }

#elif defined(__riscv) && __riscv_xlen == 32 && !defined(__linux__)

#define BENCHMARK_TICKS_PER_SECOND BENCHMARK_CLOCK_HZ
static inline void benchmark_start(void) {}
static inline uint32_t benchmark_ticks(void) {
  uint32_t cycles;
  __asm__ volatile("csrr %0, mcycle" : "=r"(cycles));
  return cycles;
}

#else

#define BENCHMARK_TICKS_PER_SECOND CLOCKS_PER_SEC
static inline void benchmark_start(void) {}
static inline uint32_t benchmark_ticks(void) { return (uint32_t)clock(); }

#endif

/* Where lines go, piece by piece. */
static inline void benchmark_print(const char* text) { fputs(text, stdout); }

$core
#endif
