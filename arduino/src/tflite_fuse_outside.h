/* What blocks read from outside the tensor arena: whole tensors in memory of yours, and sources of pixels.
 *
 * A model that was rewritten for an external or a streamed input has no input tensor. Hand it one of these instead:
 *
 *     static int read_camera(void* camera, int y, int x, int count, void* destination, size_t capacity) { ... }
 *     static const tflite_fuse_source sources[] = {{read_camera, &camera, 96, 96, 3, TFLITE_FUSE_INT8}};
 *     static const tflite_fuse_outside outside = {TFLITE_FUSE_OUTSIDE_MARK_2, 0, 0, 0, 1, sources};
 *
 * In C to tflite_fuse_run, in TensorFlow Lite Micro to interpreter.SetMicroExternalContext or tflite_fuse_set_outside.
 */
#ifndef TFLITE_FUSE_OUTSIDE_H_
#define TFLITE_FUSE_OUTSIDE_H_

#include "tflite_fuse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Inputs, and outputs, that one block can have in a runtime: their addresses are gathered on the stack. */
#ifndef TFLITE_FUSE_MAX_OPERANDS
#define TFLITE_FUSE_MAX_OPERANDS 16
#endif

/* Of this layout. Applications for version 0.1, whose sources told no geometry, have another one and are refused. */
#define TFLITE_FUSE_OUTSIDE_MARK_2 UINT32_C(0x54464F32)

/* Entry i of an array serves operand i of every block: `tflite-fuse inspect` shows which input of the model that is.
 * Sizes of externals are those of the whole tensor, in bytes, sources tell height, width, channels and type: a block that
 * would read another one is refused. Arrays without entries may be NULL. */
typedef struct {
  uint32_t mark; /* TFLITE_FUSE_OUTSIDE_MARK_2: other code of yours may use a runtime's external context, too */
  int32_t external_count;
  const void* const* externals;
  const size_t* external_bytes;
  int32_t source_count;
  const tflite_fuse_source* sources;
} tflite_fuse_outside;

/* Whether all that a block reads from outside is there, in the right size. `outside` may be NULL. Numbers the block does
 * not read (of 0 bytes) belong to other blocks of the model. */
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
