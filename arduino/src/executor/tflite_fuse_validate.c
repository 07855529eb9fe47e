/* Checks the shape of a block: tensors, stages, how they fit together, scratch and the work to expect. */
#include "tflite_fuse_checks.h"

enum { STEPS_PER_PIXEL = 64 /* executor's own work */ };

/* ---- Tensors ---- */

static bool storage_is_sound(const tflite_fuse_block* block, const tflite_fuse_tensor* tensor, int32_t index) {
  const bool is_state = tensor->storage == TFLITE_FUSE_STORAGE_PERSISTENT;
  const bool is_made =
      is_state || tensor->storage == TFLITE_FUSE_STORAGE_SCRATCH || tensor->storage == TFLITE_FUSE_STORAGE_OUTPUT;
  if (!is_made) {
    return tensor->producer == TFLITE_FUSE_NONE;
  }
  if (is_state && tensor->producer == TFLITE_FUSE_NONE) { /* the memory of an LSTM */
    return tflite_fuse_pixels(tensor) == 1 && tensor->element_type == TFLITE_FUSE_ELEMENT_INT8;
  }
  return within(tensor->producer, 0, block->stage_count - 1) && block->stages[tensor->producer].output == index &&
         is_state == (block->stages[tensor->producer].kind == TFLITE_FUSE_KIND_STATE);
}

/* uint8 is allowed only for operands of the block; types_fit checks float32. */
static bool type_is_sound(const tflite_fuse_block* block, const tflite_fuse_tensor* tensor) {
  const bool is_ring =
      tensor->storage == TFLITE_FUSE_STORAGE_SCRATCH || tensor->storage == TFLITE_FUSE_STORAGE_PERSISTENT;
  const bool is_inside = is_ring && tensor->producer != TFLITE_FUSE_NONE &&
                         block->stages[tensor->producer].kind != TFLITE_FUSE_KIND_SOURCE;
  return tensor->element_type <= TFLITE_FUSE_ELEMENT_FLOAT32 &&
         (tensor->element_type != TFLITE_FUSE_ELEMENT_UINT8 || !is_inside);
}

/* Tensors in second memory cannot be uint8, which would be converted in place. */
static bool region_is_sound(const tflite_fuse_tensor* tensor) {
  const int64_t bytes = (int64_t)tflite_fuse_pixels(tensor) * tflite_fuse_pixel_bytes(tensor);
  const bool is_whole =
      tensor->storage == TFLITE_FUSE_STORAGE_INPUT || tensor->storage == TFLITE_FUSE_STORAGE_OUTPUT;
  return tensor->region == 0 ||
         (tensor->region == 1 && is_whole && tensor->element_type != TFLITE_FUSE_ELEMENT_UINT8 && tensor->offset >= 0 &&
          tensor->offset % TFLITE_FUSE_ALIGNMENT == 0 && tensor->offset <= INT32_MAX - bytes);
}

static bool tensor_is_sound(const tflite_fuse_block* block, int32_t index) {
  const tflite_fuse_tensor* t = &block->tensors[index];
  return within(t->height, 1, TFLITE_FUSE_MAX_EXTENT) && within(t->width, 1, TFLITE_FUSE_MAX_EXTENT) &&
         t->channels >= 1 && t->channels <= INT32_MAX / 4 &&
         tflite_fuse_volume(t->height, t->width, tflite_fuse_pixel_bytes(t)) <= INT32_MAX &&
         within(t->zero_point, INT8_MIN, INT8_MAX) &&
         t->storage <= TFLITE_FUSE_STORAGE_PERSISTENT &&
         tflite_fuse_tensor_is_known(t) && storage_is_sound(block, t, index) && type_is_sound(block, t) &&
         region_is_sound(t);
}

/* ---- Stages ---- */

static bool is_tail(const tflite_fuse_block* block, int32_t s) { return s >= block->header->spatial_stages; }

/* Returns whether the tensor that a stage waits for without reading it is a ring or an output that an earlier stage
 * writes, of as many rows and columns as the stage's output; and the block runs in one tile. */
static bool wait_is_sound(const tflite_fuse_block* block, int32_t s) {
  const tflite_fuse_stage* stage = &block->stages[s];
  const tflite_fuse_header* header = block->header;
  if (stage->waits_for == 0) {
    return true;
  }
  if (is_tail(block, s) || stage->waits_for > block->tensor_count) {
    return false;
  }
  const tflite_fuse_tensor* awaited = &block->tensors[stage->waits_for - 1];
  const tflite_fuse_tensor *output = &block->tensors[stage->output], *driven = &block->tensors[header->driven];
  const bool is_made =
      awaited->storage == TFLITE_FUSE_STORAGE_SCRATCH || awaited->storage == TFLITE_FUSE_STORAGE_OUTPUT;
  return is_made && awaited->producer != TFLITE_FUSE_NONE && awaited->producer < s &&
         awaited->height == output->height && awaited->width == output->width &&
         header->tile_height >= driven->height && header->tile_width >= driven->width;
}

