/* Computes the inner loops of the packed convolution from int8 weights with DSP instructions: four, two or one pixel by
 * two channels. The loops are assembler functions, because they use all registers. */
#include "tflite_fuse_conv_loops_dsp.h"

#if TFLITE_FUSE_DSP && !TFLITE_FUSE_MVE

/* Turns: quads per turn, and bytes of code per quad. Loops of one pixel count two quads as one. */
#define TFLITE_FUSE_INT8_TURN_1 2, 72
#define TFLITE_FUSE_INT8_TURN_2 4, 56
#define TFLITE_FUSE_INT8_TURN_4 2, 104

#if defined(TFLITE_FUSE_DSP_EMULATION)
TFLITE_FUSE_EMULATED_LOOPS(int8, 8)
#else
TFLITE_FUSE_HIDDEN_BEGIN
void tflite_fuse_int8_all_4(tflite_fuse_conv_run* run);
void tflite_fuse_int8_all_2(tflite_fuse_conv_run* run);
void tflite_fuse_int8_all_1(tflite_fuse_conv_run* run);
void tflite_fuse_int8_part_2(tflite_fuse_conv_run* run);
void tflite_fuse_int8_part_1(tflite_fuse_conv_run* run);
TFLITE_FUSE_HIDDEN_END
#endif

const tflite_fuse_conv_loops tflite_fuse_int8_loops = {
    .all_1 = tflite_fuse_int8_all_1,
    .all_2 = tflite_fuse_int8_all_2,
    .all_4 = tflite_fuse_int8_all_4,
    .part_1 = tflite_fuse_int8_part_1,
    .part_2 = tflite_fuse_int8_part_2,
    .turn_1 = {TFLITE_FUSE_INT8_TURN_1},
    .turn_2 = {TFLITE_FUSE_INT8_TURN_2},
    .turn_4 = {TFLITE_FUSE_INT8_TURN_4},
    .pairs_quads = true,
    .doubles = true,
};

/* ---- Pixels ---- */

/* Returns a word of 1...3 values from `from` on, padded with zeros. */
static uint32_t load_rest(const int8_t* from, int32_t count) {
  uint32_t word = (uint8_t)from[0];
  if (count > 1) {
    word |= (uint32_t)(uint8_t)from[1] << 8;
  }
  return count > 2 ? word | (uint32_t)(uint8_t)from[2] << 16 : word;
}

/* Widens the last 1...3 values of a pixel; their second pair is `apart` words behind the first. */
static void widen_rest(uint32_t* wide, const int8_t* from, int32_t count, int32_t apart) {
  const uint32_t word = load_rest(from, count & 3);
  wide[0] = tflite_fuse_even(word);
  wide[apart] = tflite_fuse_odd(word);
}

/* Order of words per quad: values (0, 2) and (1, 3) of pixel p, then of pixel q. */
uint32_t* tflite_fuse_widen_2(uint32_t* wide, const int8_t* p, const int8_t* q, int32_t count) {
  for (const int8_t* end = p + (count & ~3); p != end;) {
    TFLITE_FUSE_WIDEN_2(wide, p, q);
  }
  if ((count & 3) != 0) {
    widen_rest(wide, p, count, 1);
    widen_rest(wide + 2, q, count, 1);
    wide += 4;
  }
  return wide;
}

/* Order of words per quad: values (0, 2) of all pixels, then values (1, 3). */
uint32_t* tflite_fuse_widen_rest_4(uint32_t* wide, const int8_t* const* pixels, int32_t to_next, int32_t count) {
  for (int32_t i = 0; i < 4; ++i) {
    widen_rest(wide + i, pixels[i * to_next] + (count & ~3), count, 4);
  }
  return wide + 8;
}

uint32_t* tflite_fuse_widen_1(uint32_t* wide, const int8_t* p, int32_t count) {
  for (const int8_t* end = p + (count & ~3); p != end; wide += 2) {
    uint32_t word;
    TFLITE_FUSE_LOAD_1(word, p, 4);
    wide[0] = tflite_fuse_even(word);
    wide[1] = tflite_fuse_odd(word);
  }
  if ((count & 3) != 0) {
    widen_rest(wide, p, count, 1);
    wide += 2;
  }
  return wide;
}

/* ---- Assembler ---- */

#if !defined(TFLITE_FUSE_DSP_EMULATION)

/* r0: next pairs of values, r1: next weights, r2, r3: sums of the first channel, r4, r5: of the second, r6, r7:
 * weights, r9: end of the pairs. */
#define TFLITE_FUSE_INT8_QUAD_2                                                \
  "ldmia.w r0!, {r10, r11, r12, lr}\n\tldrd r6, r7, [r1], #8\n\t"              \
  "sxtb16 r8, r6\n\tsmlad r2, r10, r8, r2\n\tsmlad r3, r12, r8, r3\n\t"        \
  "sxtb16 r6, r6, ror #8\n\tsmlad r2, r11, r6, r2\n\tsmlad r3, lr, r6, r3\n\t" \
  "sxtb16 r8, r7\n\tsmlad r4, r10, r8, r4\n\tsmlad r5, r12, r8, r5\n\t"        \
  "sxtb16 r7, r7, ror #8\n\tsmlad r4, r11, r7, r4\n\tsmlad r5, lr, r7, r5\n\t"

