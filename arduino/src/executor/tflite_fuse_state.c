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
    const uint32_t mark = *tflite_fuse_mark_of(m->io->state, output);
    const size_t channels = (size_t)output->channels, bytes = (size_t)tflite_fuse_history(stage, output) * channels;
    int8_t* pixels = tflite_fuse_memory_of(m->io, output);
    if (mark == TFLITE_FUSE_NEVER_USED && stage->table_offset != TFLITE_FUSE_NONE && !m->block->zeros_mean_reset) {
      memcpy(pixels, m->block->constants + stage->table_offset, bytes);
    } else if (mark == TFLITE_FUSE_NEVER_USED || mark == TFLITE_FUSE_WAS_RESET) {
      const bool has_step = stage->weights_offset != TFLITE_FUSE_NONE;
      const uint8_t* from = m->block->constants + (has_step ? stage->weights_offset : stage->pad_offset);
      const size_t each = has_step ? (size_t)tflite_fuse_step_bytes(stage, output) : channels;
      for (size_t i = 0; i < bytes; i += each) {
        memcpy(pixels + i, from, each);
      }
    }
  }
}

void tflite_fuse_commit(const tflite_fuse_block* block, void* state) {
  for (int32_t s = 0; s < block->stage_count; ++s) {
    const tflite_fuse_stage* stage = &block->stages[s];
    const tflite_fuse_tensor* output = &block->tensors[stage->output];
    if (stage->kind == TFLITE_FUSE_KIND_STATE) {
      const uint32_t oldest = tflite_fuse_start_of(state, output) +
                              (uint32_t)(output->capacity - tflite_fuse_history(stage, output));
      *tflite_fuse_mark_of(state, output) = oldest % (uint32_t)output->capacity + 1;
    }
  }
}

void tflite_fuse_reset(const tflite_fuse_block* block, void* state) {
  for (int32_t t = 0; t < block->tensor_count; ++t) {
    if (block->tensors[t].storage == TFLITE_FUSE_STORAGE_PERSISTENT) {
      *tflite_fuse_mark_of(state, &block->tensors[t]) = TFLITE_FUSE_WAS_RESET;
    }
  }
}
