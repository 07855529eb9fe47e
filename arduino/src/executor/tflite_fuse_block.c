/* Runs a block: pulls pixels through its stages, tile by tile.
 *
 * The driven tensor is computed in runs of up to `chunk` neighbouring pixels, other tensors in runs of their stages'
 * lengths. Before a stage computes a run, every pixel under the run's windows must exist: if an input lacks some,
 * control passes to the stage that writes it, which does the same, and so on upwards. A stage that has computed a run
 * returns control to the stage that waits for it. So there is no recursion and no queue: the chain of waiting stages is
 * kept in their cursors, and a stage waits at most once because the graph has no cycles. A source reads all awaited
 * pixels of a row at once: the waiting stage needs them all in the ring anyway, so this takes no more memory. */
#include "tflite_fuse_machine.h"

/* ---- Regions ---- */

/* from <= i < to; empty unless from < to. */
typedef struct {
  int32_t from, to;
} span;

static bool is_empty(span s) { return s.from >= s.to; }

/* Returns the part of an input axis under the windows of `outputs`, padding included. */
static span under(span outputs, tflite_fuse_axis axis) {
  span inputs = {0, 0};
  if (!is_empty(outputs)) {
    inputs.from = tflite_fuse_first(&axis, outputs.from);
    inputs.to = tflite_fuse_end(&axis, outputs.to - 1);
  }
  return inputs;
}

/* Until a tile starts, `y` of a cursor is the first row of its region. */
static span rows_of(const tflite_fuse_cursor* cursor) {
  const span rows = {cursor->y, cursor->y1};
  return rows;
}

static span columns_of(const tflite_fuse_cursor* cursor) {
  const span columns = {cursor->x0, cursor->x1};
  return columns;
}

static void widen(tflite_fuse_cursor* cursor, const tflite_fuse_tensor* tensor, span rows, span columns) {
  rows.from = tflite_fuse_max(rows.from, 0), rows.to = tflite_fuse_min(rows.to, tensor->height);
  columns.from = tflite_fuse_max(columns.from, 0), columns.to = tflite_fuse_min(columns.to, tensor->width);
  if (!is_empty(rows)) {
    cursor->y = (uint16_t)tflite_fuse_min(cursor->y, rows.from);
    cursor->y1 = (uint16_t)tflite_fuse_max(cursor->y1, rows.to);
  }
  if (!is_empty(columns)) {
    cursor->x0 = (uint16_t)tflite_fuse_min(cursor->x0, columns.from);
    cursor->x1 = (uint16_t)tflite_fuse_max(cursor->x1, columns.to);
  }
}

/* Returns whether every output pixel of a stage needs all of the input whose number is at `index`. */
static bool needs_all_of(const tflite_fuse_machine* m, const tflite_fuse_stage* stage, const int32_t* index) {
  const tflite_fuse_block* block = m->block;
  const int32_t number = (int32_t)(index - &block->stage_inputs[stage->first_input]);
  return tflite_fuse_needs_all(tflite_fuse_entry_of(stage), number, &block->tensors[*index],
                               &block->tensors[stage->output]);
}

/* Finds the region of every stage's output that one tile of the driven tensor needs, from its readers upwards. In a
 * block of one tile the outputs are needed whole. */
static void start_tile(const tflite_fuse_machine* m, span rows, span columns) {
  const tflite_fuse_block* block = m->block;
  const tflite_fuse_header* header = block->header;
  const tflite_fuse_tensor* driven = &block->tensors[header->driven];
  const bool only_tile = header->tile_height >= driven->height && header->tile_width >= driven->width;

  for (int32_t s = 0; s < header->spatial_stages; ++s) {
    const tflite_fuse_tensor* output = &block->tensors[block->stages[s].output];
    const tflite_fuse_cursor empty = {.x0 = UINT16_MAX, .y = UINT16_MAX};
    const span all_rows = {0, output->height}, all_columns = {0, output->width};
    m->cursors[s] = empty;
    if (output == driven) {
      widen(&m->cursors[s], output, rows, columns);
    } else if (only_tile && output->storage != TFLITE_FUSE_STORAGE_SCRATCH) {
      widen(&m->cursors[s], output, all_rows, all_columns);
    }
  }
  for (int32_t s = header->spatial_stages - 1; s >= 0; --s) {
    const tflite_fuse_stage* stage = &block->stages[s];
    tflite_fuse_cursor* cursor = &m->cursors[s];
    const span seen_rows = under(rows_of(cursor), tflite_fuse_rows_of(stage));
    const span seen_columns = under(columns_of(cursor), tflite_fuse_columns_of(stage));
    const int32_t* index = &block->stage_inputs[stage->first_input];
    for (const int32_t* inputs_end = index + stage->input_count; index != inputs_end; ++index) {
      const tflite_fuse_tensor* input = &block->tensors[*index];
      if (input->producer != TFLITE_FUSE_NONE) {
        const span all_rows = {0, cursor->y1 == 0 ? 0 : input->height}; /* empty for an empty region */
        const span all_columns = {0, cursor->x1 == 0 ? 0 : input->width};
        const bool needs_all = needs_all_of(m, stage, index);
        widen(&m->cursors[input->producer], input, needs_all ? all_rows : seen_rows,
              needs_all ? all_columns : seen_columns);
      }
    }
    cursor->x = cursor->x0;
    if (stage->kind == TFLITE_FUSE_KIND_STATE) { /* earlier runs computed the first rows */
      cursor->y = (uint16_t)stage->pad_top;
      cursor->x = (uint16_t)stage->pad_left;
    }
  }
}

