/* Computes depthwise windows of 3 x 3 with stride 1 on cores that issue two instructions per cycle: two channels of two
 * pixels at a time.
 *
 * A loaded halfword holds the values of both channels; a word adds the row below. Products of two rows are added by one
 * instruction, and so are those of columns 0 and 2, or 1 and 3, of the last row.
 *
 * The loop is an assembler function, because it uses all registers. Each load is issued well before its use, behind
 * products of earlier loads. */
#include "tflite_fuse_depthwise_dsp.h"

#if TFLITE_FUSE_DSP && TFLITE_FUSE_DUAL_ISSUE && !TFLITE_FUSE_MVE && !defined(TFLITE_FUSE_DSP_EMULATION)

#define TFLITE_FUSE_TEXT_OF(value) #value
#define TFLITE_FUSE_TEXT(value) TFLITE_FUSE_TEXT_OF(value)

/* Byte offsets on the stack, behind 12 pointers to pixels; half of the zero point is at 52. */
#define TFLITE_FUSE_ON_STACK_ENTRY 48
#define TFLITE_FUSE_ON_STACK_OUTPUTS 56
#define TFLITE_FUSE_ON_STACK_END 64
#define TFLITE_FUSE_ON_STACK(field) "[sp, #" TFLITE_FUSE_TEXT(TFLITE_FUSE_ON_STACK_##field) "]\n\t"

_Static_assert(offsetof(tflite_fuse_depthwise_run, channel) == TFLITE_FUSE_ON_STACK_ENTRY, "pointers come first");
_Static_assert(sizeof(tflite_fuse_depthwise_run) == 76, "seven words follow");
_Static_assert(offsetof(tflite_fuse_channel, multiplier) == 4 && offsetof(tflite_fuse_channel, shift) == 8 &&
                   sizeof(tflite_fuse_channel) == 12,
               "entries have changed");

#define TFLITE_FUSE_EVEN(to, word) "sxtb16 " to ", " word "\n\t"
#define TFLITE_FUSE_ODD(to, word) "sxtb16 " to ", " word ", ror #8\n\t"
#define TFLITE_FUSE_ADD(sum, a, b, to) "smlad " to ", " a ", " b ", " sum "\n\t"
#define TFLITE_FUSE_ADD_BOTTOM_TOP(sum, a, b) "smlabt " sum ", " a ", " b ", " sum "\n\t"
#define TFLITE_FUSE_TOGETHER(upper, lower) "pkhbt " upper ", " upper ", " lower ", lsl #16\n\t"
#define TFLITE_FUSE_HALVES(p, q, r, s)                                                                       \
  "ldrh " p ", [" p ", r0]\n\tldrh " q ", [" q ", r0]\n\tldrh " r ", [" r ", r0]\n\tldrh " s ", [" s ", r0]\n\t"

/* Loads the pointers to columns 0 and 1 of the first two rows. */
#define TFLITE_FUSE_FIRST_POINTERS "ldrd r10, r11, [sp]\n\tldrd r12, lr, [sp, #8]\n\t"

/* lr: half of the divisor; r8: free. */
#define TFLITE_FUSE_PRODUCT(sum, multiplier) \
  "add r8, lr, " sum ", asr #31\n\tlsls " sum ", " sum ", #1\n\tsmmlar " sum ", " sum ", " multiplier ", r8\n\t"
#define TFLITE_FUSE_SHIFT(sum, shift) "asr " sum ", " sum ", " shift "\n\t"
#define TFLITE_FUSE_STORE(first, second)                                                     \
  "ssat " first ", #8, " first ", asr #1\n\tssat " second ", #8, " second ", asr #1\n\t"     \
  "strb " second ", [r9], #1\n\tstrb " first ", [r6], #1\n\t" /* an absent pixel comes first */