/* Returns whether kind, tensor numbers, clamp and window are in range; relations of tensors are checked elsewhere. */
static bool stage_is_sound(const tflite_fuse_block* block, int32_t s, uint32_t stage_input_count) {
  const tflite_fuse_stage* stage = &block->stages[s];
  const tflite_fuse_entry* entry = tflite_fuse_find_kind(stage->kind);
  if (entry == NULL || !within(stage->input_count, entry->min_inputs, entry->max_inputs) || stage->first_input < 0 ||
      (uint64_t)stage->first_input + (uint64_t)stage->input_count > stage_input_count ||
      stage->output >= block->tensor_count || block->tensors[stage->output].producer != s) {
    return false;
  }
  for (int32_t i = 0; i < stage->input_count; ++i) {
    const int32_t input = block->stage_inputs[stage->first_input + i];
    if (!within(input, 0, block->tensor_count - 1) || block->tensors[input].producer >= s) {
      return false;
    }
  }
  if (!wait_is_sound(block, s)) {
    return false;
  }
  const int32_t most = entry->has_window ? TFLITE_FUSE_MAX_WINDOW : 1;
  const int32_t most_padding = entry->has_padding ? TFLITE_FUSE_MAX_WINDOW : 0;
  const int32_t least_padding = entry->cuts ? -most_padding : 0;
  int32_t window[6]; /* height and width of kernel, stride and dilation */
  memcpy(window, (const uint8_t*)stage + offsetof(tflite_fuse_stage, kernel_height), sizeof(window));
  for (size_t i = 0; i < sizeof(window) / sizeof(window[0]); ++i) {
    if (!within(window[i], 1, most)) {
      return false;
    }
  }
  return within(stage->pad_top, least_padding, most_padding) &&
         within(stage->pad_left, least_padding, most_padding) &&
         within(stage->activation_min, INT8_MIN, stage->activation_max) &&
         within(stage->activation_max, INT8_MIN, INT8_MAX) &&
         stage->weight_layout <= TFLITE_FUSE_LAYOUT_PAIRED_DOWN && stage->runs_ahead <= 1 &&
         tflite_fuse_stage_is_known(stage);
}

static bool window_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output) {
  const tflite_fuse_axis down = tflite_fuse_rows_of(stage), across = tflite_fuse_columns_of(stage);
  const int64_t rows = tflite_fuse_window_rows(stage);
  return reach_of(&down, output->height) < TFLITE_FUSE_MAX_POSITION &&
         reach_of(&across, output->width) < TFLITE_FUSE_MAX_POSITION &&
         rows * tflite_fuse_position(across.extent, across.spread) <= TFLITE_FUSE_MAX_TAPS &&
         rows * stage->stride_width <= TFLITE_FUSE_MAX_TAPS;
}

static bool is_float(const tflite_fuse_tensor* tensor) {
  return tensor->element_type == TFLITE_FUSE_ELEMENT_FLOAT32;
}

/* Returns whether a stage's tensors are float32 exactly where its kind requires it. */
static bool types_fit(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  const tflite_fuse_entry* entry = tflite_fuse_entry_of(stage);
  const bool writes = is_float(&block->tensors[stage->output]), reads = entry->moves ? writes : entry->reads_float;
  for (int32_t i = 0; i < stage->input_count; ++i) {
    if (is_float(tflite_fuse_input_of(block, stage, i)) != reads) {
      return false;
    }
  }
  return entry->moves || writes == entry->writes_float;
}

/* Returns whether the inputs have the shape that the kind requires; an input that is needed whole has its own. */
static bool inputs_fit(const tflite_fuse_block* block, const tflite_fuse_stage* stage, bool keeps_extent) {
  const tflite_fuse_tensor* output = &block->tensors[stage->output];
  const tflite_fuse_entry* entry = tflite_fuse_entry_of(stage);
  int32_t whole = 0;
  for (int32_t i = 0; i < stage->input_count; ++i) {
    const tflite_fuse_tensor* input = tflite_fuse_input_of(block, stage, i);
    const bool needs_all = tflite_fuse_needs_all(entry, i, input, output);
    whole += needs_all;
    if ((entry->keeps_channels && input->channels != output->channels) ||
        (keeps_extent && !needs_all && (input->height != output->height || input->width != output->width))) {
      return false;
    }
  }
  return whole < 2;
}

