/* Multiplies rows of depthwise windows with DSP instructions: two rows of one channel at once, or two
 * channels in a loop. */
#ifndef TFLITE_FUSE_DEPTHWISE_DSP_H_
#define TFLITE_FUSE_DEPTHWISE_DSP_H_

#include "../mve/tflite_fuse_mve.h"
#include "../tflite_fuse_packed.h"

#if TFLITE_FUSE_DSP

#if TFLITE_FUSE_DUAL_ISSUE

/* A run of tflite_fuse_depthwise_3_1: an even number of channels of two neighbouring pixels under windows of 3 x 3. */
typedef struct {
  const int8_t* pixels[12]; /* columns 0...3 of two rows, upper and lower; columns 0, 2, 1, 3 of the last row */
  int32_t channel;          /* number of the first channel */
  const int8_t* weights;    /* weights of the first channel, 12 bytes per channel */
  const tflite_fuse_channel* entry;
  int32_t zero_point_half;
  int8_t* outputs[2]; /* if both are the same pixel, it receives the values of the first */
  const tflite_fuse_channel* entry_end;
} tflite_fuse_depthwise_run;

#if defined(TFLITE_FUSE_DSP_EMULATION)
TFLITE_FUSE_EMULATED_DEPTHWISE()
#else
TFLITE_FUSE_HIDDEN_BEGIN
void tflite_fuse_depthwise_3_1(const tflite_fuse_depthwise_run* run);
TFLITE_FUSE_HIDDEN_END
#endif

#endif

/* k[i]: weights of column i, of the upper row in the low half, of the lower row in the high half. */
#define TFLITE_FUSE_MAC_BOTH(sum, i) tflite_fuse_mac_pair(sum, x, k[i])

#define TFLITE_FUSE_BOTH_ROWS(add, column, width, stride)              \
  {                                                                    \
    uint32_t x;                                                        \
    TFLITE_FUSE_LOAD_COLUMN_2(x, window, (column) * (width), channel); \
    add(TFLITE_FUSE_MAC_BOTH, a, column, width, stride);               \
  }

/* k[0], k[1]: columns 0 and 2, 1 and 3; k[2], k[3]: columns 4 and 6, 5 and 7. */
#define TFLITE_FUSE_MAC_LAST(sum, i)                                   \
  ((i) % 4 < 2 ? tflite_fuse_mac_low(sum, x, k[(i) / 4 * 2 + (i) % 2]) \
               : tflite_fuse_mac_high(sum, x, k[(i) / 4 * 2 + (i) % 2]))

#define TFLITE_FUSE_LAST_ROW(add, column, width, stride)                                        \
  {                                                                                             \
    if ((column) % 2 == 0 && (column) + 1 < COLUMNS) {                                          \
      TFLITE_FUSE_LOAD_COLUMNS_1(pair[0], pair[1], window, (column) * (width), width, channel); \
    } else if ((column) % 2 == 0) {                                                             \
      TFLITE_FUSE_LOAD_COLUMN_1(pair[0], window, (column) * (width), channel);                  \
    }                                                                                           \
    const uint32_t x = pair[(column) % 2];                                                      \
    add(TFLITE_FUSE_MAC_LAST, a, column, width, stride);                                        \
  }

#define TFLITE_FUSE_LOAD_WORD(i)                                 \
  {                                                              \
    const uint32_t word = tflite_fuse_load_4(weights + 4 * (i)); \
    k[2 * (i)] = tflite_fuse_even(word);                         \
    k[2 * (i) + 1] = tflite_fuse_odd(word);                      \
  }

/* Loads the words of two rows, and those of the last row. */
#define TFLITE_FUSE_BOTH_WORDS_3() TFLITE_FUSE_LOAD_WORD(0) TFLITE_FUSE_LOAD_WORD(1)
#define TFLITE_FUSE_BOTH_WORDS_5() TFLITE_FUSE_BOTH_WORDS_3() TFLITE_FUSE_LOAD_WORD(2)
#define TFLITE_FUSE_BOTH_WORDS_7() TFLITE_FUSE_BOTH_WORDS_5() TFLITE_FUSE_LOAD_WORD(3)
#define TFLITE_FUSE_LAST_WORDS_3() TFLITE_FUSE_LOAD_WORD(0)
#define TFLITE_FUSE_LAST_WORDS_5() TFLITE_FUSE_LOAD_WORD(0) TFLITE_FUSE_LOAD_WORD(1)
#define TFLITE_FUSE_LAST_WORDS_7() TFLITE_FUSE_LAST_WORDS_5()

#define TFLITE_FUSE_TWO_ROWS(columns, add, width, stride)                                                     \
  {                                                                                                           \
    uint32_t k[8];                                                                                            \
    TFLITE_FUSE_BOTH_WORDS_##width() TFLITE_FUSE_COLUMNS_##columns(TFLITE_FUSE_BOTH_ROWS, add, width, stride) \
  }

#define TFLITE_FUSE_ONE_ROW(columns, add, width, stride)                                                     \
  {                                                                                                          \
    enum { COLUMNS = columns };                                                                              \
    uint32_t k[8], pair[2];                                                                                  \
    TFLITE_FUSE_LAST_WORDS_##width() TFLITE_FUSE_COLUMNS_##columns(TFLITE_FUSE_LAST_ROW, add, width, stride) \
  }

#endif

#endif
