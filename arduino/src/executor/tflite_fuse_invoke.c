/* Runs a prepared block: an attempt and, if it succeeded, the commit of the block's state. */
#include "tflite_fuse_machine.h"

TFLITE_FUSE_RARE tflite_fuse_status tflite_fuse_invoke(const tflite_fuse_block* block, const tflite_fuse_io* io) {
  const tflite_fuse_status status = tflite_fuse_attempt(block, io);
  if (status == TFLITE_FUSE_OK) {
    tflite_fuse_commit(block, io->state);
  }
  return status;
}

/* A runtime resets states with zeros, their content before the first run. So a block that has run before reports the
 * reset to the others, some of which may not have run: TFLM initializes variables once, when a first step begins, even
 * if that step fails. */
static void propagate_reset(tflite_fuse_block* block, const uint32_t* own_mark, uint32_t* last_mark) {
  if (block->zeros_mean_reset && *own_mark == TFLITE_FUSE_NEVER_USED && *last_mark == TFLITE_FUSE_NEVER_USED) {
    *last_mark = TFLITE_FUSE_WAS_RESET;
  }
  if (*last_mark == TFLITE_FUSE_WAS_RESET) {
    block->zeros_mean_reset = 1;
  }
}

TFLITE_FUSE_RARE tflite_fuse_status tflite_fuse_follow(tflite_fuse_block* block, const tflite_fuse_io* io,
                                                       uint32_t* last) {
  uint32_t* const own_mark = io->state;
  uint32_t* const last_mark = last == NULL ? own_mark : last;
  const int32_t bytes = tflite_fuse_state_bytes(block);
  if (own_mark == NULL || ((uintptr_t)own_mark | (uintptr_t)last_mark) % sizeof(uint32_t) != 0) {
    return TFLITE_FUSE_BAD_MEMORY;
  }
  propagate_reset(block, own_mark, last_mark);
  /* A block that follows another keeps the step of its last attempt behind its state. */
  uint32_t* const attempted = own_mark + (size_t)bytes / sizeof(uint32_t);
  const uint32_t steps = *last_mark < TFLITE_FUSE_FILLED ? *last_mark : 0; /* 0: no step since the start or a reset */
  if (last != NULL && *attempted != 0 && steps != 0 && steps != *attempted - 1) {
    tflite_fuse_commit(block, own_mark);
  }
  const tflite_fuse_status status = tflite_fuse_attempt(block, io);
  if (*own_mark == TFLITE_FUSE_NEVER_USED) {
    *own_mark = TFLITE_FUSE_FILLED;
  }
  if (status == TFLITE_FUSE_OK || status == TFLITE_FUSE_SOURCE_FAILED) {
    block->zeros_mean_reset = 1;
  }
  if (last != NULL) {
    *attempted = status == TFLITE_FUSE_OK ? steps + 1 : 0;
  } else if (status == TFLITE_FUSE_OK && bytes == 0) {
    *own_mark = *own_mark == 1 ? 2 : 1;
  } else if (status == TFLITE_FUSE_OK) {
    tflite_fuse_commit(block, own_mark);
  }
  return status;
}
