/* Computes one run of one stage: finds the addresses of its pixels and calls the kernel.
 *
 * Every tensor is a ring of pixels: pixel (y, x) of the region a tile needs lies at slot (y * width + x - x0) modulo
 * capacity. A tensor that is stored whole is a ring that never wraps. Kernels receive a table of pointers, one per
 * pixel; pointers to pixels outside the image all point to one pixel of padding in the constants. */
#include <string.h>

#include "tflite_fuse_machine.h"

/* ---- Rings ---- */

typedef struct {
  int8_t* pixels;
  int32_t pixel_bytes;
  int32_t x0, width; /* first column and width of the region whose rows are stored contiguously */
  uint32_t capacity; /* pixels */
  uint32_t start;    /* slot of pixel (0, 0) */
} ring;

static ring ring_of(const tflite_fuse_machine* m, const tflite_fuse_tensor* tensor) {
  ring r = {NULL, tflite_fuse_pixel_bytes(tensor), 0, tensor->width, 0, 0};
  if (tensor->storage != TFLITE_FUSE_STORAGE_SCRATCH) {
    r.pixels = tflite_fuse_memory_of(m->io, tensor);
    r.capacity = (uint32_t)tflite_fuse_pixels(tensor);
    if (tensor->storage == TFLITE_FUSE_STORAGE_PERSISTENT) {
      r.start = tflite_fuse_start_of(m->io->state, tensor);
    }
    return r;
  }
  r.pixels = (int8_t*)m->io->scratch + tensor->offset;
  r.capacity = (uint32_t)tensor->capacity;
  if (tensor->producer < m->block->header->spatial_stages) {
    const tflite_fuse_cursor* cursor = &m->cursors[tensor->producer];
    r.x0 = cursor->x0;
    r.width = cursor->x1 - cursor->x0;
  }
  return r;
}

/* Avoids a division, which some cores lack: tensors stored whole and distances between rows rarely need it. */
static uint32_t modulo_capacity(const ring* r, uint32_t position) {
  return position < r->capacity ? position : position % r->capacity;
}

static uint32_t slot_of(const ring* r, int32_t y, int32_t x) {
  return modulo_capacity(r, r->start + (uint32_t)y * (uint32_t)r->width + (uint32_t)(x - r->x0));
}

/* Writes pointers, `spacing` apart, to `count` pixels that are `step` bytes apart. */
static inline int8_t** point_on(int8_t** pointers, int32_t spacing, const int8_t* pixel, int32_t step, int32_t count) {
  for (int8_t** end = pointers + count * spacing; pointers != end; pixel += step, pointers += spacing) {
    *pointers = (int8_t*)pixel;
  }
  return pointers;
}

/* Writes pointers, `spacing` apart, to `count` >= 1 pixels from a slot on. */
static int8_t** point_to_slots(int8_t** pointers, int32_t spacing, const ring* r, uint32_t slot, int32_t count) {
  int32_t before_end = (int32_t)(r->capacity - slot);
  const int8_t* pixel = r->pixels + (size_t)slot * (size_t)r->pixel_bytes;
  while (before_end < count) {
    pointers = point_on(pointers, spacing, pixel, r->pixel_bytes, before_end);
    count -= before_end;
    pixel = r->pixels;
    before_end = (int32_t)r->capacity;
  }
  return point_on(pointers, spacing, pixel, r->pixel_bytes, count);
}

/* Writes pointers to the pixels of input `number` under the windows of call->count output pixels from (call->y,
 * call->x) on, call->columns per row: row by row, or column by column if several pixels are computed together. */
static int8_t** point_to_windows(int8_t** pointers, const tflite_fuse_machine* m, tflite_fuse_call* call,
                                 int32_t number) {
  const tflite_fuse_stage* stage = call->stage;
  const tflite_fuse_tensor* input = call->inputs[number];
  const ring r = ring_of(m, input);
  if (tflite_fuse_needs_all(tflite_fuse_entry_of(stage), number, input, call->output)) {
    return point_on(pointers, 1, r.pixels, 0, call->columns);
  }
  const tflite_fuse_view view = tflite_fuse_view_of(stage, call->y, call->x, 1);
  const int32_t first = view.left;
  int32_t row = view.top, rows = stage->kernel_height, dilation = stage->dilation_height;
  if (tflite_fuse_entry_of(stage)->spreads) {
    rows = tflite_fuse_window_rows(stage);
    dilation = 1;
    call->first_row = row, call->first_column = first;
  }
  const int32_t columns = call->columns;
  const int32_t from = tflite_fuse_min(tflite_fuse_max(-first, 0), columns);
  int32_t inside = tflite_fuse_min(input->width - first, columns) - from;
  if (rows == 1 && inside == columns && row >= 0 && row < input->height) {
    return point_to_slots(pointers, 1, &r, slot_of(&r, row, first), columns);
  }
  const bool by_column = call->at_once > 1;
  const int32_t to_next_row = by_column ? 1 : columns;
  int32_t spacing = by_column ? rows : 1;
  int8_t** next = pointers + from * spacing;
  if (inside != columns || row < 0 || row + (rows - 1) * dilation >= input->height) {
    point_on(pointers, 1, call->pad, 0, rows * columns); /* pixels inside the image follow */
  }
  int32_t remaining = inside > 0 ? rows : 0;
  for (; row < 0 && remaining > 0; --remaining, row += dilation) {
    next += to_next_row;
  }
  if (remaining > 0 && row < input->height) {
    /* Rows are equidistant: one division for all. */
    const uint32_t to_next_slot = modulo_capacity(&r, (uint32_t)dilation * (uint32_t)r.width);
    uint32_t slot = slot_of(&r, row, first + from);
    if (to_next_row == inside && dilation * r.width == inside) { /* contiguous rows, as of steps of one pixel */
      inside *= tflite_fuse_min(remaining, input->height - row);
      remaining = spacing = 1;
    }
    for (;;) {
      point_to_slots(next, spacing, &r, slot, inside);
      row += dilation;
      if (--remaining == 0 || row >= input->height) {
        break;
      }
      slot += to_next_slot;
      slot -= slot >= r.capacity ? r.capacity : 0;
      next += to_next_row;
    }
  }
  return pointers + rows * columns;
}

