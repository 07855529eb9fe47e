/* The inner loops of the packed convolution in plain C: four pixels by two channels, or one pixel by four channels. */
#include "tflite_fuse_conv_packed.h"

#if !TFLITE_FUSE_DSP && !TFLITE_FUSE_MVE

#define MAC_VALUE(i)                                     \
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

/* Four pixels. */
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
      do {
        MAC_VALUE(0);
        MAC_VALUE(1);
        MAC_VALUE(2);
        MAC_VALUE(3);
        p0 += 4;
        p1 += 4;
        p2 += 4;
        p3 += 4;
        weights += 8;
      } while (p0 != end);
    } while (tap != j->taps_end);
    const int32_t sums[] = {a0, a1, a2, a3, b0, b1, b2, b3};
    tflite_fuse_conv_finish(j, entry, sums, 2, 4);
    entry += 2;
    TFLITE_FUSE_HIDE(entry);
    TFLITE_FUSE_HIDE(weights);
  } while (entry < j->end);
}

#define MAC_VALUE_1(i)                           \
  do {                                           \
    const int32_t x = p[i];                      \
    a = tflite_fuse_mac(a, x, weights[i]);       \
    b = tflite_fuse_mac(b, x, weights[4 + (i)]); \
    c = tflite_fuse_mac(c, x, others[i]);        \
    d = tflite_fuse_mac(d, x, others[4 + (i)]);  \
    TFLITE_FUSE_SETTLE(a, b, c, d);              \
  } while (0)

/* One pixel, four channels at a time; where there are but two more, these twice. */
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
      do {
        MAC_VALUE_1(0);
        MAC_VALUE_1(1);
        MAC_VALUE_1(2);
        MAC_VALUE_1(3);
        p += 4;
        weights += 8;
        others += 8;
      } while (p != end);
    } while (tap != j->taps_end);
    const int32_t sums[] = {a, b, c, d};
    tflite_fuse_conv_finish(j, entry, sums, second + 2, 1);
    entry += 4;
    weights = others;
    TFLITE_FUSE_HIDE(entry);
    TFLITE_FUSE_HIDE(weights);
  } while (entry < j->end);
}

#endif
