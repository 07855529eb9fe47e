/* The inner loops of the packed convolution with DSP instructions: two pixels by two channels, or one pixel. */
#include "../weighted/tflite_fuse_conv_packed.h"

#if TFLITE_FUSE_DSP && !TFLITE_FUSE_MVE

/* One quad of two channels: xe, xo: pixel 0, ye, yo: pixel 1. */
#define MAC_QUAD_2X2()                       \
  do {                                       \
    uint32_t v, w;                           \
    TFLITE_FUSE_LOAD_2(v, w, weights, 8);    \
    const uint32_t ve = tflite_fuse_even(v); \
    v = tflite_fuse_odd(v);                  \
    a0 = tflite_fuse_mac_pair(a0, xe, ve);   \
    a1 = tflite_fuse_mac_pair(a1, ye, ve);   \
    a0 = tflite_fuse_mac_pair(a0, xo, v);    \
    a1 = tflite_fuse_mac_pair(a1, yo, v);    \
    const uint32_t we = tflite_fuse_even(w); \
    w = tflite_fuse_odd(w);                  \
    b0 = tflite_fuse_mac_pair(b0, xe, we);   \
    b1 = tflite_fuse_mac_pair(b1, ye, we);   \
    b0 = tflite_fuse_mac_pair(b0, xo, w);    \
    b1 = tflite_fuse_mac_pair(b1, yo, w);    \
  } while (0)

/* Two channels of two pixels. */
#define FINISH_2X2()                                                                   \
  do {                                                                                 \
    if (entry < j->fast_end) {                                                         \
      int8_t* output_0 = j->outputs[0];                                                \
      int8_t* output_1 = j->outputs[1];                                                \
      const tflite_fuse_scale a = tflite_fuse_scale_of(&entry[0], j->zero_point_half); \
      output_0[0] = tflite_fuse_scale_down(a0, a);                                     \
      output_1[0] = tflite_fuse_scale_down(a1, a);                                     \
      const tflite_fuse_scale b = tflite_fuse_scale_of(&entry[1], j->zero_point_half); \
      output_0[1] = tflite_fuse_scale_down(b0, b);                                     \
      output_1[1] = tflite_fuse_scale_down(b1, b);                                     \
      j->outputs[0] = output_0 + 2;                                                    \
      j->outputs[1] = output_1 + 2;                                                    \
    } else {                                                                           \
      const int32_t all[] = {a0, a1, b0, b1};                                          \
      tflite_fuse_conv_finish(j, entry, all, 2, 2);                                    \
    }                                                                                  \
    entry += 2;                                                                        \
    TFLITE_FUSE_HIDE(entry);                                                           \
  } while (0)

#define MAC_WIDE_QUAD()                       \
  do {                                        \
    TFLITE_FUSE_LOAD_4(xe, xo, ye, yo, wide); \
    MAC_QUAD_2X2();                           \
  } while (0)

#define MAC_WIDE_QUADS()                     \
  do {                                       \
    const uint32_t* const end = j->wide_end; \
    if (j->quads % 4 != 0) {                 \
      if (j->quads % 2 != 0) {               \
        MAC_WIDE_QUAD();                     \
      }                                      \
      if (j->quads % 4 >= 2) {               \
        MAC_WIDE_QUAD();                     \
        MAC_WIDE_QUAD();                     \
      }                                      \
    }                                        \
    while (wide != end) {                    \
      MAC_WIDE_QUAD();                       \
      MAC_WIDE_QUAD();                       \
      MAC_WIDE_QUAD();                       \
      MAC_WIDE_QUAD();                       \
    }                                        \
  } while (0)

/* Two pixels whose pairs have been made. */
void tflite_fuse_conv_wide(tflite_fuse_conv_job* j) {
  const int8_t* weights = j->weights;
  const tflite_fuse_channel* entry = j->channel;
  do {
    const uint32_t* wide = j->wide;
    int32_t a0 = entry[0].bias, a1 = a0, b0 = entry[1].bias, b1 = b0;
    MAC_WIDE_QUADS();
    FINISH_2X2();
    TFLITE_FUSE_HIDE(weights);
  } while (entry < j->end);
}

/* As above, but the sums are kept in memory between the parts. */
void tflite_fuse_conv_part(const tflite_fuse_conv_job* j, int32_t* sums, int32_t channels, int32_t skipped) {
  const int8_t* weights = j->weights;
  for (; channels > 0; channels -= 2, sums += 4, weights += skipped) {
    const uint32_t* wide = j->wide;
    int32_t a0 = sums[0], a1 = sums[1], b0 = sums[2], b1 = sums[3];
    MAC_WIDE_QUADS();
    sums[0] = a0;
    sums[1] = a1;
    sums[2] = b0;
    sums[3] = b1;
  }
}

