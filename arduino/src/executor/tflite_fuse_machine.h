/* Computes a stage's geometry, for the validator, the executor and the kernels. */
#ifndef TFLITE_FUSE_MACHINE_H_
#define TFLITE_FUSE_MACHINE_H_

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tflite_fuse_kinds.h"

TFLITE_FUSE_HIDDEN_BEGIN

/* Progress of one spatial stage through the region of its output that the current tile needs. */
typedef struct {
  uint16_t x0, x1; /* columns of the region: x0 <= x < x1 */
  uint16_t y1;     /* end row of the region */
  uint16_t y, x;   /* next pixel to produce */
  uint8_t count;   /* pixels of the current run */
  uint8_t caller;  /* stage that waits for the run */
} tflite_fuse_cursor;

_Static_assert(sizeof(tflite_fuse_cursor) == TFLITE_FUSE_CURSOR_BYTES, "the encoder reserves as many");

static inline int32_t tflite_fuse_min(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t tflite_fuse_max(int32_t a, int32_t b) { return a > b ? a : b; }

/* Returns value >= 0 rounded up; value + multiple must not overflow. */
static inline int64_t tflite_fuse_round_up(int64_t value, int32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/* Returns the bytes of scratch for the cursors; pointers to the pixels of large windows follow. */
static inline int32_t tflite_fuse_cursor_bytes(int32_t spatial_stages) {
  return (int32_t)tflite_fuse_round_up(spatial_stages * TFLITE_FUSE_CURSOR_BYTES, TFLITE_FUSE_POINTER_BYTES);
}

/* ---- Windows: the rows and columns of its input that a stage reads ---- */

/* One axis, in units of 1 / `spread` input positions: windows start `pad` before the input, are `stride` apart and
 * `extent` long. */
typedef struct {
  int32_t stride, pad, extent, spread;
} tflite_fuse_axis;

static inline tflite_fuse_axis tflite_fuse_axis_of(const tflite_fuse_stage* stage, int32_t kernel, int32_t stride,
                                                   int32_t dilation, int32_t pad) {
  const bool spreads = tflite_fuse_entry_of(stage)->spreads;
  const tflite_fuse_axis axis = {stride, pad, spreads ? kernel : (kernel - 1) * dilation + 1, spreads ? dilation : 1};
  return axis;
}
static inline tflite_fuse_axis tflite_fuse_rows_of(const tflite_fuse_stage* stage) {
  return tflite_fuse_axis_of(stage, stage->kernel_height, stage->stride_height, stage->dilation_height,
                             stage->pad_top);
}
static inline tflite_fuse_axis tflite_fuse_columns_of(const tflite_fuse_stage* stage) {
  return tflite_fuse_axis_of(stage, stage->kernel_width, stage->stride_width, stage->dilation_width, stage->pad_left);
}

/* Returns the first input position at or behind a unit. */
static inline int32_t tflite_fuse_position(int32_t unit, int32_t spread) {
  if (spread == 1) {
    return unit;
  }
  return unit > 0 ? (unit + spread - 1) / spread : -(-unit / spread);
}

/* Return the first input position under the window of an output position, and the one behind the last. */
static inline int32_t tflite_fuse_first(const tflite_fuse_axis* axis, int32_t position) {
  return tflite_fuse_position(position * axis->stride - axis->pad, axis->spread);
}
static inline int32_t tflite_fuse_end(const tflite_fuse_axis* axis, int32_t position) {
  return tflite_fuse_position(position * axis->stride - axis->pad + axis->extent, axis->spread);
}

/* Pixels under the windows of neighbouring output pixels, padding included: top <= y < bottom, left <= x < right. */
typedef struct {
  int32_t top, bottom, left, right;
} tflite_fuse_view;

/* Returns the view of `count` >= 1 output pixels from (y, x) on. It is called several times per run, so the code for
 * stages that spread is kept apart. */
static inline tflite_fuse_view tflite_fuse_view_of(const tflite_fuse_stage* stage, int32_t y, int32_t x,
                                                   int32_t count) {
  const tflite_fuse_axis rows = tflite_fuse_rows_of(stage), columns = tflite_fuse_columns_of(stage);
  const int32_t top = y * rows.stride - rows.pad, left = x * columns.stride - columns.pad;
  tflite_fuse_view view = {top, top + rows.extent, left, left + (count - 1) * columns.stride + columns.extent};
  if (tflite_fuse_entry_of(stage)->spreads) {
    view.top = tflite_fuse_position(view.top, rows.spread);
    view.bottom = tflite_fuse_position(view.bottom, rows.spread);
    view.left = tflite_fuse_position(view.left, columns.spread);
    view.right = tflite_fuse_position(view.right, columns.spread);
  }
  return view;
}

/* Returns the most rows under a window. */
static inline int32_t tflite_fuse_window_rows(const tflite_fuse_stage* stage) {
  const int32_t rows = stage->kernel_height, spread = stage->dilation_height;
  return tflite_fuse_entry_of(stage)->spreads ? (rows + spread - 1) / spread : rows;
}

static inline int32_t tflite_fuse_pixels(const tflite_fuse_tensor* tensor) { return tensor->height * tensor->width; }

/* Returns whether every output pixel needs all of input `number`: a matrix, or a single pixel beside a larger input. */
static inline bool tflite_fuse_needs_all(const tflite_fuse_entry* entry, int32_t number,
                                         const tflite_fuse_tensor* input, const tflite_fuse_tensor* output) {
  return entry->whole > 0
             ? number == entry->whole - 1
             : entry->operands > 1 && tflite_fuse_pixels(input) == 1 && tflite_fuse_pixels(output) > 1;
}

/* Returns the bytes of one pixel: four per element of float32, one of int8 and uint8. */
static inline int32_t tflite_fuse_pixel_bytes(const tflite_fuse_tensor* tensor) {
  return tensor->channels << (tensor->element_type & TFLITE_FUSE_ELEMENT_FLOAT32);
}

_Static_assert(TFLITE_FUSE_ELEMENT_FLOAT32 == 2 && TFLITE_FUSE_ELEMENT_UINT8 == 1, "4 is 1 << FLOAT32");

/* Returns the tensor of a stage's input `number`. */
static inline const tflite_fuse_tensor* tflite_fuse_input_of(const tflite_fuse_block* block,
                                                             const tflite_fuse_stage* stage, int32_t number) {
  return &block->tensors[block->stage_inputs[stage->first_input + number]];
}

/* Returns a tensor's memory. Pixels of inputs are int8_t*, too, so one table of pointers holds all of a call; they are
 * only read. */
static inline int8_t* tflite_fuse_memory_of(const tflite_fuse_io* io, const tflite_fuse_tensor* tensor) {
  switch (tensor->storage) {
    case TFLITE_FUSE_STORAGE_INPUT:
      return (int8_t*)io->inputs[tensor->operand];
    case TFLITE_FUSE_STORAGE_OUTPUT:
      return io->outputs[tensor->operand];
    case TFLITE_FUSE_STORAGE_EXTERNAL:
      return (int8_t*)io->externals[tensor->operand];
    case TFLITE_FUSE_STORAGE_PERSISTENT:
      return (int8_t*)io->state + tensor->offset + sizeof(uint32_t);
    default:
      return (int8_t*)io->scratch + tensor->offset;
  }
}

/* ---- States: rings that outlive a run. A number before the pixels gives the slot of the first one. ---- */

enum { TFLITE_FUSE_NEVER_USED = 0 };
#define TFLITE_FUSE_WAS_RESET UINT32_MAX
#define TFLITE_FUSE_FILLED (UINT32_MAX - 1) /* filled with the values of a first step; no step has succeeded */

static inline uint32_t* tflite_fuse_mark_of(void* state, const tflite_fuse_tensor* tensor) {
  return (uint32_t*)(void*)((uint8_t*)state + tensor->offset);
}

/* Returns the slot of pixel (0, 0), which is inside the ring for any content of the state. */
static inline uint32_t tflite_fuse_start_of(void* state, const tflite_fuse_tensor* tensor) {
  const uint32_t slot = *tflite_fuse_mark_of(state, tensor) - 1;
  return slot < (uint32_t)tensor->capacity ? slot : 0;
}

/* Returns the pixels of a STATE stage's output that earlier runs wrote. */
static inline int32_t tflite_fuse_history(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output) {
  return stage->pad_top * output->width + stage->pad_left;
}

/* Returns the bytes of a time step of a STATE stage's output: a row, or a pixel if there is one row. */
static inline int32_t tflite_fuse_step_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output) {
  return (stage->pad_top > 0 ? output->width : 1) * output->channels;
}

/* Converts uint8 values to int8 by subtracting 128, and back. */
void tflite_fuse_flip(int8_t* values, size_t count);

/* Returns whether a stage sums over its whole input before it writes its single output pixel. */
static inline bool tflite_fuse_accumulates(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input) {
  const uint8_t sums = tflite_fuse_entry_of(stage)->sums;
  return sums == TFLITE_FUSE_SUMS_PRODUCTS ? tflite_fuse_pixels(input) > 1 : sums != TFLITE_FUSE_SUMS_NOTHING;
}

/* Returns whether sums of int8 values over all pixels of a tensor fit int16. */
static inline bool tflite_fuse_sums_fit_int16(const tflite_fuse_tensor* input) {
  return tflite_fuse_pixels(input) <= INT16_MAX / 128;
}

/* Returns the bytes of a stage's accumulators: int8 for the largest value, int16 for sums of few values, else int32. */
static inline int64_t tflite_fuse_accumulator_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                                    const tflite_fuse_tensor* output) {
  const uint8_t sums = tflite_fuse_entry_of(stage)->sums;
  const bool small = sums == TFLITE_FUSE_SUMS_VALUES && tflite_fuse_sums_fit_int16(input);
  return (int64_t)output->channels * (sums == TFLITE_FUSE_SUMS_LARGEST ? 1 : small ? 2 : 4);
}

