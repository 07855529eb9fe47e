/* Checks the constants of a stage: weights, tables of multipliers and shifts, the padding pixel. */
#include "tflite_fuse_checks.h"

TFLITE_FUSE_RARE uint32_t tflite_fuse_volume(int32_t a, int32_t b, int32_t c) {
  const uint64_t area = (uint64_t)a * (uint64_t)b;
  const uint64_t volume = area > INT32_MAX ? area : area * (uint64_t)c;
  return volume > INT32_MAX ? (uint32_t)INT32_MAX + 1 : (uint32_t)volume;
}

TFLITE_FUSE_RARE int64_t tflite_fuse_quad_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                                const tflite_fuse_tensor* output) {
  const int32_t taps = stage->kernel_height * stage->kernel_width, pairs = (output->channels + 1) / 2;
  const uint32_t row = tflite_fuse_volume(1, stage->kernel_width, input->channels);
  const int32_t most = stage->kernel_width == 1 ? TFLITE_FUSE_MAX_PATCH_VALUES : TFLITE_FUSE_MAX_ROW_VALUES;
  const bool copy_fits = row <= (uint32_t)most &&
                         stage->kernel_height * (int32_t)((row + 3) / 4) <= TFLITE_FUSE_MAX_PATCH_VALUES / 4;
  /* Pixels that outputs replace are copied, too. */
  const bool is_listed =
      input->channels % 4 == 0 && (copy_fits || output->overwrites == 0) && taps <= TFLITE_FUSE_MAX_LISTED_TAPS;
  const bool is_copied = input->channels % 4 != 0 && copy_fits;
  const int32_t is_wide = stage->weight_layout == TFLITE_FUSE_LAYOUT_INT16_DOWN;
  if ((!is_listed && !is_copied) || !TFLITE_FUSE_HAS_CONV(stage->weight_layout)) {
    return -1;
  }
  return is_listed ? tflite_fuse_volume((2 << is_wide) * taps, input->channels, pairs)
                   : tflite_fuse_volume((8 << is_wide) * stage->kernel_height, (int32_t)((row + 3) / 4), pairs);
}

TFLITE_FUSE_RARE int64_t tflite_fuse_weight_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                                  const tflite_fuse_tensor* output) {
  const tflite_fuse_entry* entry = tflite_fuse_entry_of(stage);
  if (entry->weight_bytes == NULL) {
    return is_packed(stage) ? -1 : 0;
  }
  return entry->weight_bytes(stage, input, output);
}

TFLITE_FUSE_RARE bool tflite_fuse_entries_are_sound(const tflite_fuse_stage* stage, const tflite_fuse_channel* table,
                                                    int64_t entries, int64_t room) {
  const bool is_down = tflite_fuse_is_down(stage);
  const int32_t least = is_down ? 0 : -31, most = is_down ? TFLITE_FUSE_MAX_DOWN_SHIFT : 30;
  if (room < entries * (int64_t)sizeof(tflite_fuse_channel)) {
    return false;
  }
  for (const tflite_fuse_channel* end = table + entries; table != end; ++table) {
    if (table->multiplier == INT32_MIN || !within(table->shift, least, most)) {
      return false;
    }
  }
  return true;
}

TFLITE_FUSE_RARE bool tflite_fuse_channels_are_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                                     const void* table, int64_t room) {
  const int64_t entries = is_packed(stage) ? tflite_fuse_round_up(output->channels, 2) : output->channels;
  return tflite_fuse_entries_are_sound(stage, table, entries, room);
}

TFLITE_FUSE_RARE bool tflite_fuse_broadcasts(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  for (int32_t i = 0; i < stage->input_count; ++i) {
    const int32_t channels = tflite_fuse_input_of(block, stage, i)->channels;
    if (channels != 1 && channels != block->tensors[stage->output].channels) {
      return false;
    }
  }
  return true;
}

static bool leaves_axis(const tflite_fuse_axis* axis, int32_t size, int32_t length) {
  return tflite_fuse_first(axis, 0) < 0 || tflite_fuse_end(axis, size - 1) > length;
}

static bool leaves_image(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                         const tflite_fuse_tensor* output) {
  const tflite_fuse_axis rows = tflite_fuse_rows_of(stage), columns = tflite_fuse_columns_of(stage);
  return !tflite_fuse_needs_all(tflite_fuse_entry_of(stage), 0, input, output) &&
         (leaves_axis(&rows, output->height, input->height) || leaves_axis(&columns, output->width, input->width));
}

static bool table_is_sound(const tflite_fuse_block* block, const tflite_fuse_stage* stage, int32_t end) {
  const tflite_fuse_entry* entry = tflite_fuse_entry_of(stage);
  const tflite_fuse_tensor* output = &block->tensors[stage->output];
  const bool has_table = fits_aligned(stage->table_offset, 0, 0, end);
  const void* table = has_table ? block->constants + stage->table_offset : NULL;
  return entry->table_is_sound == NULL ||
         entry->table_is_sound(stage, output, table, has_table ? end - stage->table_offset : -1);
}

/* Pointers are formed from all three offsets, even unused ones: far behind the constants 32-bit pointers would wrap. */
static bool offsets_lie_within(const tflite_fuse_stage* stage, int32_t end) {
  return stage->weights_offset <= end && stage->table_offset <= end && stage->pad_offset <= end;
}

TFLITE_FUSE_RARE bool tflite_fuse_constants_are_sound(const tflite_fuse_block* block, const tflite_fuse_stage* stage,
                                                      size_t size) {
  if (stage->input_count == 0) {
    return true;
  }
  const int32_t end = size > INT32_MAX ? INT32_MAX : (int32_t)size;
  const tflite_fuse_tensor* input = tflite_fuse_input_of(block, stage, 0);
  const tflite_fuse_tensor* output = &block->tensors[stage->output];
  const int64_t weights = tflite_fuse_weight_bytes(stage, input, output);
  if (!offsets_lie_within(stage, end) || weights < 0 || (is_packed(stage) && stage->weights_offset % 4 != 0) ||
      (weights > 0 && !fits(stage->weights_offset, (uint32_t)weights, 0, end)) || !table_is_sound(block, stage, end)) {
    return false;
  }
  const bool sees_padding = !tflite_fuse_accumulates(stage, input) &&
                            (leaves_image(stage, input, output) || tflite_fuse_pixels_at_once(stage, input) > 1);
  return !sees_padding || fits(stage->pad_offset, (uint32_t)tflite_fuse_pixel_bytes(input), 0, end);
}
