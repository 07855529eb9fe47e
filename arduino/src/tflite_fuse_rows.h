/* Row kernels of an application's own: convolutions with the vector instructions of a core this library has no code for
 * (ESP32-S3, ESP32-P4), proven on the board against the library's own kernels before they are used.
 *
 *     static int convolve(void* user, const tflite_fuse_row* row) {
 *       if (row->weight_layout != 2 || row->input_channels % 16 != 0) return 0;  // the library does this one
 *       ...
 *       return 1;
 *     }
 *     static const tflite_fuse_rows rows = {convolve, NULL, NULL, NULL};
 *     ...
 *     status = tflite_fuse_use_rows(&block, &rows, &io);  // TFLITE_FUSE_WRONG_ROWS: the block keeps our kernels
 *
 * No more is claimed than that: the library has no such kernels, and says nothing about their speed. */
#ifndef TFLITE_FUSE_ROWS_H_
#define TFLITE_FUSE_ROWS_H_

#include "tflite_fuse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One run of neighbouring output pixels of a convolution.
 *
 * window: the input pixels below the windows, kernel_height rows of `columns` pointers. Output pixel i sees, at tap
 *     (ky, kx), window[ky * columns + i * stride_width + kx * dilation_width]; if at_once is not 1,
 *     window[ky + (i * stride_width + kx * dilation_width) * kernel_height]. Outside the image it points to padding.
 * weights, weight_layout, table: as schemas/fused_block.fbs has them at StageDesc and WeightLayout. */
typedef struct {
  const int8_t* weights;
  const int32_t* table;
  const int8_t* const* window;
  int8_t* const* outputs; /* one pointer for each output pixel */
  int32_t count;          /* output pixels */
  int32_t columns;
  int32_t at_once;
  int32_t kernel_height, kernel_width, stride_width, dilation_width;
  int32_t input_channels, output_channels;
  int32_t depth_multiplier;
  int32_t output_zero_point, activation_min, activation_max;
  int32_t weight_layout;
} tflite_fuse_row;

/* Computes all pixels of a row and returns 1, or touches nothing and returns 0: then the library computes them. */
typedef int (*tflite_fuse_row_kernel)(void* user, const tflite_fuse_row* row);

/* Kernels that are NULL are the library's. */
typedef struct tflite_fuse_rows {
  tflite_fuse_row_kernel convolution;
  tflite_fuse_row_kernel depthwise;
  void* user;            /* passed to the kernels */
  uint32_t* differences; /* NULL; the library's own while it tries kernels */
} tflite_fuse_rows;

/* Lets a prepared block use row kernels if they compute what the library's do.
 *
 * The block is run a few times, on pseudo-random inputs; every run of pixels is computed by both and all its bytes are
 * compared, so each shape of the block is tried, at its borders too. Not all inputs can be: it is a test, no proof.
 *
 * io: memory of a run, in which inputs and outputs must not overlap. Inputs and outputs are overwritten; external tensors
 * and sources are read as they are. rows: must stay as long as the block is run; NULL for the library's kernels again.
 * Returns TFLITE_FUSE_OK; TFLITE_FUSE_WRONG_ROWS if any byte differed, and the block keeps the library's kernels; or why it
 * could not be run. */
tflite_fuse_status tflite_fuse_use_rows(tflite_fuse_block* block, const tflite_fuse_rows* rows, const tflite_fuse_io* io);

#ifdef __cplusplus
}
#endif

#endif
