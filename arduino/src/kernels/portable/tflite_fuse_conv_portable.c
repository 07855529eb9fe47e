/* Computes the inner loops of the packed convolution in plain C: two pixels or one by four channels; four pixels by two
 * on cores with enough registers.
 *
 * A word holds the values of two pixels, p + q * 2^16, and one multiplication by a weight gives both products. The
 * products of two words are split at once: the sum of two int8 products lies in -32512...32768, so adding 2^15 - 1
 * leaves only q's sum in the upper half. OFF, 256, is subtracted from that half first, because 32768 would exceed its
 * range. The words are also summed: minus q's sum in the upper half, they give p's sum, modulo 2^32 like all sums. */
#include "../weighted/tflite_fuse_conv_packed.h"

#if !TFLITE_FUSE_DSP && !TFLITE_FUSE_MVE

enum { OFF = 256, SPLIT = 0x7FFF - OFF * 0x10000 };

/* ---- Pixels ---- */

/* Widens `count` values of two pixels; quads are `step` words apart. */
static uint32_t* widen_2(uint32_t* wide, const int8_t* p, const int8_t* q, int32_t count, int32_t step) {
  for (; count >= 4; count -= 4, p += 4, q += 4, wide += step) {
    wide[0] = (uint32_t)p[0] + ((uint32_t)q[0] << 16);
    wide[1] = (uint32_t)p[1] + ((uint32_t)q[1] << 16);
    wide[2] = (uint32_t)p[2] + ((uint32_t)q[2] << 16);
    wide[3] = (uint32_t)p[3] + ((uint32_t)q[3] << 16);
  }
  if (count > 0) {
    for (int32_t i = 0; i < 4; ++i) {
      wide[i] = i < count ? (uint32_t)p[i] + ((uint32_t)q[i] << 16) : 0;
    }
    wide += step;
  }
  return wide;
}

uint32_t* tflite_fuse_widen_2(uint32_t* wide, const int8_t* p, const int8_t* q, int32_t count) {
  return widen_2(wide, p, q, count, 4);
}

/* A single pixel needs no widening: copies its values. */
uint32_t* tflite_fuse_widen_1(uint32_t* wide, const int8_t* p, int32_t count) {
  int8_t* to = (int8_t*)wide;
  for (; count >= 4; count -= 4, p += 4, to += 4) {
    to[0] = p[0];
    to[1] = p[1];
    to[2] = p[2];
    to[3] = p[3];
  }
  for (int32_t i = 0; count > 0 && i < 4; ++i) {
    *to++ = i < count ? p[i] : 0;
  }
  return (uint32_t*)(void*)to;
}

/* Sets start to the total of OFF that is subtracted from the second pixel's sums. */
void tflite_fuse_conv_start(tflite_fuse_conv_job* j, int32_t values, int32_t pixels) {
  (void)pixels;
  j->run.start = (uint32_t)values / 2 * OFF;
}

/* ---- Two pixels ---- */

/* Sums of one channel: of words, and of the second pixel. */
typedef struct {
  uint32_t words, upper;
} two_sums;

TFLITE_FUSE_INLINE void mac_two(two_sums* sums, uint32_t x, uint32_t y, int32_t v, int32_t w) {
  const uint32_t products = x * (uint32_t)v + y * (uint32_t)w;
  sums->words += products;
  sums->upper += (uint32_t)((int32_t)(products + (uint32_t)SPLIT) >> 16);
}

TFLITE_FUSE_INLINE two_sums start_of(const tflite_fuse_conv_job* j, int32_t first, int32_t second) {
  const two_sums start = {(uint32_t)first + ((uint32_t)second << 16), (uint32_t)second + j->run.start};
  return start;
}

/* Multiplies the values at wide[i] and wide[i + 1] with weights `at` of four channels. */
#define TFLITE_FUSE_MAC_TWO_VALUES(i, at)                                  \
  do {                                                                     \
    const uint32_t x = wide[i], y = wide[(i) + 1];                         \
    mac_two(&a, x, y, weights[at], weights[(at) + 1]);                     \
    TFLITE_FUSE_SETTLE(a.words, a.upper, x, y);                            \
    mac_two(&b, x, y, weights[4 + (at)], weights[4 + (at) + 1]);           \
    TFLITE_FUSE_SETTLE(b.words, b.upper, x, y);                            \
    mac_two(&c, x, y, next_weights[at], next_weights[(at) + 1]);           \
    TFLITE_FUSE_SETTLE(c.words, c.upper, x, y);                            \
    mac_two(&d, x, y, next_weights[4 + (at)], next_weights[4 + (at) + 1]); \
    TFLITE_FUSE_SETTLE(d.words, d.upper, x, y);                            \
  } while (0)

