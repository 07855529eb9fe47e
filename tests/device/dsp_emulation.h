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

#define TFLITE_FUSE_LOAD_1(word, from, step)                  \
  do {                                                        \
    uint32_t loaded_;                                         \
    memcpy(&loaded_, from, sizeof(loaded_));                  \
    (word) = loaded_;                                         \
    (from) = (const void*)((const char*)(from) + (step));     \
  } while (0)

/* The loops of the convolution. Words are read through pointers: sanitizers check that their addresses are multiples of
 * 4, as the instructions want them. `start` says how many quads there are, so that it is checked, too. */
#define TFLITE_FUSE_START_2X2(quads) (quads)
#define TFLITE_FUSE_START_2X1(quads) (quads)
#define TFLITE_FUSE_START_4X1(quads) (quads)

static inline void emulated_quad(int32_t* sum, const uint32_t* wide, uint32_t weights) {
  *sum = tflite_fuse_mac_pair(*sum, wide[0], tflite_fuse_even(weights));
  *sum = tflite_fuse_mac_pair(*sum, wide[1], tflite_fuse_odd(weights));
}

#define TFLITE_FUSE_MAC_2X2(a0, a1, b0, b1, wide, weights, start, end)               \
  do {                                                                               \
    for (uint32_t i_ = 0; i_ < (start); ++i_, (wide) += 4, (weights) += 8) {         \
      const uint32_t* w_ = (const uint32_t*)(const void*)(weights);                  \
      emulated_quad(&(a0), wide, w_[0]);                                             \
      emulated_quad(&(a1), (wide) + 2, w_[0]);                                       \
      emulated_quad(&(b0), wide, w_[1]);                                             \
      emulated_quad(&(b1), (wide) + 2, w_[1]);                                       \
    }                                                                                \
    if ((wide) != (end)) {                                                           \
      __builtin_trap();                                                              \
    }                                                                                \
  } while (0)

typedef struct {
  int8_t* output;
  const void* entry;
  int32_t zero_point_half, to_next;
  const uint32_t* wide;
  uint32_t start;
  int32_t back, toggle;
  const uint32_t* wide_end;
  const void* entry_end;
  const int8_t* weights;
} tflite_fuse_four;

static inline void tflite_fuse_all_4x1(tflite_fuse_four* four) {
  const int8_t* weights = four->weights;
  for (const int32_t* entry = four->entry; entry != four->entry_end; entry += 3) {
    const uint32_t* wide = four->wide;
    int32_t sums[] = {entry[0], entry[0], entry[0], entry[0]};
    for (uint32_t i = 0; i < four->start; ++i, wide += 8, weights += 8) {
      for (int p = 0; p < 4; ++p) {
        emulated_quad(&sums[p], wide + 2 * p, *(const uint32_t*)(const void*)weights);
      }
    }
    if (wide != four->wide_end) {
      __builtin_trap();
    }
    weights -= four->back;
    four->back ^= four->toggle;
    for (int p = 0; p < 4; ++p) {
      const int32_t twice = (int32_t)((uint32_t)sums[p] << 1);
      const int32_t half = (int32_t)((uint32_t)four->zero_point_half << entry[2]);
      const int32_t high = tflite_fuse_mac_top(emulated_sum(half, sums[p] >> 31), twice, entry[1]);
      four->output[p * four->to_next] = tflite_fuse_halve_to_int8(high >> entry[2]);
    }
    ++four->output;
  }
}

#define TFLITE_FUSE_MAC_2X1(a, b, wide, weights, start, end)                         \
  do {                                                                               \
    for (uint32_t i_ = 0; i_ < (start); ++i_, (wide) += 2, (weights) += 8) {         \
      const uint32_t* w_ = (const uint32_t*)(const void*)(weights);                  \
      emulated_quad(&(a), wide, w_[0]);                                              \
      emulated_quad(&(b), wide, w_[1]);                                              \
    }                                                                                \
    if ((wide) != (end)) {                                                           \
      __builtin_trap();                                                              \
    }                                                                                \
  } while (0)

#define TFLITE_FUSE_LOAD_COLUMN_2(pair, pixels, index, channel) \
  ((pair) = emulated_pair((pixels)[index][channel], (pixels)[(index) + 1][channel]))

#define TFLITE_FUSE_LOAD_COLUMN_1(value, pixels, index, channel) ((value) = (uint32_t)(int32_t)(pixels)[index][channel])

static inline uint32_t emulated_halves(const int8_t* upper, const int8_t* lower) {
  return (uint32_t)(uint8_t)upper[0] | (uint32_t)(uint8_t)upper[1] << 8 | (uint32_t)(uint8_t)lower[0] << 16 |
         (uint32_t)(uint8_t)lower[1] << 24;
}

#define TFLITE_FUSE_LOAD_HALVES_2(bytes, pixels, index, channel) \
  ((bytes) = emulated_halves((pixels)[index] + (channel), (pixels)[(index) + 1] + (channel)))

#define TFLITE_FUSE_LOAD_HALVES_1(bytes, pixels, index, channel) \
  ((bytes) = emulated_halves((pixels)[index] + (channel), (pixels)[index] + (channel)) & 0xFFFF)

/* The loops over weights of 16 bits; `start` is the number of quads. */
#define TFLITE_FUSE_START_INT16_2(quads) (quads)
#define TFLITE_FUSE_START_INT16_1(quads) (quads)

static inline void emulated_int16(tflite_fuse_int16_run* run, int32_t* sums, int32_t pixels) {
  const uint32_t *wide = run->wide, *weights = (const uint32_t*)(const void*)run->weights;
  for (uint32_t i = 0; i < run->start; ++i, wide += 2 * pixels, weights += 4) {
    for (int32_t k = 0; k < 2 * pixels; ++k) {
      const uint32_t *values = wide + k % pixels * 2, *pair = weights + k / pixels * 2;
      sums[k] = tflite_fuse_mac_pair(tflite_fuse_mac_pair(sums[k], values[0], pair[0]), values[1], pair[1]);
    }
  }
  if (wide != run->wide_end) {
    __builtin_trap();
  }
  run->weights = (const int8_t*)weights;
}

static inline void emulated_int16_all(tflite_fuse_int16_run* run, int32_t pixels) {
  const int32_t* entry = run->entry;
  for (; entry != run->entry_end; entry += 6) {
    int32_t sums[4];
    for (int32_t k = 0; k < 2 * pixels; ++k) {
      sums[k] = entry[k / pixels * 3];
    }
    emulated_int16(run, sums, pixels);
    for (int32_t k = 0; k < 2 * pixels; ++k) {
      const int32_t *scale = entry + k / pixels * 3, p = k % pixels;
      const int32_t half = (int32_t)((uint32_t)run->zero_point_half << scale[2]);
      const int32_t high = tflite_fuse_mac_top(emulated_sum(half, sums[k] >> 31), sums[k], scale[1]);
      *run->outputs[p]++ = tflite_fuse_halve_to_int8(high >> scale[2]);
    }
  }
  run->entry = entry;
}

static inline void emulated_int16_part(tflite_fuse_int16_run* run, int32_t pixels) {
  for (; run->sums != run->sums_end; run->sums += 2 * pixels) {
    emulated_int16(run, run->sums, pixels);
    run->weights += run->skip;
  }
}

#define tflite_fuse_int16_all_2(run) emulated_int16_all(run, 2)
#define tflite_fuse_int16_all_1(run) emulated_int16_all(run, 1)
#define tflite_fuse_int16_part_2(run) emulated_int16_part(run, 2)
#define tflite_fuse_int16_part_1(run) emulated_int16_part(run, 1)
