/* Around the inner loops of the convolution that are written in assembler, over weights of 8 bits or of 16: what these
 * functions have in common, and how they are called.
 *
 * Whoever includes this has defined TFLITE_FUSE_CONV_ALL(run, pixels), TFLITE_FUSE_CONV_PART(run, pixels), of two pixels or
 * of one, TFLITE_FUSE_START_2(quads), TFLITE_FUSE_START_1(quads), where these are entered,
 * TFLITE_FUSE_SCALE, from sums to bytes, TFLITE_FUSE_WEIGHT_BYTES, and TFLITE_FUSE_LINKAGE of what is defined here;
 * TFLITE_FUSE_CONV_ALL_4(run), where there is code for four pixels, and TFLITE_FUSE_START_4(quads);
 * TFLITE_FUSE_SPLIT(sums, channels, pixels), where sums are not what is scaled before. */
#include "../weighted/tflite_fuse_conv_packed.h"

#if !defined(TFLITE_FUSE_SPLIT)
#define TFLITE_FUSE_SPLIT(sums, channels, pixels) ((void)0)
#endif

TFLITE_FUSE_LINKAGE void tflite_fuse_conv_start(tflite_fuse_conv_job* j, int32_t values, int32_t pixels) {
  const uint32_t quads = (uint32_t)values / 4;
  j->run.start = pixels == 2 ? TFLITE_FUSE_START_2(quads) : TFLITE_FUSE_START_1(quads);
}

/* ---- Parts of windows ---- */

/* Adds a part to the sums of some channels; `skip` bytes of weights lie between it and that of the next two. */
static void add_to_sums(tflite_fuse_conv_run* run, int32_t* sums, int32_t channels, int32_t pixels, int32_t skip) {
  run->sums = sums;
  run->sums_end = sums + ((channels + 1) & ~1) * pixels;
  run->skip = (uint32_t)skip;
  TFLITE_FUSE_CONV_PART(run, pixels);
}

static void add_part_of(tflite_fuse_conv_job* j, int32_t* sums, int32_t channels, int32_t pixels) {
  const int32_t values = (int32_t)(j->run.wide_end - j->run.wide) * 2 / pixels;
  add_to_sums(&j->run, sums, channels, pixels, (j->values - values) * 2 * TFLITE_FUSE_WEIGHT_BYTES);
}

TFLITE_FUSE_LINKAGE void tflite_fuse_conv_part(tflite_fuse_conv_job* j, int32_t* sums, int32_t channels) {
  add_part_of(j, sums, channels, 2);
}

TFLITE_FUSE_LINKAGE void tflite_fuse_conv_part_single(tflite_fuse_conv_job* j, int32_t* sums, int32_t channels) {
  add_part_of(j, sums, channels, 1);
}

TFLITE_FUSE_LINKAGE void tflite_fuse_conv_finish_parts(tflite_fuse_conv_job* j, int32_t* sums, int32_t channels,
                                                       int32_t pixels) {
  const tflite_fuse_channel *entry = j->run.entry, *const end = entry + channels;
  TFLITE_FUSE_SPLIT(sums, channels, pixels);
  if (end > j->run.entry_end) {
    tflite_fuse_conv_finish(j, entry, sums, channels, pixels);
    return;
  }
  int8_t *output_0 = j->run.outputs[0], *output_1 = j->run.outputs[1];
  for (; entry < end; ++entry) {
    const tflite_fuse_scale scale = tflite_fuse_scale_of(entry, j->run.zero_point_half);
    *output_0++ = TFLITE_FUSE_SCALE(*sums++, scale);
    if (pixels == 2) {
      *output_1++ = TFLITE_FUSE_SCALE(*sums++, scale);
    }
  }
  j->run.outputs[0] = output_0;
  j->run.outputs[1] = output_1;
}

/* ---- Whole windows ---- */

/* All channels: pairs that may be finished the fast way, then the last one of an odd number, or all if none may be. */
static void all_of(tflite_fuse_conv_job* j, int32_t pixels) {
  tflite_fuse_conv_run* run = &j->run;
  if (run->entry != run->entry_end) {
    TFLITE_FUSE_CONV_ALL(run, pixels);
  }
  for (const tflite_fuse_channel* entry = run->entry; entry < j->end; entry += 2) {
    const int32_t a = entry[0].bias, b = entry[1].bias;
    int32_t sums[] = {a, pixels == 2 ? a : b, b, b};
    add_to_sums(run, sums, 2, pixels, 0);
    TFLITE_FUSE_SPLIT(sums, 2, pixels);
    tflite_fuse_conv_finish(j, entry, sums, 2, pixels);
    run->weights += 2 * j->values * TFLITE_FUSE_WEIGHT_BYTES;
  }
}

