/* The inner loops of the convolution with weights of 16 bits: two channels of two pixels or of one. Weights are pairs as
 * they are multiplied, so that nothing is unpacked, and twice as large, so that sums are as they are scaled.
 *
 * The loops take all registers: they are functions in assembler. */
#define TFLITE_FUSE_NO_INNER_LOOPS
#include "../weighted/tflite_fuse_conv_packed.h"

#if TFLITE_FUSE_DSP && !TFLITE_FUSE_MVE

#if !defined(TFLITE_FUSE_DSP_EMULATION)

void tflite_fuse_int16_all_2(tflite_fuse_int16_run* run);
void tflite_fuse_int16_all_1(tflite_fuse_int16_run* run);
void tflite_fuse_int16_part_2(tflite_fuse_int16_run* run);
void tflite_fuse_int16_part_1(tflite_fuse_int16_run* run);

_Static_assert(offsetof(tflite_fuse_int16_run, skip) == 44, "as the code below counts");

/* Four quads a turn; of a first turn, `add pc` skips those that are too many. */
#define TFLITE_FUSE_START_INT16_2(quads) ((0u - (quads)) % 4 * (10 * 4))
#define TFLITE_FUSE_START_INT16_1(quads) ((0u - (quads)) % 4 * (6 * 4))

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

/* As tflite_fuse_scale_twice_down does it; r11: multiplier, r12: shift, lr: half. */
#define FINISH(sum, output)                                                                       \
  "add r10, lr, " sum ", asr #31\n\tsmmlar " sum ", " sum ", r11, r10\n\tasr " sum ", " sum ", r12\n\t" \
  "ssat " sum ", #8, " sum ", asr #1\n\tstrb " sum ", [" output "], #1\n\t"

#define ENTRY "ldmia.w r6!, {r10, r11, r12}\n\tlsl lr, r9, r12\n\t"

#define FUNCTION(name, before, end, body)                                                                     \
  __asm__(".syntax unified\n\t.section .text." name ",\"ax\",%progbits\n\t.balign 4\n\t.thumb\n\t.thumb_func\n\t" \
          ".global " name "\n\t.type " name ", %function\n" name ":\n\t"                                       \
          "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n\tsub sp, sp, #12\n\t"                               \
          "str r0, [sp]\n\tldr r1, [r0, #24]\n\tstr r1, [sp, #4]\n\tldr r1, [r0, #" end "]\n\tstr r1, [sp, #8]\n\t" \
          "ldr r6, [r0, #" before "]\n\tldr r1, [r0, #32]\n" body                                             \
          "\n\tadd sp, sp, #12\n\tpop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n\t"                             \
          ".size " name ", .-" name "\n\t.text")

/* All: r6 is the next entry, and r0 the run, where a turn begins. */
#define ALL_END "ldr r10, [sp, #8]\n\tstmia.w r0, {r6, r7, r8}\n\tcmp r6, r10\n\tbne 0b\n\tstr r1, [r0, #32]"

FUNCTION("tflite_fuse_int16_all_2", "0", "28",
         "0:\tldr r2, [r6]\n\tldr r4, [r6, #12]\n\tmov r3, r2\n\tmov r5, r4\n\tldrd r0, r10, [r0, #16]\n\t"
         QUADS(QUAD_2) "ldr r0, [sp]\n\tldmia.w r0, {r6, r7, r8, r9}\n\t"
         ENTRY FINISH("r2", "r7") FINISH("r3", "r8") ENTRY FINISH("r4", "r7") FINISH("r5", "r8") ALL_END);

FUNCTION("tflite_fuse_int16_all_1", "0", "28",
         "0:\tldr r2, [r6]\n\tldr r3, [r6, #12]\n\tldrd r0, r10, [r0, #16]\n\t"
         QUADS(QUAD_1) "ldr r0, [sp]\n\tldmia.w r0, {r6, r7, r8, r9}\n\t"
         ENTRY FINISH("r2", "r7") ENTRY FINISH("r3", "r7") ALL_END);

/* Part: r6 is the next sums. */
#define TO_NEXT_SUMS "ldr r0, [sp]\n\tldr r7, [sp, #8]\n\tldr r8, [r0, #44]\n\tldr r6, [r0, #36]\n\tadd r1, r1, r8\n\t"
#define PART_END "cmp r6, r7\n\tbne 0b"

FUNCTION("tflite_fuse_int16_part_2", "36", "40",
         "0:\tldr r10, [sp]\n\tstr r6, [r10, #36]\n\tldmia.w r6, {r2, r3, r4, r5}\n\tldrd r0, r10, [r10, #16]\n\t"
         QUADS(QUAD_2) TO_NEXT_SUMS
         "stmia.w r6!, {r2, r3, r4, r5}\n\t" PART_END);

FUNCTION("tflite_fuse_int16_part_1", "36", "40",
         "0:\tldr r10, [sp]\n\tstr r6, [r10, #36]\n\tldrd r2, r3, [r6]\n\tldrd r0, r10, [r10, #16]\n\t"
         QUADS(QUAD_1) TO_NEXT_SUMS
         "stmia.w r6!, {r2, r3}\n\t" PART_END);

#endif

/* ---- Whole windows ---- */

static void start(tflite_fuse_conv_job* j, int32_t values, int32_t pixels) {
  const uint32_t quads = (uint32_t)values / 4;
  j->start = pixels == 2 ? TFLITE_FUSE_START_INT16_2(quads) : TFLITE_FUSE_START_INT16_1(quads);
}

