/* Copies pixels: PAD, which reads padding outside the image; STATE, which appends to the pixels of earlier runs; and
 * each input of CONCATENATION. */
#include "../executor/tflite_fuse_checks.h"

static void copy(const tflite_fuse_call* call) {
  const int32_t bytes = tflite_fuse_pixel_bytes(call->inputs[0]);
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* from = call->windows[0][i];
    const int8_t* const end = from + bytes;
    int8_t* to = call->outputs[i];
    /* No memcpy: tensors of a hostile file may overlap. */
    if (((uintptr_t)from | (uintptr_t)to) % sizeof(uint32_t) == 0) {
      for (; end - from >= 4; from += 4, to += 4) {
        *(uint32_t*)(void*)to = *(const uint32_t*)(const void*)from;
      }
    }
    while (from != end) {
      *to++ = *from++;
    }
  }
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_pad = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .has_padding = true,
    .cuts = true,
    .keeps_channels = true,
    .moves = true,
    .compute = copy,
};

static TFLITE_FUSE_RARE bool fits_channels(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  int64_t channels = 0;
  for (int32_t i = 0; i < stage->input_count; ++i) {
    channels += tflite_fuse_input_of(block, stage, i)->channels;
  }
  return channels == block->tensors[stage->output].channels;
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_concatenation = {
    .min_inputs = 1,
    .max_inputs = TFLITE_FUSE_MAX_OPERAND,
    .operands = 1,
    .keeps_extent = true,
    .moves = true,
    .fits = fits_channels,
    .compute = copy,
};

/* Returns whether the output holds the pixels of earlier runs, followed by the input, and the block runs
 * in one tile. */
static TFLITE_FUSE_RARE bool fits_state(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  const tflite_fuse_tensor* input = tflite_fuse_input_of(block, stage, 0);
  const tflite_fuse_tensor* output = &block->tensors[stage->output];
  const tflite_fuse_tensor* driven = &block->tensors[block->header->driven];
  return tflite_fuse_history(stage, output) > 0 && (stage->pad_left == 0 || output->height == 1) &&
         output->height == input->height + stage->pad_top && output->width == input->width + stage->pad_left &&
         block->header->tile_height >= driven->height && block->header->tile_width >= driven->width;
}

/* Returns the bytes of the time step that a reset repeats, 0 if it repeats the padding pixel. History is whole steps:
 * see fits_state. */
static TFLITE_FUSE_RARE int64_t reset_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                            const tflite_fuse_tensor* output) {
  (void)input;
  const bool is_plain = stage->weight_layout == TFLITE_FUSE_LAYOUT_PLAIN;
  return !is_plain ? -1 : stage->weights_offset == TFLITE_FUSE_NONE ? 0 : tflite_fuse_step_bytes(stage, output);
}

static TFLITE_FUSE_RARE bool first_history_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                                    const void* table, int64_t room) {
  (void)table;
  return stage->table_offset == TFLITE_FUSE_NONE ||
         room >= (int64_t)tflite_fuse_history(stage, output) * output->channels;
}

/* Before a run: fills a ring that is new or was reset with its first history. After a successful run: commits its
 * pixels as history. */
static tflite_fuse_status keep_ring(const tflite_fuse_block* block, const tflite_fuse_stage* stage,
                                    const tflite_fuse_io* io, bool is_done) {
  void* const state = io->state;
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
    size_t piece_bytes = channels;
    if (mark == TFLITE_FUSE_NEVER_USED && stage->table_offset != TFLITE_FUSE_NONE && !block->zeros_mean_reset) {
      from = stage->table_offset;
      piece_bytes = bytes;
    } else if (stage->weights_offset != TFLITE_FUSE_NONE) {
      from = stage->weights_offset;
      piece_bytes = (size_t)tflite_fuse_step_bytes(stage, output);
    }
    for (size_t i = 0; i < bytes; i += piece_bytes) {
      memcpy(pixels + i, block->constants + from, piece_bytes);
    }
    *ring = TFLITE_FUSE_FILLED;
  }
  return TFLITE_FUSE_OK;
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_state = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .has_padding = true,
    .keeps_channels = true,
    .fits = fits_state,
    .weight_bytes = reset_bytes,
    .table_is_sound = first_history_is_sound,
    .compute = copy,
    .keep = keep_ring,
};
