/* The instructions of Arm's DSP extension (Cortex-M4, M7, M33, M55 and others) that the fast kernels are built from.
 *
 * Statements that load are volatile: a compiler that moves loads up to hide latency runs out of the core's 14 registers
 * and spends more on spilling than it gains. Pixels are loaded from any address: a build with -mno-unaligned-access, for
 * memory or cores that do not allow it, has the portable kernels instead.
 *
 * For tests TFLITE_FUSE_DSP_EMULATION names a header that defines the same functions in portable C. */
#ifndef TFLITE_FUSE_DSP_H_
#define TFLITE_FUSE_DSP_H_

#include <stdint.h>
#include <string.h>

/* What the loops over weights of 16 bits work on: pairs of channels of two pixels or of one, finished, or a part of their
 * windows, added to sums. All that points to what comes next moves on. */
typedef struct {
  const void* entry; /* of the next channel in the table */
  int8_t* outputs[2];
  int32_t zero_point_half;
  const uint32_t* wide;
  uint32_t start;
  const uint32_t* wide_end;
  const void* entry_end;
  const int8_t* weights;
  int32_t* sums;
  const int32_t* sums_end;
  uint32_t skip; /* bytes of weights behind a part of a window, until that of the next two channels */
} tflite_fuse_int16_run;

#if defined(TFLITE_FUSE_DSP_EMULATION)
#define TFLITE_FUSE_DSP 1
#include TFLITE_FUSE_DSP_EMULATION
#elif defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_UNALIGNED) && defined(__thumb2__) && defined(__OPTIMIZE__)
/* Without optimization, GCC and Clang keep registers for themselves that the loops below need. */
#define TFLITE_FUSE_DSP 1

/* A 32-bit word is a pair of int16 (low, high) or four int8 (0...3, from low to high). */

/* (int8 0, int8 2) as int16. */
static inline uint32_t tflite_fuse_even(uint32_t word) {
  uint32_t pair;
  __asm__("sxtb16 %0, %1" : "=r"(pair) : "r"(word));
  return pair;
}

/* (int8 1, int8 3) as int16. */
static inline uint32_t tflite_fuse_odd(uint32_t word) {
  uint32_t pair;
  __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(word));
  return pair;
}

/* (low of a, low of b) */
static inline uint32_t tflite_fuse_pair(int32_t a, int32_t b) {
  uint32_t pair;
  __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(pair) : "r"(a), "r"(b));
  return pair;
}

