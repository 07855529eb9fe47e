/* Computes the loops of the packed convolution with Helium: all groups of four channels (quads) of two
 * pixels, or of one.
 *
 * Sums are in even registers, as VMLADAVA requires; those of two pixels take all eight, including lr, so their loop
 * counts with an ordinary register. The loops are assembler functions, because compilers keep second copies of pointers
 * and run out of registers. */
#include "tflite_fuse_conv_mve.h"

#if TFLITE_FUSE_MVE_LOOPS

#define TFLITE_FUSE_TEXT_OF(value) #value
#define TFLITE_FUSE_TEXT(value) TFLITE_FUSE_TEXT_OF(value)

/* Byte offsets in a run; the first ten words are copied to the stack at the same offsets, followed by rest offsets. */
#define TFLITE_FUSE_RUN_LIST 0
#define TFLITE_FUSE_RUN_APART 4
#define TFLITE_FUSE_RUN_LIST_END 8
#define TFLITE_FUSE_RUN_VECTORS 12
#define TFLITE_FUSE_RUN_PAIR_BYTES 16
#define TFLITE_FUSE_RUN_REST_BYTES 20
#define TFLITE_FUSE_RUN_ENTRY 24
#define TFLITE_FUSE_RUN_OUTPUTS 28
#define TFLITE_FUSE_RUN_ENTRY_END 36
#define TFLITE_FUSE_RUN_REST_OFFSETS 48
#define TFLITE_FUSE_ON_STACK(field) "[sp, #" TFLITE_FUSE_TEXT(TFLITE_FUSE_RUN_##field) "]\n\t"

_Static_assert(offsetof(tflite_fuse_mve_run, list) == TFLITE_FUSE_RUN_LIST, "list has moved");
_Static_assert(offsetof(tflite_fuse_mve_run, apart) == TFLITE_FUSE_RUN_APART, "apart has moved");
_Static_assert(offsetof(tflite_fuse_mve_run, list_end) == TFLITE_FUSE_RUN_LIST_END, "list_end has moved");
_Static_assert(offsetof(tflite_fuse_mve_run, vectors) == TFLITE_FUSE_RUN_VECTORS, "vectors has moved");
_Static_assert(offsetof(tflite_fuse_mve_run, pair_bytes) == TFLITE_FUSE_RUN_PAIR_BYTES, "pair_bytes has moved");
_Static_assert(offsetof(tflite_fuse_mve_run, rest_bytes) == TFLITE_FUSE_RUN_REST_BYTES, "rest_bytes has moved");
_Static_assert(offsetof(tflite_fuse_mve_run, entry) == TFLITE_FUSE_RUN_ENTRY, "entry has moved");
_Static_assert(offsetof(tflite_fuse_mve_run, outputs) == TFLITE_FUSE_RUN_OUTPUTS, "outputs has moved");
_Static_assert(offsetof(tflite_fuse_mve_run, entry_end) == TFLITE_FUSE_RUN_ENTRY_END, "entry_end has moved");
_Static_assert(offsetof(tflite_fuse_mve_run, weights) == 40 && sizeof(tflite_fuse_mve_run) == 60, "five words follow");
_Static_assert(sizeof(tflite_fuse_channel) == 12, "entries have changed");

/* q4, q5, q6: zero point, least and largest output; q7: byte offsets of the entries of four channels; r7: weights. p0:
 * lanes of a piece's remaining values. On the stack: byte offsets of the weights of these values; absent weights repeat
 * the last ones, and their values are zero. */
#define TFLITE_FUSE_BEGIN(name)                                                                                        \
  ".syntax unified\n\t.section .text." name ",\"ax\",%progbits\n\t.balign 4\n\t.thumb\n\t.thumb_func\n\t.global " name \
  "\n\t.hidden " name "\n\t.type " name ", %function\n" name ":\n\t"                                                   \
  "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n\tvpush {d8-d15}\n\tsub sp, sp, #68\n\t"                               \
  "ldmia.w r0!, {r1, r2, r3, r4, r5, r6, r7, r8, r9, r10}\n\t"                                                         \
  "stmia.w sp, {r1, r2, r3, r4, r5, r6, r7, r8, r9, r10}\n\t"                                                          \
  "ldmia.w r0, {r7, r8, r9, r10, r11}\n\tvdup.32 q4, r8\n\tvdup.32 q5, r9\n\tvdup.32 q6, r10\n\tvmsr p0, r11\n\t"      \
  "movs r0, #0\n\tmovs r1, #3\n\tvidup.u32 q7, r0, #4\n\tvmul.i32 q7, q7, r1\n\t"                                      \
  "movs r0, #0\n\tsubs r6, #4\n\tvidup.u32 q0, r0, #8\n\tvdup.32 q1, r6\n\tvmin.u32 q0, q0, q1\n\t"                    \
  "add r1, sp, #48\n\tvstrw.32 q0, [r1]\n"

