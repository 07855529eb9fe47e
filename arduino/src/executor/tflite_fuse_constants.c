/* Checks the constants of a stage: weights, tables of multipliers and shifts, the pixel that pads. */
#include "tflite_fuse_checks.h"

static int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

static bool is_packed(const tflite_fuse_stage* stage) { return stage->weight_layout != TFLITE_FUSE_LAYOUT_PLAIN; }

/* Whether the kernels for packed weights can do a stage whose window is sound. */
static bool packing_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input) {
  const int64_t taps = (int64_t)stage->kernel_height * stage->kernel_width;
  if (stage->kind == TFLITE_FUSE_KIND_CONV || stage->kind == TFLITE_FUSE_KIND_DEPTHWISE ||
      (stage->kind == TFLITE_FUSE_KIND_FULLY_CONNECTED && tflite_fuse_pixels(input) == 1)) {
    if (tflite_fuse_packs_as_conv(stage, input)) {
      if (input->channels % 4 == 0) {
        return taps <= TFLITE_FUSE_MAX_LISTED_TAPS;
      }
      return tflite_fuse_packed_values(stage, input) <= TFLITE_FUSE_MAX_PATCH_VALUES &&
             (stage->kernel_width == 1 || stage->kernel_width * input->channels <= TFLITE_FUSE_MAX_ROW_VALUES);
    }
    return stage->depth_multiplier == 1 && within(stage->kernel_width, 3, 7) && stage->kernel_width % 2 == 1 &&
           stage->kernel_height == stage->kernel_width && stage->stride_width <= 2 && stage->dilation_width == 1 &&
           pointers_of_one(stage, input) + TFLITE_FUSE_DEPTHWISE_PIXELS <= TFLITE_FUSE_STACK_POINTERS;
  }
  return false;
}

static int64_t packed_weight_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                   const tflite_fuse_tensor* output) {
  const int64_t rows = stage->kernel_height, columns = stage->kernel_width;
  if (tflite_fuse_packs_as_conv(stage, input)) {
    return bounded(tflite_fuse_packed_values(stage, input), round_up(output->channels, 2));
  }
  const int64_t pairs = rows / 2 * round_up(columns, 2) * 2;
  return bounded(pairs + (rows % 2 != 0 ? round_up(columns, 4) : 0), output->channels);
}

int64_t tflite_fuse_weight_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                 const tflite_fuse_tensor* output) {
  if (is_packed(stage)) {
    return packed_weight_bytes(stage, input, output);
  }
  const int64_t taps = (int64_t)stage->kernel_height * stage->kernel_width;
  switch (stage->kind) {
    case TFLITE_FUSE_KIND_CONV:
      return bounded(bounded(taps, input->channels), output->channels);
    case TFLITE_FUSE_KIND_DEPTHWISE:
      return bounded(taps, output->channels);
    case TFLITE_FUSE_KIND_FULLY_CONNECTED:
      return bounded(bounded(tflite_fuse_pixels(input), input->channels), output->channels);
    default:
      return 0;
  }
}

/* Entries of a stage's table of biases, multipliers and shifts. */
static int32_t channel_entries(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output) {
  switch (stage->kind) {
    case TFLITE_FUSE_KIND_CONV:
    case TFLITE_FUSE_KIND_DEPTHWISE:
    case TFLITE_FUSE_KIND_FULLY_CONNECTED:
      return is_packed(stage) ? (int32_t)round_up(output->channels, 2) : output->channels;
    case TFLITE_FUSE_KIND_GLOBAL_AVERAGE:
      return stage->table_offset == TFLITE_FUSE_NONE ? 0 : 1;
    default:
      return 0;
  }
}

static bool channels_are_sound(const tflite_fuse_stage* stage, const tflite_fuse_channel* table, int32_t entries) {
  const bool is_down = stage->weight_layout == TFLITE_FUSE_LAYOUT_PACKED_DOWN;
  const int32_t least = is_down ? 0 : -31, most = is_down ? TFLITE_FUSE_MAX_DOWN_SHIFT : 30;
  for (int32_t c = 0; c < entries; ++c) {
    if (table[c].multiplier == INT32_MIN || !within(table[c].shift, least, most)) {
      return false;
    }
  }
  return true;
}

static bool addition_is_sound(const tflite_fuse_addition* table) {
  return within(table->left_shift, 0, TFLITE_FUSE_MAX_ADD_SHIFT) && table->multiplier_0 >= 0 &&
         table->multiplier_1 >= 0 && table->output_multiplier >= 0 && within(table->shift_0, -31, 0) &&
         within(table->shift_1, -31, 0) && within(table->output_shift, -31, 0);
}

static bool leaves_image(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                         const tflite_fuse_tensor* output) {
  return stage->pad_top > 0 || stage->pad_left > 0 ||
         reach(output->height, stage->stride_height, stage->kernel_height, stage->dilation_height, 0) >=
             input->height ||
         reach(output->width, stage->stride_width, stage->kernel_width, stage->dilation_width, 0) >= input->width;
}

bool tflite_fuse_constants_are_sound(const tflite_fuse_block* block, const tflite_fuse_stage* stage, size_t size) {
  if (stage->kind == TFLITE_FUSE_KIND_SOURCE) {
    return true;
  }
  const int64_t end = size > INT32_MAX ? INT32_MAX : (int64_t)size;
  const tflite_fuse_tensor* input = tflite_fuse_input_of(block, stage, 0);
  const tflite_fuse_tensor* output = &block->tensors[stage->output];
  if (is_packed(stage) && (!packing_is_sound(stage, input) || stage->weights_offset % 4 != 0)) {
    return false;
  }
  const int64_t weights = tflite_fuse_weight_bytes(stage, input, output);
  if (weights > 0 && !fits(stage->weights_offset, weights, 0, end)) {
    return false;
  }
  const int32_t entries = channel_entries(stage, output);
  const void* table = block->constants + tflite_fuse_max(stage->table_offset, 0);
  if (entries > 0 && (!fits_aligned(stage->table_offset, entries * (int64_t)sizeof(tflite_fuse_channel), 0, end) ||
                      !channels_are_sound(stage, table, entries))) {
    return false;
  }
  if (stage->kind == TFLITE_FUSE_KIND_ADD &&
      (!fits_aligned(stage->table_offset, sizeof(tflite_fuse_addition), 0, end) || !addition_is_sound(table))) {
    return false;
  }
  const bool sees_padding = !tflite_fuse_accumulates(stage, input) &&
                            (leaves_image(stage, input, output) || tflite_fuse_pixels_at_once(stage, input) > 1);
  return !sees_padding || fits(stage->pad_offset, input->channels, 0, end);
}
