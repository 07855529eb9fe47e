/* Inputs outside the tensor arena: whole tensors in the application's memory, and sources of pixels.
 *
 * A model rewritten for an external or a streamed input has no input tensor. It reads one of these instead:
 *
 *     static int read_camera(void* camera, int y, int x, int count, void* destination, size_t capacity) { ... }
 *     static const tflite_fuse_source sources[] = {{read_camera, &camera, 96, 96, 3, TFLITE_FUSE_INT8}};
 *     static const tflite_fuse_outside outside = {TFLITE_FUSE_OUTSIDE_MARK_2, 0, 0, 0, 1, sources};
 *
 * Pass it in C to tflite_fuse_run, in TensorFlow Lite Micro to interpreter.SetMicroExternalContext or
 * tflite_fuse_set_outside.
 */
#ifndef TFLITE_FUSE_OUTSIDE_H_
#define TFLITE_FUSE_OUTSIDE_H_

#include "tflite_fuse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most inputs, and most outputs, of a block in a runtime: their addresses are kept on the stack. */
#ifndef TFLITE_FUSE_MAX_OPERANDS
#define TFLITE_FUSE_MAX_OPERANDS 16
#endif

/* Mark of this layout. Applications for version 0.1, whose sources had no extents, have another one and are refused. */
#define TFLITE_FUSE_OUTSIDE_MARK_2 UINT32_C(0x54464F32)

/* Entry i of an array serves operand i of every block: `tflite-fuse inspect` shows the model's input of each number.
 * Sizes of externals are those of the whole tensor, in bytes; sources have height, width, channels and type: a block
 * that reads another size or image is refused. Arrays without entries may be NULL. */
typedef struct {
  uint32_t mark; /* TFLITE_FUSE_OUTSIDE_MARK_2: other code may use a runtime's external context, too */
  int32_t external_count;
  const void* const* externals;
  const size_t* external_bytes;
  int32_t source_count;
  const tflite_fuse_source* sources;
} tflite_fuse_outside;

/* Returns whether all inputs of a block outside the arena exist, in the right size. `outside` may be NULL. Numbers that
 * the block does not read (of 0 bytes) belong to other blocks of the model. */
static inline int tflite_fuse_outside_serves(const tflite_fuse_outside* outside, const tflite_fuse_block* block) {
  const int32_t externals = tflite_fuse_operand_count(block, TFLITE_FUSE_EXTERNAL);
  const int32_t sources = tflite_fuse_operand_count(block, TFLITE_FUSE_SOURCE);
  int32_t number;
  if (externals == 0 && sources == 0) {
    return 1;
  }
  if (outside == NULL || outside->mark != TFLITE_FUSE_OUTSIDE_MARK_2 || outside->external_count < externals ||
      outside->source_count < sources) {
    return 0;
  }
  for (number = 0; number < externals; ++number) {
    const int32_t bytes = tflite_fuse_operand_bytes(block, TFLITE_FUSE_EXTERNAL, number);
    if (bytes != 0 && (outside->externals[number] == NULL || outside->external_bytes[number] != (size_t)bytes)) {
      return 0;
    }
  }
  for (number = 0; number < sources; ++number) {
    if (!tflite_fuse_source_fits(block, number, &outside->sources[number])) {
      return 0;
    }
  }
  return 1;
}

#ifdef __cplusplus
}
#endif

#endif
