/* Rows of a depthwise window in plain C: one after the other, and where there are registers for it of two channels at
 * once, whose values are neighbours: a pixel is looked up once for both. k: weights of a row, l: of the next channel. */
#ifndef TFLITE_FUSE_DEPTHWISE_PORTABLE_H_
#define TFLITE_FUSE_DEPTHWISE_PORTABLE_H_

#if !TFLITE_FUSE_DSP

#define MAC(sum, i) tflite_fuse_mac(sum, x, k[i])

#if TFLITE_FUSE_MANY_REGISTERS

#define MAC_NEXT(sum, i) tflite_fuse_mac(sum, y, l[i])

#define ROW(add, column, width, stride)                                 \
  {                                                                     \
    const int8_t* p = window[(column) * (width)] + channel;             \
    const int32_t x = p[0], y = p[1];                                   \
    add(MAC, a, column, width, stride);                                 \
    TFLITE_FUSE_SETTLE(a0, a1, a2, a3);                                 \
    add(MAC_NEXT, b, column, width, stride);                            \
    TFLITE_FUSE_SETTLE(b0, b1, b2, b3);                                 \
  }

#define LOAD(i, at) k[i] = weights[at], l[i] = weights[CHANNEL_BYTES + (at)];
#define WEIGHTS(width) int32_t k[width], l[width];

#else

#define ROW(add, column, width, stride)                                 \
  {                                                                     \
    const int32_t x = window[(column) * (width)][channel];              \
    add(MAC, a, column, width, stride);                                 \
    TFLITE_FUSE_SETTLE(a0, a1, a2, a3);                                 \
  }

#define LOAD(i, at) k[i] = weights[at];
#define WEIGHTS(width) int32_t k[width];

#endif

#define LOAD_UPPER(i) LOAD(i, (i) / 2 * 4 + (i) % 2)
#define LOAD_LOWER(i) LOAD(i, (i) / 2 * 4 + (i) % 2 + 2)
#define LOAD_LAST(i) LOAD(i, i)
#define EACH_3(L) L(0) L(1) L(2)
#define EACH_5(L) EACH_3(L) L(3) L(4)
#define EACH_7(L) EACH_5(L) L(5) L(6)

#define TWO_ROWS(columns, add, width, stride)                           \
  {                                                                     \
    WEIGHTS(width)                                                      \
    EACH_##width(LOAD_UPPER) COLUMNS_##columns(ROW, add, width, stride) \
    ++window;                                                           \
    EACH_##width(LOAD_LOWER) COLUMNS_##columns(ROW, add, width, stride) \
    --window;                                                           \
  }

#define ONE_ROW(columns, add, width, stride)                            \
  {                                                                     \
    WEIGHTS(width)                                                      \
    EACH_##width(LOAD_LAST) COLUMNS_##columns(ROW, add, width, stride)  \
  }

#endif

#endif