/* Adds the products of four channels, two quads per turn; the single quad of an odd number comes first. */
#define TFLITE_FUSE_MAC_WIDE()                                        \
  do {                                                                \
    const uint32_t *wide = j->run.wide, *const end = j->run.wide_end; \
    if ((end - wide) % 8 != 0) {                                      \
      TFLITE_FUSE_MAC_TWO_VALUES(0, 0);                               \
      TFLITE_FUSE_MAC_TWO_VALUES(2, 2);                               \
      wide += 4;                                                      \
      weights += 8;                                                   \
      next_weights += 8;                                              \
    }                                                                 \
    while (wide != end) {                                             \
      TFLITE_FUSE_MAC_TWO_VALUES(0, 0);                               \
      TFLITE_FUSE_MAC_TWO_VALUES(2, 2);                               \
      TFLITE_FUSE_MAC_TWO_VALUES(4, 8);                               \
      TFLITE_FUSE_MAC_TWO_VALUES(6, 10);                              \
      wide += 8;                                                      \
      weights += 16;                                                  \
      next_weights += 16;                                             \
    }                                                                 \
  } while (0)

TFLITE_FUSE_INLINE int32_t first_of(two_sums sums) { return (int32_t)(sums.words - (sums.upper << 16)); }

/* Scales two channels of two pixels with tflite_fuse_scale_down. */
TFLITE_FUSE_INLINE void finish_2x2(tflite_fuse_conv_job* j, const tflite_fuse_channel* entry, two_sums a, two_sums b) {
  const tflite_fuse_scale to_a = tflite_fuse_scale_of(&entry[0], j->run.zero_point_half);
  const tflite_fuse_scale to_b = tflite_fuse_scale_of(&entry[1], j->run.zero_point_half);
  int8_t *p = j->run.outputs[0], *q = j->run.outputs[1];
  p[0] = tflite_fuse_scale_down(first_of(a), to_a);
  q[0] = tflite_fuse_scale_down((int32_t)a.upper, to_a);
  p[1] = tflite_fuse_scale_down(first_of(b), to_b);
  q[1] = tflite_fuse_scale_down((int32_t)b.upper, to_b);
  j->run.outputs[0] = p + 2;
  j->run.outputs[1] = q + 2;
}

/* If two channels remain, both halves of the loop compute them, and the second result is unused. */
static void part_of_2(tflite_fuse_conv_job* j, int32_t* sums, int32_t channels) {
  const int8_t* next = j->run.weights;
  for (; channels > 0; channels -= 4, sums += 8) {
    const int8_t *weights = next, *next_weights = channels > 2 ? next + 2 * j->values : next;
    int32_t unused[4] = {0, 0, 0, 0};
    int32_t* next_sums = channels > 2 ? sums + 4 : unused;
    two_sums a = start_of(j, sums[0], sums[1]), b = start_of(j, sums[2], sums[3]);
    two_sums c = start_of(j, next_sums[0], next_sums[1]), d = start_of(j, next_sums[2], next_sums[3]);
    next += 4 * j->values;
    TFLITE_FUSE_MAC_WIDE();
    sums[0] = first_of(a), sums[1] = (int32_t)a.upper;
    sums[2] = first_of(b), sums[3] = (int32_t)b.upper;
    next_sums[0] = first_of(c), next_sums[1] = (int32_t)c.upper;
    next_sums[2] = first_of(d), next_sums[3] = (int32_t)d.upper;
  }
}

static void all_of_2(tflite_fuse_conv_job* j) {
  const int8_t* weights = j->run.weights;
  const tflite_fuse_channel* entry = j->run.entry;
  for (; j->run.entry_end - entry >= 4; entry += 4) {
    const int8_t* next_weights = weights + 2 * j->values;
    two_sums a = start_of(j, entry[0].bias, entry[0].bias), b = start_of(j, entry[1].bias, entry[1].bias);
    two_sums c = start_of(j, entry[2].bias, entry[2].bias), d = start_of(j, entry[3].bias, entry[3].bias);
    TFLITE_FUSE_MAC_WIDE();
    finish_2x2(j, entry, a, b);
    finish_2x2(j, entry + 2, c, d);
    weights = next_weights;
  }
  for (; entry < j->end; entry += 2, weights += 2 * j->values) {
    int32_t sums[] = {entry[0].bias, entry[0].bias, entry[1].bias, entry[1].bias};
    j->run.weights = weights;
    part_of_2(j, sums, 2);
    tflite_fuse_conv_finish(j, entry, sums, 2, 2);
  }
}

