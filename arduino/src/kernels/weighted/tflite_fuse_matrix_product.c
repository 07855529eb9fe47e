/* Pixels of a tensor times a matrix that is another tensor: a row of one matrix per output pixel. The pixels of the
 * second input are the matrix's columns or its rows; several matrices lie one behind the other, each for as many pixels. */
#include "../../executor/tflite_fuse_checks.h"
#include "../tflite_fuse_requantize.h"

enum { MOST_DEPTH = 1 << 15 }; /* sums of so many products of two values of nine bits fit int32 */

/* As in the format, behind the stage's triple. */
typedef struct {
  tflite_fuse_channel scale;
  int32_t by_column;
} matrix_table;

/* Bytes from a value of a matrix to the next one of its row, and of its column. */
typedef struct {
  int32_t to_column, to_row;
} steps;

/* Four columns at a time: five loads feed four products. */
static void one_pixel(const tflite_fuse_call* call, const int8_t* pixel, const int8_t* matrix, steps step,
                      int8_t* output) {
  const tflite_fuse_channel scale = ((const matrix_table*)call->table)->scale;
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const int32_t zero_0 = call->inputs[0]->zero_point, zero_1 = call->inputs[1]->zero_point;
  const int32_t columns = call->output->channels;
  const int8_t* const end = pixel + call->inputs[0]->channels;

  for (int32_t c = 0; c < columns; c += 4) {
    const int32_t some = tflite_fuse_min(columns - c, 4); /* what is too much is computed again, not stored */
    const int8_t* column = matrix + (size_t)c * (size_t)step.to_column;
    const int32_t to_1 = some > 1 ? step.to_column : 0, to_2 = some > 2 ? 2 * step.to_column : 0;
    const int32_t to_3 = some > 3 ? 3 * step.to_column : 0;
    int32_t sums[4] = {0};
    int32_t at = 0;
    for (const int8_t* x = pixel; x != end; ++x, at += step.to_row) {
      const int32_t value = *x - zero_0;
      sums[0] += value * (column[at] - zero_1);
      sums[1] += value * (column[at + to_1] - zero_1);
      sums[2] += value * (column[at + to_2] - zero_1);
      sums[3] += value * (column[at + to_3] - zero_1);
    }
    for (int32_t k = 0; k < some; ++k) {
      output[c + k] = tflite_fuse_requantize(sums[k], scale, range);
    }
  }
}

/* Returns the matrices in the second input, whose values are a multiple of those of one matrix. */
static int32_t matrices_of(const tflite_fuse_tensor* const* inputs, const tflite_fuse_tensor* output) {
  return tflite_fuse_pixels(inputs[1]) * inputs[1]->channels / (inputs[0]->channels * output->channels);
}

static void matrix_product(const tflite_fuse_call* call) {
  const int32_t depth = call->inputs[0]->channels, columns = call->output->channels;
  const steps by_column = {depth, 1}, by_row = {1, columns};
  const steps step = ((const matrix_table*)call->table)->by_column ? by_column : by_row;
  const int32_t each = tflite_fuse_pixels(call->output) / matrices_of(call->inputs, call->output);
  const int32_t first = call->y * call->output->width + call->x;
  for (int32_t i = 0; i < call->count; ++i) {
    const size_t before = (size_t)((first + i) / each) * (size_t)depth * (size_t)columns;
    one_pixel(call, call->windows[0][i], call->windows[1][0] + before, step, call->outputs[i]);
  }
}

static bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output, const void* table,
                           int64_t room) {
  (void)output;
  return room >= (int64_t)sizeof(matrix_table) && within(((const matrix_table*)table)->by_column, 0, 1) &&
         tflite_fuse_entries_are_sound(stage, table, 1, room);
}

/* Returns whether the second input is some whole matrices, stored without gaps. */
static bool matrices_fit(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  const tflite_fuse_tensor* inputs[2] = {tflite_fuse_input_of(block, stage, 0), tflite_fuse_input_of(block, stage, 1)};
  const tflite_fuse_tensor *output = &block->tensors[stage->output], *second = inputs[1];
  const uint32_t one = tflite_fuse_volume(1, inputs[0]->channels, output->channels);
  const uint32_t all = tflite_fuse_volume(second->height, second->width, second->channels);
  return inputs[0]->channels <= MOST_DEPTH && one <= INT32_MAX && all % one == 0 &&
         (second->channels == inputs[0]->channels || second->channels == output->channels) &&
         tflite_fuse_pixels(output) % matrices_of(inputs, output) == 0 &&
         second->storage != TFLITE_FUSE_STORAGE_PERSISTENT &&
         (second->storage != TFLITE_FUSE_STORAGE_SCRATCH || second->capacity == tflite_fuse_pixels(second));
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_matrix_product = {
    .min_inputs = 2,
    .max_inputs = 2,
    .operands = 2,
    .keeps_extent = true,
    .second_whole = true,
    .fits = matrices_fit,
    .table_is_sound = table_is_sound,
    .compute = matrix_product,
};