static tflite_fuse_int16_run run_of(const tflite_fuse_conv_job* j) {
  const tflite_fuse_int16_run run = {.entry = j->channel,
                                     .outputs = {j->outputs[0], j->outputs[1]},
                                     .zero_point_half = j->zero_point_half,
                                     .wide = j->wide,
                                     .start = j->start,
                                     .wide_end = j->wide_end,
                                     .entry_end = j->fast_end,
                                     .weights = j->weights};
  return run;
}

static void run_part(tflite_fuse_int16_run* run, int32_t* sums, int32_t channels, int32_t pixels, int32_t skip) {
  run->sums = sums;
  run->skip = (uint32_t)skip;
  run->sums_end = sums + ((channels + 1) & ~1) * pixels;
  if (pixels == 2) {
    tflite_fuse_int16_part_2(run);
  } else {
    tflite_fuse_int16_part_1(run);
  }
}

/* The last one of an odd number of channels, after the others. */
static void last_channel(tflite_fuse_int16_run* run, int32_t pixels) {
  const tflite_fuse_channel* entry = run->entry;
  int32_t sums[] = {entry->bias, pixels == 2 ? entry->bias : 0, 0, 0};
  tflite_fuse_int16_run part = *run;
  run_part(&part, sums, 1, pixels, 0);
  for (int32_t p = 0; p < pixels; ++p) {
    *run->outputs[p] = tflite_fuse_scale_twice_down(sums[p], tflite_fuse_scale_of(entry, run->zero_point_half));
  }
}

static void all_of_two(tflite_fuse_conv_job* j) {
  tflite_fuse_int16_run run = run_of(j);
  if (j->channel != j->fast_end) {
    tflite_fuse_int16_all_2(&run);
  }
  if (j->fast_end != j->end) {
    last_channel(&run, 2);
  }
}

static void all_of_one(tflite_fuse_conv_job* j) {
  tflite_fuse_int16_run run = run_of(j);
  if (j->channel != j->fast_end) {
    tflite_fuse_int16_all_1(&run);
  }
  if (j->fast_end != j->end) {
    last_channel(&run, 1);
  }
}

/* Two and two. */
static void all_of_four(const tflite_fuse_conv_job* j, const uint32_t* values, int8_t* output) {
  const int32_t to_next = j->call->output->channels;
  tflite_fuse_conv_job two = *j;
  two.weights = j->call->weights;
  two.channel = j->call->table;
  start(&two, j->values, 2);
  for (int32_t i = 0; i < 2; ++i, output += 2 * to_next) {
    two.wide = values + i * j->values;
    two.wide_end = two.wide + j->values;
    two.outputs[0] = output;
    two.outputs[1] = output + to_next;
    all_of_two(&two);
  }
}

/* ---- Parts of windows ---- */

/* From the end of a part that takes so many words to that of the next two channels. */
static int32_t skip_of(const tflite_fuse_conv_job* j, int32_t pixels) {
  const int32_t values = (int32_t)(j->wide_end - j->wide) * 2 / pixels;
  return (j->values - values) * 2 * (int32_t)sizeof(int16_t);
}

static void part_of_two(const tflite_fuse_conv_job* j, int32_t* sums, int32_t channels) {
  tflite_fuse_int16_run run = run_of(j);
  run_part(&run, sums, channels, 2, skip_of(j, 2));
}

static void part_of_one(const tflite_fuse_conv_job* j, int32_t* sums, int32_t channels) {
  tflite_fuse_int16_run run = run_of(j);
  run_part(&run, sums, channels, 1, skip_of(j, 1));
}

static void finish_parts(tflite_fuse_conv_job* j, const int32_t* sums, int32_t channels, int32_t pixels) {
  for (const tflite_fuse_channel *entry = j->channel, *end = entry + channels; entry != end; ++entry) {
    const tflite_fuse_scale scale = tflite_fuse_scale_of(entry, j->zero_point_half);
    for (int32_t p = 0; p < pixels; ++p) {
      *j->outputs[p]++ = tflite_fuse_scale_twice_down(*sums++, scale);
    }
  }
}

/* ---- The convolution, with these loops ---- */

/* Two pairs of pixels, one behind the other. */
static uint32_t* widen_two_and_two(uint32_t* wide, const int8_t* const* pixels, int32_t to_next, int32_t count,
                                   int32_t values) {
  tflite_fuse_widen_2(wide + values, pixels[2 * to_next], pixels[3 * to_next], count, 4);
  return tflite_fuse_widen_2(wide, pixels[0], pixels[to_next], count, 4);
}

#define TFLITE_FUSE_WEIGHT_BYTES 2
#define tflite_fuse_conv_start start
#define tflite_fuse_conv_wide all_of_two
#define tflite_fuse_conv_single all_of_one
#define tflite_fuse_conv_four all_of_four
#define tflite_fuse_conv_part part_of_two
#define tflite_fuse_conv_part_single part_of_one
#define tflite_fuse_conv_finish_parts finish_parts
#define tflite_fuse_widen_4(wide, pixels, to_next, count) widen_two_and_two(wide, pixels, to_next, count, j->values)
#define tflite_fuse_conv_packed tflite_fuse_conv_int16
#include "../weighted/tflite_fuse_conv_packed.c"

#endif
