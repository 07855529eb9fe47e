/* The types and functions of arm_mve.h that tflite-fuse uses, in portable C, so that kernels written for Helium run on
 * any machine and under its sanitizers. */
#include <stdint.h>

typedef int8_t int8x16_t __attribute__((vector_size(16)));
typedef uint8_t uint8x16_t __attribute__((vector_size(16)));
typedef int16_t int16x8_t __attribute__((vector_size(16)));
typedef uint16_t uint16x8_t __attribute__((vector_size(16)));
typedef int32_t int32x4_t __attribute__((vector_size(16)));
typedef uint32_t uint32x4_t __attribute__((vector_size(16)));
typedef uint16_t mve_pred16_t; /* one bit per byte */
typedef struct {
  int32x4_t val[2];
} int32x4x2_t;

/* A function whose result's lanes are `value` for i = 0, 1... */
#define EMULATE(type, lanes, name, arguments, value) \
  static inline type name arguments {                \
    type result;                                     \
    for (int i = 0; i < (lanes); ++i) {              \
      result[i] = value;                             \
    }                                                \
    return result;                                   \
  }

/* ---- Predicates ---- */

static inline mve_pred16_t emulated_tail(uint32_t bytes) {
  return (mve_pred16_t)(bytes >= 16 ? 0xFFFFu : (1u << bytes) - 1u);
}
static inline mve_pred16_t vctp8q(uint32_t lanes) { return emulated_tail(lanes); }
static inline mve_pred16_t vctp16q(uint32_t lanes) { return emulated_tail(lanes < 8 ? 2 * lanes : 16); }
static inline mve_pred16_t vctp32q(uint32_t lanes) { return emulated_tail(lanes < 4 ? 4 * lanes : 16); }

/* ---- Constants ---- */

EMULATE(int32x4_t, 4, vdupq_n_s32, (int32_t a), a)
EMULATE(uint8x16_t, 16, vdupq_n_u8, (uint8_t a), a)
EMULATE(int16x8_t, 8, vdupq_n_s16, (int16_t a), a)
EMULATE(uint32x4_t, 4, vdupq_n_u32, (uint32_t a), a)
EMULATE(uint16x8_t, 8, vdupq_n_u16, (uint16_t a), a)
EMULATE(uint32x4_t, 4, vidupq_n_u32, (uint32_t a, int step), a + (uint32_t)(i * step))
EMULATE(uint16x8_t, 8, vidupq_n_u16, (uint32_t a, int step), (uint16_t)(a + (uint32_t)(i * step)))

/* ---- Memory: words through pointers, so that sanitizers see addresses that are no multiples of 4 ---- */

EMULATE(int8x16_t, 16, vldrbq_s8, (const int8_t* a), a[i])
EMULATE(int8x16_t, 16, vldrbq_z_s8, (const int8_t* a, mve_pred16_t p), (int8_t)(p >> i & 1 ? a[i] : 0))
EMULATE(uint8x16_t, 16, vldrbq_z_u8, (const uint8_t* a, mve_pred16_t p), (uint8_t)(p >> i & 1 ? a[i] : 0))
EMULATE(uint8x16_t, 16, vldrbq_gather_offset_z_u8, (const uint8_t* a, uint8x16_t b, mve_pred16_t p),
        (uint8_t)(p >> i & 1 ? a[b[i]] : 0))
EMULATE(int32x4_t, 4, vldrbq_s32, (const int8_t* a), a[i])
EMULATE(int32x4_t, 4, vldrbq_z_s32, (const int8_t* a, mve_pred16_t p), p >> 4 * i & 1 ? a[i] : 0)
EMULATE(int16x8_t, 8, vldrbq_s16, (const int8_t* a), a[i])
EMULATE(int16x8_t, 8, vldrhq_s16, (const int16_t* a), a[i])
EMULATE(int16x8_t, 8, vldrbq_z_s16, (const int8_t* a, mve_pred16_t p), (int16_t)(p >> 2 * i & 1 ? a[i] : 0))
EMULATE(int16x8_t, 8, vldrbq_gather_offset_s16, (const int8_t* a, uint16x8_t b), a[b[i]])
EMULATE(int32x4_t, 4, vldrwq_gather_offset_s32, (const int32_t* a, uint32x4_t b),
        *(const int32_t*)(const void*)((const char*)a + b[i]))

static inline int32x4x2_t vld2q_s32(const int32_t* a) {
  const int32x4x2_t result = {{{a[0], a[2], a[4], a[6]}, {a[1], a[3], a[5], a[7]}}};
  return result;
}

