"""C and C++ shared by benchmarks of all formats: name of the core, clock of the board, and parts of lines."""

from __future__ import annotations

from string import Template

CORE = """\
/* The core's name, if the compiler identifies it. */
static inline const char* benchmark_core(void) {
#if defined(__ARM_ARCH_6M__)
  return "cortex-m0plus";
#elif defined(__ARM_ARCH_7M__)
  return "cortex-m3";
#elif defined(__ARM_ARCH_7EM__)
  return (*(volatile uint32_t*)0xE000ED00 >> 4 & 0xFFF) == 0xC27 ? "cortex-m7" : "cortex-m4";
#elif defined(__ARM_FEATURE_MVE)
  return (*(volatile uint32_t*)0xE000ED00 >> 4 & 0xFFF) == 0xD23 ? "cortex-m85" : "cortex-m55";
#elif defined(__ARM_ARCH_8M_MAIN__)
  return "cortex-m33";
#elif defined(__riscv)
  return __riscv_xlen == 32 ? "rv32" : "rv64";
#elif defined(__XTENSA__)
  return "xtensa";
#else
  return "other";
#endif
}
"""

BOARD = Template("""\
/* The board this benchmark runs on: yours to change. */
#ifndef BOARD_H_
#define BOARD_H_

#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* As `tflite-fuse boards` lists it, and the clock of its core. */
#define BENCHMARK_BOARD "$name"
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
""")

BOARD_OF_TFLM = Template("""\
/* The board this benchmark runs on: yours to change. */
#ifndef BOARD_H_
#define BOARD_H_

#include <stdint.h>
$includes
/* As `tflite-fuse boards` lists it, and the clock of its core. */
#define BENCHMARK_BOARD "$name"
#define BENCHMARK_CLOCK_HZ $hertz

#define BENCHMARK_TICKS_PER_SECOND 1000000
static inline uint32_t benchmark_ticks() { return (uint32_t)$now; }

/* Where lines go, piece by piece. */
static inline void benchmark_print(const char* text) { $print; }

$core
#endif
""")

LINES = """\
static void put_number(const char* name, unsigned long value) {
  char text[64];
  snprintf(text, sizeof(text), ", \\"%s\\": %lu", name, value);
  benchmark_print(text);
}

static void put_text(const char* name, const char* value) {
  benchmark_print(", \\"");
  benchmark_print(name);
  benchmark_print("\\": \\"");
  benchmark_print(value);
  benchmark_print("\\"");
}

/* All of a line that is known before anything is run. */
static void put_head(const char* head) {
  benchmark_print(head);
  put_text("board", BENCHMARK_BOARD);
  put_text("core", benchmark_core());
  put_number("clock_hz", BENCHMARK_CLOCK_HZ);
}

static int fail(const char* head, const char* reason) {
  put_head(head);
  put_text("error", reason);
  benchmark_print("}\\n");
  return 1;
}

static unsigned long microseconds(uint64_t ticks) {
  return (unsigned long)(ticks * 1000000u / BENCHMARK_TICKS_PER_SECOND);
}

/* Sorts them. */
static uint32_t median(uint32_t* values, int count) {
  for (int i = 1; i < count; ++i) {
    for (int k = i; k > 0 && values[k] < values[k - 1]; --k) {
      const uint32_t less = values[k];
      values[k] = values[k - 1];
      values[k - 1] = less;
    }
  }
  return values[count / 2];
}
"""
"""Functions that print a line, on top of a board's header."""
