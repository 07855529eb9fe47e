/* Multiplies the pixels of an int8 tensor by a matrix that is another tensor: one row of the product per output pixel.
 * The pixels of the second input are the matrix's columns or its rows; several matrices follow each other. */
#include "../tflite_fuse_matrices.h"
#include "../tflite_fuse_requantize.h"

/* The table, as schemas/fused_block.fbs documents it. */
typedef struct {
  tflite_fuse_channel scale;
  int32_t by_column;
} matrix_table;

/* Computes one pixel, four columns at a time: five loads feed four products. The second operand's zero point is
 * subtracted from the sums. */
static TFLITE_FUSE_RARE void one_pixel(const tflite_fuse_call* call, const int8_t* pixel, const int8_t* matrix,
                                       int8_t* output) {
  const matrix_table* table = call->table;
  const tflite_fuse_matrix_steps step = tflite_fuse_matrix_steps_of(call, table->by_column != 0);
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const int32_t zero = call->inputs[0]->zero_point, columns = call->output->channels;
  const int8_t* const end = pixel + call->inputs[0]->channels;
  for (int32_t c = 0; c < columns; c += 4) {
    const int32_t in_group = tflite_fuse_min(columns - c, 4); /* absent columns repeat the last one, unused */
    const int8_t* m0 = matrix + (size_t)c * (size_t)step.to_column;
    const int8_t* m1 = m0 + (in_group > 1 ? step.to_column : 0);
    const int8_t* m2 = m1 + (in_group > 2 ? step.to_column : 0);
    const int8_t* m3 = m2 + (in_group > 3 ? step.to_column : 0);
    int32_t sums[4], a0 = 0, a1 = 0, a2 = 0, a3 = 0, values = 0, at = 0;
    for (const int8_t* x = pixel; x != end; ++x, at += step.to_row) {
      const int32_t value = *x - zero;
      values += value;
      a0 += value * m0[at];
      a1 += value * m1[at];
      a2 += value * m2[at];
      a3 += value * m3[at];
    }
    sums[0] = a0, sums[1] = a1, sums[2] = a2, sums[3] = a3;
    for (int32_t k = 0; k < in_group; ++k) {
      output[c + k] = tflite_fuse_requantize(sums[k] - values * call->inputs[1]->zero_point, table->scale, range);
    }
  }
}

static TFLITE_FUSE_RARE void matrix_product(const tflite_fuse_call* call) {
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* matrix = call->windows[1][0] + tflite_fuse_before_matrix(call, i);
    one_pixel(call, call->windows[0][i], matrix, call->outputs[i]);
  }
}

static TFLITE_FUSE_RARE bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                            const void* table, int64_t room) {
  (void)output;
  return room >= (int64_t)sizeof(matrix_table) && within(((const matrix_table*)table)->by_column, 0, 1) &&
         tflite_fuse_entries_are_sound(stage, table, 1, room);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_matrix_product = {
    .min_inputs = 2,
    .max_inputs = 2,
    .operands = 2,
    .keeps_extent = true,
    .whole = 2,
    .fits = tflite_fuse_matrices_fit,
    .table_is_sound = table_is_sound,
    .compute = matrix_product,
};
