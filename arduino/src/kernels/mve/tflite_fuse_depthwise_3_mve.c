/* Computes depthwise windows of 3 x 3 with Helium: all groups of eight channels, of two pixels one column
 * apart or of one.
 *
 * Weights are read in place, channel by channel. Products of even and odd lanes are int32 and stay separate until they
 * are outputs. Sums, a value, a weight and their product take all vector registers, and compilers load ahead until they
 * spill: the loops are assembler functions. */
#include "tflite_fuse_depthwise_mve.h"

#if TFLITE_FUSE_MVE_LOOPS

_Static_assert(sizeof(tflite_fuse_depthwise_mve_run) == 36 && sizeof(tflite_fuse_channel) == 12,
               "the code below loads nine words and entries of three");

/* r0: channel, r1: window, r2: weights, r3: entry, r4, r5: outputs, r6: end of the channels, r7: free, r8, r9, r10:
 * zero point, least and largest output. q0, q1: even and odd sums of the first pixel, q2, q3: of the second; q7: byte
 * offsets of the weights of eight channels; on the stack: byte offsets of every other channel's entry. */
#define TFLITE_FUSE_BEGIN(name)                                                                                      \
  ".syntax unified\n\t.section .text." name ",\"ax\",%progbits\n\t.balign 4\n\t.thumb\n\t.thumb_func\n\t.global " name \
  "\n\t.hidden " name "\n\t.type " name ", %function\n" name ":\n\t"                                                  \
  "push {r4, r5, r6, r7, r8, r9, r10, lr}\n\tvpush {d8-d15}\n\tsub sp, sp, #16\n\t"                                    \
  "ldmia.w r0, {r1, r2, r3, r4, r5, r6, r8, r9, r10}\n\tmovs r0, #0\n\tmovs r7, #12\n\tvidup.u16 q7, r0, #1\n\t"       \
  "vmul.i16 q7, q7, r7\n\tmovs r0, #0\n\tvidup.u32 q0, r0, #2\n\tvmul.i32 q0, q0, r7\n\tvstrw.32 q0, [sp]\n\t"        \
  "movs r0, #0\n0:\t"
#define TFLITE_FUSE_END(name)                                                                                       \
  "adds r2, #96\n\tadds r3, #96\n\tadds r0, #8\n\tcmp r0, r6\n\tbne 0b\n\t"                                         \
  "add sp, sp, #16\n\tvpop {d8-d15}\n\tpop {r4, r5, r6, r7, r8, r9, r10, pc}\n\t.size " name ", .-" name "\n\t.text"

#define TFLITE_FUSE_BIASES \
  "vldrw.u32 q4, [sp]\n\tvldrw.u32 q0, [r3, q4]\n\tadd.w r7, r3, #12\n\tvldrw.u32 q1, [r7, q4]\n\t"

/* Loads a weight by its byte in a filter, and a value by its number in the window. */
#define TFLITE_FUSE_WEIGHT(index) "add.w r7, r2, #" index "\n\tvldrb.s16 q5, [r7, q7]\n\t"
#define TFLITE_FUSE_VALUE(index) "ldr r7, [r1, #4 * " index "]\n\tadd r7, r0\n\tvldrb.s16 q4, [r7]\n\t"
#define TFLITE_FUSE_ADD(even, odd)                                                              \
  "vmullb.s16 q6, q4, q5\n\tvadd.i32 " even ", " even ", q6\n\tvmullt.s16 q6, q4, q5\n\tvadd.i32 " odd ", " odd \
  ", q6\n\t"

/* Adds a row: bytes of its weights, and numbers of the values of its columns. */
#define TFLITE_FUSE_ROW_1(a, b, c, v0, v1, v2)                                                                    \
  TFLITE_FUSE_WEIGHT(a) TFLITE_FUSE_VALUE(v0) TFLITE_FUSE_ADD("q0", "q1")                                         \
  TFLITE_FUSE_WEIGHT(b) TFLITE_FUSE_VALUE(v1) TFLITE_FUSE_ADD("q0", "q1")                                         \
  TFLITE_FUSE_WEIGHT(c) TFLITE_FUSE_VALUE(v2) TFLITE_FUSE_ADD("q0", "q1")