/* ---- Pulling ---- */

static bool is_source(const tflite_fuse_stage* stage) { return stage->input_count == 0; }

/* Returns the most pixels that a stage computes at a time. */
static int32_t longest_run(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  if (is_source(stage)) {
    return TFLITE_FUSE_MAX_CHUNK;
  }
  return stage->longest_run != 0 ? stage->longest_run : block->header->chunk;
}

/* Returns whether the writer of a tensor must run until all pixels before column `end` of row `last_row` exist, with
 * its cursor set to the next run. Sets whether that run is the last one. */
static bool must_run(const tflite_fuse_machine* m, int32_t producer, int32_t last_row, int32_t end, bool* is_last) {
  const tflite_fuse_stage* writer_stage = &m->block->stages[producer];
  tflite_fuse_cursor* writer = &m->cursors[producer];
  if (writer->y > last_row || (writer->y == last_row && writer->x >= end)) {
    return false;
  }
  const int32_t until = writer->y < last_row || writer_stage->runs_ahead ? writer->x1 : end;
  writer->count = (uint8_t)tflite_fuse_min(longest_run(m->block, writer_stage), until - writer->x);
  *is_last = writer->y == last_row && writer->x + writer->count >= end;
  return true;
}

/* Returns the stage that must run before stage s can compute its run, with its cursor set to the run to do; NONE if all
 * pixels exist. Sets whether that run is the last one that stage s waits for. */
static int32_t stage_to_run_first(const tflite_fuse_machine* m, int32_t s, bool* is_last) {
  const tflite_fuse_block* block = m->block;
  const tflite_fuse_stage* stage = &block->stages[s];
  const tflite_fuse_cursor* cursor = &m->cursors[s];
  const tflite_fuse_view view = tflite_fuse_view_of(stage, cursor->y, cursor->x, cursor->count);
  const int32_t* index = &block->stage_inputs[stage->first_input];
  for (const int32_t* inputs_end = index + stage->input_count; index != inputs_end; ++index) {
    const tflite_fuse_tensor* input = &block->tensors[*index];
    const bool needs_all = needs_all_of(m, stage, index);
    const int32_t last_row = (needs_all ? input->height : tflite_fuse_min(view.bottom, input->height)) - 1;
    const int32_t end = needs_all ? input->width : tflite_fuse_min(view.right, input->width);
    const bool sees_padding_alone = !needs_all && (view.right <= 0 || view.top > last_row || view.left >= end);
    if (input->producer != TFLITE_FUSE_NONE && !sees_padding_alone &&
        must_run(m, input->producer, last_row, end, is_last)) {
      *is_last &= index + 1 == inputs_end && stage->waits_for == 0;
      return input->producer;
    }
  }
  if (stage->waits_for != 0) {
    const int32_t awaited = block->tensors[stage->waits_for - 1].producer;
    const tflite_fuse_cursor* writer = &m->cursors[awaited];
    const int32_t last_row = tflite_fuse_min(cursor->y, writer->y1 - 1);
    if (must_run(m, awaited, last_row, tflite_fuse_min(cursor->x + cursor->count, writer->x1), is_last)) {
      return awaited;
    }
  }
  return TFLITE_FUSE_NONE;
}

static void advance(tflite_fuse_cursor* cursor) {
  cursor->x = (uint16_t)(cursor->x + cursor->count);
  if (cursor->x == cursor->x1) {
    cursor->x = cursor->x0;
    ++cursor->y;
  }
}

