/* Computes ADD, SUB, MUL or DIV of two int8 tensors in float32, value by value, and quantizes the result.
 *
 * Tables give the float32 value of each int8 value. The operation is emulated in integers: rounded to nearest, halves
 * to even, with subnormal numbers, on every core and with any compiler flags. */
#include <string.h>

#include "../tflite_fuse_steps.h"

enum { ADD, SUB, MUL, DIV, OPERATIONS };
enum { MANTISSA_BITS = 23, LEAST_EXPONENT = -149 };
#define TFLITE_FUSE_INFINITE UINT32_C(0x7F800000)
#define TFLITE_FUSE_NO_NUMBER UINT32_C(0x7FC00000)
#define TFLITE_FUSE_SIGN UINT32_C(0x80000000)

typedef struct {
  tflite_fuse_steps quantize;
  uint32_t first[256]; /* bits of finite float32 numbers */
  uint32_t second[256];
  int32_t operation;
} real_pair_table;

/* A number mantissa * 2^exponent; the mantissa has 24 bits unless it is 0. */
typedef struct {
  uint32_t mantissa;
  int32_t exponent;
} number;

static number unpack(uint32_t bits) {
  const int32_t field = (int32_t)(bits >> MANTISSA_BITS & 0xFF);
  number n = {bits & 0x7FFFFF, LEAST_EXPONENT};
  if (field > 0) {
    n.mantissa |= UINT32_C(1) << MANTISSA_BITS;
    n.exponent += field - 1;
  }
  while (n.mantissa != 0 && n.mantissa >> MANTISSA_BITS == 0) {
    n.mantissa <<= 1;
    --n.exponent;
  }
  return n;
}

/* Rounds mantissa * 2^exponent to float32; the mantissa has at most 63 bits. If it has 26 or more, its lowest bit may
 * stand for any further nonzero bits. */
static uint32_t pack(uint32_t sign, uint64_t mantissa, int32_t exponent) {
  int32_t length = 0;
  for (uint64_t bits = mantissa; bits != 0; bits >>= 1) {
    ++length;
  }
  int32_t lowest = exponent + length - 1 - MANTISSA_BITS;
  lowest = lowest < LEAST_EXPONENT ? LEAST_EXPONENT : lowest;
  const int32_t shift = lowest - exponent;
  if (length == 0 || shift > length) {
    return sign;
  }
  if (shift > 0) {
    const uint64_t unit = UINT64_C(1) << (shift - 1), rest = (mantissa & (unit | (unit - 1)));
    mantissa >>= shift;
    mantissa += rest > unit || (rest == unit && (mantissa & 1) != 0);
  } else {
    mantissa <<= -shift;
  }
  if (lowest > 104) {
    return sign | TFLITE_FUSE_INFINITE;
  }
  const uint32_t bits = ((uint32_t)(lowest - LEAST_EXPONENT) << MANTISSA_BITS) + (uint32_t)mantissa;
  return sign | (bits < TFLITE_FUSE_INFINITE ? bits : TFLITE_FUSE_INFINITE);
}

static uint32_t multiplied(uint32_t a, uint32_t b) {
  const number x = unpack(a), y = unpack(b);
  return pack((a ^ b) & TFLITE_FUSE_SIGN, (uint64_t)x.mantissa * y.mantissa, x.exponent + y.exponent);
}

static uint32_t divided(uint32_t a, uint32_t b) {
  const number x = unpack(a), y = unpack(b);
  const uint32_t sign = (a ^ b) & TFLITE_FUSE_SIGN;
  if (y.mantissa == 0) {
    return x.mantissa == 0 ? TFLITE_FUSE_NO_NUMBER : sign | TFLITE_FUSE_INFINITE;
  }
  /* Divides bit by bit, because not every core's library has a 64-bit division. */
  uint64_t quotient = 0;
  uint32_t rest = 0;
  for (int32_t bit = 32 + MANTISSA_BITS; bit >= 0; --bit) {
    rest = rest << 1 | (bit < 32 ? 0 : x.mantissa >> (bit - 32) & 1);
    quotient <<= 1;
    if (rest >= y.mantissa) {
      rest -= y.mantissa;
      quotient |= 1;
    }
  }
  return pack(sign, quotient << 1 | (rest != 0), x.exponent - y.exponent - 33);
}

static uint32_t added(uint32_t a, uint32_t b) {
  enum { FAR = 38 };
  number x = unpack(a), y = unpack(b);
  if (x.mantissa == 0 || y.mantissa == 0) {
    return y.mantissa == 0 ? a : b;
  }
  if (x.exponent < y.exponent) {
    const number other = x;
    const uint32_t bits = a;
    x = y, y = other;
    a = b, b = bits;
  }
  int32_t apart = x.exponent - y.exponent;
  if (apart > FAR) { /* the smaller number only affects rounding: any nonzero value gives the same sum */
    apart = FAR;
    y.mantissa = 1;
  }
  const uint64_t large = (uint64_t)x.mantissa << apart;
  if (((a ^ b) & TFLITE_FUSE_SIGN) == 0) {
    return pack(a & TFLITE_FUSE_SIGN, large + y.mantissa, x.exponent - apart);
  }
  return large >= y.mantissa ? pack(a & TFLITE_FUSE_SIGN, large - y.mantissa, x.exponent - apart)
                             : pack(b & TFLITE_FUSE_SIGN, y.mantissa - large, x.exponent - apart);
}

static uint32_t result_of(int32_t operation, uint32_t a, uint32_t b) {
  switch (operation) {
    case MUL:
      return multiplied(a, b);
    case DIV:
      return divided(a, b);
    default:
      return added(a, operation == SUB ? b ^ TFLITE_FUSE_SIGN : b);
  }
}

static TFLITE_FUSE_RARE void real_pair(const tflite_fuse_call* call) {
  const real_pair_table* table = call->table;
  const int32_t channels = call->output->channels;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t *first = call->windows[0][i], *second = call->windows[1][i];
    int8_t* output = call->outputs[i];
    for (int32_t c = 0; c < channels; ++c) {
      const uint32_t bits =
          result_of(table->operation, table->first[first[c] - INT8_MIN], table->second[second[c] - INT8_MIN]);
      output[c] = tflite_fuse_quantize_key(&table->quantize, tflite_fuse_key_of(bits));
    }
  }
}

static TFLITE_FUSE_RARE bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                            const void* table, int64_t room) {
  (void)stage, (void)output;
  const real_pair_table* parameters = table;
  return room >= (int64_t)sizeof(real_pair_table) && within(parameters->quantize.otherwise, INT8_MIN, INT8_MAX) &&
         within(parameters->operation, ADD, OPERATIONS - 1);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_real_pair = {
    .min_inputs = 2,
    .max_inputs = 2,
    .operands = 2,
    .keeps_channels = true,
    .keeps_extent = true,
    .table_is_sound = table_is_sound,
    .compute = real_pair,
};