#define TFLITE_FUSE_ROW_2(a, b, c, v0, v1, v2, v3)                                                                \
  TFLITE_FUSE_WEIGHT(a) TFLITE_FUSE_VALUE(v0) TFLITE_FUSE_ADD("q0", "q1")                                         \
  TFLITE_FUSE_VALUE(v1) TFLITE_FUSE_ADD("q2", "q3") TFLITE_FUSE_WEIGHT(b) TFLITE_FUSE_ADD("q0", "q1")              \
  TFLITE_FUSE_VALUE(v2) TFLITE_FUSE_ADD("q2", "q3") TFLITE_FUSE_WEIGHT(c) TFLITE_FUSE_ADD("q0", "q1")              \
  TFLITE_FUSE_VALUE(v3) TFLITE_FUSE_ADD("q2", "q3")

/* q4: byte offsets of every other entry from r7 on. Loads multipliers, then shifts. */
#define TFLITE_FUSE_MULTIPLIER "adds r7, #4\n\tvldrw.u32 q5, [r7, q4]\n\t"
#define TFLITE_FUSE_SHIFT "adds r7, #4\n\tvldrw.u32 q5, [r7, q4]\n\tvmvn q5, q5\n\t"
#define TFLITE_FUSE_PRODUCT(sums) "vqrdmulh.s32 " sums ", " sums ", q5\n\t"
#define TFLITE_FUSE_ROUND(sums) \
  "vshr.s32 q6, " sums ", #31\n\tvadd.i32 " sums ", " sums ", q6\n\tvrshl.s32 " sums ", " sums ", q5\n\t"

#define TFLITE_FUSE_LIMITS "vdup.16 q4, r9\n\tvdup.16 q5, r10\n\t"
#define TFLITE_FUSE_STORE(even, odd, output)                                                                         \
  "vqmovnb.s32 " even ", " even "\n\tvqmovnt.s32 " even ", " odd "\n\tvqadd.s16 " even ", " even ", r8\n\t"           \
  "vmax.s16 " even ", " even ", q4\n\tvmin.s16 " even ", " even ", q5\n\tvstrb.16 " even ", [" output "], #8\n\t"

__asm__(TFLITE_FUSE_BEGIN("tflite_fuse_depthwise_mve_1") TFLITE_FUSE_BIASES
        TFLITE_FUSE_ROW_1("0", "1", "4", "0", "3", "6") TFLITE_FUSE_ROW_1("2", "3", "6", "1", "4", "7")
        TFLITE_FUSE_ROW_1("8", "9", "10", "2", "5", "8")
        "vldrw.u32 q4, [sp]\n\tmov r7, r3\n\t" TFLITE_FUSE_MULTIPLIER TFLITE_FUSE_PRODUCT("q0")
        TFLITE_FUSE_SHIFT TFLITE_FUSE_ROUND("q0") "adds r7, #4\n\t"
        TFLITE_FUSE_MULTIPLIER TFLITE_FUSE_PRODUCT("q1") TFLITE_FUSE_SHIFT TFLITE_FUSE_ROUND("q1")
        TFLITE_FUSE_LIMITS TFLITE_FUSE_STORE("q0", "q1", "r4") TFLITE_FUSE_END("tflite_fuse_depthwise_mve_1"));

__asm__(TFLITE_FUSE_BEGIN("tflite_fuse_depthwise_mve_2") TFLITE_FUSE_BIASES "vmov q2, q0\n\tvmov q3, q1\n\t"
        TFLITE_FUSE_ROW_2("0", "1", "4", "0", "3", "6", "9") TFLITE_FUSE_ROW_2("2", "3", "6", "1", "4", "7", "10")
        TFLITE_FUSE_ROW_2("8", "9", "10", "2", "5", "8", "11")
        "vldrw.u32 q4, [sp]\n\tmov r7, r3\n\t" TFLITE_FUSE_MULTIPLIER
        TFLITE_FUSE_PRODUCT("q0") TFLITE_FUSE_PRODUCT("q2")
        TFLITE_FUSE_SHIFT TFLITE_FUSE_ROUND("q0") TFLITE_FUSE_ROUND("q2") "adds r7, #4\n\t"
        TFLITE_FUSE_MULTIPLIER TFLITE_FUSE_PRODUCT("q1") TFLITE_FUSE_PRODUCT("q3")
        TFLITE_FUSE_SHIFT TFLITE_FUSE_ROUND("q1") TFLITE_FUSE_ROUND("q3")
        TFLITE_FUSE_LIMITS TFLITE_FUSE_STORE("q0", "q1", "r4") TFLITE_FUSE_STORE("q2", "q3", "r5")
        TFLITE_FUSE_END("tflite_fuse_depthwise_mve_2"));

#endif
