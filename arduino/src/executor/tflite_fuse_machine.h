/* What the validator, the executor and the kernels share: a stage's geometry, and the call a kernel gets. */
#ifndef TFLITE_FUSE_MACHINE_H_
#define TFLITE_FUSE_MACHINE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../tflite_fuse.h"
#include "tflite_fuse_format.h"

/* Progress of one spatial stage through the region of its output that the current tile needs. */
typedef struct {
  uint16_t x0, x1; /* columns of the region: x0 <= x < x1 */
  uint16_t y1;     /* its end row */
  uint16_t y, x;   /* next pixel to produce */
  uint8_t count;   /* pixels of the run under way */
  uint8_t caller;  /* the stage that waits for it */
} tflite_fuse_cursor;

_Static_assert(sizeof(tflite_fuse_cursor) == TFLITE_FUSE_CURSOR_BYTES, "the encoder reserves as many");

/* Bytes of scratch for the cursors; pointers to the pixels of large windows follow. */
static inline int32_t tflite_fuse_cursor_bytes(int32_t spatial_stages) {
  const int32_t bytes = spatial_stages * TFLITE_FUSE_CURSOR_BYTES;
  return (bytes + TFLITE_FUSE_POINTER_BYTES - 1) / TFLITE_FUSE_POINTER_BYTES * TFLITE_FUSE_POINTER_BYTES;
}

static inline int32_t tflite_fuse_min(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t tflite_fuse_max(int32_t a, int32_t b) { return a > b ? a : b; }

/* Rows and columns of the input that one output pixel spans. */
static inline int32_t tflite_fuse_extent_height(const tflite_fuse_stage* stage) {
  return (stage->kernel_height - 1) * stage->dilation_height + 1;
}
static inline int32_t tflite_fuse_extent_width(const tflite_fuse_stage* stage) {
  return (stage->kernel_width - 1) * stage->dilation_width + 1;
}

static inline int32_t tflite_fuse_pixels(const tflite_fuse_tensor* tensor) { return tensor->height * tensor->width; }

/* The tensor a stage reads as its number'th input. */
static inline const tflite_fuse_tensor* tflite_fuse_input_of(const tflite_fuse_block* block,
                                                             const tflite_fuse_stage* stage, int32_t number) {
  return &block->tensors[block->stage_inputs[stage->first_input + number]];
}

/* Where a tensor lies. Pixels of inputs travel as int8_t*, too, so that one table of pointers holds all of a call; they
 * are only ever read. */
static inline int8_t* tflite_fuse_memory_of(const tflite_fuse_io* io, const tflite_fuse_tensor* tensor) {
  switch (tensor->storage) {
    case TFLITE_FUSE_STORAGE_INPUT:
      return (int8_t*)io->inputs[tensor->operand];
    case TFLITE_FUSE_STORAGE_OUTPUT:
      return io->outputs[tensor->operand];
    case TFLITE_FUSE_STORAGE_EXTERNAL:
      return (int8_t*)io->externals[tensor->operand];
    default:
      return (int8_t*)io->scratch + tensor->offset;
  }
}

/* Whether a stage sums over its whole input before it writes its one output pixel. */
static inline bool tflite_fuse_accumulates(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input) {
  return stage->kind == TFLITE_FUSE_KIND_GLOBAL_AVERAGE ||
         (stage->kind == TFLITE_FUSE_KIND_FULLY_CONNECTED && tflite_fuse_pixels(input) > 1);
}

/* Whether sums of int8 values over all pixels of a tensor fit int16. */
static inline bool tflite_fuse_sums_fit_int16(const tflite_fuse_tensor* input) {
  return tflite_fuse_pixels(input) <= INT16_MAX / 128;
}

/* Bytes of a stage's accumulators: int16 for averages of small maps, int32 otherwise. */
static inline int64_t tflite_fuse_accumulator_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                                    const tflite_fuse_tensor* output) {
  const bool small = stage->kind == TFLITE_FUSE_KIND_GLOBAL_AVERAGE && tflite_fuse_sums_fit_int16(input);
  return (int64_t)output->channels * (small ? 2 : 4);
}

/* ---- Packed layouts ---- */

/* Values of a window as packed weights count them: each row with zeros to whole words. */
static inline int64_t tflite_fuse_packed_values(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input) {
  const int64_t row = (int64_t)stage->kernel_width * input->channels;
  return stage->kernel_height * ((row + 3) / 4 * 4);
}

/* Whether the kernel for packed weights is the convolution: the only one there is for one input channel. */
static inline bool tflite_fuse_packs_as_conv(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input) {
  return stage->kind != TFLITE_FUSE_KIND_DEPTHWISE || input->channels == 1;
}

/* Pixels a kernel computes together: so many pixels' windows are pointed to, if only to look at some in vain; and column
 * by column. */
static inline int32_t tflite_fuse_pixels_at_once(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input) {
  const bool together =
      stage->weight_layout != TFLITE_FUSE_LAYOUT_PLAIN && !tflite_fuse_packs_as_conv(stage, input);
  return together ? TFLITE_FUSE_DEPTHWISE_PIXELS : 1;
}

/* Pointers per output pixel beside those of its window. */
static inline int32_t tflite_fuse_operand_pointers(const tflite_fuse_stage* stage) {
  return stage->kind == TFLITE_FUSE_KIND_ADD ? 2 : 1;
}

