/* What the products of matrices on int8 and on float32 share: the places of a matrix's values, and the shapes. */
#ifndef TFLITE_FUSE_MATRICES_H_
#define TFLITE_FUSE_MATRICES_H_

#include "../executor/tflite_fuse_checks.h"

enum { TFLITE_FUSE_MOST_DEPTH = 1 << 15 /* sums of so many products of two values of nine bits fit int32 */ };

/* Values from one of a matrix to the next one of its row, and of its column. */
typedef struct {
  int32_t to_column, to_row;
} tflite_fuse_steps;

/* by_column: whether a matrix's values lie column by column. */
static inline tflite_fuse_steps tflite_fuse_steps_of(const tflite_fuse_call* call, bool by_column) {
  const int32_t depth = call->inputs[0]->channels, columns = call->output->channels;
  const tflite_fuse_steps steps = {by_column ? depth : 1, by_column ? 1 : columns};
  return steps;
}

/* Returns the values before the matrix of a call's pixel i: each matrix is for as many pixels. */
static TFLITE_FUSE_RARE size_t tflite_fuse_before_matrix(const tflite_fuse_call* call, int32_t i) {
  const int32_t one = call->inputs[0]->channels * call->output->channels;
  const int32_t count = tflite_fuse_pixels(call->inputs[1]) * call->inputs[1]->channels / one;
  const int32_t pixel = call->y * call->output->width + call->x + i;
  return (size_t)(pixel / (tflite_fuse_pixels(call->output) / count)) * (size_t)one;
}

/* The `fits` of both kinds: the second input is some whole matrices, stored without gaps. */
static TFLITE_FUSE_RARE bool tflite_fuse_matrices_fit(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  const tflite_fuse_tensor* first = tflite_fuse_input_of(block, stage, 0);
  const tflite_fuse_tensor* second = tflite_fuse_input_of(block, stage, 1);
  const tflite_fuse_tensor* output = &block->tensors[stage->output];
  const uint32_t one = tflite_fuse_volume(1, first->channels, output->channels);
  const uint32_t all = tflite_fuse_volume(second->height, second->width, second->channels);
  return first->channels <= TFLITE_FUSE_MOST_DEPTH && one <= INT32_MAX && all % one == 0 &&
         (second->channels == first->channels || second->channels == output->channels) &&
         (uint32_t)tflite_fuse_pixels(output) % (all / one) == 0 &&
         second->storage != TFLITE_FUSE_STORAGE_PERSISTENT &&
         (second->storage != TFLITE_FUSE_STORAGE_SCRATCH || second->capacity == tflite_fuse_pixels(second));
}

#endif
