/* Calls the assembler loops of the packed convolution: implements tflite_fuse_conv_packed.h with the set of loops that
 * a job names. */
#include "tflite_fuse_conv_loops_dsp.h"

#if TFLITE_FUSE_DSP && !TFLITE_FUSE_MVE

/* Returns the bytes of code that the first turn skips so that `quads` quads are left for it and whole turns. */
static uint32_t bytes_to_skip(const tflite_fuse_conv_loops* loops, tflite_fuse_conv_turn turn, uint32_t quads) {
#if defined(TFLITE_FUSE_DSP_EMULATION)
  (void)loops, (void)turn;
  return quads; /* nothing is skipped; the emulated loops compare this with their number of quads */
#else
  const uint32_t mask = turn.quads - 1U;
  return (loops->peels ? turn.quads - ((quads - 1U) & mask) : (0U - quads) & mask) * turn.code_bytes;
#endif
}

/* Returns the same for loops of one pixel. If they take two quads at a time: twice the bytes, plus 1 if a single quad
 * comes first. */
static uint32_t bytes_to_skip_1(const tflite_fuse_conv_loops* loops, uint32_t quads) {
#if !defined(TFLITE_FUSE_DSP_EMULATION)
  const tflite_fuse_conv_turn turn = loops->turn_1;
  if (loops->pairs_quads) {
    const uint32_t twos = quads / 2;
    return (twos == 0 ? (uint32_t)turn.quads * turn.code_bytes : bytes_to_skip(loops, turn, twos)) * 2 + quads % 2;
  }
#endif
  return bytes_to_skip(loops, loops->turn_1, quads);
}

void tflite_fuse_conv_start(tflite_fuse_conv_job* j, int32_t values, int32_t pixels) {
  const uint32_t quads = (uint32_t)values / 4;
  j->run.start = pixels == 1 ? bytes_to_skip_1(j->loops, quads)
                             : bytes_to_skip(j->loops, pixels == 2 ? j->loops->turn_2 : j->loops->turn_4, quads);
}

/* ---- Parts of windows ---- */

/* Adds a part of the windows to the sums of `channels` channels; skip: bytes of weights from its end to the same part
 * of the next two channels. */
static void add_to_sums(tflite_fuse_conv_job* j, int32_t* sums, int32_t channels, int32_t pixels, int32_t skip) {
  j->run.sums = sums;
  j->run.sums_end = sums + ((channels + 1) & ~1) * pixels;
  j->run.skip = (uint32_t)skip;
  (pixels == 2 ? j->loops->part_2 : j->loops->part_1)(&j->run);
}

void tflite_fuse_conv_part(tflite_fuse_conv_job* j, int32_t* sums, int32_t channels, int32_t pixels) {
  const int32_t values = (int32_t)(j->run.wide_end - j->run.wide) * 2 / pixels;
  add_to_sums(j, sums, channels, pixels, (j->values - values) * 2 * j->weight_bytes);
}

/* Converts sums of paired channels to the sums of each channel. */
static TFLITE_FUSE_NOINLINE void split(const tflite_fuse_conv_job* j, int32_t* sums, int32_t channels, int32_t pixels) {
  if (j->loops->splits) {
    tflite_fuse_split_pairs(sums, channels, pixels);
  }
}

void tflite_fuse_conv_finish_parts(tflite_fuse_conv_job* j, int32_t* sums, int32_t channels, int32_t pixels) {
  const tflite_fuse_channel *entry = j->run.entry, *const end = entry + channels;
  const int32_t doubling = j->loops->doubles;
  split(j, sums, channels, pixels);
  if (end > j->run.entry_end) {
    tflite_fuse_conv_finish(j, entry, sums, channels, pixels);
    return;
  }
  for (; entry < end; ++entry) {
    const tflite_fuse_scale scale = tflite_fuse_scale_of(entry, j->run.zero_point_half);
    for (int32_t p = 0; p < pixels; ++p) {
      *j->run.outputs[p]++ = tflite_fuse_scale_twice_down((int32_t)((uint32_t)*sums++ << doubling), scale);
    }
  }
}

/* ---- Whole windows ---- */

/* Computes pairs that the loop can scale, then the last channel of an odd number; all channels if the loop
 * scales none. */
void tflite_fuse_conv_all(tflite_fuse_conv_job* j, int32_t pixels) {
  tflite_fuse_conv_run* run = &j->run;
  if (run->entry != run->entry_end) {
    (pixels == 2 ? j->loops->all_2 : j->loops->all_1)(run);
  }
  for (const tflite_fuse_channel* entry = run->entry; entry < j->end; entry += 2) {
    const int32_t a = entry[0].bias, b = entry[1].bias;
    int32_t sums[] = {a, pixels == 2 ? a : b, b, b};
    add_to_sums(j, sums, 2, pixels, 0);
    split(j, sums, 2, pixels);
    tflite_fuse_conv_finish(j, entry, sums, 2, pixels);
    run->weights += 2 * j->values * j->weight_bytes;
  }
}

/* ---- Four pixels ---- */

/* Computes the last channel of an odd number, paired with a channel of zeros. */
static TFLITE_FUSE_NOINLINE TFLITE_FUSE_RARE void compute_last(tflite_fuse_conv_job* j, int8_t* output) {
  tflite_fuse_conv_run* run = &j->run;
  const int32_t to_next = j->call->output->channels, before = (to_next - 1) * j->values;
  int8_t last[8];
  run->outputs[0] = last, run->outputs[1] = last + 2;
  run->entry = run->entry_end, run->entry_end += 2, run->weights += before;
  j->loops->all_4(run);
  run->entry_end = run->entry, run->entry = j->call->table, run->weights -= before;
  for (int32_t p = 0; p < 4; ++p) {
    output[p * to_next + to_next - 1] = last[2 * p];
  }
}

void tflite_fuse_conv_four(tflite_fuse_conv_job* j, int8_t* output) {
  tflite_fuse_conv_run* run = &j->run;
  if (run->entry_end != j->end) {
    compute_last(j, output);
  }
  run->outputs[0] = output, run->outputs[1] = output + j->call->output->channels;
  if (run->entry != run->entry_end) {
    j->loops->all_4(run); /* last, so that it needs no frame of its caller */
  }
}

#endif
