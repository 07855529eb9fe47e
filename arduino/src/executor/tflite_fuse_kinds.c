/* Lists all kinds of stages: a row for each, with its number in the schema and the entry that its kernel's
 * file defines. */
#include "tflite_fuse_kinds.h"

#define TFLITE_FUSE_KINDS(row)                \
  row(CONV, conv)                             \
  row(DEPTHWISE, depthwise)                   \
  row(ADD, add)                               \
  row(PAD, pad)                               \
  row(AVERAGE_POOL, average_pool)             \
  row(MAX_POOL, max_pool)                     \
  row(GLOBAL_AVERAGE, global_average)         \
  row(FULLY_CONNECTED, fully_connected)       \
  row(CONCATENATION, concatenation)           \
  row(SOURCE, source)                         \
  row(LOOKUP, lookup)                         \
  row(MULTIPLY, multiply)                     \
  row(SQUARED_DIFFERENCE, squared_difference) \
  row(CHANNELS, channels)                     \
  row(SCALE, scale)                           \
  row(OFFSET, offset)                         \
  row(RESIZE, resize)                         \
  row(TRANSPOSE_CONV, transpose_conv)         \
  row(QUANTIZE, quantize)                     \
  row(DEQUANTIZE, dequantize)                 \
  row(MAXIMUM, maximum)                       \
  row(MINIMUM, minimum)                       \
  row(STATE, state)                           \
  row(REAL_PAIR, real_pair)                   \
  row(SPACE_TO_DEPTH, space_to_depth)         \
  row(DEPTH_TO_SPACE, depth_to_space)         \
  row(SOFTMAX, softmax)                       \
  row(LSTM, lstm)                             \
  row(GLOBAL_MAX, global_max)                 \
  row(CHANNEL_MAX, channel_max)               \
  row(ARG_MAX, arg_max)                       \
  row(MATRIX_PRODUCT, matrix_product)         \
  row(TRANSPOSE, transpose)

/* Kinds on float32. Define TFLITE_FUSE_NO_FLOATS for the library's sources on cores without instructions or functions
 * for floats. */
#define TFLITE_FUSE_KINDS_OF_FLOATS(row)            \
  row(FLOAT_CONV, float_conv)                       \
  row(FLOAT_DEPTHWISE, float_depthwise)             \
  row(FLOAT_FULLY_CONNECTED, float_fully_connected) \
  row(FLOAT_AVERAGE_POOL, float_average_pool)       \
  row(FLOAT_MAX_POOL, float_max_pool)               \
  row(FLOAT_GLOBAL_AVERAGE, float_global_average)   \
  row(FLOAT_PAIR, float_pair)                       \
  row(FLOAT_BY_CHANNEL, float_by_channel)           \
  row(FLOAT_CURVE, float_curve)                     \
  row(FLOAT_LIBRARY_CURVE, float_library_curve)     \
  row(FLOAT_SOFTMAX, float_softmax)                 \
  row(FLOAT_RESIZE, float_resize)                   \
  row(FLOAT_GLOBAL_REDUCE, float_global_reduce)     \
  row(FLOAT_CHANNEL_REDUCE, float_channel_reduce)   \
  row(FLOAT_TRANSPOSE_CONV, float_transpose_conv)   \
  row(FLOAT_ARG_MAX, float_arg_max)                 \
  row(FLOAT_MATRIX_PRODUCT, float_matrix_product)

#if defined(TFLITE_FUSE_NO_FLOATS)
#undef TFLITE_FUSE_KINDS_OF_FLOATS
#define TFLITE_FUSE_KINDS_OF_FLOATS(row)
#endif

/* Kinds that only devices of a split have: their file is linked with a worker. */
#define TFLITE_FUSE_KINDS_OF_SPLITS(row) \
  row(CONV_SUMS, conv_sums)              \
  row(ADD_SUMS, add_sums)

#define TFLITE_FUSE_DECLARE(NAME, name) extern TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_##name;
#define TFLITE_FUSE_DECLARE_WEAK(NAME, name) \
  extern TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_##name __attribute__((weak));
#define TFLITE_FUSE_ROW(NAME, name) [TFLITE_FUSE_KIND_##NAME] = &tflite_fuse_kind_##name,

TFLITE_FUSE_KINDS(TFLITE_FUSE_DECLARE)
TFLITE_FUSE_KINDS_OF_FLOATS(TFLITE_FUSE_DECLARE)
#if defined(__ELF__)
TFLITE_FUSE_KINDS_OF_SPLITS(TFLITE_FUSE_DECLARE_WEAK)
#else /* without weak symbols */
#undef TFLITE_FUSE_KINDS_OF_SPLITS
#define TFLITE_FUSE_KINDS_OF_SPLITS(row)
#endif

/* A source computes nothing. */
TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_source = {0};

const tflite_fuse_entry* const tflite_fuse_kinds[] = {TFLITE_FUSE_KINDS(TFLITE_FUSE_ROW) TFLITE_FUSE_KINDS_OF_FLOATS(
    TFLITE_FUSE_ROW) TFLITE_FUSE_KINDS_OF_SPLITS(TFLITE_FUSE_ROW)};

const tflite_fuse_entry* tflite_fuse_find_kind(int32_t kind) {
  const size_t count = sizeof(tflite_fuse_kinds) / sizeof(tflite_fuse_kinds[0]);
  return kind >= 0 && (size_t)kind < count ? tflite_fuse_kinds[kind] : NULL;
}

TFLITE_FUSE_RARE tflite_fuse_kernel tflite_fuse_kernel_of(int32_t kind) {
  const tflite_fuse_entry* entry = tflite_fuse_find_kind(kind);
  return entry == NULL ? NULL : entry->compute;
}
