/* The functions of tflite_fuse_dsp.h in portable C, so that kernels written for the DSP extension run on any machine
 * and under its sanitizers. */
static inline int32_t emulated_low(uint32_t pair) { return (int16_t)pair; }
static inline int32_t emulated_high(uint32_t pair) { return (int16_t)(pair >> 16); }

static inline uint32_t emulated_pair(int32_t low, int32_t high) {
  return ((uint32_t)low & 0xFFFFu) | (uint32_t)high << 16;
}

static inline int32_t emulated_sum(int32_t sum, int64_t more) {
  return (int32_t)(uint32_t)((uint64_t)sum + (uint64_t)more);
}

static inline uint32_t tflite_fuse_even(uint32_t word) { return emulated_pair((int8_t)word, (int8_t)(word >> 16)); }

static inline uint32_t tflite_fuse_odd(uint32_t word) {
  return emulated_pair((int8_t)(word >> 8), (int8_t)(word >> 24));
}

static inline uint32_t tflite_fuse_pair(int32_t a, int32_t b) { return emulated_pair(a, b); }

static inline int32_t tflite_fuse_mac_pair(int32_t sum, uint32_t a, uint32_t b) {
  const int64_t low = emulated_low(a) * emulated_low(b);
  return emulated_sum(sum, low + emulated_high(a) * emulated_high(b));
}

static inline int32_t tflite_fuse_mac_low(int32_t sum, uint32_t a, uint32_t b) {
  return emulated_sum(sum, emulated_low(a) * emulated_low(b));
}

static inline int32_t tflite_fuse_mac_high(int32_t sum, uint32_t a, uint32_t b) {
  return emulated_sum(sum, emulated_low(a) * emulated_high(b));
}

static inline int32_t tflite_fuse_mac_top(int32_t sum, int32_t a, int32_t b) {
  const uint64_t wide = ((uint64_t)(uint32_t)sum << 32) + (uint64_t)((int64_t)a * b) + UINT64_C(0x80000000);
  return (int32_t)(uint32_t)(wide >> 32);
}

static inline int8_t tflite_fuse_halve_to_int8(int32_t value) {
  value >>= 1;
  return (int8_t)(value < INT8_MIN ? INT8_MIN : value > INT8_MAX ? INT8_MAX : value);
}

static inline int8_t tflite_fuse_added_to_int8(int32_t value) {
  value >>= TFLITE_FUSE_ADD_BITS;
  return (int8_t)(value < INT8_MIN ? INT8_MIN : value > INT8_MAX ? INT8_MAX : value);
}

#define TFLITE_FUSE_LOAD_1(word, from, step)              \
  do {                                                    \
    uint32_t loaded_;                                     \
    memcpy(&loaded_, from, sizeof(loaded_));              \
    (word) = loaded_;                                     \
    (from) = (const void*)((const char*)(from) + (step)); \
  } while (0)

#define TFLITE_FUSE_WIDEN_2(wide, p, q)                                \
  do {                                                                 \
    uint32_t p_, q_;                                                   \
    TFLITE_FUSE_LOAD_1(p_, p, 4);                                      \
    TFLITE_FUSE_LOAD_1(q_, q, 4);                                      \
    (wide)[0] = tflite_fuse_even(p_), (wide)[1] = tflite_fuse_odd(p_); \
    (wide)[2] = tflite_fuse_even(q_), (wide)[3] = tflite_fuse_odd(q_); \
    (wide) += 4;                                                       \
  } while (0)

#define TFLITE_FUSE_LOAD_COLUMN_2(pair, pixels, index, channel) \
  ((pair) = emulated_pair((pixels)[index][channel], (pixels)[(index) + 1][channel]))

#define TFLITE_FUSE_LOAD_COLUMN_1(value, pixels, index, channel) ((value) = (uint32_t)(int32_t)(pixels)[index][channel])

#define TFLITE_FUSE_LOAD_COLUMNS_1(first, second, pixels, index, to_next, channel) \
  (TFLITE_FUSE_LOAD_COLUMN_1(first, pixels, index, channel),                       \
   TFLITE_FUSE_LOAD_COLUMN_1(second, pixels, (index) + (to_next), channel))

static inline uint32_t emulated_halves(const int8_t* upper, const int8_t* lower) {
  return (uint32_t)(uint8_t)upper[0] | (uint32_t)(uint8_t)upper[1] << 8 | (uint32_t)(uint8_t)lower[0] << 16 |
         (uint32_t)(uint8_t)lower[1] << 24;
}

