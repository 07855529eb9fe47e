/* Computes the inner loops of the convolution from paired weights with DSP instructions: four, two or one pixel by
 * two channels.
 *
 * A halfword holds the weights of two channels, 256 a + b. Its product with a value is added to one sum, and the
 * product of its lower byte, b, to another: one instruction less per word of weights than extracting both. The
 * difference of the sums is 256 times the sum of the first channel, which the encoder guarantees to fit 24 bits.
 *
 * The loops are assembler functions, because they use all registers. */
#include "tflite_fuse_conv_loops_dsp.h"

#if TFLITE_FUSE_DSP && !TFLITE_FUSE_MVE

/* Turns: quads per turn, and bytes of code per quad. Loops of one pixel count two quads as one. */
#if TFLITE_FUSE_DUAL_ISSUE
#define TFLITE_FUSE_PAIRED_TURN_1 4, 64
#define TFLITE_FUSE_PAIRED_TURN_2 4, 56
#define TFLITE_FUSE_PAIRED_TURN_4 4, 112
#else
#define TFLITE_FUSE_PAIRED_TURN_1 4, 56
#define TFLITE_FUSE_PAIRED_TURN_2 4, 56
#define TFLITE_FUSE_PAIRED_TURN_4 4, 96
#endif

#if defined(TFLITE_FUSE_DSP_EMULATION)
TFLITE_FUSE_EMULATED_LOOPS(paired, TFLITE_FUSE_EMULATED_PAIRS)
#else
TFLITE_FUSE_HIDDEN_BEGIN
void tflite_fuse_paired_all_4(tflite_fuse_conv_run* run);
void tflite_fuse_paired_all_2(tflite_fuse_conv_run* run);
void tflite_fuse_paired_all_1(tflite_fuse_conv_run* run);
void tflite_fuse_paired_part_2(tflite_fuse_conv_run* run);
void tflite_fuse_paired_part_1(tflite_fuse_conv_run* run);
TFLITE_FUSE_HIDDEN_END
#endif

static const tflite_fuse_conv_loops paired_loops = {
    .all_1 = tflite_fuse_paired_all_1,
    .all_2 = tflite_fuse_paired_all_2,
    .all_4 = tflite_fuse_paired_all_4,
    .part_1 = tflite_fuse_paired_part_1,
    .part_2 = tflite_fuse_paired_part_2,
    .turn_1 = {TFLITE_FUSE_PAIRED_TURN_1},
    .turn_2 = {TFLITE_FUSE_PAIRED_TURN_2},
    .turn_4 = {TFLITE_FUSE_PAIRED_TURN_4},
    .peels = TFLITE_FUSE_DUAL_ISSUE,
    .pairs_quads = true,
    .splits = true,
};

void tflite_fuse_conv_paired(const tflite_fuse_call* call) { tflite_fuse_conv_with(call, &paired_loops); }

/* ---- Assembler ---- */

#if !defined(TFLITE_FUSE_DSP_EMULATION)

#define TFLITE_FUSE_PAIRED_LOWER(weights) "sxtb16 " weights ", " weights "\n\t"
#define TFLITE_FUSE_PAIRED_ADD(sum, values, weights) "smlad " sum ", " values ", " weights ", " sum "\n\t"

/* One pixel; the single quad of an odd number comes first. r2: sum of both channels, r3: of the second. */
#define TFLITE_FUSE_PAIRED_ODD_QUAD_1                                                 \
  "ldrd r4, r5, [r1], #8\n\tldrd r10, r11, [r0], #8\n\t"                              \
  TFLITE_FUSE_PAIRED_ADD("r2", "r10", "r4") TFLITE_FUSE_PAIRED_LOWER("r4")            \
  TFLITE_FUSE_PAIRED_ADD("r2", "r11", "r5") TFLITE_FUSE_PAIRED_LOWER("r5")            \
  TFLITE_FUSE_PAIRED_ADD("r3", "r10", "r4") TFLITE_FUSE_PAIRED_ADD("r3", "r11", "r5")

/* All loops: r0: next pairs of values, r1: next weights, r8: entry point, r9: end of the values. */
#if TFLITE_FUSE_DUAL_ISSUE

/* Every product is paired with a load or with the extraction of bytes, and no operand is used before its latency has
 * passed. Loads are for the next quad; the last quad, after the loop, has none, but sets r0 to the run. */
