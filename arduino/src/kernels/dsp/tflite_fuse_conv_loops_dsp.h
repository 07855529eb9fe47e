/* Declares the assembler loops of the packed convolution with DSP instructions, and the pieces of code they consist of.
 *
 * There is one set of loops for each form of weights: int8 (tflite_fuse_conv_dsp.c), int16
 * (tflite_fuse_conv_int16_dsp.c) and pairs (tflite_fuse_conv_paired_dsp.c). tflite_fuse_conv_loops_dsp.c calls the set
 * that a job names. */
#ifndef TFLITE_FUSE_CONV_LOOPS_DSP_H_
#define TFLITE_FUSE_CONV_LOOPS_DSP_H_

#include "../weighted/tflite_fuse_conv_packed.h"

#if TFLITE_FUSE_DSP && !TFLITE_FUSE_MVE

/* A loop over pairs of channels. `all` loops read values and weights from the start, write outputs, and advance the
 * run's entry, outputs and weights past the last pair; all_4 leaves the run unchanged. `part` loops add to sums. */
typedef void (*tflite_fuse_conv_loop)(tflite_fuse_conv_run* run);

/* An unrolled loop: each turn processes `quads` quads, a power of two, with `code_bytes` of code per quad. The first
 * turn is entered in its middle, so that all further turns are whole. */
typedef struct {
  uint8_t quads;
  uint8_t code_bytes;
} tflite_fuse_conv_turn;

struct tflite_fuse_conv_loops {
  tflite_fuse_conv_loop all_1, all_2; /* whole windows of one pixel, of two */
  tflite_fuse_conv_loop all_4;        /* whole windows of four pixels; NULL for int16, which computes them two by two */
  tflite_fuse_conv_loop part_1, part_2;
  tflite_fuse_conv_turn turn_1, turn_2, turn_4;
  bool peels;       /* the last quad follows the loop, because each quad loads operands of the next */
  bool pairs_quads; /* loops of one pixel process two quads at a time, after a single one if their number is odd */
  bool doubles;     /* sums must be doubled before they are scaled */
  bool splits;      /* sums are of paired channels, see tflite_fuse_split_pairs */
};

#if !defined(TFLITE_FUSE_DSP_EMULATION)

/* ---- Offsets that the code below assumes ---- */

#define TFLITE_FUSE_TEXT_OF(value) #value
#define TFLITE_FUSE_TEXT(value) TFLITE_FUSE_TEXT_OF(value)

/* Byte offsets in a run, as operands: TFLITE_FUSE_RUN(WIDE) is "#16". Loops of four pixels copy the first nine words to
 * the stack, at the same offsets. */
#define TFLITE_FUSE_RUN_ENTRY 0
#define TFLITE_FUSE_RUN_OUTPUTS 4
#define TFLITE_FUSE_RUN_APART 8 /* the second output, or in loops of four pixels the distance between outputs */
#define TFLITE_FUSE_RUN_ZERO_POINT_HALF 12
#define TFLITE_FUSE_RUN_WIDE 16
#define TFLITE_FUSE_RUN_START 20
#define TFLITE_FUSE_RUN_WIDE_END 24
#define TFLITE_FUSE_RUN_ENTRY_END 28
#define TFLITE_FUSE_RUN_WEIGHTS 32
#define TFLITE_FUSE_RUN_SUMS 36
#define TFLITE_FUSE_RUN_SUMS_END 40
#define TFLITE_FUSE_RUN_SKIP 44
#define TFLITE_FUSE_RUN(field) "#" TFLITE_FUSE_TEXT(TFLITE_FUSE_RUN_##field)

_Static_assert(offsetof(tflite_fuse_conv_run, entry) == TFLITE_FUSE_RUN_ENTRY, "entry has moved");
_Static_assert(offsetof(tflite_fuse_conv_run, outputs) == TFLITE_FUSE_RUN_OUTPUTS, "outputs has moved");
_Static_assert(offsetof(tflite_fuse_conv_run, zero_point_half) == TFLITE_FUSE_RUN_ZERO_POINT_HALF,
"zero_point_half has moved");
_Static_assert(offsetof(tflite_fuse_conv_run, wide) == TFLITE_FUSE_RUN_WIDE, "wide has moved");
_Static_assert(offsetof(tflite_fuse_conv_run, start) == TFLITE_FUSE_RUN_START, "start has moved");
_Static_assert(offsetof(tflite_fuse_conv_run, wide_end) == TFLITE_FUSE_RUN_WIDE_END, "wide_end has moved");
_Static_assert(offsetof(tflite_fuse_conv_run, entry_end) == TFLITE_FUSE_RUN_ENTRY_END, "entry_end has moved");
_Static_assert(offsetof(tflite_fuse_conv_run, weights) == TFLITE_FUSE_RUN_WEIGHTS, "weights has moved");
_Static_assert(offsetof(tflite_fuse_conv_run, sums) == TFLITE_FUSE_RUN_SUMS, "sums has moved");
_Static_assert(offsetof(tflite_fuse_conv_run, sums_end) == TFLITE_FUSE_RUN_SUMS_END, "sums_end has moved");
_Static_assert(offsetof(tflite_fuse_conv_run, skip) == TFLITE_FUSE_RUN_SKIP, "skip has moved");