#define TFLITE_FUSE_LOAD_HALVES_2(bytes, pixels, index, channel) \
  ((bytes) = emulated_halves((pixels)[index] + (channel), (pixels)[(index) + 1] + (channel)))

#define TFLITE_FUSE_LOAD_HALVES_1(bytes, pixels, index, channel) \
  ((bytes) = emulated_halves((pixels)[index] + (channel), (pixels)[index] + (channel)) & 0xFFFF)

/* The loops of the convolution: macros, because this is read before the types of what they work on are known. Words are
 * read through pointers: sanitizers check that their addresses are multiples of 4, as the instructions want them. `start`
 * of a run is how many quads there are, so that it is checked, too. */
enum { TFLITE_FUSE_EMULATED_PAIRS = 0 }; /* instead of the bits of a weight */

typedef struct {
  const uint32_t *wide, *weights, *wide_end;
  uint32_t quads;
  int32_t pixels, bits;
} emulated_loop;

/* The weights of one channel for values 0 and 2 of a quad, and for 1 and 3. */
static inline void emulated_weights(uint32_t found[2], const uint32_t* weights, int32_t channel, int32_t bits) {
  if (bits == 8) {
    found[0] = tflite_fuse_even(weights[channel]), found[1] = tflite_fuse_odd(weights[channel]);
  } else if (bits == 16) {
    found[0] = weights[2 * channel], found[1] = weights[2 * channel + 1];
  } else {
    found[0] = channel == 0 ? weights[0] : tflite_fuse_even(weights[0]);
    found[1] = channel == 0 ? weights[1] : tflite_fuse_even(weights[1]);
  }
}

/* Adds to sums[channel][pixel] of two channels; returns the weights behind. */
static inline const uint32_t* emulated_quads(emulated_loop loop, int32_t* sums) {
  const int32_t pixels = loop.pixels;
  for (uint32_t i = 0; i < loop.quads; ++i, loop.wide += 2 * pixels, loop.weights += loop.bits == 16 ? 4 : 2) {
    for (int32_t k = 0; k < 2 * pixels; ++k) {
      uint32_t w[2];
      emulated_weights(w, loop.weights, k / pixels, loop.bits);
      const uint32_t* values = loop.wide + k % pixels * (pixels == 4 ? 1 : 2);
      sums[k] = tflite_fuse_mac_pair(tflite_fuse_mac_pair(sums[k], values[0], w[0]), values[pixels == 4 ? 4 : 1], w[1]);
    }
  }
  if (loop.wide != loop.wide_end) {
    __builtin_trap();
  }
  return loop.weights;
}

static inline int8_t emulated_finish(int32_t sum, int32_t twice, int32_t multiplier, int32_t shift, int32_t zero) {
  const int32_t half = (int32_t)((uint32_t)zero << shift);
  return tflite_fuse_halve_to_int8(tflite_fuse_mac_top(emulated_sum(half, sum >> 31), twice, multiplier) >> shift);
}

#define TFLITE_FUSE_EMULATED_LOOP(run, pixels, bits)                                                       \
  (emulated_loop) {                                                                                        \
    (run)->wide, (const uint32_t*)(const void*)(run)->weights, (run)->wide_end, (run)->start, pixels, bits \
  }

#define TFLITE_FUSE_EMULATED_ALL(run, pixels, bits)                                                        \
  do {                                                                                                     \
    const ptrdiff_t apart_ = (run)->outputs[1] - (run)->outputs[0];                                        \
    for (; (run)->entry != (run)->entry_end; (run)->entry += 2) {                                          \
      int32_t sums_[8];                                                                                    \
      for (int32_t k_ = 0; k_ < 2 * (pixels); ++k_) {                                                      \
        sums_[k_] = (run)->entry[k_ / (pixels)].bias;                                                      \
      }                                                                                                    \
      (run)->weights = (const int8_t*)emulated_quads(TFLITE_FUSE_EMULATED_LOOP(run, pixels, bits), sums_); \
      if ((bits) == TFLITE_FUSE_EMULATED_PAIRS) {                                                          \
        tflite_fuse_split_pairs(sums_, 2, pixels);                                                         \
      }                                                                                                    \
      for (int32_t k_ = 0; k_ < 2 * (pixels); ++k_) {                                                      \
        const int32_t c_ = k_ / (pixels), p_ = k_ % (pixels), sum_ = sums_[k_];                            \
        const int32_t twice_ = (bits) == 8 ? (int32_t)((uint32_t)sum_ << 1) : sum_;                        \
        (run)->outputs[p_ % 2][p_ / 2 * 2 * apart_ + c_] = emulated_finish(                                \
            sum_, twice_, (run)->entry[c_].multiplier, (run)->entry[c_].shift, (run)->zero_point_half);    \
      }                                                                                                    \
      (run)->outputs[0] += 2;                                                                              \
      (run)->outputs[1] += (pixels) > 1 ? 2 : 0;                                                           \
    }                                                                                                      \
  } while (0)