#define TFLITE_FUSE_PAIRED_QUAD_2(weights, first, second)                                            \
  TFLITE_FUSE_PAIRED_ADD("r2", "r10", "r6") "ldr r7, [r1], #4\n\t"                                   \
  TFLITE_FUSE_PAIRED_ADD("r3", "r12", "r6") TFLITE_FUSE_PAIRED_LOWER("r6")                           \
  TFLITE_FUSE_PAIRED_ADD("r4", "r10", "r6") TFLITE_FUSE_PAIRED_ADD("r5", "r12", "r6")                \
  TFLITE_FUSE_PAIRED_ADD("r2", "r11", "r7") weights TFLITE_FUSE_PAIRED_ADD("r3", "lr", "r7")         \
  TFLITE_FUSE_PAIRED_LOWER("r7") TFLITE_FUSE_PAIRED_ADD("r4", "r11", "r7") first                     \
  TFLITE_FUSE_PAIRED_ADD("r5", "lr", "r7") second
#define TFLITE_FUSE_PAIRED_INNER_2                                                               \
  TFLITE_FUSE_PAIRED_QUAD_2("ldr r6, [r1], #4\n\t", "ldrd r10, r11, [r0, #8]\n\t", "ldrd r12, lr, [r0, #16]!\n\t")
#define TFLITE_FUSE_PAIRED_QUADS_2                                                                     \
  "ldmia.w r0, {r10, r11, r12, lr}\n\tldr r6, [r1], #4\n\tadds r0, #8\n\tsub r9, r9, #8\n\t"           \
  "add pc, r8\n\tnop\n1:\t" TFLITE_FUSE_PAIRED_INNER_2 TFLITE_FUSE_PAIRED_INNER_2                      \
  TFLITE_FUSE_PAIRED_INNER_2 TFLITE_FUSE_PAIRED_INNER_2 TFLITE_FUSE_TURN_IS(TFLITE_FUSE_PAIRED_TURN_2) \
  "cmp r0, r9\n\tbne 1b\n\t" TFLITE_FUSE_PAIRED_QUAD_2("ldr r0, [sp]\n\t", "", "")

/* Sums, which end in r2...r5. */
#define TFLITE_FUSE_PAIRED_START_2 TFLITE_FUSE_BIASES("r2", "r4") "mov r3, r2\n\tmov r5, r4\n\t"
#define TFLITE_FUSE_PAIRED_SPLIT_2 "subs r2, r2, r4\n\tsubs r3, r3, r5\n\t"
#define TFLITE_FUSE_PAIRED_SUMS_2 "{r2, r3, r4, r5}\n\t"

#define TFLITE_FUSE_PAIRED_TWO_QUADS_1(values_0, weights_0, values_2)                                   \
  TFLITE_FUSE_PAIRED_ADD("r2", "r10", "r4") TFLITE_FUSE_PAIRED_LOWER("r4")                              \
  TFLITE_FUSE_PAIRED_ADD("r2", "r11", "r5") TFLITE_FUSE_PAIRED_LOWER("r5")                              \
  TFLITE_FUSE_PAIRED_ADD("r3", "r10", "r4") "ldrd r6, r7, [r1], #8\n\t"                                 \
  TFLITE_FUSE_PAIRED_ADD("r3", "r11", "r5") values_0 TFLITE_FUSE_PAIRED_ADD("r2", "r12", "r6") weights_0 \
  TFLITE_FUSE_PAIRED_ADD("r2", "lr", "r7") TFLITE_FUSE_PAIRED_LOWER("r6") TFLITE_FUSE_PAIRED_LOWER("r7") \
  TFLITE_FUSE_PAIRED_ADD("r3", "r12", "r6") TFLITE_FUSE_PAIRED_ADD("r3", "lr", "r7") values_2
#define TFLITE_FUSE_PAIRED_INNER_1                                                           \
  TFLITE_FUSE_PAIRED_TWO_QUADS_1("ldrd r10, r11, [r0], #8\n\t", "ldrd r4, r5, [r1], #8\n\t", \
                     "ldrd r12, lr, [r0], #8\n\t")
