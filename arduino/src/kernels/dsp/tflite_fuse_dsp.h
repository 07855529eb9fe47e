/* Wraps the instructions of Arm's DSP extension (Cortex-M4, M7, M33, M55 and others) that the packed kernels use.
 *
 * Loads are volatile: compilers that move loads up to hide latency run out of the core's 14 registers and spend more on
 * spilling than they gain. Pixels are loaded from any address: builds with -mno-unaligned-access, for memory or cores
 * that require alignment, use the portable kernels.
 *
 * For tests TFLITE_FUSE_DSP_EMULATION names a header that defines the same functions in portable C. */
#ifndef TFLITE_FUSE_DSP_H_
#define TFLITE_FUSE_DSP_H_

#include <stdint.h>
#include <string.h>

#include "../../executor/tflite_fuse_format.h"

/* 1 if loops are scheduled for cores that issue two instructions per cycle, such as Cortex-M7: single loads between
 * products. Other cores load fastest where single loads follow each other. A build may define it; else a core with
 * double-precision floats is taken for a Cortex-M7. */
#if !defined(TFLITE_FUSE_DUAL_ISSUE)
#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP) && (__ARM_FP & 8)
#define TFLITE_FUSE_DUAL_ISSUE 1
#else
#define TFLITE_FUSE_DUAL_ISSUE 0
#endif
#endif

#if defined(TFLITE_FUSE_DSP_EMULATION)
#define TFLITE_FUSE_DSP 1
#include TFLITE_FUSE_DSP_EMULATION
#elif defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_UNALIGNED) && defined(__thumb2__) && defined(__OPTIMIZE__)
/* Without optimization GCC and Clang reserve registers that the loops below need. */
#define TFLITE_FUSE_DSP 1

/* A 32-bit word is a pair of int16 (low, high) or four int8 (0...3, from low to high). */

/* Returns the pair (int8 0, int8 2) as int16. */
static inline uint32_t tflite_fuse_even(uint32_t word) {
  uint32_t pair;
  __asm__("sxtb16 %0, %1" : "=r"(pair) : "r"(word));
  return pair;
}

/* Returns the pair (int8 1, int8 3) as int16. */
static inline uint32_t tflite_fuse_odd(uint32_t word) {
  uint32_t pair;
  __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
  return pair;
}

/* Returns the pair (low of a, low of b). */
static inline uint32_t tflite_fuse_pair(int32_t a, int32_t b) {
  uint32_t pair;
  __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(pair) : "r"(a), "r"(b));
  return pair;
}