/* Computes the next run of a stage, up to `count` pixels, after all pixels that it needs. */
static TFLITE_FUSE_NOINLINE TFLITE_FUSE_OFTEN tflite_fuse_status pull(const tflite_fuse_machine* m, int32_t target,
                                                                      int32_t count) {
  int32_t s = target;
  uint32_t waits_no_more = 0; /* a bit per stage that waits for its last run, the lowest for the one that waits for s */
  bool has_all = false, is_last = false;
  m->cursors[s].count = (uint8_t)count;
  for (;;) {
    tflite_fuse_cursor* cursor = &m->cursors[s];
    const int32_t writer = has_all ? TFLITE_FUSE_NONE : stage_to_run_first(m, s, &is_last);
    if (writer != TFLITE_FUSE_NONE) {
      m->cursors[writer].caller = (uint8_t)s;
      waits_no_more = waits_no_more << 1 | is_last; /* a stage whose bit is shifted out only checks once more */
      has_all = is_source(&m->block->stages[writer]);
      s = writer;
      continue;
    }
    const tflite_fuse_status status =
        tflite_fuse_compute(m, &m->block->stages[s], cursor->y, cursor->x, cursor->count);
    advance(cursor);
    if (status != TFLITE_FUSE_OK || s == target) {
      return status;
    }
    has_all = waits_no_more & 1U;
    waits_no_more >>= 1;
    s = cursor->caller;
  }
}

/* ---- The tail: stages of one pixel, behind those that sum over the driven tensor ---- */

/* Returns whether a stage of the tail sums while the tiles run. */
static bool sums_driven(const tflite_fuse_machine* m, const tflite_fuse_stage* stage) {
  const tflite_fuse_tensor* input = tflite_fuse_input_of(m->block, stage, 0);
  return input == &m->block->tensors[m->block->header->driven] && tflite_fuse_accumulates(stage, input);
}

/* Adds a run of the driven tensor's pixels to the sums over it. */
static void sum_driven(const tflite_fuse_machine* m, int32_t y, int32_t x, int32_t count) {
  for (int32_t s = m->block->header->spatial_stages; s < m->block->stage_count; ++s) {
    if (sums_driven(m, &m->block->stages[s])) {
      tflite_fuse_accumulate(m, &m->block->stages[s], y, x, count);
    }
  }
}

static void run_tail(const tflite_fuse_machine* m) {
  for (int32_t s = m->block->header->spatial_stages; s < m->block->stage_count; ++s) {
    const tflite_fuse_stage* stage = &m->block->stages[s];
    if (!tflite_fuse_accumulates(stage, tflite_fuse_input_of(m->block, stage, 0))) {
      (void)tflite_fuse_compute(m, stage, 0, 0, 1);
      continue;
    }
    if (!sums_driven(m, stage)) {
      tflite_fuse_clear_sums(m, stage);
      tflite_fuse_accumulate(m, stage, 0, 0, 1);
    }
    tflite_fuse_finish_sums(m, stage);
  }
}

/* ---- The block ---- */

/* Computes the rest of a stage's output. */
static tflite_fuse_status complete(const tflite_fuse_machine* m, int32_t s) {
  const tflite_fuse_cursor* cursor = &m->cursors[s];
  const int32_t most = longest_run(m->block, &m->block->stages[s]);
  tflite_fuse_status status = TFLITE_FUSE_OK;
  while (status == TFLITE_FUSE_OK && !is_empty(columns_of(cursor)) && !is_empty(rows_of(cursor))) {
    status = pull(m, s, tflite_fuse_min(most, cursor->x1 - cursor->x));
  }
  return status;
}

static tflite_fuse_status run_tile(const tflite_fuse_machine* m, span rows, span columns) {
  const tflite_fuse_block* block = m->block;
  const tflite_fuse_header* header = block->header;
  const tflite_fuse_tensor* driven = &block->tensors[header->driven];
  const tflite_fuse_cursor* writer = driven->producer == TFLITE_FUSE_NONE ? NULL : &m->cursors[driven->producer];
  const int32_t width = columns.to - columns.from;
  start_tile(m, rows, columns);
  for (int32_t y = rows.from, x = columns.from; y < rows.to;) {
    const int32_t complete_rows = writer == NULL ? rows.to : tflite_fuse_min(writer->y, rows.to);
    int32_t count = tflite_fuse_min(header->chunk, columns.to - x);
    if (complete_rows > y && width == driven->width) {
      /* All complete rows at once: of an input, or the earlier steps of a state, often of a single pixel. */
      count = (complete_rows - y) * width - x;
    } else if (complete_rows == y && writer->x < x + count) {
      const tflite_fuse_status status = pull(m, driven->producer, x + count - writer->x);
      if (status != TFLITE_FUSE_OK) {
        return status;
      }
    }
    sum_driven(m, y, x, count);
    for (x += count; x >= columns.to; x -= width) {
      ++y;
    }
  }
  for (int32_t s = 0; s < header->spatial_stages; ++s) {
    if (block->tensors[block->stages[s].output].storage != TFLITE_FUSE_STORAGE_SCRATCH) {
      const tflite_fuse_status status = complete(m, s);
      if (status != TFLITE_FUSE_OK) {
        return status;
      }
    }
  }
  return TFLITE_FUSE_OK;
}