#define TFLITE_FUSE_PAIRED_QUADS_1                                                                     \
  "lsrs.w r8, r8, #1\n\tbcc 2f\n\t" TFLITE_FUSE_PAIRED_ODD_QUAD_1 "cmp r0, r9\n\tbeq.w 3f\n2:\t"       \
  "ldmia.w r0!, {r10, r11, r12, lr}\n\tldrd r4, r5, [r1], #8\n\tadd pc, r8\n\tnop\n1:\t"               \
  TFLITE_FUSE_PAIRED_INNER_1 TFLITE_FUSE_PAIRED_INNER_1 TFLITE_FUSE_PAIRED_INNER_1 TFLITE_FUSE_PAIRED_INNER_1 \
  TFLITE_FUSE_TURN_IS(TFLITE_FUSE_PAIRED_TURN_1) "cmp r0, r9\n\tbne 1b\n\t"                            \
  TFLITE_FUSE_PAIRED_TWO_QUADS_1("", "", "") "3:\tldr r0, [sp]\n\t"

#else

/* Two pixels. r10, r11: sums of both channels, r12, lr: of the second. Loads follow each other, those that advance a
 * pointer last. */
#define TFLITE_FUSE_PAIRED_WORD_2(weights, first, second)                                      \
  TFLITE_FUSE_PAIRED_ADD("r10", first, weights) TFLITE_FUSE_PAIRED_ADD("r11", second, weights) \
  TFLITE_FUSE_PAIRED_LOWER(weights) TFLITE_FUSE_PAIRED_ADD("r12", first, weights)              \
  TFLITE_FUSE_PAIRED_ADD("lr", second, weights)
#define TFLITE_FUSE_PAIRED_QUAD_2                                                             \
  "ldr.n r3, [r0, #4]\n\tldr.n r4, [r0, #8]\n\tldr.n r5, [r0, #12]\n\tldr.n r7, [r1, #4]\n\t" \
  "ldr r2, [r0], #16\n\tldr r6, [r1], #8\n\t"                                                 \
  TFLITE_FUSE_PAIRED_WORD_2("r6", "r2", "r4") TFLITE_FUSE_PAIRED_WORD_2("r7", "r3", "r5")
#define TFLITE_FUSE_PAIRED_QUADS_2 "add pc, r8\n\tnop\n1:\t" TFLITE_FUSE_PAIRED_QUAD_2 \
  TFLITE_FUSE_PAIRED_QUAD_2 TFLITE_FUSE_PAIRED_QUAD_2 TFLITE_FUSE_PAIRED_QUAD_2        \
  TFLITE_FUSE_TURN_IS(TFLITE_FUSE_PAIRED_TURN_2) "cmp r0, r9\n\tbne 1b\n\tldr r0, [sp]\n\t"
#define TFLITE_FUSE_PAIRED_START_2 TFLITE_FUSE_BIASES("r10", "r12") "mov r11, r10\n\tmov lr, r12\n\t"
#define TFLITE_FUSE_PAIRED_SPLIT_2 "sub r2, r10, r12\n\tsub r3, r11, lr\n\tmov r4, r12\n\tmov r5, lr\n\t"
#define TFLITE_FUSE_PAIRED_SUMS_2 "{r10, r11, r12, lr}\n\t"

#define TFLITE_FUSE_PAIRED_TWO_QUADS_1                                                                  \
  "ldmia.w r1!, {r4, r5, r6, r7}\n\tldmia.w r0!, {r10, r11, r12, lr}\n\t"                               \
  TFLITE_FUSE_PAIRED_ADD("r2", "r10", "r4") TFLITE_FUSE_PAIRED_LOWER("r4")                              \
  TFLITE_FUSE_PAIRED_ADD("r2", "r11", "r5") TFLITE_FUSE_PAIRED_LOWER("r5")                              \
  TFLITE_FUSE_PAIRED_ADD("r2", "r12", "r6") TFLITE_FUSE_PAIRED_LOWER("r6")                              \
  TFLITE_FUSE_PAIRED_ADD("r2", "lr", "r7") TFLITE_FUSE_PAIRED_LOWER("r7")                               \
  TFLITE_FUSE_PAIRED_ADD("r3", "r10", "r4") TFLITE_FUSE_PAIRED_ADD("r3", "r11", "r5")                   \
  TFLITE_FUSE_PAIRED_ADD("r3", "r12", "r6") TFLITE_FUSE_PAIRED_ADD("r3", "lr", "r7")