void tflite_fuse_conv_finish_parts(tflite_fuse_conv_job* j, const int32_t* sums, int32_t channels) {
  const tflite_fuse_channel* entry = j->channel;
  for (; channels > 0; channels -= 2, sums += 4) {
    const int32_t a0 = sums[0], a1 = sums[1], b0 = sums[2], b1 = sums[3];
    FINISH_2X2();
  }
}

#define MAC_QUAD_OF_1(v, w)                              \
  do {                                                   \
    uint32_t xe, xo;                                     \
    TFLITE_FUSE_LOAD_2(xe, xo, wide, 8);                 \
    const uint32_t ve = tflite_fuse_even(v);             \
    a = tflite_fuse_mac_pair(a, xe, ve);                 \
    a = tflite_fuse_mac_pair(a, xo, tflite_fuse_odd(v)); \
    const uint32_t we = tflite_fuse_even(w);             \
    b = tflite_fuse_mac_pair(b, xe, we);                 \
    b = tflite_fuse_mac_pair(b, xo, tflite_fuse_odd(w)); \
  } while (0)

#define MAC_TWO_QUADS_OF_1()                     \
  do {                                           \
    TFLITE_FUSE_LOAD_4(v0, w0, v1, w1, weights); \
    MAC_QUAD_OF_1(v0, w0);                       \
    MAC_QUAD_OF_1(v1, w1);                       \
  } while (0)

#define MAC_QUADS_OF_1()                        \
  do {                                         \
    const uint32_t* const end = j->wide_end;   \
    if (j->quads % 4 != 0) {                   \
      if (j->quads % 2 != 0) {                 \
        uint32_t v, w;                         \
        TFLITE_FUSE_LOAD_2(v, w, weights, 8);  \
        MAC_QUAD_OF_1(v, w);                   \
      }                                        \
      if (j->quads % 4 >= 2) {                 \
        MAC_TWO_QUADS_OF_1();                  \
      }                                        \
    }                                          \
    while (wide != end) {                      \
      MAC_TWO_QUADS_OF_1();                    \
      MAC_TWO_QUADS_OF_1();                    \
    }                                          \
  } while (0)

/* Two channels of one pixel. */
#define FINISH_2X1()                                                                                \
  do {                                                                                              \
    if (entry < j->fast_end) {                                                                      \
      int8_t* output = j->outputs[0];                                                               \
      output[0] = tflite_fuse_scale_down(a, tflite_fuse_scale_of(&entry[0], j->zero_point_half));   \
      output[1] = tflite_fuse_scale_down(b, tflite_fuse_scale_of(&entry[1], j->zero_point_half));   \
      j->outputs[0] = output + 2;                                                                   \
    } else {                                                                                        \
      const int32_t all[] = {a, b};                                                                 \
      tflite_fuse_conv_finish(j, entry, all, 2, 1);                                                 \
    }                                                                                               \
    entry += 2;                                                                                     \
    TFLITE_FUSE_HIDE(entry);                                                                        \
  } while (0)

/* One pixel whose pairs have been made. */
void tflite_fuse_conv_single(tflite_fuse_conv_job* j) {
  const int8_t* weights = j->weights;
  const tflite_fuse_channel* entry = j->channel;
  do {
    const uint32_t* wide = j->wide;
    int32_t a = entry[0].bias, b = entry[1].bias;
    MAC_QUADS_OF_1();
    FINISH_2X1();
    TFLITE_FUSE_HIDE(weights);
  } while (entry < j->end);
}

/* As above, but the sums are kept in memory between the parts. */
void tflite_fuse_conv_part_single(const tflite_fuse_conv_job* j, int32_t* sums, int32_t channels, int32_t skipped) {
  const int8_t* weights = j->weights;
  for (; channels > 0; channels -= 2, sums += 2, weights += skipped) {
    const uint32_t* wide = j->wide;
    int32_t a = sums[0], b = sums[1];
    MAC_QUADS_OF_1();
    sums[0] = a;
    sums[1] = b;
  }
}

void tflite_fuse_conv_finish_parts_single(tflite_fuse_conv_job* j, const int32_t* sums, int32_t channels) {
  const tflite_fuse_channel* entry = j->channel;
  for (; channels > 0; channels -= 2, sums += 2) {
    const int32_t a = sums[0], b = sums[1];
    FINISH_2X1();
  }
}

#endif
