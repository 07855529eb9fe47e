/* Resizes a float32 image: every output value is interpolated between four input values, or copied from one of them. */
#include "tflite_fuse_floats.h"

/* Position of an output row or column: between input rows or columns `from` and `to`, at distance `part` (0...1)
 * from `from`. */
typedef struct {
  int32_t from, to;
  float part;
} place;

typedef struct {
  int32_t interpolates;
  place places[1]; /* one per output row, then one per output column */
} float_places;

/* Interpolates between four corners in TFLM's order, also where parts are 0: with infinite values the order matters. */
static float between(const float* values, float down, float right) {
  float sum = values[0] * (1 - down) * (1 - right);
  sum = tflite_fuse_add_product(sum, values[1] * down, 1 - right);
  sum = tflite_fuse_add_product(sum, values[2] * (1 - down), right);
  sum = tflite_fuse_add_product(sum, values[3] * down, right);
  return sum + 0.0F;
}

static void resize(const tflite_fuse_call* call) {
  const float_places* table = call->table;
  const place row = table->places[call->y], *column = table->places + call->output->height + call->x;
  const int8_t* const* above = call->windows[0] + (row.from - call->first_row) * call->columns;
  const int8_t* const* below = call->windows[0] + (row.to - call->first_row) * call->columns;
  for (int32_t i = 0; i < call->count; ++i, ++column) {
    const int32_t left = column->from - call->first_column, right = column->to - call->first_column;
    const float* corners[4] = {tflite_fuse_floats_at(above[left]), tflite_fuse_floats_at(below[left]),
                               tflite_fuse_floats_at(above[right]), tflite_fuse_floats_at(below[right])};
    float* output = (float*)(void*)call->outputs[i];
    for (int32_t c = 0; c < call->output->channels; ++c) {
      const float values[4] = {corners[0][c], corners[1][c], corners[2][c], corners[3][c]};
      output[c] = table->interpolates ? between(values, row.part, column->part) : values[0];
    }
  }
}

/* Returns whether all rows or columns that are interpolated lie under the windows. */
static TFLITE_FUSE_RARE bool axis_is_sound(tflite_fuse_axis axis, const place* places, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    const int32_t first = tflite_fuse_first(&axis, i), last = tflite_fuse_end(&axis, i) - 1;
    if (!within(places[i].from, tflite_fuse_max(first, 0), last) || !within(places[i].to, first, last)) {
      return false;
    }
  }
  return true;
}

static TFLITE_FUSE_RARE bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                            const void* table, int64_t room) {
  const float_places* positions = table;
  const int64_t places = (int64_t)output->height + output->width;
  return room >= (int64_t)offsetof(float_places, places) + places * (int64_t)sizeof(place) &&
         axis_is_sound(tflite_fuse_rows_of(stage), positions->places, output->height) &&
         axis_is_sound(tflite_fuse_columns_of(stage), positions->places + output->height, output->width);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_float_resize = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .has_window = true,
    .has_padding = true,
    .spreads = true,
    .keeps_channels = true,
    .reads_float = true,
    .writes_float = true,
    .table_is_sound = table_is_sound,
    .keep = tflite_fuse_floats_are_ready,
    .compute = resize,
};
