/* Multiplies the pixels of a float32 tensor by a matrix that is another tensor: one row of the product per
 * output pixel.
 *
 * The table is an int32: 1 if pixels of the second input are the matrix's columns, 0 if they are its rows. */
#include "../tflite_fuse_matrices.h"
#include "tflite_fuse_floats.h"

/* Computes one pixel, four columns at a time: five loads feed four products. */
static void one_pixel(const tflite_fuse_call* call, const float* pixel, const float* matrix, float* output) {
  const tflite_fuse_matrix_steps step = tflite_fuse_matrix_steps_of(call, *(const int32_t*)call->table != 0);
  const float* const end = pixel + call->inputs[0]->channels;
  const int32_t columns = call->output->channels;
  for (int32_t c = 0; c < columns; c += TFLITE_FUSE_TOGETHER) {
    const int32_t in_group = tflite_fuse_min(columns - c, TFLITE_FUSE_TOGETHER); /* columns beyond the last repeat it */
    const float* m0 = matrix + (size_t)c * (size_t)step.to_column;
    const float* m1 = m0 + (in_group > 1 ? step.to_column : 0);
    const float* m2 = m1 + (in_group > 2 ? step.to_column : 0);
    const float* m3 = m2 + (in_group > 3 ? step.to_column : 0);
    float sums[TFLITE_FUSE_TOGETHER], a0 = 0, a1 = 0, a2 = 0, a3 = 0;
    int32_t at = 0;
    for (const float* x = pixel; x != end; ++x, at += step.to_row) {
      a0 = tflite_fuse_add_product(a0, *x, m0[at]);
      a1 = tflite_fuse_add_product(a1, *x, m1[at]);
      a2 = tflite_fuse_add_product(a2, *x, m2[at]);
      a3 = tflite_fuse_add_product(a3, *x, m3[at]);
    }
    sums[0] = a0, sums[1] = a1, sums[2] = a2, sums[3] = a3;
    memcpy(output + c, sums, (size_t)in_group * sizeof(float));
  }
}

static void matrix_product(const tflite_fuse_call* call) {
  for (int32_t i = 0; i < call->count; ++i) {
    const float* matrix = tflite_fuse_floats_at(call->windows[1][0]) + tflite_fuse_before_matrix(call, i);
    one_pixel(call, tflite_fuse_floats_at(call->windows[0][i]), matrix, (float*)(void*)call->outputs[i]);
  }
}

static TFLITE_FUSE_RARE bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                            const void* table, int64_t room) {
  (void)stage, (void)output;
  return room >= (int64_t)sizeof(int32_t) && within(*(const int32_t*)table, 0, 1);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_float_matrix_product = {
    .min_inputs = 2,
    .max_inputs = 2,
    .operands = 2,
    .keeps_extent = true,
    .whole = 2,
    .reads_float = true,
    .writes_float = true,
    .fits = tflite_fuse_matrices_fit,
    .table_is_sound = table_is_sound,
    .keep = tflite_fuse_floats_are_ready,
    .compute = matrix_product,
};