static inline void vstrwq_s32(int32_t* to, int32x4_t a) {
  for (int i = 0; i < 4; ++i) {
    to[i] = a[i];
  }
}

static inline void vstrhq_s16(int16_t* to, int16x8_t a) {
  for (int i = 0; i < 8; ++i) {
    to[i] = a[i];
  }
}

static inline void vstrbq_s8(int8_t* to, int8x16_t a) {
  for (int i = 0; i < 16; ++i) {
    to[i] = a[i];
  }
}

static inline void vstrbq_p_u8(uint8_t* to, uint8x16_t a, mve_pred16_t p) {
  for (int i = 0; i < 16; ++i) {
    if (p >> i & 1) {
      to[i] = a[i];
    }
  }
}

static inline void vstrbq_s32(int8_t* to, int32x4_t a) {
  for (int i = 0; i < 4; ++i) {
    to[i] = (int8_t)a[i];
  }
}

static inline void vstrbq_s16(int8_t* to, int16x8_t a) {
  for (int i = 0; i < 8; ++i) {
    to[i] = (int8_t)a[i];
  }
}

static inline void vstrbq_p_s16(int8_t* to, int16x8_t a, mve_pred16_t p) {
  for (int i = 0; i < 8; ++i) {
    if (p >> 2 * i & 1) {
      to[i] = (int8_t)a[i];
    }
  }
}

static inline void vstrbq_p_s32(int8_t* to, int32x4_t a, mve_pred16_t p) {
  for (int i = 0; i < 4; ++i) {
    if (p >> 4 * i & 1) {
      to[i] = (int8_t)a[i];
    }
  }
}

/* ---- Arithmetic; sums wrap ---- */

static inline int32_t emulated_add(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }

static inline int32_t emulated_left(int32_t a, int32_t bits) {
  const int32_t count = (int8_t)bits;
  return count >= 0 ? (count < 32 ? (int32_t)((uint32_t)a << count) : 0) : a >> (count > -32 ? -count : 31);
}

static inline int32_t emulated_rounding_left(int32_t a, int32_t bits) {
  const int32_t count = (int8_t)bits;
  if (count >= 0) {
    return emulated_left(a, count);
  }
  return count < -32 ? 0 : (int32_t)(((int64_t)a + (INT64_C(1) << (-1 - count))) >> -count);
}

static inline int32_t emulated_multiply_high(int32_t a, int32_t b) {
  return a == INT32_MIN && b == INT32_MIN ? INT32_MAX : (int32_t)(((int64_t)a * b + (INT64_C(1) << 30)) >> 31);
}

static inline int16_t emulated_narrow(int32_t a) { return (int16_t)(a < -32768 ? -32768 : a > 32767 ? 32767 : a); }

