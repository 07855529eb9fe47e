/* Checks stages on float32: sizes of constants, alignment of operands, and a library that rounds products. */
#include "tflite_fuse_floats.h"

/* Returns whether the library was compiled so that every product and sum is rounded, in the order of the source. */
static TFLITE_FUSE_RARE bool rounds_each(void) {
#if defined(__FAST_MATH__)
  return false;
#else
  volatile float a = 1.000244140625F; /* 1 + 2^-12: its square, 1 + 2^-11 + 2^-24, is not a float32 */
  volatile float sum = -1.00048828125F;
  return tflite_fuse_add_product(sum, a, a) == 0.0F;
#endif
}

/* Returns whether a tensor's memory is aligned to float32. Rings always are; whole tensors lie where the file says,
 * which may be hostile. */
static TFLITE_FUSE_RARE bool is_aligned(const tflite_fuse_io* io, const tflite_fuse_tensor* tensor) {
  return tensor->storage == TFLITE_FUSE_STORAGE_SCRATCH ||
         (uintptr_t)tflite_fuse_memory_of(io, tensor) % sizeof(float) == 0;
}

TFLITE_FUSE_RARE tflite_fuse_status tflite_fuse_floats_are_ready(const tflite_fuse_block* block,
                                                                const tflite_fuse_stage* stage,
                                                                const tflite_fuse_io* io, bool is_done) {
  if (is_done) {
    return TFLITE_FUSE_OK;
  }
  bool are_aligned = is_aligned(io, &block->tensors[stage->output]);
  for (int32_t i = 0; i < stage->input_count; ++i) {
    are_aligned &= is_aligned(io, tflite_fuse_input_of(block, stage, i));
  }
  const bool is_exact = rounds_each() && (!tflite_fuse_is_float16(stage) || tflite_fuse_widens_float16());
  return !are_aligned ? TFLITE_FUSE_BAD_MEMORY : is_exact ? TFLITE_FUSE_OK : TFLITE_FUSE_CONTRACTED;
}

TFLITE_FUSE_RARE int64_t tflite_fuse_float_bytes(int32_t a, int32_t b, int32_t c) {
  const int64_t bytes = 4 * (int64_t)tflite_fuse_volume(a, b, c);
  return bytes > INT32_MAX ? (int64_t)INT32_MAX + 1 : bytes;
}

TFLITE_FUSE_RARE int64_t tflite_fuse_float_conv_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                                      const tflite_fuse_tensor* output) {
  const int32_t taps = stage->kernel_height * stage->kernel_width;
  return is_packed(stage) ? -1 : tflite_fuse_float_bytes(taps, input->channels, output->channels);
}

TFLITE_FUSE_RARE bool tflite_fuse_float_table_is_sound(const tflite_fuse_stage* stage,
                                                       const tflite_fuse_tensor* output, const void* table,
                                                       int64_t room) {
  (void)table;
  return stage->weights_offset % 4 == 0 && room >= (int64_t)sizeof(tflite_fuse_bounds) + 4 * (int64_t)output->channels;
}

TFLITE_FUSE_RARE bool tflite_fuse_bounds_are_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                                   const void* table, int64_t room) {
  (void)stage, (void)output, (void)table;
  return room >= (int64_t)sizeof(tflite_fuse_bounds);
}