/* ---- Stages ---- */

static tflite_fuse_call call_of(const tflite_fuse_machine* m, const tflite_fuse_stage* stage) {
  const tflite_fuse_block* block = m->block;
  tflite_fuse_call call; /* an initializer would clear all of it, which takes longer than all of this on some targets */
  call.stage = stage;
  call.output = &block->tensors[stage->output];
  call.inputs[0] = tflite_fuse_input_of(block, stage, 0);
  call.inputs[1] = tflite_fuse_input_of(block, stage, stage->input_count - 1);
  call.at_once = tflite_fuse_pixels_at_once(stage, call.inputs[0]);
  call.weights = (const int8_t*)(block->constants + tflite_fuse_max(stage->weights_offset, 0));
  call.table = block->constants + tflite_fuse_max(stage->table_offset, 0);
  call.pad = (const int8_t*)(block->constants + tflite_fuse_max(stage->pad_offset, 0));
  return call;
}

/* Calls a kernel for each input, which writes the next channels of the output pixels; advances `outputs`. */
static void compute_each(const tflite_fuse_machine* m, tflite_fuse_call* call, int8_t** outputs, int8_t** window) {
  for (int32_t i = 0; i < call->stage->input_count; ++i) {
    call->inputs[0] = tflite_fuse_input_of(m->block, call->stage, i);
    point_to_windows(window, m, call, 0);
    tflite_fuse_entry_of(call->stage)->compute(call);
    for (int32_t pixel = 0; pixel < call->count; ++pixel) {
      outputs[pixel] += tflite_fuse_pixel_bytes(call->inputs[0]);
    }
  }
}

/* ---- Kernels of the application ---- */

/* Computes a call with the application's kernel; returns whether there is one. Calls that write over an input are the
 * library's: an application's kernel may read the input again, and the test of one computes each call twice. */
static TFLITE_FUSE_NOINLINE TFLITE_FUSE_RARE bool compute_by_application(const tflite_fuse_rows* rows,
                                                                         tflite_fuse_call* call) {
  const tflite_fuse_kernel kernel = tflite_fuse_row_kernel(rows, call->stage->kind);
  const bool is_used = kernel != NULL && call->output->overwrites == 0;
  call->user = rows->user;
  if (is_used) {
    kernel(call);
  }
  return is_used;
}

/* ---- Calls ---- */

/* Computes call->count pixels from (call->y, call->x) on with call->columns under their windows; the pointers must fit
 * into `table`. */
static void compute_call(const tflite_fuse_machine* m, const tflite_fuse_entry* entry, tflite_fuse_call* call,
                         int8_t** table) {
  const ring output = ring_of(m, call->output);
  int8_t** first = point_to_slots(table, 1, &output, slot_of(&output, call->y, call->x), call->count);
  call->outputs = table;
  call->windows[0] = (const int8_t* const*)first;
  if (call->stage->input_count > entry->operands) {
    compute_each(m, call, table, first);
    return;
  }
  int8_t** second = point_to_windows(first, m, call, 0);
  if (entry->operands > 1) {
    call->windows[1] = (const int8_t* const*)second;
    point_to_windows(second, m, call, 1);
  }
  if (m->block->rows == NULL || !compute_by_application(m->block->rows, call)) {
    entry->compute(call);
  }
}

void tflite_fuse_flip(int8_t* values, size_t count) {
  const size_t words = count / 4;
  for (size_t i = 0; i < words; ++i) {
    uint32_t word;
    memcpy(&word, values + 4 * i, sizeof(word));
    word ^= UINT32_C(0x80808080);
    memcpy(values + 4 * i, &word, sizeof(word));
  }
  for (size_t i = 4 * words; i < count; ++i) {
    values[i] = (int8_t)(values[i] ^ INT8_MIN);
  }
}