#define TFLITE_FUSE_PAIRED_QUADS_1                                                            \
  "lsrs.w r8, r8, #1\n\tbcc 2f\n\t" TFLITE_FUSE_PAIRED_ODD_QUAD_1                             \
  "2:\tadd pc, r8\n\tnop\n1:\t" TFLITE_FUSE_PAIRED_TWO_QUADS_1 TFLITE_FUSE_PAIRED_TWO_QUADS_1 \
  TFLITE_FUSE_PAIRED_TWO_QUADS_1 TFLITE_FUSE_PAIRED_TWO_QUADS_1                               \
  TFLITE_FUSE_TURN_IS(TFLITE_FUSE_PAIRED_TURN_1) "cmp r0, r9\n\tbne 1b\n\tldr r0, [sp]\n\t"

#endif

#define TFLITE_FUSE_PAIRED_TWICE_FIRST(sum) "asr " sum ", " sum ", #7\n\t"
#define TFLITE_FUSE_PAIRED_TWICE_SECOND(sum) "lsl " sum ", " sum ", #1\n\t"

TFLITE_FUSE_FUNCTION("tflite_fuse_paired_all_2", "2", ENTRY, ENTRY_END,
         TFLITE_FUSE_PAIRED_START_2 TFLITE_FUSE_VALUES_END("r0") TFLITE_FUSE_VALUES("r0", "r8")
         TFLITE_FUSE_PAIRED_QUADS_2 TFLITE_FUSE_RELOAD TFLITE_FUSE_PAIRED_SPLIT_2 TFLITE_FUSE_ENTRY
         TFLITE_FUSE_FINISH_2("r2", "r3", TFLITE_FUSE_PAIRED_TWICE_FIRST("r2"), TFLITE_FUSE_PAIRED_TWICE_FIRST("r3"))
         TFLITE_FUSE_ENTRY
         TFLITE_FUSE_FINISH_2("r4", "r5", TFLITE_FUSE_PAIRED_TWICE_SECOND("r4"), TFLITE_FUSE_PAIRED_TWICE_SECOND("r5"))
         TFLITE_FUSE_ALL_END);

TFLITE_FUSE_FUNCTION("tflite_fuse_paired_part_2", "2", SUMS, SUMS_END,
         TFLITE_FUSE_KEEP_SUMS TFLITE_FUSE_VALUES_END("r7") TFLITE_FUSE_VALUES("r7", "r8")
         "ldmia.w r6, " TFLITE_FUSE_PAIRED_SUMS_2 TFLITE_FUSE_PAIRED_QUADS_2 TFLITE_FUSE_TO_NEXT_SUMS
         "stmia.w r6!, " TFLITE_FUSE_PAIRED_SUMS_2 TFLITE_FUSE_PART_END);

TFLITE_FUSE_FUNCTION("tflite_fuse_paired_all_1", "1", ENTRY, ENTRY_END,
         TFLITE_FUSE_BIASES("r2", "r3") TFLITE_FUSE_VALUES_END("r0") TFLITE_FUSE_VALUES("r0", "r8")
         TFLITE_FUSE_PAIRED_QUADS_1 TFLITE_FUSE_RELOAD
         "subs r2, r2, r3\n\t" TFLITE_FUSE_ENTRY TFLITE_FUSE_FINISH("r2", "r7", TFLITE_FUSE_PAIRED_TWICE_FIRST("r2"))
         TFLITE_FUSE_ENTRY TFLITE_FUSE_FINISH("r3", "r7", TFLITE_FUSE_PAIRED_TWICE_SECOND("r3")) TFLITE_FUSE_ALL_END);

TFLITE_FUSE_FUNCTION("tflite_fuse_paired_part_1", "1", SUMS, SUMS_END,
         TFLITE_FUSE_KEEP_SUMS "ldmia r6!, {r2, r3}\n\t" TFLITE_FUSE_VALUES_END("r7")
         TFLITE_FUSE_VALUES("r7", "r8") TFLITE_FUSE_PAIRED_QUADS_1 TFLITE_FUSE_TO_NEXT_SUMS
         "stmia r6!, {r2, r3}\n\t" TFLITE_FUSE_PART_END);

/* Four pixels. r2, r3, r8, r9: sums of both channels, r10, r11, r12, lr: of the second; r6: paired weights, r7: their
 * lower bytes; r4, r5: values of two pixels. */