static bool overlaps(const void* a, int32_t a_bytes, const void* b, int32_t b_bytes) {
  const uintptr_t a_start = (uintptr_t)a, b_start = (uintptr_t)b;
  return a_start < b_start + (uintptr_t)b_bytes && b_start < a_start + (uintptr_t)a_bytes;
}

/* Returns whether a run can begin. A hostile file may place tensors anywhere: overlapping pixels only spoil the result,
 * but the reserved bytes hold pointers. Bits of `converted` name the storages with uint8 values. */
static bool memory_is_sound(const tflite_fuse_machine* m, uint32_t* converted) {
  const uintptr_t scratch = (uintptr_t)m->io->scratch, state = (uintptr_t)m->io->state;
  if (scratch % sizeof(void*) != 0 || scratch % sizeof(int32_t) != 0) {
    return false;
  }
  for (int32_t t = 0; t < m->block->tensor_count; ++t) {
    const tflite_fuse_tensor* tensor = &m->block->tensors[t];
    if (tensor->storage == TFLITE_FUSE_STORAGE_SCRATCH) {
      if (tensor->producer != TFLITE_FUSE_NONE && m->block->stages[tensor->producer].input_count == 0 &&
          !tflite_fuse_source_fits(m->block, tensor->operand, &m->io->sources[tensor->operand])) {
        return false;
      }
      continue;
    }
    if (tensor->storage == TFLITE_FUSE_STORAGE_PERSISTENT && (state == 0 || state % sizeof(uint32_t) != 0)) {
      return false;
    }
    if (overlaps(tflite_fuse_memory_of(m->io, tensor), tflite_fuse_pixels(tensor) * tflite_fuse_pixel_bytes(tensor),
                 m->io->scratch, tflite_fuse_reserved(m->block))) {
      return false;
    }
    *converted |= (uint32_t)(tensor->element_type == TFLITE_FUSE_ELEMENT_UINT8) << tensor->storage;
  }
  return true;
}

/* Converts uint8 operands to int8, or back. */
static void convert(const tflite_fuse_machine* m, uint8_t storage) {
  for (int32_t t = 0; t < m->block->tensor_count; ++t) {
    const tflite_fuse_tensor* tensor = &m->block->tensors[t];
    if (tensor->storage == storage && tensor->element_type == TFLITE_FUSE_ELEMENT_UINT8) {
      tflite_fuse_flip(tflite_fuse_memory_of(m->io, tensor),
                       (size_t)tflite_fuse_pixels(tensor) * (size_t)tensor->channels);
    }
  }
}

TFLITE_FUSE_RARE tflite_fuse_status tflite_fuse_attempt(const tflite_fuse_block* block, const tflite_fuse_io* io) {
  const tflite_fuse_machine m = {block, io, io->scratch};
  const tflite_fuse_header* header = block->header;
  const tflite_fuse_tensor* driven = &block->tensors[header->driven];
  uint32_t converted = 0;
  if (!memory_is_sound(&m, &converted)) {
    return TFLITE_FUSE_BAD_MEMORY;
  }
  if ((converted & (1U << TFLITE_FUSE_STORAGE_INPUT)) != 0) {
    convert(&m, TFLITE_FUSE_STORAGE_INPUT);
  }
  const tflite_fuse_status ready = tflite_fuse_keep(block, io, false);
  if (ready != TFLITE_FUSE_OK) {
    return ready;
  }
  for (int32_t s = header->spatial_stages; s < block->stage_count; ++s) {
    if (sums_driven(&m, &block->stages[s])) {
      tflite_fuse_clear_sums(&m, &block->stages[s]);
    }
  }
  for (span rows = {0, 0}; rows.from < driven->height; rows.from = rows.to) {
    rows.to = tflite_fuse_min(rows.from + header->tile_height, driven->height);
    for (span columns = {0, 0}; columns.from < driven->width; columns.from = columns.to) {
      columns.to = tflite_fuse_min(columns.from + header->tile_width, driven->width);
      const tflite_fuse_status status = run_tile(&m, rows, columns);
      if (status != TFLITE_FUSE_OK) {
        return status;
      }
    }
  }
  run_tail(&m);
  if ((converted & (1U << TFLITE_FUSE_STORAGE_OUTPUT)) != 0) {
    convert(&m, TFLITE_FUSE_STORAGE_OUTPUT);
  }
  return TFLITE_FUSE_OK;
}