/* Byte offsets in an entry of the table of channels and in the next one, and the size of two entries. */
#define TFLITE_FUSE_CHANNEL_MULTIPLIER 4
#define TFLITE_FUSE_CHANNEL_SHIFT 8
#define TFLITE_FUSE_CHANNEL_NEXT_BIAS 12
#define TFLITE_FUSE_CHANNEL_NEXT_MULTIPLIER 16
#define TFLITE_FUSE_CHANNEL_NEXT_SHIFT 20
#define TFLITE_FUSE_CHANNEL_TWO 24
#define TFLITE_FUSE_CHANNEL(field) "#" TFLITE_FUSE_TEXT(TFLITE_FUSE_CHANNEL_##field)

_Static_assert(offsetof(tflite_fuse_channel, bias) == 0, "bias has moved");
_Static_assert(offsetof(tflite_fuse_channel, multiplier) == TFLITE_FUSE_CHANNEL_MULTIPLIER, "multiplier has moved");
_Static_assert(offsetof(tflite_fuse_channel, shift) == TFLITE_FUSE_CHANNEL_SHIFT, "shift has moved");
_Static_assert(sizeof(tflite_fuse_channel) == TFLITE_FUSE_CHANNEL_NEXT_BIAS, "the next bias has moved");
_Static_assert(TFLITE_FUSE_CHANNEL_NEXT_MULTIPLIER == TFLITE_FUSE_CHANNEL_NEXT_BIAS + TFLITE_FUSE_CHANNEL_MULTIPLIER,
               "the next multiplier has moved");
_Static_assert(TFLITE_FUSE_CHANNEL_NEXT_SHIFT == TFLITE_FUSE_CHANNEL_NEXT_BIAS + TFLITE_FUSE_CHANNEL_SHIFT,
               "the next shift has moved");
_Static_assert(2 * sizeof(tflite_fuse_channel) == TFLITE_FUSE_CHANNEL_TWO, "entries have grown");

/* Checks that the code of a turn, which begins at label 1, has the declared length: assembling fails otherwise. */
#define TFLITE_FUSE_TURN_IS(...) TFLITE_FUSE_TURN_OF(__VA_ARGS__)
#define TFLITE_FUSE_TURN_OF(quads, code_bytes)                                      \
  ".if . - 1b - " TFLITE_FUSE_TEXT(quads) " * " TFLITE_FUSE_TEXT(code_bytes) "\n\t" \
  ".error \"a turn has another length\"\n\t.endif\n\t"

/* ---- Pieces of code ---- */

#define TFLITE_FUSE_BEGIN(section, name)                                                                      \
  ".syntax unified\n\t.section .text." section ",\"ax\",%progbits\n\t.balign 4\n\t"                           \
  ".thumb\n\t.thumb_func\n\t.global " name "\n\t.hidden " name "\n\t.type " name ", %function\n" name ":\n\t" \
  "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n\t"
#define TFLITE_FUSE_END(name, stack)                                            \
  "\n\tadd sp, sp, " stack "\n\tpop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n\t" \
  ".size " name ", .-" name "\n\t.text"

/* A loop for `pixels` pixels. r0: the run, r6: the run's field `before`, r1: next weights. Stack: the run, a word for
 * the loop, the run's field `end`. Loops for the same number of pixels share a section, and may share code. */
#define TFLITE_FUSE_FUNCTION(name, pixels, before, end, body)              \
  __asm__(TFLITE_FUSE_BEGIN("tflite_fuse_conv_" pixels, name)              \
          "sub sp, sp, #12\n\tstr r0, [sp]\n\t"                            \
          "ldr r1, [r0, " TFLITE_FUSE_RUN(end) "]\n\tstr r1, [sp, #8]\n\t" \
          "ldr r6, [r0, " TFLITE_FUSE_RUN(before) "]\n\t"                  \
          "ldr r1, [r0, " TFLITE_FUSE_RUN(WEIGHTS) "]\n" body              \
          TFLITE_FUSE_END(name, "#12"))