#define TFLITE_FUSE_END(name)                                                                                 \
  "add sp, sp, #68\n\tvpop {d8-d15}\n\tpop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n\t.size " name ", .-" name \
  "\n\t.text"

/* r5: weights of two channels, r7: of the next two; r11: first piece of the first pixel. */
#define TFLITE_FUSE_TO_WEIGHTS                                                                            \
  "ldr.w r11, " TFLITE_FUSE_ON_STACK(LIST) "ldr.w r9, " TFLITE_FUSE_ON_STACK(PAIR_BYTES) "mov r5, r7\n\t" \
  "add.w r7, r7, r9\n"
#define TFLITE_FUSE_PIECE_END "ldr.w r9, " TFLITE_FUSE_ON_STACK(LIST_END) "cmp r11, r9\n\tbne 1b\n\t"

/* Loads the offsets of weights for a piece's remaining values: four bytes of one channel alternate with four
 * of the other. */
#define TFLITE_FUSE_OFFSETS                                                                             \
  "add r9, sp, #" TFLITE_FUSE_TEXT(TFLITE_FUSE_RUN_REST_OFFSETS) "\n\tvldrw.u32 q3, [r9]\n\tldr.w r9, " \
  TFLITE_FUSE_ON_STACK(REST_BYTES)

/* Scales sums to outputs without zero point. r0: entry. */
#define TFLITE_FUSE_BIAS "ldr r0, " TFLITE_FUSE_ON_STACK(ENTRY) "vldrw.u32 q2, [r0, q7]\n\t"
#define TFLITE_FUSE_MULTIPLIER "adds r2, r0, #4\n\tvldrw.u32 q3, [r2, q7]\n\t"
#define TFLITE_FUSE_SHIFT "adds r2, #4\n\tvldrw.u32 q2, [r2, q7]\n\tvmvn q2, q2\n\t"
#define TFLITE_FUSE_ROUND(sums, high) \
  "vshr.s32 " high ", " sums ", #31\n\tvadd.i32 " sums ", " sums ", " high "\n\tvrshl.s32 " sums ", " sums ", q2\n\t"
#define TFLITE_FUSE_CLAMP(sums) \
  "vadd.i32 " sums ", " sums ", q4\n\tvmax.s32 " sums ", " sums ", q5\n\tvmin.s32 " sums ", " sums ", q6\n\t"
#define TFLITE_FUSE_QUAD_END                                                                        \
  "ldr r2, " TFLITE_FUSE_ON_STACK(ENTRY_END) "adds r0, #48\n\tstr r0, " TFLITE_FUSE_ON_STACK(ENTRY) \
  "cmp r0, r2\n\tbne 0b\n\t"

/* ---- One pixel: r0, r2, r4, r6 ---- */

#define TFLITE_FUSE_REST_1                                                                                      \
  TFLITE_FUSE_OFFSETS "vpst\n\tvldrbt.8 q0, [r1]\n\t"                                                           \
  "vldrw.u32 q1, [r5, q3]\n\tadds r5, #4\n\tvmladava.s8 r0, q0, q1\n\tvldrw.u32 q2, [r5, q3]\n\tadd r5, r9\n\t" \
  "vmladava.s8 r2, q0, q2\n\tvldrw.u32 q1, [r7, q3]\n\tadds r7, #4\n\tvmladava.s8 r4, q0, q1\n\t"               \
  "vldrw.u32 q2, [r7, q3]\n\tadd r7, r9\n\tvmladava.s8 r6, q0, q2\n\t"