/* sum + low a * low b + high a * high b */
static inline int32_t tflite_fuse_mac_pair(int32_t sum, uint32_t a, uint32_t b) {
  int32_t result;
  __asm__("smlad %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}

/* sum + low a * low b */
static inline int32_t tflite_fuse_mac_low(int32_t sum, uint32_t a, uint32_t b) {
  int32_t result;
  __asm__("smlabb %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}

/* sum + low a * high b */
static inline int32_t tflite_fuse_mac_high(int32_t sum, uint32_t a, uint32_t b) {
  int32_t result;
  __asm__("smlabt %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}

/* sum + a * b / 2^32 to the nearest integer, halves up */
static inline int32_t tflite_fuse_mac_top(int32_t sum, int32_t a, int32_t b) {
  int32_t result;
  __asm__("smmlar %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}

/* value / 2, rounded down, clamped to int8 */
static inline int8_t tflite_fuse_halve_to_int8(int32_t value) {
  int32_t result;
  __asm__("ssat %0, #8, %1, asr #1" : "=r"(result) : "r"(value));
  return (int8_t)result;
}

/* The word at *from, any address, which moves on by `step` bytes, a constant. */
#define TFLITE_FUSE_LOAD_1(word, from, step) \
  __asm__ volatile("ldr %0, [%1], %2" : "=r"(word), "+r"(from) : "i"(step) : "memory")

/* The loops of the convolution: quads of weights of two channels meet values of two pixels or one, made pairs before.
 *
 * Some quads a turn; of a first turn, `add pc` skips those that are too many: all instructions there have four bytes.
 * Three registers are left to the compiler, r7 not counted, which code may need for its frames: the end of the pairs
 * stays in memory. quads: > 0. */

/* Four quads a turn. A quad, v and w: r8, r9 are the first pixel's pairs, r10, r12 the second one's. */
#define TFLITE_FUSE_START_2X2(quads) ((0u - (quads)) % 4 * (14 * 4))

#define TFLITE_FUSE_QUAD_2X2_                                                                                   \
  "ldmia.w %[wide]!, {r8, r9, r10, r12}\n\tldrd %[v], %[w], [%[weights]], #8\n\t"                               \
  "sxtb16 %[t], %[v]\n\tsmlad %[a0], r8, %[t], %[a0]\n\tsmlad %[a1], r10, %[t], %[a1]\n\t"                      \
  "sxtb16 %[v], %[v], ror #8\n\tsmlad %[a0], r9, %[v], %[a0]\n\tsmlad %[a1], r12, %[v], %[a1]\n\t"              \
  "sxtb16 %[t], %[w]\n\tsmlad %[b0], r8, %[t], %[b0]\n\tsmlad %[b1], r10, %[t], %[b1]\n\t"                      \
  "sxtb16 %[w], %[w], ror #8\n\tsmlad %[b0], r9, %[w], %[b0]\n\tsmlad %[b1], r12, %[w], %[b1]\n\t"

#define TFLITE_FUSE_MAC_2X2(a0_, a1_, b0_, b1_, wide_, weights_, start_, end_)                                  \
  do {                                                                                                          \
    uint32_t v_, w_, t_ = start_;                                                                               \
    __asm__ volatile(                                                                                           \
        "add pc, %[t]\n\tnop\n1:\n\t"                                                                           \
        TFLITE_FUSE_QUAD_2X2_ TFLITE_FUSE_QUAD_2X2_ TFLITE_FUSE_QUAD_2X2_ TFLITE_FUSE_QUAD_2X2_                 \
        "ldr %[t], %[end]\n\tcmp %[t], %[wide]\n\tbne 1b"                                                       \
        : [a0] "+r"(a0_), [a1] "+r"(a1_), [b0] "+r"(b0_), [b1] "+r"(b1_), [wide] "+r"(wide_),                   \
          [weights] "+r"(weights_), [t] "+r"(t_), [v] "=&r"(v_), [w] "=&r"(w_)                                  \
        : [end] "m"(end_)                                                                                       \
        : "r8", "r9", "r10", "r12", "cc", "memory");                                                            \
  } while (0)

/* All channels of four pixels, one at a time: also what lies around the loop is written out, because compilers spill there.
 * Four quads a turn. */
#define TFLITE_FUSE_START_4X1(quads) ((0u - (quads)) % 4 * (13 * 4))

/* What it needs in memory, in the order in which registers are loaded. */
typedef struct {
  int8_t* output;    /* of the first pixel; the others' follow, `to_next` bytes apart */
  const void* entry; /* of the next channel: bias, multiplier, shift */
  int32_t zero_point_half;
  int32_t to_next;
  const uint32_t* wide;
  uint32_t start;
  int32_t back, toggle; /* from behind a channel's weights to those of the next, which comes and goes */
  const uint32_t* wide_end;
  const void* entry_end;
  const int8_t* weights;
} tflite_fuse_four;

/* r4, r5, r6, r8: sums; r9...r12: pairs of two pixels; r0: the next pairs; r1: the next weights; r2, r3: weights. */
#define TFLITE_FUSE_QUAD_OF_2_4X1_(a, b)                                                                        \
  "ldmia.w r0!, {r9, r10, r11, r12}\n\t"                                                                        \
  "smlad " a ", r9, r2, " a "\n\tsmlad " b ", r11, r2, " b "\n\t"                                              \
  "smlad " a ", r10, r3, " a "\n\tsmlad " b ", r12, r3, " b "\n\t"

#define TFLITE_FUSE_QUAD_4X1_                                                                                   \
  "ldr.w r3, [r1], #8\n\tsxtb16 r2, r3\n\tsxtb16 r3, r3, ror #8\n\t"                                          \
  TFLITE_FUSE_QUAD_OF_2_4X1_("r4", "r5") TFLITE_FUSE_QUAD_OF_2_4X1_("r6", "r8")

/* As tflite_fuse_scale_down does it; r9: half, r10: multiplier, r11: shift. */
#define TFLITE_FUSE_FINISH_4X1_(sum)                                                                            \
  "add r0, r9, " sum ", asr #31\n\tlsl " sum ", " sum ", #1\n\tsmmlar " sum ", " sum ", r10, r0\n\t"            \
  "asr " sum ", " sum ", r11\n\tssat " sum ", #8, " sum ", asr #1\n\t"

static inline void tflite_fuse_all_4x1(tflite_fuse_four* four) {
  __asm__ volatile(
      "ldr r1, [%[four], #40]\n\tldr r3, [%[four], #4]\n"
      "0:\tldr r4, [r3]\n\tldrd r0, r2, [%[four], #16]\n\tmov r5, r4\n\tmov r6, r4\n\tmov r8, r4\n\t"
      "add pc, r2\n\tnop\n"
      "1:\t" TFLITE_FUSE_QUAD_4X1_ TFLITE_FUSE_QUAD_4X1_ TFLITE_FUSE_QUAD_4X1_ TFLITE_FUSE_QUAD_4X1_
      "ldr r2, [%[four], #32]\n\tcmp r0, r2\n\tbne 1b\n\t"
      "ldm %[four], {r2, r3, r9, r12}\n\tldmia.w r3!, {r0, r10, r11}\n\tlsl r9, r9, r11\n\t"
      TFLITE_FUSE_FINISH_4X1_("r5") "strb r5, [r2, r12]\n\t"
      TFLITE_FUSE_FINISH_4X1_("r6") "strb r6, [r2, r12, lsl #1]\n\tadd r12, r12, r12, lsl #1\n\t"
      TFLITE_FUSE_FINISH_4X1_("r8") "strb r8, [r2, r12]\n\t"
      TFLITE_FUSE_FINISH_4X1_("r4") "strb r4, [r2], #1\n\t"
      "ldrd r9, r10, [%[four], #24]\n\tldr r0, [%[four], #36]\n\tstrd r2, r3, [%[four]]\n\t"
      "sub r1, r1, r9\n\teor r9, r9, r10\n\tstr r9, [%[four], #24]\n\tcmp r3, r0\n\tbne 0b"
      :
      : [four] "r"(four)
      : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "cc", "memory");
}

/* Four quads a turn, two by two; the lowest bit of `start`: an odd one comes before. */
#define TFLITE_FUSE_START_2X1(quads) \
  (((quads) == 1 ? 2 * (19 * 4) : (0u - (quads) / 2) % 2 * (19 * 4)) * 2 + (quads) % 2)

#define TFLITE_FUSE_HALF_QUAD_2X1_(sum, even, odd, quad)                                                        \
  "sxtb16 %[t], " quad "\n\tsmlad %[" sum "], " even ", %[t], %[" sum "]\n\t"                                   \
  "sxtb16 " quad ", " quad ", ror #8\n\tsmlad %[" sum "], " odd ", " quad ", %[" sum "]\n\t"

#define TFLITE_FUSE_2_QUADS_2X1_                                                                                \
  "ldmia.w %[weights]!, {r8, r9, r10, r12}\n\tldrd r3, r4, [%[wide]], #8\n\t"                                   \
  TFLITE_FUSE_HALF_QUAD_2X1_("a", "r3", "r4", "r8") TFLITE_FUSE_HALF_QUAD_2X1_("b", "r3", "r4", "r9")           \
  "ldrd r3, r4, [%[wide]], #8\n\t"                                                                              \
  TFLITE_FUSE_HALF_QUAD_2X1_("a", "r3", "r4", "r10") TFLITE_FUSE_HALF_QUAD_2X1_("b", "r3", "r4", "r12")

#define TFLITE_FUSE_MAC_2X1(a_, b_, wide_, weights_, start_, end_)                                              \
  do {                                                                                                          \
    uint32_t t_ = start_;                                                                                       \
    __asm__ volatile(                                                                                           \
        "lsrs %[t], %[t], #1\n\tbcc 2f\n\t"                                                                     \
        "ldrd r3, r4, [%[wide]], #8\n\tldrd r8, r9, [%[weights]], #8\n\tmov r12, %[t]\n\t"                      \
        TFLITE_FUSE_HALF_QUAD_2X1_("a", "r3", "r4", "r8") TFLITE_FUSE_HALF_QUAD_2X1_("b", "r3", "r4", "r9")     \
        "mov %[t], r12\n2:\n\tadd pc, %[t]\n\tnop\n1:\n\t"                                                      \
        TFLITE_FUSE_2_QUADS_2X1_ TFLITE_FUSE_2_QUADS_2X1_                                                       \
        "cmp %[end], %[wide]\n\tbne 1b"                                                                         \
        : [a] "+r"(a_), [b] "+r"(b_), [wide] "+r"(wide_), [weights] "+r"(weights_), [t] "+r"(t_)                \
        : [end] "r"(end_)                                                                                       \
        : "r3", "r4", "r8", "r9", "r10", "r12", "cc", "memory");                                                \
  } while (0)

/* pair = (pixels[index][channel], pixels[index + 1][channel]); index: a constant. */
#define TFLITE_FUSE_LOAD_COLUMN_2(pair, pixels, index, channel)                               \
  do {                                                                                        \
    uint32_t below_;                                                                          \
    __asm__ volatile(                                                                         \
        "ldrd %0, %1, [%2, %3]\n\tldrsb %0, [%0, %4]\n\tldrsb %1, [%1, %4]\n\t"               \
        "pkhbt %0, %0, %1, lsl #16"                                                           \
        : "=&r"(pair), "=&r"(below_)                                                          \
        : "r"(pixels), "i"((index) * 4), "r"(channel)                                         \
        : "memory");                                                                          \
  } while (0)

/* bytes = pixels[index][channel], the next channel's value, and the same of pixels[index + 1]; index: a constant. */
#define TFLITE_FUSE_LOAD_HALVES_2(bytes, pixels, index, channel)                              \
  do {                                                                                        \
    uint32_t below_;                                                                          \
    __asm__ volatile(                                                                         \
        "ldrd %0, %1, [%2, %3]\n\tldrh %0, [%0, %4]\n\tldrh %1, [%1, %4]\n\t"                 \
        "pkhbt %0, %0, %1, lsl #16"                                                           \
        : "=&r"(bytes), "=&r"(below_)                                                         \
        : "r"(pixels), "i"((index) * 4), "r"(channel)                                         \
        : "memory");                                                                          \
  } while (0)

/* bytes = pixels[index][channel], the next channel's value, two zeros; index: a constant. */
#define TFLITE_FUSE_LOAD_HALVES_1(bytes, pixels, index, channel)        \
  __asm__ volatile("ldr %0, [%1, %2]\n\tldrh %0, [%0, %3]"              \
                   : "=&r"(bytes)                                       \
                   : "r"(pixels), "i"((index) * 4), "r"(channel)        \
                   : "memory")

/* value = pixels[index][channel]; index: a constant. */
#define TFLITE_FUSE_LOAD_COLUMN_1(value, pixels, index, channel)        \
  __asm__ volatile("ldr %0, [%1, %2]\n\tldrsb %0, [%0, %3]"             \
                   : "=&r"(value)                                       \
                   : "r"(pixels), "i"((index) * 4), "r"(channel)        \
                   : "memory")

#else
#define TFLITE_FUSE_DSP 0
#endif

#endif
