/* Around the inner loops of the convolution that are written in assembler, over weights of 8 bits or of 16: what these
 * functions have in common, and how they are called.
 *
 * Whoever includes this has defined TFLITE_FUSE_CONV_ALL(run, pixels), TFLITE_FUSE_CONV_PART(run, pixels), of two pixels or
 * of one, TFLITE_FUSE_START_2(quads), TFLITE_FUSE_START_1(quads), where these are entered,
 * TFLITE_FUSE_SCALE, from sums to bytes, TFLITE_FUSE_WEIGHT_BYTES, and TFLITE_FUSE_LINKAGE of what is defined here. */
#include "../weighted/tflite_fuse_conv_packed.h"

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

TFLITE_FUSE_LINKAGE void tflite_fuse_conv_finish_parts(tflite_fuse_conv_job* j, const int32_t* sums, int32_t channels,
                                                       int32_t pixels) {
  const tflite_fuse_channel *entry = j->run.entry, *const end = entry + channels;
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
    tflite_fuse_conv_finish(j, entry, sums, 2, pixels);
    run->weights += 2 * j->values * TFLITE_FUSE_WEIGHT_BYTES;
  }
}

TFLITE_FUSE_LINKAGE void tflite_fuse_conv_wide(tflite_fuse_conv_job* j) { all_of(j, 2); }
TFLITE_FUSE_LINKAGE void tflite_fuse_conv_single(tflite_fuse_conv_job* j) { all_of(j, 1); }

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

#endif
