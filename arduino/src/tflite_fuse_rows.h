/* Declares the signature of kernels, and how an application adds its own.
 *
 * A kernel computes a run of neighbouring output pixels of one stage of a block. It receives pointers to pixels, not
 * tensors. All kernels have the same signature, so each can be called by itself, and an application's kernel can pass
 * calls on that it does not support. This allows convolutions with the vector instructions of cores that this library
 * has no code for (ESP32-S3, ESP32-P4):
 *
 *     static void convolve(const tflite_fuse_call* call) {
 *       if (call->stage->weight_layout != TFLITE_FUSE_LAYOUT_PACKED || call->inputs[0]->channels % 16 != 0) {
 *         tflite_fuse_kernel_of(TFLITE_FUSE_KIND_CONV)(call);
 *         return;
 *       }
 *       ...
 *     }
 *     static const tflite_fuse_rows rows = {convolve, NULL, NULL, NULL};
 *     ...
 *     status = tflite_fuse_use_rows(&block, &rows, &io);  // TFLITE_FUSE_WRONG_ROWS: the library's kernels stay
 *
 * The library has no such kernels itself and does not predict their speed. */
#ifndef TFLITE_FUSE_ROWS_H_
#define TFLITE_FUSE_ROWS_H_

#include "executor/tflite_fuse_format.h" /* stages, tensors, kinds and layouts */
#include "tflite_fuse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One run of `count` neighbouring output pixels, all in one row.
 *
 * stage: window, clamp, layout of weights. inputs, output: shapes and zero points.
 * weights, table: the stage's constants, as schemas/fused_block.fbs has them at StageDesc and WeightLayout.
 * windows[0]: the input pixels under the windows, kernel_height rows of `columns` pointers. Output pixel i reads at tap
 *     (ky, kx) windows[0][ky * columns + i * stride_width + kx * dilation_width]; if at_once is not 1,
 *     windows[0][ky + (i * stride_width + kx * dilation_width) * kernel_height]. Taps outside the image point to `pad`.
 *     For stages that spread their input out (RESIZE, TRANSPOSE_CONV, DEPTH_TO_SPACE): all pixels under the windows,
 *     rows of `columns` pointers from pixel (first_row, first_column) on; output pixel 0 is (y, x).
 * windows[1]: the second operand of kinds with two, one pointer per output pixel: to its pixel at the same place, or to
 *     the first pixel of an operand that each output pixel needs whole.
 * outputs: one pointer per output pixel; a kernel writes output->channels elements to each. Windows of one pixel may be
 *     the outputs: then each output pixel replaces the input pixel at its place. Only the library's kernels get such
 *     calls. */
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
  int32_t at_once; /* neighbouring pixels that the library's kernel computes together */
  int32_t y, x;    /* of the first output pixel */
  int32_t first_row, first_column; /* for stages that spread their input out */
  void* user;      /* tflite_fuse_rows.user, for the application's kernels */
} tflite_fuse_call;

/* Computes all pixels of a call. */
typedef void (*tflite_fuse_kernel)(const tflite_fuse_call* call);

/* Returns the library's kernel for stages of a kind (enum tflite_fuse_kind); NULL if there is none, as in an exported
 * project without that kind, and for kinds that only sum over their whole input. */
tflite_fuse_kernel tflite_fuse_kernel_of(int32_t kind);

/* Kernels of the application; NULL for the library's. */
typedef struct tflite_fuse_rows {
  tflite_fuse_kernel convolution;
  tflite_fuse_kernel depthwise;
  void* user;            /* passed in every call */
  tflite_fuse_kernel others; /* for all other kinds, and for those above that are NULL */
} tflite_fuse_rows;

/* Makes a prepared block use an application's kernels if their results equal the library's.
 *
 * The block runs a few times on pseudo-random inputs; every run of pixels is computed by both and all its bytes are
 * compared, so each shape of the block is tested, including borders. Not all inputs are: it is a test, not a proof.
 *
 * io: memory of a run, in which inputs and outputs must not overlap. Inputs and outputs are overwritten; external
 * tensors and sources are only read. rows: must outlive all runs; NULL restores the library's kernels. Returns
 * TFLITE_FUSE_OK; TFLITE_FUSE_WRONG_ROWS if any byte differed, and the block keeps the library's kernels; or the error
 * of a run. */
tflite_fuse_status tflite_fuse_use_rows(tflite_fuse_block* block, const tflite_fuse_rows* rows,
                                        const tflite_fuse_io* io);

#ifdef __cplusplus
}
#endif

#endif