#if TFLITE_FUSE_DUAL_ISSUE
#define TFLITE_FUSE_PAIRED_WORD_4(weights, first, second)                                               \
  TFLITE_FUSE_PAIRED_ADD("r2", "r4", "r6") "sxtb16 r7, r6\n\t" TFLITE_FUSE_PAIRED_ADD("r3", "r5", "r6") \
  TFLITE_FUSE_PAIRED_ADD("r10", "r4", "r7") "ldr.w r4, [r0, #4]\n\t"                                    \
  TFLITE_FUSE_PAIRED_ADD("r11", "r5", "r7") "ldr.w r5, [r0, #8]\n\t"                                    \
  TFLITE_FUSE_PAIRED_ADD("r8", "r4", "r6") TFLITE_FUSE_PAIRED_ADD("r9", "r5", "r6") weights             \
  TFLITE_FUSE_PAIRED_ADD("r12", "r4", "r7") first TFLITE_FUSE_PAIRED_ADD("lr", "r5", "r7") second
#define TFLITE_FUSE_PAIRED_INNER_4 \
  TFLITE_FUSE_PAIRED_WORD_4("ldr r6, [r1], #4\n\t", "ldr.w r4, [r0, #12]\n\t", "ldr r5, [r0, #16]!\n\t")
#define TFLITE_FUSE_PAIRED_QUAD_4 TFLITE_FUSE_PAIRED_INNER_4 TFLITE_FUSE_PAIRED_INNER_4
#define TFLITE_FUSE_PAIRED_AHEAD_4 "sub r8, r8, #28\n\t"
#define TFLITE_FUSE_PAIRED_FIRST_4 "ldrd r4, r5, [r0], #4\n\tldr r6, [r1], #4\n\t"
#define TFLITE_FUSE_PAIRED_LAST_4 TFLITE_FUSE_PAIRED_INNER_4 TFLITE_FUSE_PAIRED_WORD_4("", "", "")
#else
/* Loads follow each other, the one that advances a pointer last; so the second word of a quad comes first. */
#define TFLITE_FUSE_PAIRED_PAIRS_4(first, second, third, fourth)                       \
  TFLITE_FUSE_PAIRED_ADD(first, "r4", "r6") TFLITE_FUSE_PAIRED_ADD(second, "r5", "r6") \
  TFLITE_FUSE_PAIRED_ADD(third, "r4", "r7") TFLITE_FUSE_PAIRED_ADD(fourth, "r5", "r7")
#define TFLITE_FUSE_PAIRED_WORD_4(upper, lower)                                 \
  upper "sxtb16 r7, r6\n\t" TFLITE_FUSE_PAIRED_PAIRS_4("r8", "r9", "r12", "lr") \
  lower TFLITE_FUSE_PAIRED_PAIRS_4("r2", "r3", "r10", "r11")
#define TFLITE_FUSE_PAIRED_QUAD_4                                                                   \
  TFLITE_FUSE_PAIRED_WORD_4("ldr.n r4, [r0, #24]\n\tldr.n r5, [r0, #28]\n\tldr.n r6, [r1, #4]\n\t", \
                            "ldr.n r4, [r0, #16]\n\tldr.n r5, [r0, #20]\n\t")                       \
  TFLITE_FUSE_PAIRED_WORD_4("ldr.n r4, [r0, #8]\n\tldr.n r5, [r0, #12]\n\tldr r6, [r1], #8\n\t",    \
                            "ldr.n r5, [r0, #4]\n\tldr r4, [r0], #32\n\t")
#define TFLITE_FUSE_PAIRED_AHEAD_4
#define TFLITE_FUSE_PAIRED_FIRST_4
#define TFLITE_FUSE_PAIRED_LAST_4
#endif
#define TFLITE_FUSE_PAIRED_QUADS_4 TFLITE_FUSE_PAIRED_QUAD_4 TFLITE_FUSE_PAIRED_QUAD_4 TFLITE_FUSE_PAIRED_QUAD_4 \
  TFLITE_FUSE_PAIRED_QUAD_4

TFLITE_FUSE_FUNCTION_4("tflite_fuse_paired_all_4", TFLITE_FUSE_PAIRED_AHEAD_4, TFLITE_FUSE_PAIRED_FIRST_4,
                       TFLITE_FUSE_PAIRED_QUADS_4 TFLITE_FUSE_TURN_IS(TFLITE_FUSE_PAIRED_TURN_4),
                       TFLITE_FUSE_PAIRED_LAST_4
                       "sub r2, r2, r10\n\tsub r3, r3, r11\n\tsub r8, r8, r12\n\tsub r9, r9, lr\n\t", "asr", "#7");

#endif

#endif