static bool shapes_fit(const tflite_fuse_block* block, int32_t s) {
  const tflite_fuse_stage* stage = &block->stages[s];
  const tflite_fuse_entry* entry = tflite_fuse_entry_of(stage);
  const tflite_fuse_tensor* output = &block->tensors[stage->output];
  if (is_tail(block, s) && tflite_fuse_pixels(output) != 1) {
    return false;
  }
  if (stage->input_count == 0) {
    return !is_tail(block, s) && output->storage == TFLITE_FUSE_STORAGE_SCRATCH;
  }
  if (!types_fit(block, stage)) {
    return false;
  }
  const tflite_fuse_tensor* input = tflite_fuse_input_of(block, stage, 0);
  if (tflite_fuse_accumulates(stage, input)) {
    const bool is_driven = input == &block->tensors[block->header->driven];
    return is_tail(block, s) && tflite_fuse_pixels(output) == 1 && inputs_fit(block, stage, false) &&
           (is_driven || tflite_fuse_pixels(input) == 1) && tflite_fuse_pixels(input) <= TFLITE_FUSE_MAX_AVERAGED;
  }
  return (!is_tail(block, s) || tflite_fuse_pixels(input) == 1) && inputs_fit(block, stage, entry->keeps_extent) &&
         window_is_sound(stage, output) && (entry->fits == NULL || entry->fits(block, stage));
}

/* ---- The block ---- */

/* Adds an upper bound of a stage's steps over all tiles; returns false if the total is too large. */
static bool add_work(const tflite_fuse_block* block, const tflite_fuse_stage* stage, uint64_t* total) {
  const tflite_fuse_header* header = block->header;
  const tflite_fuse_tensor* driven = &block->tensors[header->driven];
  const tflite_fuse_tensor* output = &block->tensors[stage->output];
  uint64_t per_pixel = (uint64_t)(STEPS_PER_PIXEL + (int64_t)output->channels);
  uint64_t work = 0;
  if (stage->input_count > 0) {
    const tflite_fuse_tensor* input = tflite_fuse_input_of(block, stage, 0);
    per_pixel += tflite_fuse_volume(tflite_fuse_window_rows(stage), tflite_fuse_columns(stage, 1, 1), output->channels);
    per_pixel += (uint64_t)tflite_fuse_weight_bytes(stage, input, output);
    work = (uint64_t)tflite_fuse_pixels(input) * (uint64_t)(STEPS_PER_PIXEL + (int64_t)input->channels);
  }
  work += (uint64_t)tflite_fuse_pixels(output) * per_pixel;
  if (work > TFLITE_FUSE_MAX_WORK) {
    return false;
  }
  work *= (uint64_t)((driven->height + header->tile_height - 1) / header->tile_height);
  if (work > TFLITE_FUSE_MAX_WORK) {
    return false;
  }
  *total += work * (uint64_t)((driven->width + header->tile_width - 1) / header->tile_width);
  return *total <= TFLITE_FUSE_MAX_WORK;
}

static bool header_is_sound(const tflite_fuse_block* block) {
  const tflite_fuse_header* header = block->header;
  return within(header->tile_height, 1, TFLITE_FUSE_MAX_EXTENT) &&
         within(header->tile_width, 1, TFLITE_FUSE_MAX_EXTENT) &&
         within(header->chunk, 1, TFLITE_FUSE_MAX_CHUNK) && within(header->driven, 0, block->tensor_count - 1) &&
         within(header->spatial_stages, 0, block->stage_count) && header->scratch_bytes >= 0 &&
         block->tensors[header->driven].producer < header->spatial_stages;
}

/* Returns the bytes at the start of scratch that hold no pixels; windows must be sound. */
static int64_t count_reserved(const tflite_fuse_block* block) {
  int32_t pointers = 0;
  for (int32_t s = 0; s < block->stage_count; ++s) {
    const tflite_fuse_stage* stage = &block->stages[s];
    if (stage->input_count > 0) {
      const int32_t needed = pointers_of_one(stage, tflite_fuse_input_of(block, stage, 0));
      pointers = needed > TFLITE_FUSE_STACK_POINTERS && needed > pointers ? needed : pointers;
    }
  }
  return tflite_fuse_cursor_bytes(block->header->spatial_stages) + (int64_t)pointers * TFLITE_FUSE_POINTER_BYTES;
}

