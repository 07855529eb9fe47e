/* What outlives a run: rings and memories, made ready before it, moved on when it has ended well. */
#include "tflite_fuse_small.h"

#include "tflite_fuse_machine.h"

int32_t tflite_fuse_state_bytes(const tflite_fuse_block* block) {
  int32_t bytes = 0;
  for (int32_t t = 0; t < block->tensor_count; ++t) {
    const tflite_fuse_tensor* tensor = &block->tensors[t];
    if (tensor->storage == TFLITE_FUSE_STORAGE_PERSISTENT) {
      const int32_t pixels = tensor->capacity * tensor->channels;
      bytes = tflite_fuse_max(bytes, tensor->offset + (int32_t)sizeof(uint32_t) + pixels);
    }
  }
  return (bytes + 3) & ~3;
}

/* Before a run a ring that is new or was reset gets its pixels of earlier runs; a run that went well makes earlier ones of
 * the new. */
void tflite_fuse_keep_ring(const tflite_fuse_block* block, const tflite_fuse_stage* stage, void* state, bool is_done) {
  const tflite_fuse_tensor* output = &block->tensors[stage->output];
  uint32_t* const ring = tflite_fuse_mark_of(state, output);
  const uint32_t mark = *ring;
  if (is_done) {
    uint32_t oldest =
        tflite_fuse_start_of(state, output) + (uint32_t)(output->capacity - tflite_fuse_history(stage, output));
    oldest -= oldest >= (uint32_t)output->capacity ? (uint32_t)output->capacity : 0;
    *ring = oldest + 1;
  } else if (mark == TFLITE_FUSE_NEVER_USED || mark == TFLITE_FUSE_WAS_RESET) {
    const size_t channels = (size_t)output->channels, bytes = (size_t)tflite_fuse_history(stage, output) * channels;
    int8_t* const pixels = (int8_t*)(ring + 1);
    int32_t from = stage->pad_offset;
    size_t each = channels;
    if (mark == TFLITE_FUSE_NEVER_USED && stage->table_offset != TFLITE_FUSE_NONE && !block->zeros_mean_reset) {
      from = stage->table_offset;
      each = bytes;
    } else if (stage->weights_offset != TFLITE_FUSE_NONE) {
      from = stage->weights_offset;
      each = (size_t)tflite_fuse_step_bytes(stage, output);
    }
    for (size_t i = 0; i < bytes; i += each) {
      memcpy(pixels + i, block->constants + from, each);
    }
    *ring = TFLITE_FUSE_FILLED;
  }
}

void tflite_fuse_keep(const tflite_fuse_block* block, void* state, bool is_done) {
  for (int32_t s = 0; s < block->stage_count; ++s) {
    const tflite_fuse_entry* entry = tflite_fuse_entry_of(&block->stages[s]);
    if (entry->keep != NULL) {
      entry->keep(block, &block->stages[s], state, is_done);
    }
  }
}

void tflite_fuse_commit(const tflite_fuse_block* block, void* state) { tflite_fuse_keep(block, state, true); }

/* A runtime fills states with zeros, as they are before the first run, to reset them. So a block that has run before tells
 * the others, some of which may not: TFLM initializes variables once, when a first step begins, however far that comes. */
static void tell_reset(tflite_fuse_block* block, const uint32_t* own, uint32_t* shared) {
  if (block->zeros_mean_reset && *own == TFLITE_FUSE_NEVER_USED && *shared == TFLITE_FUSE_NEVER_USED) {
    *shared = TFLITE_FUSE_WAS_RESET;
  }
  if (*shared == TFLITE_FUSE_WAS_RESET) {
    block->zeros_mean_reset = 1;
  }
}

tflite_fuse_status tflite_fuse_follow(tflite_fuse_block* block, const tflite_fuse_io* io, uint32_t* last) {
  uint32_t* const own = io->state;
  uint32_t* const shared = last == NULL ? own : last;
  const int32_t bytes = tflite_fuse_state_bytes(block);
  if (own == NULL || ((uintptr_t)own | (uintptr_t)shared) % sizeof(uint32_t) != 0) {
    return TFLITE_FUSE_BAD_MEMORY;
  }
  tell_reset(block, own, shared);
  uint32_t* const awaited = own + (size_t)bytes / sizeof(uint32_t); /* of a block that follows another */
  const uint32_t steps = *shared < TFLITE_FUSE_FILLED ? *shared : 0; /* 0: none since the beginning or a reset */
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

void tflite_fuse_reset(const tflite_fuse_block* block, void* state) {
  for (int32_t t = 0; t < block->tensor_count; ++t) {
    const tflite_fuse_tensor* tensor = &block->tensors[t];
    if (tensor->storage == TFLITE_FUSE_STORAGE_PERSISTENT && tensor->producer == TFLITE_FUSE_NONE) {
      memset((uint8_t*)state + tensor->offset, 0, sizeof(uint32_t) + (size_t)tensor->channels);
    } else if (tensor->storage == TFLITE_FUSE_STORAGE_PERSISTENT) {
      *tflite_fuse_mark_of(state, tensor) = TFLITE_FUSE_WAS_RESET;
    }
  }
}
