/* The inner loops of the convolution with weights of 16 bits: two channels of two pixels or of one. Weights are pairs as
 * they are multiplied, so that nothing is unpacked, and twice as large, so that sums are as they are scaled.
 *
 * The loops take all registers: they are functions in assembler. */
#include "../weighted/tflite_fuse_conv_packed.h"

#if TFLITE_FUSE_DSP && !TFLITE_FUSE_MVE

#if !defined(TFLITE_FUSE_DSP_EMULATION)

void tflite_fuse_int16_all_2(tflite_fuse_conv_run* run);
void tflite_fuse_int16_all_1(tflite_fuse_conv_run* run);
void tflite_fuse_int16_part_2(tflite_fuse_conv_run* run);
void tflite_fuse_int16_part_1(tflite_fuse_conv_run* run);

/* Four quads a turn; of a first turn, `add pc` skips those that are too many. */
#define TFLITE_FUSE_START_2(quads) ((0u - (quads)) % 4 * (10 * 4))
#define TFLITE_FUSE_START_1(quads) ((0u - (quads)) % 4 * (6 * 4))

#define TFLITE_FUSE_CONV_ALL(run, pixels) ((pixels) == 2 ? tflite_fuse_int16_all_2 : tflite_fuse_int16_all_1)(run)
#define TFLITE_FUSE_CONV_PART(run, pixels) ((pixels) == 2 ? tflite_fuse_int16_part_2 : tflite_fuse_int16_part_1)(run)
#else
#define TFLITE_FUSE_CONV_ALL(run, pixels) EMULATED_ALL(run, pixels, 16)
#define TFLITE_FUSE_CONV_PART(run, pixels) EMULATED_PART(run, pixels, 16)
#endif

#define TFLITE_FUSE_SCALE tflite_fuse_scale_twice_down
#define TFLITE_FUSE_WEIGHT_BYTES 2
#define TFLITE_FUSE_LINKAGE static
#define tflite_fuse_conv_start start
#define tflite_fuse_conv_wide all_of_two
#define tflite_fuse_conv_single all_of_one
#define tflite_fuse_conv_part part_of_two
#define tflite_fuse_conv_part_single part_of_one
#define tflite_fuse_conv_finish_parts finish_parts
#include "tflite_fuse_conv_loops.h"

#if !defined(TFLITE_FUSE_DSP_EMULATION)

/* r0: the next pairs; r1: the next weights; r2, r3: sums of the first channel; r4, r5: of the second. */
#define QUAD_2                                                                                             \
  "ldmia.w r1!, {r6, r7, r8, r9}\n\tldmia.w r0!, {r10, r11, r12, lr}\n\t"                                 \
  "smlad r2, r10, r6, r2\n\tsmlad r3, r12, r6, r3\n\tsmlad r2, r11, r7, r2\n\tsmlad r3, lr, r7, r3\n\t"    \
  "smlad r4, r10, r8, r4\n\tsmlad r5, r12, r8, r5\n\tsmlad r4, r11, r9, r4\n\tsmlad r5, lr, r9, r5\n\t"

/* r2, r3: sums. */
#define QUAD_1                                                                                             \
  "ldmia.w r1!, {r6, r7, r8, r9}\n\tldrd r10, r11, [r0], #8\n\t"                                          \
  "smlad r2, r10, r6, r2\n\tsmlad r3, r10, r8, r3\n\tsmlad r2, r11, r7, r2\n\tsmlad r3, r11, r9, r3\n\t"

#define QUADS(quad) "add pc, r10\n\tnop\n1:\t" quad quad quad quad "ldr r6, [sp, #4]\n\tcmp r0, r6\n\tbne 1b\n\t"

#define FINISH(sum, output) TFLITE_FUSE_FINISH(sum, output, "")

TFLITE_FUSE_FUNCTION("tflite_fuse_int16_all_2", "2", "0", "28",
         "0:\tldr r2, [r6]\n\tldr r4, [r6, #12]\n\tmov r3, r2\n\tmov r5, r4\n\tldrd r0, r10, [r0, #16]\n\t"
         QUADS(QUAD_2) TFLITE_FUSE_RELOAD
         TFLITE_FUSE_ENTRY FINISH("r2", "r7") FINISH("r3", "r8")
         TFLITE_FUSE_ENTRY FINISH("r4", "r7") FINISH("r5", "r8") TFLITE_FUSE_ALL_END);

TFLITE_FUSE_FUNCTION("tflite_fuse_int16_all_1", "1", "0", "28",
         "0:\tldr r2, [r6]\n\tldr r3, [r6, #12]\n\tldrd r0, r10, [r0, #16]\n\t"
         QUADS(QUAD_1) TFLITE_FUSE_RELOAD
         TFLITE_FUSE_ENTRY FINISH("r2", "r7") TFLITE_FUSE_ENTRY FINISH("r3", "r7") TFLITE_FUSE_ALL_END);

TFLITE_FUSE_FUNCTION("tflite_fuse_int16_part_2", "2", "36", "40",
         "0:\tldr r10, [sp]\n\tstr r6, [r10, #36]\n\tldmia.w r6, {r2, r3, r4, r5}\n\tldrd r0, r10, [r10, #16]\n\t"
         QUADS(QUAD_2) TFLITE_FUSE_TO_NEXT_SUMS "stmia.w r6!, {r2, r3, r4, r5}\n\t" TFLITE_FUSE_PART_END);

TFLITE_FUSE_FUNCTION("tflite_fuse_int16_part_1", "1", "36", "40",
         "0:\tldr r10, [sp]\n\tstr r6, [r10, #36]\n\tldrd r2, r3, [r6]\n\tldrd r0, r10, [r10, #16]\n\t"
         QUADS(QUAD_1) TFLITE_FUSE_TO_NEXT_SUMS "stmia.w r6!, {r2, r3}\n\t" TFLITE_FUSE_PART_END);

#endif

/* ---- Four pixels: two and two ---- */

static uint32_t* widen_two_and_two(uint32_t* wide, const int8_t* const* pixels, int32_t to_next, int32_t count,
                                   int32_t values) {
  tflite_fuse_widen_2(wide + values, pixels[2 * to_next], pixels[3 * to_next], count);
  return tflite_fuse_widen_2(wide, pixels[0], pixels[to_next], count);
}

static void all_of_four(tflite_fuse_conv_job* j, const uint32_t* values, int8_t* output) {
  const int32_t to_next = j->call->output->channels;
  start(j, j->values, 2);
  for (int32_t i = 0; i < 2; ++i, output += 2 * to_next) {
    j->run.entry = j->call->table;
    j->run.weights = j->call->weights;
    j->run.wide = values + i * j->values, j->run.wide_end = j->run.wide + j->values;
    j->run.outputs[0] = output, j->run.outputs[1] = output + to_next;
    all_of_two(j);
  }
}

/* ---- The convolution, with these loops ---- */

#define tflite_fuse_conv_four all_of_four
#define tflite_fuse_widen_4(wide, pixels, to_next, count) widen_two_and_two(wide, pixels, to_next, count, j->values)
#define tflite_fuse_conv_packed tflite_fuse_conv_int16
#include "../weighted/tflite_fuse_conv_packed.c"

#endif
