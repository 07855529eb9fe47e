/* Prepares the states of a block, rings and memories, before a run and commits them after a successful one. */
#include "tflite_fuse_machine.h"

TFLITE_FUSE_RARE int32_t tflite_fuse_state_bytes(const tflite_fuse_block* block) {
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

TFLITE_FUSE_RARE tflite_fuse_status tflite_fuse_keep(const tflite_fuse_block* block, const tflite_fuse_io* io,
                                                    bool is_done) {
  tflite_fuse_status status = TFLITE_FUSE_OK;
  for (int32_t s = 0; s < block->stage_count && status == TFLITE_FUSE_OK; ++s) {
    const tflite_fuse_entry* entry = tflite_fuse_entry_of(&block->stages[s]);
    if (entry->keep != NULL) {
      status = entry->keep(block, &block->stages[s], io, is_done);
    }
  }
  return status;
}

TFLITE_FUSE_RARE void tflite_fuse_commit(const tflite_fuse_block* block, void* state) {
  const tflite_fuse_io io = {.state = state};
  (void)tflite_fuse_keep(block, &io, true);
}

TFLITE_FUSE_RARE void tflite_fuse_reset(const tflite_fuse_block* block, void* state) {
  for (int32_t t = 0; t < block->tensor_count; ++t) {
    const tflite_fuse_tensor* tensor = &block->tensors[t];
    if (tensor->storage == TFLITE_FUSE_STORAGE_PERSISTENT && tensor->producer == TFLITE_FUSE_NONE) {
      memset((uint8_t*)state + tensor->offset, 0, sizeof(uint32_t) + (size_t)tensor->channels);
    } else if (tensor->storage == TFLITE_FUSE_STORAGE_PERSISTENT) {
      *tflite_fuse_mark_of(state, tensor) = TFLITE_FUSE_WAS_RESET;
    }
  }
}