/* Returns the application's kernel for stages of a kind, NULL if it has none. */
static inline tflite_fuse_kernel tflite_fuse_row_kernel(const tflite_fuse_rows* rows, int32_t kind) {
  const tflite_fuse_kernel kernel = kind == TFLITE_FUSE_KIND_CONV        ? rows->convolution
                                 : kind == TFLITE_FUSE_KIND_DEPTHWISE ? rows->depthwise
                                                                      : NULL;
  return kernel == NULL ? rows->others : kernel;
}

/* ---- Packed layouts ---- */

/* Returns whether weights are halfwords. */
static inline bool tflite_fuse_is_halfword(const tflite_fuse_stage* stage) {
  return stage->weight_layout >= TFLITE_FUSE_LAYOUT_INT16_DOWN;
}

/* Returns whether sums are scaled in one shift: in layouts of odd number. */
static inline bool tflite_fuse_is_down(const tflite_fuse_stage* stage) { return (stage->weight_layout & 1) != 0; }

_Static_assert(TFLITE_FUSE_LAYOUT_PACKED_DOWN % 2 && TFLITE_FUSE_LAYOUT_INT16_DOWN % 2 &&
                   TFLITE_FUSE_LAYOUT_PAIRED_DOWN % 2, "these are");

/* Returns the values of a window with packed weights: each row is padded with zeros to whole words. */
static inline int64_t tflite_fuse_packed_values(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input) {
  return stage->kernel_height * tflite_fuse_round_up((int64_t)stage->kernel_width * input->channels, 4);
}