/* Reads pixels from a source, in pieces that are contiguous in the ring. */
static TFLITE_FUSE_NOINLINE TFLITE_FUSE_RARE tflite_fuse_status read_source(const tflite_fuse_machine* m,
                                                                            const tflite_fuse_tensor* output, int32_t y,
                                                                            int32_t x, int32_t count) {
  const tflite_fuse_source* source = &m->io->sources[output->operand];
  const ring r = ring_of(m, output);
  while (count > 0) {
    const uint32_t slot = slot_of(&r, y, x);
    const int32_t piece = tflite_fuse_min(count, (int32_t)(r.capacity - slot));
    const size_t capacity = (size_t)piece * (size_t)r.pixel_bytes;
    int8_t* pixels = r.pixels + (size_t)slot * (size_t)r.pixel_bytes;
    if (source->read(source->user, y, x, piece, pixels, capacity) != 0) {
      return TFLITE_FUSE_SOURCE_FAILED;
    }
    if (output->element_type == TFLITE_FUSE_ELEMENT_UINT8) {
      tflite_fuse_flip(pixels, capacity);
    }
    x += piece;
    count -= piece;
  }
  return TFLITE_FUSE_OK;
}

tflite_fuse_status tflite_fuse_compute(const tflite_fuse_machine* m, const tflite_fuse_stage* stage, int32_t y,
                                       int32_t x, int32_t count) {
  if (stage->input_count == 0) {
    return read_source(m, &m->block->tensors[stage->output], y, x, count);
  }
  const tflite_fuse_entry* entry = tflite_fuse_entry_of(stage);
  tflite_fuse_call call = call_of(m, stage);
  int8_t* on_stack[TFLITE_FUSE_TABLE_POINTERS];
  int8_t** table = on_stack;
  call.y = y;
  call.x = x;
  call.count = count;
  call.columns = tflite_fuse_columns(stage, call.at_once, count);
  while (tflite_fuse_pointers(stage, entry, call.columns, call.count) > TFLITE_FUSE_TABLE_POINTERS) {
    if (call.count == 1) {
      const int32_t behind_cursors = tflite_fuse_cursor_bytes(m->block->header->spatial_stages);
      table = (int8_t**)(void*)((uint8_t*)m->io->scratch + behind_cursors);
      break;
    }
    const int32_t fours = (call.count - 1) & ~3; /* kernels compute four or two pixels together */
    call.count = fours > 0 ? fours : call.count > 2 ? 2 : 1;
    call.columns = tflite_fuse_columns(stage, call.at_once, call.count);
  }
  for (const int32_t end = x + count;;) {
    compute_call(m, entry, &call, table);
    call.x += call.count;
    if (call.x == end) {
      return TFLITE_FUSE_OK;
    }
    if (end - call.x < call.count) {
      call.count = end - call.x;
      call.columns = tflite_fuse_columns(stage, call.at_once, call.count);
    }
  }
}

/* ---- Stages that sum ---- */

static void* sums_of(const tflite_fuse_machine* m, const tflite_fuse_stage* stage) {
  return (uint8_t*)m->io->scratch + stage->accumulator_offset;
}

TFLITE_FUSE_RARE void tflite_fuse_clear_sums(const tflite_fuse_machine* m, const tflite_fuse_stage* stage) {
  const tflite_fuse_tensor* input = tflite_fuse_input_of(m->block, stage, 0);
  const tflite_fuse_tensor* output = &m->block->tensors[stage->output];
  memset(sums_of(m, stage), 0, (size_t)tflite_fuse_accumulator_bytes(stage, input, output));
}

TFLITE_FUSE_RARE void tflite_fuse_accumulate(const tflite_fuse_machine* m, const tflite_fuse_stage* stage, int32_t y,
                                             int32_t x, int32_t count) {
  int8_t* pixels[TFLITE_FUSE_STACK_POINTERS];
  tflite_fuse_call call = call_of(m, stage);
  const ring input = ring_of(m, call.inputs[0]);
  call.windows[0] = (const int8_t* const*)pixels;
  for (int32_t end = x + count; x < end; x += call.count) {
    call.count = tflite_fuse_min(end - x, TFLITE_FUSE_STACK_POINTERS);
    point_to_slots(pixels, 1, &input, slot_of(&input, y, x), call.count);
    tflite_fuse_entry_of(stage)->sum(&call, y * call.inputs[0]->width + x, sums_of(m, stage));
  }
}

TFLITE_FUSE_RARE void tflite_fuse_finish_sums(const tflite_fuse_machine* m, const tflite_fuse_stage* stage) {
  tflite_fuse_call call = call_of(m, stage);
  int8_t* pixel = ring_of(m, call.output).pixels;
  call.outputs = &pixel;
  tflite_fuse_entry_of(stage)->finish(&call, sums_of(m, stage));
}