/* After the loop; r0: the run. Loads r6: next entry, r7, r8: outputs, r9: half of the zero point. */
#define TFLITE_FUSE_RELOAD "ldmia.w r0, {r6, r7, r8, r9}\n\t"
#define TFLITE_FUSE_ENTRY "ldmia.w r6!, {r10, r11, r12}\n\tlsl lr, r9, r12\n\t"

/* Scales a sum to int8. r11: multiplier, r12: shift, lr: half; `twice` is code that doubles the sum. */
#define TFLITE_FUSE_PRODUCT(sum, twice) \
  "add r10, lr, " sum ", asr #31\n\t" twice "smmlar " sum ", " sum ", r11, r10\n\t"
#define TFLITE_FUSE_SHIFT(sum) "asr " sum ", " sum ", r12\n\t"
#define TFLITE_FUSE_CLAMP(sum) "ssat " sum ", #8, " sum ", asr #1\n\t"
#define TFLITE_FUSE_STORE(sum, output) "strb " sum ", [" output "], #1\n\t"
#define TFLITE_FUSE_FINISH(sum, output, twice) \
  TFLITE_FUSE_PRODUCT(sum, twice) TFLITE_FUSE_SHIFT(sum) TFLITE_FUSE_CLAMP(sum) TFLITE_FUSE_STORE(sum, output)

/* Scales one channel of two pixels, written to r7 and r8, interleaved to hide latencies. */
#define TFLITE_FUSE_FINISH_2(first, second, twice_first, twice_second)                                              \
  TFLITE_FUSE_PRODUCT(first, twice_first) TFLITE_FUSE_PRODUCT(second, twice_second) TFLITE_FUSE_SHIFT(first)        \
  TFLITE_FUSE_CLAMP(first) TFLITE_FUSE_SHIFT(second) TFLITE_FUSE_STORE(first, "r7") TFLITE_FUSE_CLAMP(second)       \
  TFLITE_FUSE_STORE(second, "r8")

/* End of `all`: r6: next entry, r0: the run; the next pair of channels follows. */
#define TFLITE_FUSE_ALL_END                                                  \
  "ldr r2, [sp, #8]\n\tstmia.w r0, {r6, r7, r8}\n\tcmp r6, r2\n\tbne 0b\n\t" \
  "str r1, [r0, " TFLITE_FUSE_RUN(WEIGHTS) "]"

/* End of `part`: r6: next sums. */
#define TFLITE_FUSE_TO_NEXT_SUMS                                        \
  "ldr r7, [sp, #8]\n\tldr r8, [r0, " TFLITE_FUSE_RUN(SKIP) "]\n\t" \
  "ldr r6, [r0, " TFLITE_FUSE_RUN(SUMS) "]\n\tadd r1, r1, r8\n\t"
#define TFLITE_FUSE_PART_END "cmp r6, r7\n\tbne 0b"

/* Start of a pair of channels. `all`: sums start with the biases; `part`: r6 is stored in the run, r7, and sums are
 * loaded. r0: values; `start`: register for the run's field start. */
#define TFLITE_FUSE_VALUES(run, start) "ldrd r0, " start ", [" run ", " TFLITE_FUSE_RUN(WIDE) "]\n\t"
#define TFLITE_FUSE_VALUES_END(run) "ldr.w r9, [" run ", " TFLITE_FUSE_RUN(WIDE_END) "]\n\t"
#define TFLITE_FUSE_BIASES(first, second) \
  "0:\tldr " first ", [r6]\n\tldr " second ", [r6, " TFLITE_FUSE_CHANNEL(NEXT_BIAS) "]\n\t"
#define TFLITE_FUSE_KEEP_SUMS "0:\tldr r7, [sp]\n\tstr r6, [r7, " TFLITE_FUSE_RUN(SUMS) "]\n\t"

/* Four pixels. r4: multiplier, r5: shift, r6: half, r0: free; `twice` by `bits` doubles the sum. */
#define TFLITE_FUSE_PRODUCT_4(sum, twice, bits) \
  "add r0, r6, " sum ", asr #31\n\t" twice " " sum ", " sum ", " bits "\n\tsmmlar " sum ", " sum ", r4, r0\n\t"
#define TFLITE_FUSE_SHIFT_4(sum) "asr " sum ", " sum ", r5\n\t"
#define TFLITE_FUSE_STORE_4(sum, then) "strb " sum ", [r1]" then "\n\t"