/* Pixels whose windows a kernel looks at that is to compute `count` >= 1 pixels. For one left over there is code where
 * windows have three columns, for two where their stride is 1, too. */
static inline int32_t tflite_fuse_looked_at(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                            int32_t count) {
  const int32_t left_over = count & (tflite_fuse_pixels_at_once(stage, input) - 1);
  const bool as_many = left_over == 0 || (stage->kernel_width == 3 && left_over + stage->stride_width <= 3);
  return as_many ? count : count - left_over + TFLITE_FUSE_DEPTHWISE_PIXELS;
}

/* Columns under the windows of `count` >= 1 neighbouring output pixels. */
static inline int32_t tflite_fuse_columns(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                          int32_t count) {
  const int32_t looked_at = tflite_fuse_looked_at(stage, input, count);
  return (looked_at - 1) * stage->stride_width + tflite_fuse_extent_width(stage);
}

/* Pointers a call for `count` >= 1 neighbouring output pixels needs, whose windows span `columns`. */
static inline int32_t tflite_fuse_pointers(const tflite_fuse_stage* stage, int32_t columns, int32_t count) {
  return stage->kernel_height * columns + count * tflite_fuse_operand_pointers(stage);
}

/* Checks a block whose parts have been found; sets reserved_bytes. */
tflite_fuse_status tflite_fuse_validate(tflite_fuse_block* block, uint32_t stage_input_count, size_t constants_bytes);

/* A run of a block under way. */
typedef struct {
  const tflite_fuse_block* block;
  const tflite_fuse_io* io;
  tflite_fuse_cursor* cursors; /* one per spatial stage, at the start of scratch */
} tflite_fuse_machine;

/* Computes `count` pixels of a stage's output from (y, x) on, all in one row; every pixel they need exists. */
tflite_fuse_status tflite_fuse_compute(const tflite_fuse_machine* m, const tflite_fuse_stage* stage, int32_t y,
                                       int32_t x, int32_t count);

/* For stages that sum: sets the sums to zero, adds `count` pixels of the input, writes the output pixel. */
void tflite_fuse_clear_sums(const tflite_fuse_machine* m, const tflite_fuse_stage* stage);
void tflite_fuse_accumulate(const tflite_fuse_machine* m, const tflite_fuse_stage* stage, int32_t y, int32_t x,
                            int32_t count);
void tflite_fuse_finish_sums(const tflite_fuse_machine* m, const tflite_fuse_stage* stage);

/* A kernel's whole view of the world: pixels, not tensors. Where a pixel lies (in which ring buffer, on which side of
 * its end, or outside the image) is settled before.
 *
 * windows[0]: the input pixels under the window, kernel_height rows of `columns` pointers. Output pixel i sees, at tap
 *     (ky, kx), the pixel windows[0][ky * columns + i * stride_width + kx * dilation_width]; if
 *     tflite_fuse_pixels_at_once(), windows[0][ky + (i * stride_width + kx * dilation_width) * kernel_height].
 *     Taps outside the image point to `pad`.
 * windows[1]: the second operand of ADD, one pointer per output pixel.
 * outputs: one pointer per output pixel. */
typedef struct {
  const tflite_fuse_stage* stage;
  const tflite_fuse_tensor* inputs[2];
  const tflite_fuse_tensor* output;
  const int8_t* weights;
  const void* table;
  const int8_t* pad;
  const int8_t* const* windows[2];
  int8_t* const* outputs;
  int32_t columns;
  int32_t count;
} tflite_fuse_call;

/* Kernels for packed weights; the two below call them. */
void tflite_fuse_conv_packed(const tflite_fuse_call* call);
void tflite_fuse_depthwise_packed(const tflite_fuse_call* call);

/* Kernels. Each computes call->count output pixels; values and ranges are those tflite_fuse_prepare has checked. */
void tflite_fuse_conv(const tflite_fuse_call* call);         /* CONV; FULLY_CONNECTED of one pixel */
void tflite_fuse_depthwise(const tflite_fuse_call* call);    /* DEPTHWISE, any multiplier */
void tflite_fuse_add(const tflite_fuse_call* call);          /* ADD */
void tflite_fuse_copy(const tflite_fuse_call* call);         /* PAD; one input of CONCATENATION */
void tflite_fuse_average_pool(const tflite_fuse_call* call); /* AVERAGE_POOL */
void tflite_fuse_max_pool(const tflite_fuse_call* call);     /* MAX_POOL */

/* Accumulating kernels come in two halves: `sum` adds call->count input pixels, the first of which is number
 * `position` of its tensor in raster order, to sums that start at zero; `finish` turns them into the output pixel.
 * `sums`: tflite_fuse_accumulator_bytes(), 4-byte aligned. */
void tflite_fuse_global_average_sum(const tflite_fuse_call* call, void* sums);
void tflite_fuse_global_average_finish(const tflite_fuse_call* call, const void* sums);
void tflite_fuse_fully_connected_sum(const tflite_fuse_call* call, int32_t position, int32_t* sums);
void tflite_fuse_fully_connected_finish(const tflite_fuse_call* call, const int32_t* sums);

#endif