/* The loop shared by all_2 and part_2; returns to the address in the second word on the stack. r10: entry point. */
#define TFLITE_FUSE_INT8_QUADS_2                                                                     \
  ".Ltflite_fuse_quads_2:\tadd pc, r10\n\tnop\n1:\t" TFLITE_FUSE_INT8_QUAD_2 TFLITE_FUSE_INT8_QUAD_2 \
  TFLITE_FUSE_INT8_QUAD_2 TFLITE_FUSE_INT8_QUAD_2                                                    \
  TFLITE_FUSE_TURN_IS(TFLITE_FUSE_INT8_TURN_2)                                                       \
  "cmp r0, r9\n\tbne 1b\n\tldr r0, [sp]\n\tldr.w pc, [sp, #4]\n"
#define TFLITE_FUSE_INT8_BACK_TO(label) "adr.w r7, " label " + 1\n\tstr r7, [sp, #4]\n"

/* r2, r3: sums of the two channels. */
#define TFLITE_FUSE_INT8_HALF_QUAD_1(sum, even, odd, weights)          \
  "sxtb16 r8, " weights "\n\tsmlad " sum ", " even ", r8, " sum "\n\t" \
  "sxtb16 " weights ", " weights ", ror #8\n\tsmlad " sum ", " odd ", " weights ", " sum "\n\t"

#define TFLITE_FUSE_INT8_TWO_QUADS_1                                                                            \
  "ldmia.w r1!, {r4, r5, r6, r7}\n\tldmia.w r0!, {r10, r11, r12, lr}\n\t"                                       \
  TFLITE_FUSE_INT8_HALF_QUAD_1("r2", "r10", "r11", "r4") TFLITE_FUSE_INT8_HALF_QUAD_1("r3", "r10", "r11", "r5") \
  TFLITE_FUSE_INT8_HALF_QUAD_1("r2", "r12", "lr", "r6") TFLITE_FUSE_INT8_HALF_QUAD_1("r3", "r12", "lr", "r7")

/* lr: entry point of the loop. */
#define TFLITE_FUSE_INT8_QUADS_1                                                                                \
  ".Ltflite_fuse_quads_1:\tlsrs.w lr, lr, #1\n\tbcc 2f\n\tldrd r4, r5, [r1], #8\n\tldrd r10, r11, [r0], #8\n\t" \
  TFLITE_FUSE_INT8_HALF_QUAD_1("r2", "r10", "r11", "r4") TFLITE_FUSE_INT8_HALF_QUAD_1("r3", "r10", "r11", "r5") \
  "2:\tadd pc, lr\n\tnop\n1:\t" TFLITE_FUSE_INT8_TWO_QUADS_1 TFLITE_FUSE_INT8_TWO_QUADS_1                       \
  TFLITE_FUSE_TURN_IS(TFLITE_FUSE_INT8_TURN_1) "cmp r0, r9\n\tbne 1b\n\tldr r0, [sp]\n\tldr.w pc, [sp, #4]\n"

#define TFLITE_FUSE_INT8_TWICE(sum) "lsls " sum ", " sum ", #1\n\t"
#define TFLITE_FUSE_INT8_FINISH(sum, output) TFLITE_FUSE_FINISH(sum, output, TFLITE_FUSE_INT8_TWICE(sum))
#define TFLITE_FUSE_INT8_FINISH_2(first, second) \
  TFLITE_FUSE_FINISH_2(first, second, TFLITE_FUSE_INT8_TWICE(first), TFLITE_FUSE_INT8_TWICE(second))

TFLITE_FUSE_FUNCTION("tflite_fuse_int8_all_2", "2", ENTRY, ENTRY_END,
         TFLITE_FUSE_INT8_BACK_TO("3f")
         TFLITE_FUSE_BIASES("r2", "r4") "mov r3, r2\n\tmov.w r5, r4\n\t" /* the loop begins at a word */
         TFLITE_FUSE_VALUES_END("r0") TFLITE_FUSE_VALUES("r0", "r10") TFLITE_FUSE_INT8_QUADS_2 "3:\t"
         TFLITE_FUSE_RELOAD
         TFLITE_FUSE_ENTRY TFLITE_FUSE_INT8_FINISH_2("r2", "r3") TFLITE_FUSE_ENTRY TFLITE_FUSE_INT8_FINISH_2("r4", "r5")
         TFLITE_FUSE_ALL_END);

