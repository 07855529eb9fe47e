/* The inner loops of the packed convolution in plain C: four pixels by two channels, or two pixels or one by four
 * channels. */
#include "../weighted/tflite_fuse_conv_packed.h"

#if !TFLITE_FUSE_DSP && !TFLITE_FUSE_MVE

/* ---- From sums to bytes ---- */

#define SCALE_OF(channel) tflite_fuse_scale_of(channel, j->zero_point_half)

/* The two next channels of a pixel. */
TFLITE_FUSE_INLINE void finish_two(tflite_fuse_conv_job* j, int32_t pixel, int32_t a, int32_t b, tflite_fuse_scale to_a,
                                   tflite_fuse_scale to_b) {
  int8_t* output = j->outputs[pixel];
  j->outputs[pixel] = output + 2;
  output[0] = tflite_fuse_finish_down(a, to_a, INT8_MIN, INT8_MAX);
  output[1] = tflite_fuse_finish_down(b, to_b, INT8_MIN, INT8_MAX);
}

/* ---- Four pixels ---- */

#define MAC_VALUE_OF_4(i)                                \
  do {                                                   \
    const int32_t x0 = p0[i], x1 = p1[i], x2 = p2[i], x3 = p3[i]; \
    const int32_t v = weights[i];                        \
    a0 = tflite_fuse_mac(a0, x0, v);                     \
    a1 = tflite_fuse_mac(a1, x1, v);                     \
    a2 = tflite_fuse_mac(a2, x2, v);                     \
    a3 = tflite_fuse_mac(a3, x3, v);                     \
    TFLITE_FUSE_SETTLE(a0, a1, a2, a3);                  \
    const int32_t w = weights[4 + (i)];                  \
    b0 = tflite_fuse_mac(b0, x0, w);                     \
    b1 = tflite_fuse_mac(b1, x1, w);                     \
    b2 = tflite_fuse_mac(b2, x2, w);                     \
    b3 = tflite_fuse_mac(b3, x3, w);                     \
    TFLITE_FUSE_SETTLE(b0, b1, b2, b3);                  \
  } while (0)

void tflite_fuse_conv_group(tflite_fuse_conv_job* j) {
  const int8_t* weights = j->weights;
  const tflite_fuse_channel* entry = j->channel;
  do {
    const int8_t* const* tap = j->taps;
    int32_t a0 = entry[0].bias, a1 = a0, a2 = a0, a3 = a0;
    int32_t b0 = entry[1].bias, b1 = b0, b2 = b0, b3 = b0;
    do {
      const int8_t *p0 = tap[0], *p1 = tap[1], *p2 = tap[2], *p3 = tap[3];
      const int8_t* end = p0 + j->depth;
      tap += 4;
      for (; p0 != end; p0 += 4, p1 += 4, p2 += 4, p3 += 4, weights += 8) {
        MAC_VALUE_OF_4(0);
        MAC_VALUE_OF_4(1);
        MAC_VALUE_OF_4(2);
        MAC_VALUE_OF_4(3);
      }
      if (j->rest != 0) {
        for (end = p0 + j->rest; p0 != end; ++p0, ++p1, ++p2, ++p3, ++weights) {
          MAC_VALUE_OF_4(0);
        }
        weights += 8 - j->rest;
      }
    } while (tap != j->taps_end);
    if (entry < j->fast_end) {
      const tflite_fuse_scale to_a = SCALE_OF(&entry[0]), to_b = SCALE_OF(&entry[1]);
      finish_two(j, 0, a0, b0, to_a, to_b);
      finish_two(j, 1, a1, b1, to_a, to_b);
      finish_two(j, 2, a2, b2, to_a, to_b);
      finish_two(j, 3, a3, b3, to_a, to_b);
    } else {
      const int32_t sums[] = {a0, a1, a2, a3, b0, b1, b2, b3};
      tflite_fuse_conv_finish(j, entry, sums, 2, 4);
    }
    entry += 2;
    TFLITE_FUSE_HIDE(entry);
    TFLITE_FUSE_HIDE(weights);
  } while (entry < j->end);
}

/* ---- Two pixels ---- */

#define MAC_VALUE_OF_2(i)                        \
  do {                                           \
    const int32_t x = p[i], y = q[i];            \
    const int32_t v = weights[i], w = weights[4 + (i)]; \
    a0 = tflite_fuse_mac(a0, x, v);              \
    a1 = tflite_fuse_mac(a1, y, v);              \
    b0 = tflite_fuse_mac(b0, x, w);              \
    b1 = tflite_fuse_mac(b1, y, w);              \
    TFLITE_FUSE_SETTLE(a0, a1, b0, b1);          \
    const int32_t t = others[i], u = others[4 + (i)]; \
    c0 = tflite_fuse_mac(c0, x, t);              \
    c1 = tflite_fuse_mac(c1, y, t);              \
    d0 = tflite_fuse_mac(d0, x, u);              \
    d1 = tflite_fuse_mac(d1, y, u);              \
    TFLITE_FUSE_SETTLE(c0, c1, d0, d1);          \
  } while (0)

