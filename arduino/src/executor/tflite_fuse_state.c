/* What outlives a run: the rings of STATE stages, filled before it where they are new, moved on when it has ended well. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

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
  return bytes;
}

void tflite_fuse_fill_states(const tflite_fuse_machine* m) {
  for (int32_t s = 0; s < m->block->stage_count; ++s) {
    const tflite_fuse_stage* stage = &m->block->stages[s];
    const tflite_fuse_tensor* output = &m->block->tensors[stage->output];
    if (stage->kind != TFLITE_FUSE_KIND_STATE) {
      continue;
    }
    uint32_t* const ring = tflite_fuse_mark_of(m->io->state, output);
    const uint32_t mark = *ring;
    const size_t channels = (size_t)output->channels, bytes = (size_t)tflite_fuse_history(stage, output) * channels;
    int8_t* const pixels = (int8_t*)(ring + 1);
    const bool as_first =
        mark == TFLITE_FUSE_NEVER_USED && stage->table_offset != TFLITE_FUSE_NONE && !m->block->zeros_mean_reset;
    int32_t from = stage->pad_offset;
    size_t each = channels;
    if (as_first) {
      from = stage->table_offset;
      each = bytes;
    } else if (stage->weights_offset != TFLITE_FUSE_NONE) {
      from = stage->weights_offset;
      each = (size_t)tflite_fuse_step_bytes(stage, output);
    }
    const bool is_new = mark == TFLITE_FUSE_NEVER_USED || mark == TFLITE_FUSE_WAS_RESET;
    for (size_t i = 0; is_new && i < bytes; i += each) {
      memcpy(pixels + i, m->block->constants + from, each);
    }
  }
}

void tflite_fuse_commit(const tflite_fuse_block* block, void* state) {
  for (int32_t s = 0; s < block->stage_count; ++s) {
    const tflite_fuse_stage* stage = &block->stages[s];
    const tflite_fuse_tensor* output = &block->tensors[stage->output];
    if (stage->kind == TFLITE_FUSE_KIND_STATE) {
      uint32_t oldest = tflite_fuse_start_of(state, output) +
                        (uint32_t)(output->capacity - tflite_fuse_history(stage, output));
      oldest -= oldest >= (uint32_t)output->capacity ? (uint32_t)output->capacity : 0;
      *tflite_fuse_mark_of(state, output) = oldest + 1;
    }
  }
}

void tflite_fuse_reset(const tflite_fuse_block* block, void* state) {
  for (int32_t t = 0; t < block->tensor_count; ++t) {
    const tflite_fuse_tensor* tensor = &block->tensors[t];
    if (tensor->storage == TFLITE_FUSE_STORAGE_PERSISTENT && tensor->producer != TFLITE_FUSE_NONE) {
      *tflite_fuse_mark_of(state, tensor) = TFLITE_FUSE_WAS_RESET;
    } else if (tensor->storage == TFLITE_FUSE_STORAGE_PERSISTENT) {
      memset((uint8_t*)state + tensor->offset, 0, sizeof(uint32_t) + (size_t)tensor->channels);
    }
  }
}
