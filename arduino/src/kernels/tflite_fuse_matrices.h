/* Declares functions of the matrix products on int8 and on float32: distances of a matrix's values, and
 * checks of shapes. */
#ifndef TFLITE_FUSE_MATRICES_H_
#define TFLITE_FUSE_MATRICES_H_

#include "../executor/tflite_fuse_checks.h"

enum { TFLITE_FUSE_MOST_DEPTH = 1 << 15 /* sums of this many products of 9-bit values fit int32 */ };

/* Distances in values from one value of a matrix to the next of its row, and of its column. */
typedef struct {
  int32_t to_column, to_row;
} tflite_fuse_matrix_steps;

/* Returns the distances. by_column: the matrix is stored column by column. */
static inline tflite_fuse_matrix_steps tflite_fuse_matrix_steps_of(const tflite_fuse_call* call, bool by_column) {
  const int32_t depth = call->inputs[0]->channels, columns = call->output->channels;
  const tflite_fuse_matrix_steps steps = {by_column ? depth : 1, by_column ? 1 : columns};
  return steps;
}

/* Returns the number of values before the matrix of a call's pixel i: each matrix serves the same number of pixels. */
static TFLITE_FUSE_RARE size_t tflite_fuse_before_matrix(const tflite_fuse_call* call, int32_t i) {
  const int32_t matrix_values = call->inputs[0]->channels * call->output->channels;
  const int32_t count = tflite_fuse_pixels(call->inputs[1]) * call->inputs[1]->channels / matrix_values;
  const int32_t pixel = call->y * call->output->width + call->x + i;
  return (size_t)(pixel / (tflite_fuse_pixels(call->output) / count)) * (size_t)matrix_values;
}

/* `fits` of both kinds: the second input is one or several whole matrices, stored without gaps. */
static TFLITE_FUSE_RARE bool tflite_fuse_matrices_fit(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  const tflite_fuse_tensor* first = tflite_fuse_input_of(block, stage, 0);
  const tflite_fuse_tensor* second = tflite_fuse_input_of(block, stage, 1);
  const tflite_fuse_tensor* output = &block->tensors[stage->output];
  const uint32_t matrix_values = tflite_fuse_volume(1, first->channels, output->channels);
  const uint32_t all_values = tflite_fuse_volume(second->height, second->width, second->channels);
  return first->channels <= TFLITE_FUSE_MOST_DEPTH && matrix_values <= INT32_MAX && all_values % matrix_values == 0 &&
         (second->channels == first->channels || second->channels == output->channels) &&
         (uint32_t)tflite_fuse_pixels(output) % (all_values / matrix_values) == 0 &&
         second->storage != TFLITE_FUSE_STORAGE_PERSISTENT &&
         (second->storage != TFLITE_FUSE_STORAGE_SCRATCH || second->capacity == tflite_fuse_pixels(second));
}

#endif