TFLITE_FUSE_LINKAGE void tflite_fuse_conv_wide(tflite_fuse_conv_job* j) { all_of(j, 2); }
TFLITE_FUSE_LINKAGE void tflite_fuse_conv_single(tflite_fuse_conv_job* j) { all_of(j, 1); }

/* ---- Four pixels ---- */

#if defined(TFLITE_FUSE_CONV_ALL_4)

TFLITE_FUSE_LINKAGE void tflite_fuse_conv_four(tflite_fuse_conv_job* j, const uint32_t* wide, int8_t* output) {
  tflite_fuse_conv_run* run = &j->run;
  const int32_t to_next = j->call->output->channels;
  run->entry = j->call->table;
  run->weights = j->call->weights;
  run->outputs[0] = output, run->outputs[1] = output + to_next;
  run->wide = wide, run->wide_end = wide + 2 * j->values;
  run->start = TFLITE_FUSE_START_4((uint32_t)j->values / 4);
  if (run->entry != run->entry_end) {
    TFLITE_FUSE_CONV_ALL_4(run);
  }
  if (run->entry_end != j->end) { /* the last one of an odd number, and one of zeros */
    int8_t last[8];
    run->entry = run->entry_end, run->entry_end += 2;
    run->weights += (to_next - 1) * j->values;
    run->outputs[0] = last, run->outputs[1] = last + 2;
    TFLITE_FUSE_CONV_ALL_4(run);
    run->entry_end -= 2;
    for (int32_t p = 0; p < 4; ++p) {
      output[p * to_next + to_next - 1] = last[2 * p];
    }
  }
}

#endif

/* ---- Assembler ---- */

#if !defined(TFLITE_FUSE_DSP_EMULATION)

_Static_assert(offsetof(tflite_fuse_conv_run, skip) == 44, "as the code counts");

/* A function of a run of so many pixels, which is in r0: r6 is what is at `before` in it, r1 the next weights. On the
 * stack: the run, the end of the pairs, what is at `end`. Those of as many pixels may share code. */
#define TFLITE_FUSE_FUNCTION(name, pixels, before, end, body)                                                 \
  __asm__(".syntax unified\n\t.section .text.tflite_fuse_conv_" pixels ",\"ax\",%progbits\n\t.balign 4\n\t.thumb\n\t.thumb_func\n\t" \
          ".global " name "\n\t.type " name ", %function\n" name ":\n\t"                                       \
          "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n\tsub sp, sp, #12\n\t"                               \
          "str r0, [sp]\n\tldr r1, [r0, #24]\n\tstr r1, [sp, #4]\n\tldr r1, [r0, #" end "]\n\tstr r1, [sp, #8]\n\t" \
          "ldr r6, [r0, #" before "]\n\tldr r1, [r0, #32]\n" body                                             \
          "\n\tadd sp, sp, #12\n\tpop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n\t"                             \
          ".size " name ", .-" name "\n\t.text")

/* Behind the loop: r6 is the next entry, r7 and r8 the outputs, r9 half of the zero point. */
#define TFLITE_FUSE_RELOAD "ldr r0, [sp]\n\tldmia.w r0, {r6, r7, r8, r9}\n\t"
#define TFLITE_FUSE_ENTRY "ldmia.w r6!, {r10, r11, r12}\n\tlsl lr, r9, r12\n\t"

/* From a sum to a byte: r11: multiplier, r12: shift, lr: half; `twice` makes twice the sum of it. */
#define TFLITE_FUSE_FINISH(sum, output, twice)                                                                \
  "add r10, lr, " sum ", asr #31\n\t" twice "smmlar " sum ", " sum ", r11, r10\n\tasr " sum ", " sum ", r12\n\t" \
  "ssat " sum ", #8, " sum ", asr #1\n\tstrb " sum ", [" output "], #1\n\t"