/* r0: channel, r1: weights; r2, r3: sums of the first channel, r4, r5: of the second. */
__asm__(
    ".syntax unified\n\t.section .text.tflite_fuse_depthwise_3_1,\"ax\",%progbits\n\t.balign 4\n\t"
    ".thumb\n\t.thumb_func\n\t"
    ".global tflite_fuse_depthwise_3_1\n\t.hidden tflite_fuse_depthwise_3_1\n\t"
    ".type tflite_fuse_depthwise_3_1, %function\ntflite_fuse_depthwise_3_1:\n\t"
    "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n\tsub sp, sp, #68\n\t"
    "ldmia.w r0!, {r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12}\n\t"
    "stmia.w sp, {r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12}\n\t"
    "ldmia.w r0, {r1, r2, r3, r4, r5, r6, r7}\n\tadd r5, r5, r1\n\tadd r6, r6, r1\n\tadd r12, sp, #48\n\t"
    "stmia.w r12, {r3, r4, r5, r6, r7}\n\tmov r0, r1\n\tmov r1, r2\n\t"
    TFLITE_FUSE_FIRST_POINTERS
    "0:\tldr r6, " TFLITE_FUSE_ON_STACK(ENTRY) "ldr r8, [r1]\n\tldr r9, [r1, #12]\n\t"
    TFLITE_FUSE_HALVES("r10", "r11", "r12", "lr") "ldr r2, [r6]\n\tldr r4, [r6, #12]\n\t"
    TFLITE_FUSE_TOGETHER("r10", "r11") TFLITE_FUSE_EVEN("r11", "r8") TFLITE_FUSE_TOGETHER("r12", "lr")
    TFLITE_FUSE_EVEN("r6", "r10") TFLITE_FUSE_EVEN("r7", "r12")
    TFLITE_FUSE_ADD("r2", "r7", "r11", "r3") TFLITE_FUSE_ODD("r8", "r8") TFLITE_FUSE_ADD("r2", "r6", "r11", "r2")
    TFLITE_FUSE_ODD("r10", "r10") TFLITE_FUSE_ADD("r2", "r7", "r8", "r2") TFLITE_FUSE_ODD("r12", "r12")
    "ldrd r6, r11, [sp, #16]\n\t" TFLITE_FUSE_EVEN("r7", "r9")
    TFLITE_FUSE_ADD("r4", "r12", "r7", "r5") TFLITE_FUSE_ODD("r9", "r9") TFLITE_FUSE_ADD("r4", "r10", "r7", "r4")
    "ldrd r7, lr, [sp, #24]\n\t" TFLITE_FUSE_ADD("r4", "r12", "r9", "r4")
    /* columns 2 and 3; r8, r9: weights of column 1 */
    "ldr r10, [r1, #4]\n\tldr r12, [r1, #16]\n\t" TFLITE_FUSE_HALVES("r6", "r11", "r7", "lr")
    TFLITE_FUSE_EVEN("r10", "r10") TFLITE_FUSE_TOGETHER("r6", "r11") TFLITE_FUSE_TOGETHER("r7", "lr")
    TFLITE_FUSE_EVEN("r11", "r6") TFLITE_FUSE_EVEN("lr", "r7")
    TFLITE_FUSE_ADD("r2", "r11", "r10", "r2") TFLITE_FUSE_EVEN("r12", "r12") TFLITE_FUSE_ADD("r3", "r11", "r8", "r3")
    TFLITE_FUSE_ODD("r6", "r6") TFLITE_FUSE_ADD("r3", "lr", "r10", "r3")
    "ldrd r10, r11, [sp, #32]\n\tldrd r8, lr, [sp, #40]\n\t" TFLITE_FUSE_ADD("r4", "r6", "r12", "r4")
    TFLITE_FUSE_ODD("r7", "r7") TFLITE_FUSE_ADD("r5", "r6", "r9", "r5") TFLITE_FUSE_ADD("r5", "r7", "r12", "r5")
    /* the last row */
    "ldr r7, [r1, #8]\n\tldr r9, [r1, #20]\n\t" TFLITE_FUSE_HALVES("r10", "r11", "r8", "lr") "adds r1, #24\n\t"
    TFLITE_FUSE_EVEN("r6", "r7") TFLITE_FUSE_TOGETHER("r10", "r11") TFLITE_FUSE_TOGETHER("r8", "lr")
    TFLITE_FUSE_EVEN("r11", "r10") TFLITE_FUSE_EVEN("r12", "r8")
    TFLITE_FUSE_ADD("r2", "r11", "r6", "r2") TFLITE_FUSE_ODD("r7", "r7") TFLITE_FUSE_ADD("r3", "r12", "r6", "r3")
    TFLITE_FUSE_ODD("r10", "r10") TFLITE_FUSE_ADD("r2", "r12", "r7", "r2") TFLITE_FUSE_EVEN("r6", "r9")
    TFLITE_FUSE_ADD_BOTTOM_TOP("r3", "r7", "r11") "ldrd r12, lr, " TFLITE_FUSE_ON_STACK(ENTRY)
    TFLITE_FUSE_ODD("r8", "r8") TFLITE_FUSE_ADD("r4", "r10", "r6", "r4") TFLITE_FUSE_ODD("r9", "r9")
    TFLITE_FUSE_ADD("r5", "r8", "r6", "r5") "ldrd r7, r11, [r12, #4]\n\t" TFLITE_FUSE_ADD("r4", "r8", "r9", "r4")
    TFLITE_FUSE_ADD_BOTTOM_TOP("r5", "r9", "r10")
    /* r7, r11: multiplier and shift; r6, r9: outputs */
    "ldrd r6, r9, " TFLITE_FUSE_ON_STACK(OUTPUTS) "lsl lr, lr, r11\n\t"
    TFLITE_FUSE_PRODUCT("r3", "r7") TFLITE_FUSE_PRODUCT("r2", "r7") TFLITE_FUSE_SHIFT("r3", "r11")
    "ldrd r7, r10, [r12, #16]\n\tldr lr, [sp, #52]\n\tadds r12, #24\n\t" TFLITE_FUSE_SHIFT("r2", "r11")
    "str r12, " TFLITE_FUSE_ON_STACK(ENTRY) TFLITE_FUSE_STORE("r2", "r3") "lsl lr, lr, r10\n\t"
    TFLITE_FUSE_PRODUCT("r5", "r7") TFLITE_FUSE_PRODUCT("r4", "r7") TFLITE_FUSE_SHIFT("r5", "r10")
    "ldr r7, " TFLITE_FUSE_ON_STACK(END) TFLITE_FUSE_SHIFT("r4", "r10") "cmp r12, r7\n\t"
    TFLITE_FUSE_STORE("r4", "r5") TFLITE_FUSE_FIRST_POINTERS
    "strd r6, r9, " TFLITE_FUSE_ON_STACK(OUTPUTS) "add.w r0, r0, #2\n\tbne 0b\n\t"
    "add sp, sp, #68\n\tpop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n\t"
    ".size tflite_fuse_depthwise_3_1, .-tflite_fuse_depthwise_3_1\n\t.text");

#endif
