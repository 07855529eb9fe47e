/* Computes the larger or the smaller of the values of two int8 tensors. */
#include "../../executor/tflite_fuse_machine.h"

/* Returns the larger of each pair of bytes of two words; the smaller if all bits of `flip` are set. Top bits of the
 * bytes stop carries from one byte into the next. */
static uint32_t larger_of_four(uint32_t a, uint32_t b, uint32_t flip) {
  const uint32_t tops = UINT32_C(0x80808080);
  const uint32_t low = (a | tops) - (b & ~tops);                     /* top bit: low 7 bits of a >= those of b */
  const uint32_t is_a = ((~a & b) | (~(a ^ b) & low)) & tops;        /* top bit: a >= b, as int8 */
  const uint32_t mask = (is_a | (is_a - (is_a >> 7))) ^ flip;
  return b ^ ((a ^ b) & mask);
}

/* Writes the larger values; if all bits of `flip` are set, which reverses the order, the smaller ones. */
static void extreme(const tflite_fuse_call* call, int32_t flip) {
  const int32_t low = call->stage->activation_min, high = call->stage->activation_max;
  const bool clamps = low > INT8_MIN || high < INT8_MAX;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* a = call->windows[0][i];
    const int8_t* b = call->windows[1][i];
    int8_t* output = call->outputs[i];
    const int8_t* const end = a + call->output->channels;
    if (!clamps && ((uintptr_t)a | (uintptr_t)b | (uintptr_t)output) % sizeof(uint32_t) == 0) {
      for (; end - a >= 4; a += 4, b += 4, output += 4) {
        *(uint32_t*)(void*)output =
            larger_of_four(*(const uint32_t*)(const void*)a, *(const uint32_t*)(const void*)b, (uint32_t)flip);
      }
    }
    for (; a != end; ++a, ++b, ++output) {
      const int32_t value = tflite_fuse_max(*a ^ flip, *b ^ flip) ^ flip;
      *output = (int8_t)tflite_fuse_max(low, tflite_fuse_min(high, value));
    }
  }
}

static void maximum(const tflite_fuse_call* call) { extreme(call, 0); }
static void minimum(const tflite_fuse_call* call) { extreme(call, -1); }

#define TFLITE_FUSE_ENTRY(name)                                          \
  TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_##name = { \
      .min_inputs = 2,                                                   \
      .max_inputs = 2,                                                   \
      .operands = 2,                                                     \
      .keeps_channels = true,                                            \
      .keeps_extent = true,                                              \
      .compute = name,                                                   \
  }

TFLITE_FUSE_ENTRY(maximum);
TFLITE_FUSE_ENTRY(minimum);