/* ---- Four pixels ---- */

#if TFLITE_FUSE_CONV_FOUR

/* Order of words per quad: of the first two pixels, then of the others. */
uint32_t* tflite_fuse_widen_4(uint32_t* wide, const int8_t* const* pixels, int32_t to_next, int32_t count) {
  widen_2(wide + 4, pixels[2 * to_next], pixels[3 * to_next], count, 8);
  return widen_2(wide, pixels[0], pixels[to_next], count, 8);
}

/* Multiplies two values of four pixels with weights `at` of one channel. */
#define TFLITE_FUSE_MAC_FOUR_CHANNEL(p, q, at)              \
  do {                                                      \
    const int32_t v = weights[at], w = weights[(at) + 1];   \
    mac_two(&p, x, y, v, w);                                \
    mac_two(&q, s, t, v, w);                                \
    TFLITE_FUSE_SETTLE(p.words, p.upper, q.words, q.upper); \
  } while (0)

#define TFLITE_FUSE_MAC_FOUR_VALUES(i, at)                                               \
  do {                                                                                   \
    const uint32_t x = wide[i], y = wide[(i) + 1], s = wide[(i) + 4], t = wide[(i) + 5]; \
    TFLITE_FUSE_MAC_FOUR_CHANNEL(a, b, at);                                              \
    TFLITE_FUSE_MAC_FOUR_CHANNEL(c, d, 4 + (at));                                        \
  } while (0)

/* Scales one channel of four pixels. */
TFLITE_FUSE_INLINE void finish_4x1(const tflite_fuse_conv_job* j, const tflite_fuse_channel* entry, int8_t* output,
                                   two_sums first, two_sums second) {
  const tflite_fuse_scale scale = tflite_fuse_scale_of(entry, j->run.zero_point_half);
  const int32_t to_next = j->call->output->channels;
  *output = tflite_fuse_scale_down(first_of(first), scale);
  output += to_next;
  *output = tflite_fuse_scale_down((int32_t)first.upper, scale);
  output += to_next;
  *output = tflite_fuse_scale_down(first_of(second), scale);
  output += to_next;
  *output = tflite_fuse_scale_down((int32_t)second.upper, scale);
}

void tflite_fuse_conv_four(tflite_fuse_conv_job* job, int8_t* output) {
  const tflite_fuse_conv_job j = *job;
  const int8_t* weights = j.call->weights;
  const uint32_t *const first = j.run.wide, *const end = j.run.wide_end;
  for (const tflite_fuse_channel* entry = j.call->table; entry < j.end; entry += 2, output += 2) {
    two_sums a = start_of(&j, entry[0].bias, entry[0].bias), c = start_of(&j, entry[1].bias, entry[1].bias);
    two_sums b = a, d = c;
    const uint32_t* wide = first;
    if ((end - wide) % 16 != 0) {
      TFLITE_FUSE_MAC_FOUR_VALUES(0, 0);
      TFLITE_FUSE_MAC_FOUR_VALUES(2, 2);
      wide += 8;
      weights += 8;
    }
    while (wide != end) {
      TFLITE_FUSE_MAC_FOUR_VALUES(0, 0);
      TFLITE_FUSE_MAC_FOUR_VALUES(2, 2);
      TFLITE_FUSE_MAC_FOUR_VALUES(8, 8);
      TFLITE_FUSE_MAC_FOUR_VALUES(10, 10);
      wide += 16;
      weights += 16;
    }
    finish_4x1(&j, entry, output, a, b);
    if (j.end - entry > 1) {
      finish_4x1(&j, entry + 1, output + 1, c, d);
    }
  }
}

#endif

/* ---- One pixel ---- */

#define TFLITE_FUSE_MAC_VALUE_OF_1(i, at)              \
  do {                                                 \
    const int32_t x = p[i];                            \
    a = tflite_fuse_mac(a, x, weights[at]);            \
    b = tflite_fuse_mac(b, x, weights[4 + (at)]);      \
    c = tflite_fuse_mac(c, x, next_weights[at]);       \
    d = tflite_fuse_mac(d, x, next_weights[4 + (at)]); \
    TFLITE_FUSE_SETTLE(a, b, c, d);                    \
  } while (0)

