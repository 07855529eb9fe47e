/* Computes the inner loops of the convolution from int16 weights with DSP instructions: two pixels or one by two
 * channels. Weights are stored as the pairs that are multiplied, so nothing is unpacked, and doubled, so sums need no
 * doubling before they are scaled.
 *
 * The loops are assembler functions, because they use all registers. */
#include "tflite_fuse_conv_loops_dsp.h"

#if TFLITE_FUSE_DSP && !TFLITE_FUSE_MVE

/* Turns: quads per turn, and bytes of code per quad. */
#define TFLITE_FUSE_INT16_TURN_1 4, 24
#define TFLITE_FUSE_INT16_TURN_2 4, 40

#if defined(TFLITE_FUSE_DSP_EMULATION)
TFLITE_FUSE_EMULATED_LOOPS(int16, 16)
#else
TFLITE_FUSE_HIDDEN_BEGIN
void tflite_fuse_int16_all_2(tflite_fuse_conv_run* run);
void tflite_fuse_int16_all_1(tflite_fuse_conv_run* run);
void tflite_fuse_int16_part_2(tflite_fuse_conv_run* run);
void tflite_fuse_int16_part_1(tflite_fuse_conv_run* run);
TFLITE_FUSE_HIDDEN_END
#endif

static const tflite_fuse_conv_loops int16_loops = {
    .all_1 = tflite_fuse_int16_all_1,
    .all_2 = tflite_fuse_int16_all_2,
    .part_1 = tflite_fuse_int16_part_1,
    .part_2 = tflite_fuse_int16_part_2,
    .turn_1 = {TFLITE_FUSE_INT16_TURN_1},
    .turn_2 = {TFLITE_FUSE_INT16_TURN_2},
};

void tflite_fuse_conv_int16(const tflite_fuse_call* call) { tflite_fuse_conv_with(call, &int16_loops); }

/* ---- Assembler ---- */

#if !defined(TFLITE_FUSE_DSP_EMULATION)

/* r0: next pairs of values; r1: next weights; r2, r3: sums of the first channel; r4, r5: of the second. */
#define TFLITE_FUSE_INT16_QUAD_2                                                                        \
  "ldmia.w r1!, {r6, r7, r8, r9}\n\tldmia.w r0!, {r10, r11, r12, lr}\n\t"                               \
  "smlad r2, r10, r6, r2\n\tsmlad r3, r12, r6, r3\n\tsmlad r2, r11, r7, r2\n\tsmlad r3, lr, r7, r3\n\t" \
  "smlad r4, r10, r8, r4\n\tsmlad r5, r12, r8, r5\n\tsmlad r4, r11, r9, r4\n\tsmlad r5, lr, r9, r5\n\t"

/* r2, r3: sums of the two channels. */
#define TFLITE_FUSE_INT16_QUAD_1                                 \
  "ldmia.w r1!, {r6, r7, r8, r9}\n\tldrd r10, r11, [r0], #8\n\t" \
  "smlad r2, r10, r6, r2\n\tsmlad r3, r10, r8, r3\n\tsmlad r2, r11, r7, r2\n\tsmlad r3, r11, r9, r3\n\t"

#define TFLITE_FUSE_INT16_QUADS(quad, turn)                                \
  "add pc, r10\n\tnop\n1:\t" quad quad quad quad TFLITE_FUSE_TURN_IS(turn) \
  "ldr r6, [sp, #4]\n\tcmp r0, r6\n\tbne 1b\n\tldr r0, [sp]\n\t"

/* Keeps the end of the values on the stack. */
#define TFLITE_FUSE_INT16_KEEP_END "ldr r2, [r0, " TFLITE_FUSE_RUN(WIDE_END) "]\n\tstr r2, [sp, #4]\n"

#define TFLITE_FUSE_INT16_FINISH(sum, output) TFLITE_FUSE_FINISH(sum, output, "")

TFLITE_FUSE_FUNCTION("tflite_fuse_int16_all_2", "2", ENTRY, ENTRY_END,
         TFLITE_FUSE_INT16_KEEP_END TFLITE_FUSE_BIASES("r2", "r4") "mov r3, r2\n\tmov r5, r4\n\t"
         TFLITE_FUSE_VALUES("r0", "r10")
         TFLITE_FUSE_INT16_QUADS(TFLITE_FUSE_INT16_QUAD_2, TFLITE_FUSE_INT16_TURN_2) TFLITE_FUSE_RELOAD
         TFLITE_FUSE_ENTRY TFLITE_FUSE_FINISH_2("r2", "r3", "", "")
         TFLITE_FUSE_ENTRY TFLITE_FUSE_FINISH_2("r4", "r5", "", "")
         TFLITE_FUSE_ALL_END);

TFLITE_FUSE_FUNCTION("tflite_fuse_int16_all_1", "1", ENTRY, ENTRY_END,
         TFLITE_FUSE_INT16_KEEP_END TFLITE_FUSE_BIASES("r2", "r3") TFLITE_FUSE_VALUES("r0", "r10")
         TFLITE_FUSE_INT16_QUADS(TFLITE_FUSE_INT16_QUAD_1, TFLITE_FUSE_INT16_TURN_1) TFLITE_FUSE_RELOAD
         TFLITE_FUSE_ENTRY TFLITE_FUSE_INT16_FINISH("r2", "r7") TFLITE_FUSE_ENTRY
         TFLITE_FUSE_INT16_FINISH("r3", "r7") TFLITE_FUSE_ALL_END);

TFLITE_FUSE_FUNCTION("tflite_fuse_int16_part_2", "2", SUMS, SUMS_END,
         TFLITE_FUSE_INT16_KEEP_END TFLITE_FUSE_KEEP_SUMS "ldmia.w r6, {r2, r3, r4, r5}\n\t"
         TFLITE_FUSE_VALUES("r7", "r10")
         TFLITE_FUSE_INT16_QUADS(TFLITE_FUSE_INT16_QUAD_2, TFLITE_FUSE_INT16_TURN_2) TFLITE_FUSE_TO_NEXT_SUMS
         "stmia r6!, {r2, r3, r4, r5}\n\t" TFLITE_FUSE_PART_END);

TFLITE_FUSE_FUNCTION("tflite_fuse_int16_part_1", "1", SUMS, SUMS_END,
         TFLITE_FUSE_INT16_KEEP_END TFLITE_FUSE_KEEP_SUMS "ldrd r2, r3, [r6]\n\t" TFLITE_FUSE_VALUES("r7", "r10")
         TFLITE_FUSE_INT16_QUADS(TFLITE_FUSE_INT16_QUAD_1, TFLITE_FUSE_INT16_TURN_1) TFLITE_FUSE_TO_NEXT_SUMS
         "stmia r6!, {r2, r3}\n\t" TFLITE_FUSE_PART_END);

#endif

#endif