EMULATE(int16x8_t, 8, vqmovnbq_s32, (int16x8_t a, int32x4_t b), i % 2 == 0 ? emulated_narrow(b[i / 2]) : a[i])
EMULATE(int16x8_t, 8, vqmovntq_s32, (int16x8_t a, int32x4_t b), i % 2 == 1 ? emulated_narrow(b[i / 2]) : a[i])
EMULATE(int16x8_t, 8, vqaddq_n_s16, (int16x8_t a, int16_t b), emulated_narrow((int32_t)a[i] + b))
EMULATE(int16x8_t, 8, vmaxq_s16, (int16x8_t a, int16x8_t b), a[i] > b[i] ? a[i] : b[i])
EMULATE(int16x8_t, 8, vminq_s16, (int16x8_t a, int16x8_t b), a[i] < b[i] ? a[i] : b[i])
EMULATE(int16x8_t, 8, vaddq_s16, (int16x8_t a, int16x8_t b), (int16_t)(a[i] + b[i]))
EMULATE(int32x4_t, 4, vaddq_s32, (int32x4_t a, int32x4_t b), emulated_add(a[i], b[i]))
EMULATE(int32x4_t, 4, vaddq_n_s32, (int32x4_t a, int32_t b), emulated_add(a[i], b))
EMULATE(uint32x4_t, 4, vaddq_n_u32, (uint32x4_t a, uint32_t b), a[i] + b)
EMULATE(int32x4_t, 4, vandq_s32, (int32x4_t a, int32x4_t b), a[i] & b[i])
EMULATE(int32x4_t, 4, vmvnq_s32, (int32x4_t a), ~a[i])
EMULATE(int32x4_t, 4, vmaxq_s32, (int32x4_t a, int32x4_t b), a[i] > b[i] ? a[i] : b[i])
EMULATE(int32x4_t, 4, vminq_s32, (int32x4_t a, int32x4_t b), a[i] < b[i] ? a[i] : b[i])
EMULATE(uint32x4_t, 4, vminq_u32, (uint32x4_t a, uint32x4_t b), a[i] < b[i] ? a[i] : b[i])
EMULATE(uint16x8_t, 8, vminq_u16, (uint16x8_t a, uint16x8_t b), a[i] < b[i] ? a[i] : b[i])
EMULATE(uint32x4_t, 4, vmulq_n_u32, (uint32x4_t a, uint32_t b), a[i] * b)
EMULATE(uint16x8_t, 8, vmulq_n_u16, (uint16x8_t a, uint16_t b), (uint16_t)((uint32_t)a[i] * b))
EMULATE(int32x4_t, 4, vmullbq_int_s16, (int16x8_t a, int16x8_t b), a[2 * i] * b[2 * i])
EMULATE(int32x4_t, 4, vmulltq_int_s16, (int16x8_t a, int16x8_t b), a[2 * i + 1] * b[2 * i + 1])
EMULATE(int32x4_t, 4, vqrdmulhq_s32, (int32x4_t a, int32x4_t b), emulated_multiply_high(a[i], b[i]))
EMULATE(int32x4_t, 4, vqrdmulhq_n_s32, (int32x4_t a, int32_t b), emulated_multiply_high(a[i], b))
EMULATE(int32x4_t, 4, vmlaq_n_s32, (int32x4_t sum, int32x4_t a, int32_t b),
        (int32_t)((uint32_t)sum[i] + (uint32_t)a[i] * (uint32_t)b))
EMULATE(int32x4_t, 4, vshlq_n_s32, (int32x4_t a, int bits), emulated_left(a[i], bits))
EMULATE(int32x4_t, 4, vrshlq_n_s32, (int32x4_t a, int32_t bits), emulated_rounding_left(a[i], bits))
EMULATE(uint8x16_t, 16, veorq_u8, (uint8x16_t a, uint8x16_t b), (uint8_t)(a[i] ^ b[i]))
EMULATE(int32x4_t, 4, veorq_s32, (int32x4_t a, int32x4_t b), a[i] ^ b[i])
EMULATE(uint32x4_t, 4, vshrq_n_u32, (uint32x4_t a, int bits), a[i] >> bits)
EMULATE(int32x4_t, 4, vpselq_s32, (int32x4_t a, int32x4_t b, mve_pred16_t p), p >> 4 * i & 1 ? a[i] : b[i])
EMULATE(uint32x4_t, 4, vpselq_u32, (uint32x4_t a, uint32x4_t b, mve_pred16_t p), p >> 4 * i & 1 ? a[i] : b[i])
EMULATE(int32x4_t, 4, vshrq_n_s32, (int32x4_t a, int bits), a[i] >> bits)
EMULATE(int32x4_t, 4, vshlq_s32, (int32x4_t a, int32x4_t bits), emulated_left(a[i], bits[i]))
EMULATE(int32x4_t, 4, vrshlq_s32, (int32x4_t a, int32x4_t bits), emulated_rounding_left(a[i], bits[i]))

static inline mve_pred16_t vcmpgeq_s32(int32x4_t a, int32x4_t b) {
  uint32_t found = 0;
  for (int i = 0; i < 4; ++i) {
    found |= (a[i] >= b[i] ? 0xFu : 0u) << 4 * i;
  }
  return (mve_pred16_t)found;
}
static inline mve_pred16_t vcmpgeq_n_s32(int32x4_t a, int32_t b) { return vcmpgeq_s32(a, vdupq_n_s32(b)); }

static inline int16x8_t vreinterpretq_s16_s32(int32x4_t a) { return (int16x8_t)a; }
static inline int32x4_t vreinterpretq_s32_s8(int8x16_t a) { return (int32x4_t)a; }
static inline int32x4_t vreinterpretq_s32_u32(uint32x4_t a) { return (int32x4_t)a; }
static inline int8x16_t vreinterpretq_s8_s32(int32x4_t a) { return (int8x16_t)a; }

static inline int32_t vmladavaq_s8(int32_t sum, int8x16_t a, int8x16_t b) {
  for (int i = 0; i < 16; ++i) {
    sum = emulated_add(sum, a[i] * b[i]);
  }
  return sum;
}
