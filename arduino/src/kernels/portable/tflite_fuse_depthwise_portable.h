/* Multiplies rows of depthwise windows in plain C, one row at a time; on cores with enough registers of two
 * channels at once, whose values are neighbours, so a pixel's pointer is loaded once for both. k: weights of a row,
 * l: of the next channel. */
#ifndef TFLITE_FUSE_DEPTHWISE_PORTABLE_H_
#define TFLITE_FUSE_DEPTHWISE_PORTABLE_H_

#if !TFLITE_FUSE_DSP

#define TFLITE_FUSE_MAC(sum, i) tflite_fuse_mac(sum, x, k[i])

#if TFLITE_FUSE_MANY_REGISTERS

#define TFLITE_FUSE_MAC_NEXT(sum, i) tflite_fuse_mac(sum, y, l[i])

#define TFLITE_FUSE_ROW(add, column, width, stride)         \
  {                                                         \
    const int8_t* p = window[(column) * (width)] + channel; \
    const int32_t x = p[0], y = p[1];                       \
    add(TFLITE_FUSE_MAC, a, column, width, stride);         \
    TFLITE_FUSE_SETTLE(a0, a1, a2, a3);                     \
    add(TFLITE_FUSE_MAC_NEXT, b, column, width, stride);    \
    TFLITE_FUSE_SETTLE(b0, b1, b2, b3);                     \
  }

#define TFLITE_FUSE_LOAD(i, at) k[i] = weights[at], l[i] = weights[CHANNEL_BYTES + (at)];
#define TFLITE_FUSE_WEIGHTS(width) int32_t k[width], l[width];

#else

#define TFLITE_FUSE_ROW(add, column, width, stride)        \
  {                                                        \
    const int32_t x = window[(column) * (width)][channel]; \
    add(TFLITE_FUSE_MAC, a, column, width, stride);        \
    TFLITE_FUSE_SETTLE(a0, a1, a2, a3);                    \
  }

#define TFLITE_FUSE_LOAD(i, at) k[i] = weights[at];
#define TFLITE_FUSE_WEIGHTS(width) int32_t k[width];

#endif

#define TFLITE_FUSE_LOAD_UPPER(i) TFLITE_FUSE_LOAD(i, (i) / 2 * 4 + (i) % 2)
#define TFLITE_FUSE_LOAD_LOWER(i) TFLITE_FUSE_LOAD(i, (i) / 2 * 4 + (i) % 2 + 2)
#define TFLITE_FUSE_LOAD_LAST(i) TFLITE_FUSE_LOAD(i, i)
#define TFLITE_FUSE_EACH_3(L) L(0) L(1) L(2)
#define TFLITE_FUSE_EACH_5(L) TFLITE_FUSE_EACH_3(L) L(3) L(4)
#define TFLITE_FUSE_EACH_7(L) TFLITE_FUSE_EACH_5(L) L(5) L(6)

#define TFLITE_FUSE_TWO_ROWS(columns, add, width, stride)              \
  {                                                                    \
    TFLITE_FUSE_WEIGHTS(width)                                         \
    TFLITE_FUSE_EACH_##width(TFLITE_FUSE_LOAD_UPPER)                   \
    TFLITE_FUSE_COLUMNS_##columns(TFLITE_FUSE_ROW, add, width, stride) \
    ++window;                                                          \
    TFLITE_FUSE_EACH_##width(TFLITE_FUSE_LOAD_LOWER)                   \
    TFLITE_FUSE_COLUMNS_##columns(TFLITE_FUSE_ROW, add, width, stride) \
    --window;                                                          \
  }

#define TFLITE_FUSE_ONE_ROW(columns, add, width, stride)                                                               \
  {                                                                                                                    \
    TFLITE_FUSE_WEIGHTS(width)                                                                                         \
    TFLITE_FUSE_EACH_##width(TFLITE_FUSE_LOAD_LAST) TFLITE_FUSE_COLUMNS_##columns(TFLITE_FUSE_ROW, add, width, stride) \
  }

#endif

#endif
