/* The inner loops of the packed convolution with DSP instructions: four pixels by one channel, two pixels by two
 * channels, or one pixel. */
#define TFLITE_FUSE_NO_INNER_LOOPS /* but those that are written out */
#include "../weighted/tflite_fuse_conv_packed.h"

#if TFLITE_FUSE_DSP && !TFLITE_FUSE_MVE

/* ---- Pixels ---- */

/* The word at `from`, of which 1...3 bytes are values; zeros behind. */
static uint32_t load_rest(const int8_t* from, int32_t count) {
  uint32_t word = (uint8_t)from[0];
  if (count > 1) {
    word |= (uint32_t)(uint8_t)from[1] << 8;
  }
  return count > 2 ? word | (uint32_t)(uint8_t)from[2] << 16 : word;
}

#define WIDEN(from, at)                        \
  do {                                         \
    uint32_t word_;                            \
    TFLITE_FUSE_LOAD_1(word_, from, 4);        \
    wide[at] = tflite_fuse_even(word_);        \
    wide[(at) + 1] = tflite_fuse_odd(word_);   \
  } while (0)

#define WIDEN_REST(from, at)                             \
  do {                                                   \
    const uint32_t word_ = load_rest(from, count % 4);   \
    wide[at] = tflite_fuse_even(word_);                  \
    wide[(at) + 1] = tflite_fuse_odd(word_);             \
  } while (0)

/* Per quad: pixel 0's values (0, 2), (1, 3), then pixel 1's. */
uint32_t* tflite_fuse_widen_2(uint32_t* wide, const int8_t* p, const int8_t* q, int32_t count, int32_t step) {
  for (const int8_t* end = p + (count & ~3); p != end; wide += step) {
    WIDEN(p, 0);
    WIDEN(q, 2);
  }
  if (count % 4 != 0) {
    WIDEN_REST(p, 0);
    WIDEN_REST(q, 2);
    wide += step;
  }
  return wide;
}

uint32_t* tflite_fuse_widen_4(uint32_t* wide, const int8_t* const* pixels, int32_t to_next, int32_t count) {
  tflite_fuse_widen_2(wide + 4, pixels[2 * to_next], pixels[3 * to_next], count, 8);
  return tflite_fuse_widen_2(wide, pixels[0], pixels[to_next], count, 8);
}

uint32_t* tflite_fuse_widen_1(uint32_t* wide, const int8_t* p, int32_t count) {
  for (const int8_t* end = p + (count & ~3); p != end; wide += 2) {
    WIDEN(p, 0);
  }
  if (count % 4 != 0) {
    WIDEN_REST(p, 0);
    wide += 2;
  }
  return wide;
}

/* How the loops over these values' quads are entered. */
void tflite_fuse_conv_start(tflite_fuse_conv_job* j, int32_t values, int32_t pixels) {
  const uint32_t quads = (uint32_t)values / 4;
  j->start = pixels == 2 ? TFLITE_FUSE_START_2X2(quads) : TFLITE_FUSE_START_2X1(quads);
}

/* ---- Four pixels ---- */

void tflite_fuse_conv_four(const tflite_fuse_conv_job* j, const uint32_t* wide, int8_t* output) {
  const int32_t of_pair = 2 * j->values;
  tflite_fuse_four four;
  four.output = output;
  four.entry = j->call->table;
  four.zero_point_half = j->zero_point_half;
  four.to_next = j->call->output->channels;
  four.wide = wide;
  four.start = TFLITE_FUSE_START_4X1((uint32_t)j->values / 4);
  four.back = of_pair - 4;
  four.toggle = (of_pair - 4) ^ 4;
  four.wide_end = wide + 2 * j->values;
  four.entry_end = j->end;
  four.weights = j->call->weights;
  tflite_fuse_all_4x1(&four);
}

/* ---- Two pixels ---- */

/* Two channels of two pixels that may be finished the fast way. */
TFLITE_FUSE_INLINE void finish_2x2(tflite_fuse_conv_job* j, const tflite_fuse_channel* entry, int32_t a0, int32_t a1,
                                   int32_t b0, int32_t b1) {
  const int32_t zero_point_half = j->zero_point_half;
  int8_t *output_0 = j->outputs[0], *output_1 = j->outputs[1];
  const tflite_fuse_scale a = tflite_fuse_scale_of(&entry[0], zero_point_half);
  *output_0++ = tflite_fuse_scale_down(a0, a);
  *output_1++ = tflite_fuse_scale_down(a1, a);
  const tflite_fuse_scale b = tflite_fuse_scale_of(&entry[1], zero_point_half);
  *output_0++ = tflite_fuse_scale_down(b0, b);
  *output_1++ = tflite_fuse_scale_down(b1, b);
  j->outputs[0] = output_0;
  j->outputs[1] = output_1;
}