TFLITE_FUSE_FUNCTION("tflite_fuse_int8_part_2", "2", SUMS, SUMS_END,
         TFLITE_FUSE_INT8_BACK_TO("3f")
         TFLITE_FUSE_KEEP_SUMS "ldmia r6!, {r2, r3, r4, r5}\n\t" TFLITE_FUSE_VALUES_END("r7")
         TFLITE_FUSE_VALUES("r7", "r10") "b .Ltflite_fuse_quads_2\n3:\t" TFLITE_FUSE_TO_NEXT_SUMS
         "stmia r6!, {r2, r3, r4, r5}\n\t" TFLITE_FUSE_PART_END);

TFLITE_FUSE_FUNCTION("tflite_fuse_int8_all_1", "1", ENTRY, ENTRY_END,
         TFLITE_FUSE_INT8_BACK_TO("3f")
         TFLITE_FUSE_BIASES("r2", "r3") TFLITE_FUSE_VALUES_END("r0") TFLITE_FUSE_VALUES("r0", "lr")
         TFLITE_FUSE_INT8_QUADS_1 "3:\t" TFLITE_FUSE_RELOAD
         TFLITE_FUSE_ENTRY TFLITE_FUSE_INT8_FINISH("r2", "r7") TFLITE_FUSE_ENTRY
         TFLITE_FUSE_INT8_FINISH("r3", "r7") TFLITE_FUSE_ALL_END);

TFLITE_FUSE_FUNCTION("tflite_fuse_int8_part_1", "1", SUMS, SUMS_END,
         TFLITE_FUSE_INT8_BACK_TO("3f")
         TFLITE_FUSE_KEEP_SUMS "ldmia r6!, {r2, r3}\n\t" TFLITE_FUSE_VALUES_END("r7")
         TFLITE_FUSE_VALUES("r7", "lr") "b .Ltflite_fuse_quads_1\n3:\t" TFLITE_FUSE_TO_NEXT_SUMS
         "stmia r6!, {r2, r3}\n\t" TFLITE_FUSE_PART_END);

__asm__(".syntax unified\n\t" ".section .text.tflite_fuse_int8_widen_4,\"ax\",%progbits\n\t"
".balign 4\n\t.thumb\n\t.thumb_func\n\t"
        ".global tflite_fuse_int8_widen_4\n\t.type tflite_fuse_int8_widen_4, %function\ntflite_fuse_int8_widen_4:\n\t"
        "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n\tadd r12, r1, r2, lsl #3\n\tldr r4, [r12, r2, lsl #2]\n\t"
        "mov lr, r3\n\tldr r3, [r12]\n\tldr r2, [r1, r2, lsl #2]\n\tldr r1, [r1]\n\tadd lr, r1\n"
        "0:\tldr r5, [r1], #4\n\tldr r6, [r2], #4\n\tldr r7, [r3], #4\n\tldr r8, [r4], #4\n\t"
        "sxtb16 r9, r5, ror #8\n\tsxtb16 r10, r6, ror #8\n\tsxtb16 r11, r7, ror #8\n\tsxtb16 r12, r8, ror #8\n\t"
        "sxtb16 r5, r5\n\tsxtb16 r6, r6\n\tsxtb16 r7, r7\n\tsxtb16 r8, r8\n\t"
        "stmia.w r0!, {r5, r6, r7, r8, r9, r10, r11, r12}\n\tcmp r1, lr\n\tbne 0b\n\t"
        "pop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n\t"
        ".size tflite_fuse_int8_widen_4, .-tflite_fuse_int8_widen_4\n\t.text");

/* Four pixels. r6, r7: weights, loaded twice; r4, r5: pairs of two pixels. */
#define TFLITE_FUSE_INT8_PAIRS_4(first, second, third, fourth)                                              \
  "ldrd r4, r5, [r0], #8\n\tsmlad " first ", r4, r6, " first "\n\tsmlad " second ", r5, r6, " second "\n\t" \
  "smlad " third ", r4, r7, " third "\n\tsmlad " fourth ", r5, r7, " fourth "\n\t"

#define TFLITE_FUSE_INT8_QUAD_4                                                                        \
  "ldrd r6, r7, [r1]\n\tsxtb16 r6, r6\n\tsxtb16 r7, r7\n\t"                                            \
  TFLITE_FUSE_INT8_PAIRS_4("r2", "r3", "r10", "r11") TFLITE_FUSE_INT8_PAIRS_4("r8", "r9", "r12", "lr") \
  "ldrd r6, r7, [r1], #8\n\tsxtb16 r6, r6, ror #8\n\tsxtb16 r7, r7, ror #8\n\t"                        \
  TFLITE_FUSE_INT8_PAIRS_4("r2", "r3", "r10", "r11") TFLITE_FUSE_INT8_PAIRS_4("r8", "r9", "r12", "lr")

TFLITE_FUSE_FUNCTION_4("tflite_fuse_int8_all_4", , , TFLITE_FUSE_INT8_QUAD_4 TFLITE_FUSE_INT8_QUAD_4
TFLITE_FUSE_TURN_IS(TFLITE_FUSE_INT8_TURN_4), , "lsl", "#1");

#endif

#endif
