/* Declares the properties of a kind of stage. Private to the library; the signature of kernels is in
 * tflite_fuse_rows.h.
 *
 * The file of a kernel defines its kind's entry, tflite_fuse_kind_..., and a row of tflite_fuse_kinds.c names it. The
 * executor does everything that is the same for all kinds (graph, rings, windows, padding, tiles). */
#ifndef TFLITE_FUSE_KINDS_H_
#define TFLITE_FUSE_KINDS_H_

#include <stddef.h>

#include "../tflite_fuse_rows.h"
#include "tflite_fuse_compiler.h"
#include "tflite_fuse_format.h"
#include "tflite_fuse_loops.h"

TFLITE_FUSE_HIDDEN_BEGIN

/* Returns the number of pointers from a tap to the next one of its row. 0 for a single column, whose dilation may be of
 * any size: advancing a pointer that far would be undefined. */
static inline int32_t tflite_fuse_to_next_tap(const tflite_fuse_stage* stage) {
  return stage->kernel_width > 1 ? stage->dilation_width : 0;
}

/* The sums over a stage's whole input before it writes its single output pixel. */
enum tflite_fuse_sums {
  TFLITE_FUSE_SUMS_NOTHING = 0,
  TFLITE_FUSE_SUMS_PRODUCTS, /* of an input of more than one pixel, int32 */
  TFLITE_FUSE_SUMS_VALUES,   /* int16 where they fit, else int32 */
  TFLITE_FUSE_SUMS_LARGEST,  /* no sums: a byte for each channel */
  TFLITE_FUSE_SUMS_REALS     /* float32 */
};

/* A kind of stage. Fields left out are 0: they do not apply. Checks may rely on numbers in range and fitting shapes. */
typedef struct {
  uint8_t min_inputs, max_inputs; /* no inputs: pixels come from a callback */
  uint8_t operands;               /* inputs per call of the kernel; with more inputs it is called for each */
  uint8_t sums;                   /* enum tflite_fuse_sums */
  uint8_t packed_pixels;          /* neighbouring pixels computed together with packed weights; 0 for one */
  uint8_t whole;                  /* 1 or 2: every output pixel needs all of this input, whose pixels are contiguous */
  bool has_window;                /* kernel, stride and dilation may differ from 1, taps may fall outside the image */
  bool has_padding;               /* padding may differ from 0 */
  bool cuts;                      /* padding may be negative: windows start inside the image */
  bool spreads;                   /* dilation is the distance of input pixels, which windows lie on */
  bool keeps_channels;            /* inputs have as many channels as the output */
  bool keeps_extent;              /* inputs have as many rows and columns as the output */
  bool reads_float;               /* inputs are float32, else int8 */
  bool writes_float;              /* the output is float32, else int8 */
  bool moves;                     /* output and inputs have the same type */

  /* Returns whether its tensors fit together, beyond the above. */
  bool (*fits)(const tflite_fuse_block* block, const tflite_fuse_stage* stage);
  /* Returns the bytes of its weights, at most INT32_MAX + 1; -1 if the layout is not supported. */
  int64_t (*weight_bytes)(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                          const tflite_fuse_tensor* output);
  /* Returns whether its table lies in the `room` bytes from `table` on (NULL and -1: there is none), aligned to 4, and
   * holds values that its kernel supports. */
  bool (*table_is_sound)(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                         int64_t room);

  /* Prepares a stage's state for a run and returns why it cannot run; after a successful run, commits the state. Then
   * io has only the state. */
  tflite_fuse_status (*keep)(const tflite_fuse_block* block, const tflite_fuse_stage* stage, const tflite_fuse_io* io,
                             bool is_done);

  /* Computes call->count output pixels. */
  tflite_fuse_kernel compute;
  /* The two halves of a kernel that sums: `sum` adds call->count input pixels, the first of which is number `position`
   * of its tensor in raster order, to sums that start at zero; `finish` turns them into the output pixel.
   * sums: tflite_fuse_accumulator_bytes(), 4-byte aligned. */
  void (*sum)(const tflite_fuse_call* call, int32_t position, void* sums);
  void (*finish)(const tflite_fuse_call* call, const void* sums);
} tflite_fuse_entry;

/* Entries by kind; NULL if there is none. */
extern const tflite_fuse_entry* const tflite_fuse_kinds[];

/* Returns the entry of any number, NULL if there is none. */
const tflite_fuse_entry* tflite_fuse_find_kind(int32_t kind);

/* Returns the entry of a checked stage. */
static inline const tflite_fuse_entry* tflite_fuse_entry_of(const tflite_fuse_stage* stage) {
  return tflite_fuse_kinds[stage->kind];
}

/* Kernels that others call. */
void tflite_fuse_conv(const tflite_fuse_call* call);
void tflite_fuse_conv_packed(const tflite_fuse_call* call);
void tflite_fuse_conv_int16(const tflite_fuse_call* call);
void tflite_fuse_conv_paired(const tflite_fuse_call* call);
void tflite_fuse_depthwise_packed(const tflite_fuse_call* call);

TFLITE_FUSE_HIDDEN_END

#endif