/* Returns sum + low a * low b + high a * high b. */
static inline int32_t tflite_fuse_mac_pair(int32_t sum, uint32_t a, uint32_t b) {
  int32_t result;
  __asm__("smlad %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}

/* Returns sum + low a * low b. */
static inline int32_t tflite_fuse_mac_low(int32_t sum, uint32_t a, uint32_t b) {
  int32_t result;
  __asm__("smlabb %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}

/* Returns sum + low a * high b. */
static inline int32_t tflite_fuse_mac_high(int32_t sum, uint32_t a, uint32_t b) {
  int32_t result;
  __asm__("smlabt %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}

/* Returns sum + a * b / 2^32, rounded to the nearest integer, halves up. */
static inline int32_t tflite_fuse_mac_top(int32_t sum, int32_t a, int32_t b) {
  int32_t result;
  __asm__("smmlar %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}

/* Returns value / 2, rounded down and clamped to int8. */
static inline int8_t tflite_fuse_halve_to_int8(int32_t value) {
  int32_t result;
  __asm__("ssat %0, #8, %1, asr #1" : "=r"(result) : "r"(value));
  return (int8_t)result;
}

/* Returns value >> TFLITE_FUSE_ADD_BITS, clamped to int8. */
static inline int8_t tflite_fuse_added_to_int8(int32_t value) {
  int32_t result;
  __asm__("ssat %0, #8, %1, asr %2" : "=r"(result) : "r"(value), "i"(TFLITE_FUSE_ADD_BITS));
  return (int8_t)result;
}

/* Loads the word at *from, any address, and advances `from` by `step` bytes, a constant. */
#define TFLITE_FUSE_LOAD_1(word, from, step) \
  __asm__ volatile("ldr %0, [%1], %2" : "=r"(word), "+r"(from) : "i"(step) : "memory")

/* Widens four values of each of two pixels to pairs (0, 2), (1, 3), of the first pixel, then of the second; advances
 * all pointers. */
#define TFLITE_FUSE_WIDEN_2(wide, p, q)                                                    \
  __asm__ volatile(                                                                        \
      "ldr r5, [%1], #4\n\tldr r8, [%2], #4\n\tsxtb16 r4, r5\n\tsxtb16 r5, r5, ror #8\n\t" \
      "sxtb16 r6, r8\n\tsxtb16 r8, r8, ror #8\n\tstmia.w %0!, {r4, r5, r6, r8}"            \
      : "+r"(wide), "+r"(p), "+r"(q)                                                       \
      :                                                                                    \
      : "r4", "r5", "r6", "r8", "memory")

/* Loads two neighbouring pointers. */
#if TFLITE_FUSE_DUAL_ISSUE
#define TFLITE_FUSE_TWO_POINTERS "ldrd %0, %1, [%2, %3]\n\t"
#else
#define TFLITE_FUSE_TWO_POINTERS "ldr %0, [%2, %3]\n\tldr %1, [%2, %5]\n\t"
#endif

/* Loads pair = (pixels[index][channel], pixels[index + 1][channel]); index: a constant. */
#define TFLITE_FUSE_LOAD_COLUMN_2(pair, pixels, index, channel)                 \
  do {                                                                          \
    uint32_t below_;                                                            \
    __asm__ volatile(                                                           \
        TFLITE_FUSE_TWO_POINTERS "ldrsb %0, [%0, %4]\n\tldrsb %1, [%1, %4]\n\t" \
        "pkhbt %0, %0, %1, lsl #16"                                             \
        : "=&r"(pair), "=&l"(below_)                                            \
        : "r"(pixels), "i"((index) * 4), "r"(channel), "i"((index) * 4 + 4)     \
        : "memory");                                                            \
  } while (0)

/* Loads bytes = pixels[index][channel], the next channel's value, and the same of pixels[index + 1];
 * index: a constant. */
#define TFLITE_FUSE_LOAD_HALVES_2(bytes, pixels, index, channel)              \
  do {                                                                        \
    uint32_t below_;                                                          \
    __asm__ volatile(                                                         \
        TFLITE_FUSE_TWO_POINTERS "ldrh %0, [%0, %4]\n\tldrh %1, [%1, %4]\n\t" \
        "pkhbt %0, %0, %1, lsl #16"                                           \
        : "=&r"(bytes), "=&r"(below_)                                         \
        : "r"(pixels), "i"((index) * 4), "r"(channel), "i"((index) * 4 + 4)   \
        : "memory");                                                          \
  } while (0)

/* Loads bytes = pixels[index][channel], the next channel's value, two zeros; index: a constant. */
#define TFLITE_FUSE_LOAD_HALVES_1(bytes, pixels, index, channel) \
  __asm__ volatile("ldr %0, [%1, %2]\n\tldrh %0, [%0, %3]"       \
                   : "=&r"(bytes)                                \
                   : "r"(pixels), "i"((index) * 4), "r"(channel) \
                   : "memory")

/* Loads value = pixels[index][channel]; index: a constant. */
#define TFLITE_FUSE_LOAD_COLUMN_1(value, pixels, index, channel) \
  __asm__ volatile("ldr %0, [%1, %2]\n\tldrsb %0, [%0, %3]"      \
                   : "=&r"(value)                                \
                   : "r"(pixels), "i"((index) * 4), "r"(channel) \
                   : "memory")

/* The same for pixels[index + to_next], too. */
#define TFLITE_FUSE_LOAD_COLUMNS_1(first, second, pixels, index, to_next, channel)                    \
  __asm__ volatile("ldr %0, [%2, %4]\n\tldr %1, [%2, %5]\n\tldrsb %0, [%0, %3]\n\tldrsb %1, [%1, %3]" \
                   : "=&r"(first), "=&r"(second)                                                      \
                   : "r"(pixels), "r"(channel), "i"((index) * 4), "i"(((index) + (to_next)) * 4)      \
                   : "memory")

#else
#define TFLITE_FUSE_DSP 0
#endif

#endif
