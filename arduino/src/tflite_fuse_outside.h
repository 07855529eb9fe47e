/* Declares memory outside the tensor arena: whole tensors of the application, sources of pixels, a second memory.
 *
 * A model rewritten for an external or a streamed input has no input tensor. It reads one of these instead:
 *
 *     static int read_camera(void* camera, int y, int x, int count, void* destination, size_t capacity) { ... }
 *     static const tflite_fuse_source sources[] = {{read_camera, &camera, 96, 96, 3, TFLITE_FUSE_INT8}};
 *     static const tflite_fuse_outside outside = {TFLITE_FUSE_OUTSIDE_MARK_2, 0, 0, 0, 1, sources, 0, 0};
 *
 * A model that was rewritten with --memory keeps tensors between its blocks in a second, slower memory of
 * `memory_bytes` bytes (MODEL_MEMORY_BYTES in exports). TensorFlow Lite Micro needs it before AllocateTensors; without
 * it these tensors lie in the arena, which must be larger then.
 *
 * Pass it in C to tflite_fuse_run, in TensorFlow Lite Micro to interpreter.SetMicroExternalContext or
 * tflite_fuse_set_outside. */
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
  void* memory; /* aligned to 16; NULL for none */
  size_t memory_bytes;
} tflite_fuse_outside;

/* Returns the address of an input or output of a block in the second memory; NULL if it lies in the arena, because the
 * model places it there or the application has no second memory. */
static inline void* tflite_fuse_second_memory(const tflite_fuse_outside* outside, const tflite_fuse_block* block,
                                              tflite_fuse_operand operand, int32_t number) {
  const int32_t place = tflite_fuse_operand_place(block, operand, number);
  return place < 0 || outside == NULL || outside->memory == NULL ? NULL : (uint8_t*)outside->memory + place;
}

/* Returns whether a second memory, if there is one, holds all tensors that a block has there. */
static inline int tflite_fuse_memory_holds(const tflite_fuse_outside* outside, const tflite_fuse_block* block) {
  int32_t kind, number;
  if (outside == NULL || outside->memory == NULL) {
    return 1;
  }
  for (kind = TFLITE_FUSE_INPUT; kind <= TFLITE_FUSE_OUTPUT; ++kind) {
    const int32_t count = tflite_fuse_operand_count(block, (tflite_fuse_operand)kind);
    for (number = 0; number < count; ++number) {
      const int32_t place = tflite_fuse_operand_place(block, (tflite_fuse_operand)kind, number);
      const int32_t bytes = tflite_fuse_operand_bytes(block, (tflite_fuse_operand)kind, number);
      if (place >= 0 &&
          ((uintptr_t)outside->memory % 16 != 0 || (size_t)place + (size_t)bytes > outside->memory_bytes)) {
        return 0;
      }
    }
  }
  return 1;
}

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