#define TFLITE_FUSE_MAC_QUAD_OF_1(i, at)           \
  do {                                             \
    TFLITE_FUSE_MAC_VALUE_OF_1((i), (at));         \
    TFLITE_FUSE_MAC_VALUE_OF_1((i) + 1, (at) + 1); \
    TFLITE_FUSE_MAC_VALUE_OF_1((i) + 2, (at) + 2); \
    TFLITE_FUSE_MAC_VALUE_OF_1((i) + 3, (at) + 3); \
  } while (0)

#define TFLITE_FUSE_MAC_SINGLE()                                                               \
  do {                                                                                         \
    const int8_t *p = (const int8_t*)j->run.wide, *const end = (const int8_t*)j->run.wide_end; \
    if ((end - p) % 8 != 0) {                                                                  \
      TFLITE_FUSE_MAC_QUAD_OF_1(0, 0);                                                         \
      p += 4;                                                                                  \
      weights += 8;                                                                            \
      next_weights += 8;                                                                       \
    }                                                                                          \
    while (p != end) {                                                                         \
      TFLITE_FUSE_MAC_QUAD_OF_1(0, 0);                                                         \
      TFLITE_FUSE_MAC_QUAD_OF_1(4, 8);                                                         \
      p += 8;                                                                                  \
      weights += 16;                                                                           \
      next_weights += 16;                                                                      \
    }                                                                                          \
  } while (0)

static void part_of_1(tflite_fuse_conv_job* j, int32_t* sums, int32_t channels) {
  const int8_t* next = j->run.weights;
  for (; channels > 0; channels -= 4, sums += 4) {
    const int8_t *weights = next, *next_weights = channels > 2 ? next + 2 * j->values : next;
    int32_t unused[2] = {0, 0};
    int32_t* next_sums = channels > 2 ? sums + 2 : unused;
    int32_t a = sums[0], b = sums[1], c = next_sums[0], d = next_sums[1];
    next += 4 * j->values;
    TFLITE_FUSE_MAC_SINGLE();
    sums[0] = a, sums[1] = b;
    next_sums[0] = c, next_sums[1] = d;
  }
}

static void all_of_1(tflite_fuse_conv_job* j) {
  const int8_t* weights = j->run.weights;
  const tflite_fuse_channel* entry = j->run.entry;
  for (; j->run.entry_end - entry >= 4; entry += 4) {
    const int8_t* next_weights = weights + 2 * j->values;
    int32_t a = entry[0].bias, b = entry[1].bias, c = entry[2].bias, d = entry[3].bias;
    TFLITE_FUSE_MAC_SINGLE();
    int8_t* output = j->run.outputs[0];
    j->run.outputs[0] = output + 4;
    output[0] = tflite_fuse_scale_down(a, tflite_fuse_scale_of(&entry[0], j->run.zero_point_half));
    output[1] = tflite_fuse_scale_down(b, tflite_fuse_scale_of(&entry[1], j->run.zero_point_half));
    output[2] = tflite_fuse_scale_down(c, tflite_fuse_scale_of(&entry[2], j->run.zero_point_half));
    output[3] = tflite_fuse_scale_down(d, tflite_fuse_scale_of(&entry[3], j->run.zero_point_half));
    weights = next_weights;
  }
  for (; entry < j->end; entry += 2, weights += 2 * j->values) {
    int32_t sums[] = {entry[0].bias, entry[1].bias};
    j->run.weights = weights;
    part_of_1(j, sums, 2);
    tflite_fuse_conv_finish(j, entry, sums, 2, 1);
  }
}

/* ---- One or two pixels ---- */

void tflite_fuse_conv_all(tflite_fuse_conv_job* j, int32_t pixels) { (pixels == 2 ? all_of_2 : all_of_1)(j); }

void tflite_fuse_conv_part(tflite_fuse_conv_job* j, int32_t* sums, int32_t channels, int32_t pixels) {
  (pixels == 2 ? part_of_2 : part_of_1)(j, sums, channels);
}

void tflite_fuse_conv_finish_parts(tflite_fuse_conv_job* j, int32_t* sums, int32_t channels, int32_t pixels) {
  tflite_fuse_conv_finish(j, j->run.entry, sums, channels, pixels);
}

#endif
