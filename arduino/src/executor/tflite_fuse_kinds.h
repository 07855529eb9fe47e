/* What the library knows of a kind of stage. Private to the library; how kernels are called is in tflite_fuse_rows.h.
 *
 * The file of a kernel defines its kind's entry, tflite_fuse_kind_..., and a row of tflite_fuse_kinds.c names it. All
 * that is the same for all kinds (graph, rings, windows, padding, tiles) is the executor's. */
#ifndef TFLITE_FUSE_KINDS_H_
#define TFLITE_FUSE_KINDS_H_

#include <stddef.h>

#include "../tflite_fuse_rows.h"
#include "tflite_fuse_compiler.h"
#include "tflite_fuse_format.h"
#include "tflite_fuse_loops.h"

TFLITE_FUSE_HIDDEN_BEGIN

/* Pointers from a tap to the next one of its row. 0 where there is none: the dilation of such a window may have any size,
 * and a pointer must not be moved that far, not even to be left there. */
static inline int32_t tflite_fuse_to_next_tap(const tflite_fuse_stage* stage) {
  return stage->kernel_width > 1 ? stage->dilation_width : 0;
}

/* What a stage sums up over its whole input before it writes its one output pixel. */
enum tflite_fuse_sums {
  TFLITE_FUSE_SUMS_NOTHING = 0,
  TFLITE_FUSE_SUMS_PRODUCTS, /* of an input of more than one pixel, int32 */
  TFLITE_FUSE_SUMS_VALUES,   /* int16 where they fit, else int32 */
  TFLITE_FUSE_SUMS_LARGEST,  /* no sums: a byte for each channel */
  TFLITE_FUSE_SUMS_REALS     /* float32 */
};

/* One kind of stage. What is left out is 0: it does not apply. Checks see numbers in range and shapes that fit. */
typedef struct {
  uint8_t min_inputs, max_inputs; /* no inputs: pixels come from a callback */
  uint8_t operands;               /* inputs a kernel sees at once; a kind with more inputs is called for each of them */
  uint8_t sums;                   /* enum tflite_fuse_sums */
  uint8_t packed_pixels;          /* neighbouring pixels computed together if weights are packed, if more than one */
  bool has_window;                /* kernel, stride and dilation may differ from 1, taps may fall outside the image */
  bool has_padding;               /* the same of the padding */
  bool cuts;                      /* padding may be negative: windows start inside the image */
  bool spreads;                   /* dilation is that of the input: windows lie on its pixels spread out */
  bool keeps_channels;            /* inputs have as many channels as the output */
  bool keeps_extent;              /* and as many rows and columns */
  bool reads_float;               /* inputs are float32, else int8 */
  bool writes_float;              /* and the output */
  bool moves;                     /* output and inputs are of one type, whichever it is */

  /* Whether its tensors fit together, beyond the above. */
  bool (*fits)(const tflite_fuse_block* block, const tflite_fuse_stage* stage);
  /* Bytes of its weights, at most INT32_MAX + 1; -1 if there are none of this layout. */
  int64_t (*weight_bytes)(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                          const tflite_fuse_tensor* output);
  /* Whether its table lies in the `room` bytes from `table` on (NULL and -1: there is none), a multiple of 4, and holds
   * numbers its kernel can take. */
  bool (*table_is_sound)(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                         int64_t room);

  /* Makes ready what a stage keeps from run to run, or says why it cannot run; behind a run that has ended well, moves it
   * on. Then io has its state alone. */
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

/* By kind; NULL if there is none. */
extern const tflite_fuse_entry* const tflite_fuse_kinds[];

/* The entry of any number, NULL if there is none. */
const tflite_fuse_entry* tflite_fuse_find_kind(int32_t kind);

/* The entry of a stage that has been checked. */
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