void tflite_fuse_conv_wide(tflite_fuse_conv_job* j) {
  const int8_t* weights = j->weights;
  const tflite_fuse_channel* entry = j->channel;
  const uint32_t* const wide_end = j->wide_end;
  for (; entry < j->fast_end; entry += 2) {
    const uint32_t* wide = j->wide;
    int32_t a0 = entry[0].bias, a1 = a0, b0 = entry[1].bias, b1 = b0;
    TFLITE_FUSE_MAC_2X2(a0, a1, b0, b1, wide, weights, j->start, wide_end);
    finish_2x2(j, entry, a0, a1, b0, b1);
  }
  for (; entry < j->end; entry += 2) {
    int32_t sums[] = {entry[0].bias, entry[0].bias, entry[1].bias, entry[1].bias};
    j->weights = weights;
    tflite_fuse_conv_part(j, sums, 2);
    tflite_fuse_conv_finish(j, entry, sums, 2, 2);
    weights += 2 * j->values;
  }
}

void tflite_fuse_conv_part(const tflite_fuse_conv_job* j, int32_t* sums, int32_t channels) {
  const int8_t* next = j->weights;
  const uint32_t* const wide_end = j->wide_end;
  for (; channels > 0; channels -= 2) {
    const uint32_t* wide = j->wide;
    const int8_t* weights = next;
    next += 2 * j->values;
    int32_t a0 = sums[0], a1 = sums[1], b0 = sums[2], b1 = sums[3];
    TFLITE_FUSE_MAC_2X2(a0, a1, b0, b1, wide, weights, j->start, wide_end);
    *sums++ = a0;
    *sums++ = a1;
    *sums++ = b0;
    *sums++ = b1;
  }
}

/* Sums of channels that may be finished the fast way, for any number of pixels. */
void tflite_fuse_conv_finish_parts(tflite_fuse_conv_job* j, const int32_t* sums, int32_t channels, int32_t pixels) {
  const tflite_fuse_channel *entry = j->channel, *const end = entry + channels;
  if (end > j->fast_end) {
    tflite_fuse_conv_finish(j, entry, sums, channels, pixels);
    return;
  }
  int8_t *output_0 = j->outputs[0], *output_1 = j->outputs[1];
  for (; entry < end; ++entry) {
    const tflite_fuse_scale scale = tflite_fuse_scale_of(entry, j->zero_point_half);
    *output_0++ = tflite_fuse_scale_down(*sums++, scale);
    if (pixels == 2) {
      *output_1++ = tflite_fuse_scale_down(*sums++, scale);
    }
  }
  j->outputs[0] = output_0;
  j->outputs[1] = output_1;
}

/* ---- One pixel ---- */

TFLITE_FUSE_INLINE void finish_2x1(tflite_fuse_conv_job* j, const tflite_fuse_channel* entry, int32_t a, int32_t b) {
  int8_t* output = j->outputs[0];
  *output++ = tflite_fuse_scale_down(a, tflite_fuse_scale_of(&entry[0], j->zero_point_half));
  *output++ = tflite_fuse_scale_down(b, tflite_fuse_scale_of(&entry[1], j->zero_point_half));
  j->outputs[0] = output;
}

void tflite_fuse_conv_single(tflite_fuse_conv_job* j) {
  const int8_t* weights = j->weights;
  const tflite_fuse_channel* entry = j->channel;
  const uint32_t* const wide_end = j->wide_end;
  for (; entry < j->fast_end; entry += 2) {
    const uint32_t* wide = j->wide;
    int32_t a = entry[0].bias, b = entry[1].bias;
    TFLITE_FUSE_MAC_2X1(a, b, wide, weights, j->start, wide_end);
    finish_2x1(j, entry, a, b);
  }
  for (; entry < j->end; entry += 2) {
    int32_t sums[] = {entry[0].bias, entry[1].bias};
    j->weights = weights;
    tflite_fuse_conv_part_single(j, sums, 2);
    tflite_fuse_conv_finish(j, entry, sums, 2, 1);
    weights += 2 * j->values;
  }
}

void tflite_fuse_conv_part_single(const tflite_fuse_conv_job* j, int32_t* sums, int32_t channels) {
  const int8_t* next = j->weights;
  const uint32_t* const wide_end = j->wide_end;
  for (; channels > 0; channels -= 2) {
    const uint32_t* wide = j->wide;
    const int8_t* weights = next;
    next += 2 * j->values;
    int32_t a = sums[0], b = sums[1];
    TFLITE_FUSE_MAC_2X1(a, b, wide, weights, j->start, wide_end);
    *sums++ = a;
    *sums++ = b;
  }
}

#endif
