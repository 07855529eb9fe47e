/* Resizes an int8 image: every output value is interpolated between four input values, or copied from one of them.
 *
 * The table: the position of every output row, then of every output column, in the input, in units of 1/1024 pixel. */
#include "../../executor/tflite_fuse_checks.h"
#include "../tflite_fuse_requantize.h"

enum { PARTS = 1024 };

static void resize_pixel(const tflite_fuse_call* call, const int8_t* const* corner, int32_t down, int32_t right,
                         int8_t* output) {
  const int32_t to_next_row = down > 0 ? call->columns : 0, to_next = right > 0;
  const int8_t *a = corner[0], *b = corner[to_next];
  const int8_t *c = corner[to_next_row], *d = corner[to_next_row + to_next];
  for (int32_t i = 0; i < call->output->channels; ++i) {
    const int32_t above = a[i] * (PARTS - right) + b[i] * right;
    const int32_t below = c[i] * (PARTS - right) + d[i] * right;
    output[i] = (int8_t)tflite_fuse_rounding_divide(above * (PARTS - down) + below * down, PARTS * PARTS);
  }
}

static TFLITE_FUSE_RARE void resize(const tflite_fuse_call* call) {
  const int32_t* rows = call->table;
  const int32_t* columns = rows + call->output->height + call->x;
  const int32_t row = rows[call->y];
  const int32_t start = (row / PARTS - call->first_row) * call->columns - call->first_column;
  for (int32_t i = 0; i < call->count; ++i) {
    resize_pixel(call, call->windows[0] + (start + columns[i] / PARTS), row % PARTS, columns[i] % PARTS,
                 call->outputs[i]);
  }
}

/* Returns whether all rows or columns that are interpolated lie under the windows. */
static bool axis_is_sound(tflite_fuse_axis axis, const int32_t* places, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    if (places[i] < 0 || places[i] > INT32_MAX - PARTS || places[i] / PARTS < tflite_fuse_first(&axis, i) ||
        (places[i] + PARTS - 1) / PARTS >= tflite_fuse_end(&axis, i)) {
      return false;
    }
  }
  return true;
}

static TFLITE_FUSE_RARE bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                            const void* table, int64_t room) {
  const int32_t* places = table;
  return room >= 4 * ((int64_t)output->height + output->width) &&
         axis_is_sound(tflite_fuse_rows_of(stage), places, output->height) &&
         axis_is_sound(tflite_fuse_columns_of(stage), places + output->height, output->width);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_resize = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .has_window = true,
    .has_padding = true,
    .spreads = true,
    .keeps_channels = true,
    .table_is_sound = table_is_sound,
    .compute = resize,
};