/* Loads a piece, r1: values, r9: number of vectors; and processes one vector of it. */
#define TFLITE_FUSE_PIECE_1 "ldr.w r9, " TFLITE_FUSE_ON_STACK(VECTORS) "ldr.w r1, [r11], #4\n\t"
#define TFLITE_FUSE_VECTOR_1(sum)                                                                              \
  "vldrb.8 q0, [r1], #16\n\tvld20.32 {q1, q2}, [r5]\n\tvld21.32 {q1, q2}, [r5]!\n\t" sum " r0, q0, q1\n\t" sum \
  " r2, q0, q2\n\tvld20.32 {q1, q2}, [r7]\n\tvld21.32 {q1, q2}, [r7]!\n\t" sum " r4, q0, q1\n\t" sum " r6, q0, q2\n\t"

/* Start of a quad of channels: with the first vector of a piece, or with zeros if pieces may have no whole vector. */
#define TFLITE_FUSE_FIRST_VECTOR_1                                                         \
  "b 0f\n1:\t" TFLITE_FUSE_PIECE_1 "b 4f\n0:\t" TFLITE_FUSE_TO_WEIGHTS TFLITE_FUSE_PIECE_1 \
  TFLITE_FUSE_VECTOR_1("vmladav.s8") "sub.w r9, r9, #1\n4:\t"
#define TFLITE_FUSE_ZEROS_1 \
  "0:\tmovs r0, #0\n\tmovs r2, #0\n\tmovs r4, #0\n\tmovs r6, #0\n\t" TFLITE_FUSE_TO_WEIGHTS "1:\t" TFLITE_FUSE_PIECE_1

#define TFLITE_FUSE_LOOP_1(name, first, rest)                                                                     \
  __asm__(TFLITE_FUSE_BEGIN(name) first "wls lr, r9, 3f\n2:\t" TFLITE_FUSE_VECTOR_1("vmladava.s8")                \
          "le lr, 2b\n3:\t" rest TFLITE_FUSE_PIECE_END                                                            \
          "vmov q0[2], q0[0], r0, r4\n\tvmov q0[3], q0[1], r2, r6\n\t" TFLITE_FUSE_BIAS "vadd.i32 q0, q0, q2\n\t" \
          TFLITE_FUSE_MULTIPLIER "vqrdmulh.s32 q0, q0, q3\n\t" TFLITE_FUSE_SHIFT TFLITE_FUSE_ROUND("q0", "q3")    \
          "ldr r4, " TFLITE_FUSE_ON_STACK(OUTPUTS) TFLITE_FUSE_CLAMP("q0") "vstrb.32 q0, [r4], #4\n\t"            \
          "str r4, " TFLITE_FUSE_ON_STACK(OUTPUTS) TFLITE_FUSE_QUAD_END TFLITE_FUSE_END(name))

/* ---- Two pixels: r0, r2, r4, r6 and r8, r10, r12, lr ---- */

/* Computes products of one channel: added to its sums, or as first ones. */
#define TFLITE_FUSE_SUM_2(sum, weights, first, second) \
  sum " " first ", q0, " weights "\n\t" sum " " second ", q1, " weights "\n\t"
#define TFLITE_FUSE_ADD_2(weights, first, second) TFLITE_FUSE_SUM_2("vmladava.s8", weights, first, second)

/* Loads a piece, r1, r3: values, r9: number of vectors; and processes one vector of it. The flags show whether another
 * vector follows. */
#define TFLITE_FUSE_PIECE_2                                                                 \
  "ldr.w r9, " TFLITE_FUSE_ON_STACK(APART) "ldr.w r3, [r11, r9]\n\tldr.w r1, [r11], #4\n\t" \
  "ldr.w r9, " TFLITE_FUSE_ON_STACK(VECTORS)
#define TFLITE_FUSE_VECTOR_2(sum)                                                                             \
  "vldrb.8 q0, [r1], #16\n\tvld20.32 {q2, q3}, [r5]\n\tvldrb.8 q1, [r3], #16\n\tvld21.32 {q2, q3}, [r5]!\n\t" \
  TFLITE_FUSE_SUM_2(sum, "q2", "r0", "r8") TFLITE_FUSE_SUM_2(sum, "q3", "r2", "r10")                          \
  "vld20.32 {q2, q3}, [r7]\n\tvld21.32 {q2, q3}, [r7]!\n\tsubs.w r9, r9, #1\n\t"                              \
  TFLITE_FUSE_SUM_2(sum, "q2", "r4", "r12") TFLITE_FUSE_SUM_2(sum, "q3", "r6", "lr")