TFLITE_FUSE_RARE void tflite_fuse_reserve(tflite_fuse_block* block) {
  block->reserved_words = (uint32_t)(count_reserved(block) / TFLITE_FUSE_POINTER_BYTES) & (UINT16_MAX >> 1);
}

static bool accumulators_are_sound(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  const tflite_fuse_tensor* input = tflite_fuse_input_of(block, stage, 0);
  const tflite_fuse_tensor* output = &block->tensors[stage->output];
  return !tflite_fuse_accumulates(stage, input) ||
         fits_aligned(stage->accumulator_offset, (uint32_t)tflite_fuse_accumulator_bytes(stage, input, output),
                      tflite_fuse_reserved(block), block->header->scratch_bytes);
}

static tflite_fuse_status check_stages(const tflite_fuse_block* block, uint32_t stage_input_count,
                                       size_t constants_bytes) {
  uint64_t work = 0;
  for (int32_t s = 0; s < block->stage_count; ++s) {
    const tflite_fuse_stage* stage = &block->stages[s];
    if (!stage_is_sound(block, s, stage_input_count)) {
      return TFLITE_FUSE_BAD_STAGE;
    }
    if (!shapes_fit(block, s)) {
      return TFLITE_FUSE_BAD_SHAPE;
    }
    if (!tflite_fuse_constants_are_sound(block, stage, constants_bytes)) {
      return TFLITE_FUSE_BAD_CONSTANTS;
    }
    if (!add_work(block, stage, &work)) {
      return TFLITE_FUSE_TOO_MUCH_WORK;
    }
  }
  return TFLITE_FUSE_OK;
}

static tflite_fuse_status check_scratch(tflite_fuse_block* block) {
  const int64_t reserved = count_reserved(block);
  if (reserved > block->header->scratch_bytes || reserved > (UINT16_MAX >> 1) * (int64_t)TFLITE_FUSE_POINTER_BYTES) {
    return TFLITE_FUSE_BAD_SCRATCH;
  }
  tflite_fuse_reserve(block);
  for (int32_t t = 0; t < block->tensor_count; ++t) {
    const tflite_fuse_tensor* tensor = &block->tensors[t];
    if (tensor->storage == TFLITE_FUSE_STORAGE_SCRATCH &&
        (!within(tensor->capacity, 1, tflite_fuse_pixels(tensor)) ||
         !fits_aligned(tensor->offset, (uint32_t)(tensor->capacity * tflite_fuse_pixel_bytes(tensor)),
                       tflite_fuse_reserved(block), block->header->scratch_bytes))) {
      return TFLITE_FUSE_BAD_SCRATCH;
    }
    if (tensor->storage == TFLITE_FUSE_STORAGE_PERSISTENT &&
        (tensor->capacity != tflite_fuse_pixels(tensor) ||
         !fits_aligned(tensor->offset, (uint32_t)sizeof(uint32_t) + (uint32_t)(tensor->capacity * tensor->channels), 0,
                       INT32_MAX - 8))) { /* a step number may follow, aligned to 4 */
      return TFLITE_FUSE_BAD_SCRATCH;
    }
  }
  for (int32_t s = 0; s < block->stage_count; ++s) {
    if (block->stages[s].input_count > 0 && !accumulators_are_sound(block, &block->stages[s])) {
      return TFLITE_FUSE_BAD_SCRATCH;
    }
  }
  return TFLITE_FUSE_OK;
}

/* Returns whether no two sources have the same number, as each would take pixels that the other one needs. */
static bool sources_differ(const tflite_fuse_block* block) {
  bool taken[UINT8_MAX + 1] = {false};
  for (int32_t s = 0; s < block->stage_count; ++s) {
    if (block->stages[s].input_count == 0) {
      const int32_t number = block->tensors[block->stages[s].output].operand;
      if (taken[number]) {
        return false;
      }
      taken[number] = true;
    }
  }
  return true;
}

TFLITE_FUSE_RARE tflite_fuse_status tflite_fuse_validate(tflite_fuse_block* block, uint32_t stage_input_count,
                                                         size_t constants_bytes) {
  for (int32_t t = 0; t < block->tensor_count; ++t) {
    if (!tensor_is_sound(block, t)) {
      return TFLITE_FUSE_BAD_TENSOR;
    }
  }
  if (!header_is_sound(block)) {
    return TFLITE_FUSE_BAD_HEADER;
  }
  const tflite_fuse_status status = check_stages(block, stage_input_count, constants_bytes);
  if (status != TFLITE_FUSE_OK) {
    return status;
  }
  return sources_differ(block) ? check_scratch(block) : TFLITE_FUSE_BAD_TENSOR;
}