#define TFLITE_FUSE_EMULATED_PART(run, pixels, bits)                                                             \
  do {                                                                                                           \
    const int8_t* const first_ = (run)->weights;                                                                 \
    for (; (run)->sums != (run)->sums_end; (run)->sums += 2 * (pixels)) {                                        \
      (run)->weights = (const int8_t*)emulated_quads(TFLITE_FUSE_EMULATED_LOOP(run, pixels, bits), (run)->sums); \
      (run)->weights += (run)->skip;                                                                             \
    }                                                                                                            \
    (run)->weights = first_;                                                                                     \
  } while (0)

/* All loops of one form of weights; those of four pixels leave the run as it is. */
#define TFLITE_FUSE_EMULATED_LOOPS(form, bits)                                                                         \
  static inline void tflite_fuse_##form##_all_1(tflite_fuse_conv_run* run) { TFLITE_FUSE_EMULATED_ALL(run, 1, bits); } \
  static inline void tflite_fuse_##form##_all_2(tflite_fuse_conv_run* run) { TFLITE_FUSE_EMULATED_ALL(run, 2, bits); } \
  static inline void tflite_fuse_##form##_all_4(tflite_fuse_conv_run* run) {                                           \
    tflite_fuse_conv_run copy_ = *run, *r_ = &copy_;                                                                   \
    TFLITE_FUSE_EMULATED_ALL(r_, 4, bits);                                                                             \
  }                                                                                                                    \
  static inline void tflite_fuse_##form##_part_1(tflite_fuse_conv_run* run) {                                          \
    TFLITE_FUSE_EMULATED_PART(run, 1, bits);                                                                           \
  }                                                                                                                    \
  static inline void tflite_fuse_##form##_part_2(tflite_fuse_conv_run* run) {                                          \
    TFLITE_FUSE_EMULATED_PART(run, 2, bits);                                                                           \
  }

/* The loop of depthwise windows of 3 x 3, tap by tap. */
static inline int32_t emulated_window(const int8_t* const* pixels, const int8_t* weights, int32_t channel, int32_t pixel) {
  static const uint8_t last[] = {8, 10, 9, 11};
  int32_t sum = 0;
  for (int32_t kx = 0; kx < 3; ++kx) {
    const int32_t column = pixel + kx;
    const int8_t* upper = weights + kx / 2 * 4 + kx % 2;
    sum += pixels[2 * column][channel] * upper[0] + pixels[2 * column + 1][channel] * upper[2];
    sum += pixels[last[column]][channel] * weights[8 + kx];
  }
  return sum;
}

#define TFLITE_FUSE_EMULATED_DEPTHWISE()                                                                              \
  static inline void tflite_fuse_depthwise_3_1(const tflite_fuse_depthwise_run* run) {                                \
    for (int32_t c_ = 0; c_ < 2 * ((run->entry_end - run->entry) / 2); ++c_) {                                        \
      const int32_t channel_ = run->channel + c_;                                                                     \
      for (int32_t p_ = 1; p_ >= 0; --p_) {                                                                           \
        const int32_t sum_ =                                                                                          \
            emulated_sum(run->entry[c_].bias, emulated_window(run->pixels, run->weights + 12 * c_, channel_, p_));    \
        run->outputs[p_][channel_] = emulated_finish(sum_, (int32_t)((uint32_t)sum_ << 1), run->entry[c_].multiplier, \
                                                     run->entry[c_].shift, run->zero_point_half);                     \
      }                                                                                                               \
    }                                                                                                                 \
  }

static inline uint32_t* tflite_fuse_int8_widen_4(uint32_t* wide, const int8_t* const* pixels, int32_t to_next,
                                                 int32_t count) {
  for (int32_t i = 0; i < count; i += 4, wide += 8) {
    for (int32_t p = 0; p < 4; ++p) {
      uint32_t word;
      memcpy(&word, pixels[p * to_next] + i, sizeof(word));
      wide[p] = tflite_fuse_even(word);
      wide[p + 4] = tflite_fuse_odd(word);
    }
  }
  return wide;
}