/* Start of a quad of channels: with the first vector of a piece, or with zeros if pieces may have no whole vector. */
#define TFLITE_FUSE_FIRST_VECTOR_2 \
  TFLITE_FUSE_TO_WEIGHTS TFLITE_FUSE_PIECE_2 TFLITE_FUSE_VECTOR_2("vmladav.s8") "bne 2f\n\tb 3f\n"
#define TFLITE_FUSE_ZEROS_2                                      \
  "movs r0, #0\n\tmovs r2, #0\n\tmovs r4, #0\n\tmovs r6, #0\n\t" \
  "mov r8, r0\n\tmov r10, r0\n\tmov r12, r0\n\tmov lr, r0\n\t" TFLITE_FUSE_TO_WEIGHTS

#define TFLITE_FUSE_REST_2                                                         \
  TFLITE_FUSE_OFFSETS "vpstt\n\tvldrbt.8 q0, [r1]\n\tvldrbt.8 q1, [r3]\n\t"        \
  "vldrw.u32 q2, [r5, q3]\n\tadds r5, #4\n\t" TFLITE_FUSE_ADD_2("q2", "r0", "r8")  \
  "vldrw.u32 q2, [r5, q3]\n\tadd r5, r9\n\t" TFLITE_FUSE_ADD_2("q2", "r2", "r10")  \
  "vldrw.u32 q2, [r7, q3]\n\tadds r7, #4\n\t" TFLITE_FUSE_ADD_2("q2", "r4", "r12") \
  "vldrw.u32 q2, [r7, q3]\n\tadd r7, r9\n\t" TFLITE_FUSE_ADD_2("q2", "r6", "lr")

#define TFLITE_FUSE_LOOP_2(name, first, none, rest)                                                                   \
  __asm__(TFLITE_FUSE_BEGIN(name)                                                                                     \
          "0:\t" first "1:\t" TFLITE_FUSE_PIECE_2 none "2:\t" TFLITE_FUSE_VECTOR_2("vmladava.s8") "bne 2b\n3:\t" rest \
          TFLITE_FUSE_PIECE_END                                                                                       \
          "vmov q0[2], q0[0], r0, r4\n\tvmov q0[3], q0[1], r2, r6\n\t"                                                \
          "vmov q1[2], q1[0], r8, r12\n\tvmov q1[3], q1[1], r10, lr\n\t" TFLITE_FUSE_BIAS                             \
          "vadd.i32 q0, q0, q2\n\tvadd.i32 q1, q1, q2\n\t" TFLITE_FUSE_MULTIPLIER                                     \
          "vqrdmulh.s32 q0, q0, q3\n\tvqrdmulh.s32 q1, q1, q3\n\t" TFLITE_FUSE_SHIFT TFLITE_FUSE_ROUND("q0", "q3")    \
          "ldrd r4, r6, " TFLITE_FUSE_ON_STACK(OUTPUTS) TFLITE_FUSE_ROUND("q1", "q3") TFLITE_FUSE_CLAMP("q0")         \
          "vstrb.32 q0, [r4], #4\n\t" TFLITE_FUSE_CLAMP("q1") "vstrb.32 q1, [r6], #4\n\t"                             \
          "strd r4, r6, " TFLITE_FUSE_ON_STACK(OUTPUTS) TFLITE_FUSE_QUAD_END TFLITE_FUSE_END(name))

TFLITE_FUSE_LOOP_1("tflite_fuse_conv_mve_1", TFLITE_FUSE_FIRST_VECTOR_1, "");
TFLITE_FUSE_LOOP_1("tflite_fuse_conv_mve_rest_1", TFLITE_FUSE_ZEROS_1, TFLITE_FUSE_REST_1);
TFLITE_FUSE_LOOP_2("tflite_fuse_conv_mve_2", TFLITE_FUSE_FIRST_VECTOR_2, "\n", "");
TFLITE_FUSE_LOOP_2("tflite_fuse_conv_mve_rest_2", TFLITE_FUSE_ZEROS_2, "cmp.w r9, #0\n\tbeq 3f\n", TFLITE_FUSE_REST_2);

#endif
