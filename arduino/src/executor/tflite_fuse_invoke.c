/* Whole runs of a prepared block: an attempt and, if it succeeded, the commit of the block's state. */
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
static void tell_reset(tflite_fuse_block* block, const uint32_t* own, uint32_t* shared) {
  if (block->zeros_mean_reset && *own == TFLITE_FUSE_NEVER_USED && *shared == TFLITE_FUSE_NEVER_USED) {
    *shared = TFLITE_FUSE_WAS_RESET;
  }
  if (*shared == TFLITE_FUSE_WAS_RESET) {
    block->zeros_mean_reset = 1;
  }
}

TFLITE_FUSE_RARE tflite_fuse_status tflite_fuse_follow(tflite_fuse_block* block, const tflite_fuse_io* io,
                                                       uint32_t* last) {
  uint32_t* const own = io->state;
  uint32_t* const shared = last == NULL ? own : last;
  const int32_t bytes = tflite_fuse_state_bytes(block);
  if (own == NULL || ((uintptr_t)own | (uintptr_t)shared) % sizeof(uint32_t) != 0) {
    return TFLITE_FUSE_BAD_MEMORY;
  }
  tell_reset(block, own, shared);
  uint32_t* const awaited = own + (size_t)bytes / sizeof(uint32_t); /* for a block that follows another */
  const uint32_t steps = *shared < TFLITE_FUSE_FILLED ? *shared : 0; /* 0: none since the start or a reset */
  if (last != NULL && *awaited != 0 && steps != 0 && steps != *awaited - 1) {
    tflite_fuse_commit(block, own);
  }
  const tflite_fuse_status status = tflite_fuse_attempt(block, io);
  if (*own == TFLITE_FUSE_NEVER_USED) {
    *own = TFLITE_FUSE_FILLED;
  }
  if (status == TFLITE_FUSE_OK || status == TFLITE_FUSE_SOURCE_FAILED) {
    block->zeros_mean_reset = 1;
  }
  if (last != NULL) {
    *awaited = status == TFLITE_FUSE_OK ? steps + 1 : 0;
  } else if (status == TFLITE_FUSE_OK && bytes == 0) {
    *own = *own == 1 ? 2 : 1;
  } else if (status == TFLITE_FUSE_OK) {
    tflite_fuse_commit(block, own);
  }
  return status;
}