/* All: r6 is the next entry, and r0 the run, where a turn begins. Part: r6 is the next sums. */
#define TFLITE_FUSE_ALL_END "ldr r10, [sp, #8]\n\tstmia.w r0, {r6, r7, r8}\n\tcmp r6, r10\n\tbne 0b\n\tstr r1, [r0, #32]"
#define TFLITE_FUSE_TO_NEXT_SUMS \
  "ldr r0, [sp]\n\tldr r7, [sp, #8]\n\tldr r8, [r0, #44]\n\tldr r6, [r0, #36]\n\tadd r1, r1, r8\n\t"
#define TFLITE_FUSE_PART_END "cmp r6, r7\n\tbne 0b"

/* Four pixels. r12: multiplier, lr: shift, r11: half, r0: free; `twice` by so many bits makes twice the sum. */
#define TFLITE_FUSE_SCALE_4(sum, twice, bits)                                                                 \
  "add r0, r11, " sum ", asr #31\n\t" twice " " sum ", " sum ", " bits "\n\tsmmlar " sum ", " sum ", r12, r0\n\t" \
  "asr " sum ", " sum ", lr\n\tssat " sum ", #8, " sum ", asr #1\n\t"

/* One channel to the outputs from r1 on, r10 bytes apart. */
#define TFLITE_FUSE_FINISH_4(first, second, third, fourth, twice, bits)                                       \
  "lsl r11, r11, lr\n\t" TFLITE_FUSE_SCALE_4(first, twice, bits) "strb " first ", [r1]\n\t"                    \
  TFLITE_FUSE_SCALE_4(second, twice, bits) "strb " second ", [r1, r10]\n\t"                                   \
  TFLITE_FUSE_SCALE_4(third, twice, bits) "strb " third ", [r1, r10, lsl #1]\n\t"                             \
  TFLITE_FUSE_SCALE_4(fourth, twice, bits) "add r0, r10, r10, lsl #1\n\tstrb " fourth ", [r1, r0]\n\t"

/* All channels of four pixels: `quads` at r0 and weights at r1 are added to r2...r5, sums of the first channel of two, and
 * r6...r9; behind them `split` does what is to be done before sums of the first are made twice as large with `twice` and
 * `bits`. The run is on the stack, with the distance between outputs for the second pixel's. */
#define TFLITE_FUSE_FUNCTION_4(name, quads, split, twice, bits)                                               \
  __asm__(".syntax unified\n\t.section .text." name ",\"ax\",%progbits\n\t.balign 4\n\t.thumb\n\t.thumb_func\n\t" \
          ".global " name "\n\t.type " name ", %function\n" name ":\n\t"                                       \
          "push {r4, r5, r6, r7, r8, r9, r10, r11, lr}\n\tsub sp, sp, #36\n\t"                               \
          "ldmia.w r0, {r2, r3, r4, r5, r6, r7, r8, r9, r10}\n\tsubs r4, r4, r3\n\t"                         \
          "stmia.w sp, {r2, r3, r4, r5, r6, r7, r8, r9, r10}\n"                                              \
          "0:\tldr r10, [sp]\n\tldr r2, [r10]\n\tldr r6, [r10, #12]\n\tldr r1, [sp, #32]\n\t"               \
          "mov r3, r2\n\tmov r4, r2\n\tmov r5, r2\n\tmov r7, r6\n\tmov r8, r6\n\tmov r9, r6\n\t"           \
          "ldrd r0, r10, [sp, #16]\n\tadd pc, r10\n\tnop\n1:\t" quads                                      \
          "ldr r12, [sp, #24]\n\tcmp r0, r12\n\tbne 1b\n\t" split                                          \
          "str r1, [sp, #32]\n\tldmia.w sp, {r0, r1, r10, r11}\n\tldrd r12, lr, [r0, #4]\n\t"               \
          TFLITE_FUSE_FINISH_4("r2", "r3", "r4", "r5", twice, bits)                                           \
          "ldr r2, [sp]\n\tldr r11, [sp, #12]\n\tldr r3, [sp, #28]\n\tldrd r12, lr, [r2, #16]\n\t"           \
          "adds r2, #24\n\tadds r1, #1\n\tstr r2, [sp]\n\t"                                                \
          TFLITE_FUSE_FINISH_4("r6", "r7", "r8", "r9", "lsl", "#1")                                           \
          "adds r1, #1\n\tstr r1, [sp, #4]\n\tcmp r2, r3\n\tbne 0b\n\t"                                    \
          "add sp, sp, #36\n\tpop {r4, r5, r6, r7, r8, r9, r10, r11, pc}\n\t"                               \
          ".size " name ", .-" name "\n\t.text")

#endif