/* Scales one channel of four pixels to the outputs from r1 on; `next` moves r1 to the next one, r7 bytes apart. */
#define TFLITE_FUSE_FINISH_4(first, second, third, fourth, twice, bits, next)                                \
  "lsls r6, r5\n\t" TFLITE_FUSE_PRODUCT_4(first, twice, bits) TFLITE_FUSE_PRODUCT_4(second, twice, bits)     \
  TFLITE_FUSE_SHIFT_4(first) TFLITE_FUSE_PRODUCT_4(third, twice, bits) TFLITE_FUSE_CLAMP(first)              \
  TFLITE_FUSE_SHIFT_4(second) TFLITE_FUSE_PRODUCT_4(fourth, twice, bits) TFLITE_FUSE_STORE_4(first, "") next \
  TFLITE_FUSE_CLAMP(second) TFLITE_FUSE_SHIFT_4(third) TFLITE_FUSE_STORE_4(second, "") next                  \
  TFLITE_FUSE_CLAMP(third) TFLITE_FUSE_SHIFT_4(fourth) TFLITE_FUSE_STORE_4(third, "") next                   \
  TFLITE_FUSE_CLAMP(fourth) TFLITE_FUSE_STORE_4(fourth, ", #1")

/* A loop over all channels of four pixels. `quads` adds the products of values at r0 and weights at r1 to r2, r3, r8,
 * r9, sums of the first channel of two, and r10, r11, r12, lr, of the second; behind them r7 is free, but r4...r6 may
 * hold operands of the next turn. `first` loads operands before them, and `ahead` moves r8, the end of the values, to where
 * the loop ends. `split` follows them; then `twice` and `bits` double the sums of the first channel. A copy of the run
 * is on the stack, with the distance between outputs in place of the second output. Single loads follow each other:
 * cores that issue one instruction per cycle need one cycle for each. */
#define TFLITE_FUSE_FUNCTION_4(name, ahead, first, quads, split, twice, bits)                                          \
  __asm__(TFLITE_FUSE_BEGIN(name, name) "sub sp, sp, #36\n\t"                                                          \
          "ldmia.w r0, {r2, r3, r4, r5, r6, r7, r8, r9, r10}\n\tsubs r4, r4, r3\n\t" ahead                             \
          "stmia.w sp, {r2, r3, r4, r5, r6, r7, r8, r9, r10}\n"                                                        \
          "0:\tldr r10, [r2, " TFLITE_FUSE_CHANNEL(NEXT_BIAS) "]\n\tldr r2, [r2]\n\t"                                  \
          "ldr r1, [sp, " TFLITE_FUSE_RUN(WEIGHTS) "]\n\tldr r0, [sp, " TFLITE_FUSE_RUN(WIDE) "]\n\t"                  \
          "ldr r7, [sp, " TFLITE_FUSE_RUN(START) "]\n\tmov r3, r2\n\tmov r8, r2\n\tmov r9, r2\n\t"                     \
          "mov r11, r10\n\tmov r12, r10\n\tmov lr, r10\n\t" first ".balign 4\n\tadd pc, r7\n\tnop\n1:\t" quads         \
          "ldr r7, [sp, " TFLITE_FUSE_RUN(WIDE_END) "]\n\tcmp r0, r7\n\tbne 1b\n\t" split                              \
          "ldr r0, [sp]\n\tldr r7, [sp, " TFLITE_FUSE_RUN(APART) "]\n\tstr r1, [sp, " TFLITE_FUSE_RUN(WEIGHTS) "]\n\t" \
          "ldr r4, [r0, " TFLITE_FUSE_CHANNEL(MULTIPLIER) "]\n\tldr r5, [r0, " TFLITE_FUSE_CHANNEL(SHIFT) "]\n\t"      \
          "ldr r6, [sp, " TFLITE_FUSE_RUN(ZERO_POINT_HALF) "]\n\tldr r1, [sp, " TFLITE_FUSE_RUN(OUTPUTS) "]\n\t"       \
          TFLITE_FUSE_FINISH_4("r2", "r3", "r8", "r9", twice, bits, "adds r1, r1, r7\n\t")                             \
          "ldr r2, [sp]\n\tldr r6, [sp, " TFLITE_FUSE_RUN(ZERO_POINT_HALF) "]\n\t"                                     \
          "ldr r3, [sp, " TFLITE_FUSE_RUN(ENTRY_END) "]\n\t"                                                           \
          "ldr r4, [r2, " TFLITE_FUSE_CHANNEL(NEXT_MULTIPLIER) "]\n\t"                                                 \
          "ldr r5, [r2, " TFLITE_FUSE_CHANNEL(NEXT_SHIFT) "]\n\tadds r2, " TFLITE_FUSE_CHANNEL(TWO) "\n\t"             \
          "str r2, [sp]\n\t"                                                                                           \
          TFLITE_FUSE_FINISH_4("lr", "r12", "r11", "r10", "lsl", "#1", "subs r1, r1, r7\n\t")                          \
          "str r1, [sp, " TFLITE_FUSE_RUN(OUTPUTS) "]\n\tcmp r2, r3\n\tbne 0b" TFLITE_FUSE_END(name, "#36"))

#endif

#endif

#endif