/* Where there are but two more channels, these twice. */
void tflite_fuse_conv_pair(tflite_fuse_conv_job* j) {
  const int8_t* weights = j->weights;
  const tflite_fuse_channel* entry = j->channel;
  do {
    const int32_t second = j->end - entry > 2 ? 2 : 0;
    const int8_t* others = weights + (second != 0 ? 2 * j->values : 0);
    const int8_t* const* tap = j->taps;
    int32_t a0 = entry[0].bias, a1 = a0, b0 = entry[1].bias, b1 = b0;
    int32_t c0 = entry[second].bias, c1 = c0, d0 = entry[second + 1].bias, d1 = d0;
    do {
      const int8_t *p = tap[0], *q = tap[1];
      const int8_t* end = p + j->depth;
      tap += 2;
      for (; p != end; p += 4, q += 4, weights += 8, others += 8) {
        MAC_VALUE_OF_2(0);
        MAC_VALUE_OF_2(1);
        MAC_VALUE_OF_2(2);
        MAC_VALUE_OF_2(3);
      }
      if (j->rest != 0) {
        for (end = p + j->rest; p != end; ++p, ++q, ++weights, ++others) {
          MAC_VALUE_OF_2(0);
        }
        weights += 8 - j->rest;
        others += 8 - j->rest;
      }
    } while (tap != j->taps_end);
    if (entry + second < j->fast_end) {
      const tflite_fuse_scale to_a = SCALE_OF(&entry[0]), to_b = SCALE_OF(&entry[1]);
      finish_two(j, 0, a0, b0, to_a, to_b);
      finish_two(j, 1, a1, b1, to_a, to_b);
      if (second != 0) {
        const tflite_fuse_scale to_c = SCALE_OF(&entry[2]), to_d = SCALE_OF(&entry[3]);
        finish_two(j, 0, c0, d0, to_c, to_d);
        finish_two(j, 1, c1, d1, to_c, to_d);
      }
    } else {
      const int32_t sums[] = {a0, a1, b0, b1, c0, c1, d0, d1};
      tflite_fuse_conv_finish(j, entry, sums, second + 2, 2);
    }
    entry += 4;
    weights = others;
    TFLITE_FUSE_HIDE(entry);
    TFLITE_FUSE_HIDE(weights);
  } while (entry < j->end);
}

/* ---- One pixel ---- */

#define MAC_VALUE_OF_1(i)                        \
  do {                                           \
    const int32_t x = p[i];                      \
    a = tflite_fuse_mac(a, x, weights[i]);       \
    b = tflite_fuse_mac(b, x, weights[4 + (i)]); \
    c = tflite_fuse_mac(c, x, others[i]);        \
    d = tflite_fuse_mac(d, x, others[4 + (i)]);  \
    TFLITE_FUSE_SETTLE(a, b, c, d);              \
  } while (0)

/* As above. */
void tflite_fuse_conv_single(tflite_fuse_conv_job* j) {
  const int8_t* weights = j->weights;
  const tflite_fuse_channel* entry = j->channel;
  do {
    const int32_t second = j->end - entry > 2 ? 2 : 0;
    const int8_t* others = weights + (second != 0 ? 2 * j->values : 0);
    const int8_t* const* tap = j->taps;
    int32_t a = entry[0].bias, b = entry[1].bias, c = entry[second].bias, d = entry[second + 1].bias;
    do {
      const int8_t* p = *tap++;
      const int8_t* end = p + j->depth;
      for (; p != end; p += 4, weights += 8, others += 8) {
        MAC_VALUE_OF_1(0);
        MAC_VALUE_OF_1(1);
        MAC_VALUE_OF_1(2);
        MAC_VALUE_OF_1(3);
      }
      if (j->rest != 0) {
        for (end = p + j->rest; p != end; ++p, ++weights, ++others) {
          MAC_VALUE_OF_1(0);
        }
        weights += 8 - j->rest;
        others += 8 - j->rest;
      }
    } while (tap != j->taps_end);
    if (entry + second < j->fast_end) {
      finish_two(j, 0, a, b, SCALE_OF(&entry[0]), SCALE_OF(&entry[1]));
      if (second != 0) {
        finish_two(j, 0, c, d, SCALE_OF(&entry[2]), SCALE_OF(&entry[3]));
      }
    } else {
      const int32_t sums[] = {a, b, c, d};
      tflite_fuse_conv_finish(j, entry, sums, second + 2, 1);
    }
    entry += 4;
    weights = others;
    TFLITE_FUSE_HIDE(entry);
    TFLITE_FUSE_HIDE(weights);
  } while (entry < j->end);
}

#endif