/* Returns the pixels that a kernel computes together. The table has pointers to the windows of that many pixels, column
 * by column, even if some are unused. Packed weights of one input channel are a convolution's, which computes single
 * pixels. */
static inline int32_t tflite_fuse_pixels_at_once(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input) {
  const bool one_by_one = stage->weight_layout == TFLITE_FUSE_LAYOUT_PLAIN || input->channels == 1;
  return one_by_one ? 1 : tflite_fuse_max(tflite_fuse_entry_of(stage)->packed_pixels, 1);
}

/* Returns the pixels whose windows a kernel reads for `count` >= 1 pixels if it computes `at_once`, a power of two,
 * together. Windows of three columns have code for one remaining pixel, with stride 1 also for two. */
static inline int32_t tflite_fuse_windows_read(const tflite_fuse_stage* stage, int32_t at_once, int32_t count) {
  const int32_t left_over = count & (at_once - 1);
  const bool as_many = left_over == 0 || (stage->kernel_width == 3 && left_over + stage->stride_width <= 3);
  return as_many ? count : count - left_over + at_once;
}

/* Returns the most columns under the windows of `count` >= 1 neighbouring output pixels. */
static inline int32_t tflite_fuse_columns(const tflite_fuse_stage* stage, int32_t at_once, int32_t count) {
  const tflite_fuse_axis axis = tflite_fuse_columns_of(stage);
  const int32_t windows_read = tflite_fuse_windows_read(stage, at_once, count);
  return tflite_fuse_position((windows_read - 1) * axis.stride + axis.extent, axis.spread);
}

/* Returns the number of pointers of a call for `count` >= 1 neighbouring output pixels whose windows span `columns`: to
 * window pixels, a second operand's pixels and outputs. */
static inline int32_t tflite_fuse_pointers(const tflite_fuse_stage* stage, const tflite_fuse_entry* entry,
                                           int32_t columns, int32_t count) {
  return tflite_fuse_window_rows(stage) * columns + count * entry->operands;
}

/* Returns the bytes at the start of scratch that no tensor may use. */
static inline int32_t tflite_fuse_reserved(const tflite_fuse_block* block) {
  return block->reserved_words * TFLITE_FUSE_POINTER_BYTES;
}

/* Checks a block whose parts are set; sets reserved_words. */
tflite_fuse_status tflite_fuse_validate(tflite_fuse_block* block, uint32_t stage_input_count, size_t constants_bytes);

/* The current run of a block. */
typedef struct {
  const tflite_fuse_block* block;
  const tflite_fuse_io* io;
  tflite_fuse_cursor* cursors; /* one per spatial stage, at the start of scratch */
} tflite_fuse_machine;

/* Computes `count` pixels of a stage's output from (y, x) on, all in one row; every pixel they need exists. */
tflite_fuse_status tflite_fuse_compute(const tflite_fuse_machine* m, const tflite_fuse_stage* stage, int32_t y,
                                       int32_t x, int32_t count);

/* Prepares the states of stages for a run, or commits them after a successful one. Returns why a stage cannot run. */
tflite_fuse_status tflite_fuse_keep(const tflite_fuse_block* block, const tflite_fuse_io* io, bool is_done);

/* For stages that sum: sets the sums to zero, adds `count` pixels of the input, writes the output pixel. */
void tflite_fuse_clear_sums(const tflite_fuse_machine* m, const tflite_fuse_stage* stage);
void tflite_fuse_accumulate(const tflite_fuse_machine* m, const tflite_fuse_stage* stage, int32_t y, int32_t x,
                            int32_t count);
void tflite_fuse_finish_sums(const tflite_fuse_machine* m, const tflite_fuse_stage* stage);

TFLITE_FUSE_HIDDEN_END

#endif
