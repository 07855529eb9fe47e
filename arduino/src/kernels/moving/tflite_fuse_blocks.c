/* Rearranges squares of pixels, or one pixel of each plane, into the channels of one pixel (SPACE_TO_DEPTH), and
 * squares back (DEPTH_TO_SPACE). */
#include "../../executor/tflite_fuse_checks.h"

/* No memcpy: tensors of a hostile file may overlap. */
static int8_t* copy(int8_t* to, const int8_t* from, int32_t count) {
  for (const int8_t* end = from + count; from != end; ++from, ++to) {
    *to = *from;
  }
  return to;
}

static void space_to_depth(const tflite_fuse_call* call) {
  const tflite_fuse_stage* stage = call->stage;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* const* row = call->windows[0] + i * stage->stride_width;
    int8_t* to = call->outputs[i];
    for (int32_t y = 0; y < stage->kernel_height; ++y, row += call->columns) {
      for (int32_t x = 0; x < stage->kernel_width; ++x) {
        to = copy(to, row[x], tflite_fuse_pixel_bytes(call->inputs[0]));
      }
    }
  }
}

static void depth_to_space(const tflite_fuse_call* call) {
  const int32_t size = call->stage->kernel_width, bytes = tflite_fuse_pixel_bytes(call->output);
  const int32_t row = call->y / size - call->first_row, part = call->y % size * size;
  for (int32_t i = 0; i < call->count; ++i) {
    const int32_t x = call->x + i;
    const int8_t* pixel = call->windows[0][row * call->columns + x / size - call->first_column];
    (void)copy(call->outputs[i], pixel + (part + x % size) * bytes, bytes);
  }
}

/* Returns whether each pixel of `small` has the channels of a square of `size` x `size` pixels of `large`. */
static bool are_squares(const tflite_fuse_tensor* small, const tflite_fuse_tensor* large, int64_t size) {
  return small->height * size == large->height && small->width * size == large->width &&
         small->channels == large->channels * size * size;
}

static bool is_square(const tflite_fuse_stage* stage, int32_t stride, int32_t dilation, int32_t pad) {
  return stage->kernel_height == stage->kernel_width && stage->stride_height == stride &&
         stage->stride_width == stride && stage->dilation_height == dilation && stage->dilation_width == dilation &&
         stage->pad_top == pad && stage->pad_left == pad;
}

/* Returns whether a tensor of one channel holds the planes of an image one below the other, and a window reads one
 * pixel of each. */
static bool are_planes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* image,
                       const tflite_fuse_tensor* planes) {
  return stage->kernel_height == image->channels && stage->kernel_width == 1 && stage->stride_height == 1 &&
         stage->stride_width == 1 && stage->dilation_height == image->height && stage->dilation_width == 1 &&
         stage->pad_top == 0 && stage->pad_left == 0 && planes->channels == 1 && planes->width == image->width &&
         planes->height == (int64_t)image->height * image->channels;
}

static bool fits_depth(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  const int32_t size = stage->kernel_width;
  const tflite_fuse_tensor* input = tflite_fuse_input_of(block, stage, 0);
  const tflite_fuse_tensor* output = &block->tensors[stage->output];
  return are_planes(stage, output, input) || (is_square(stage, size, 1, 0) && are_squares(output, input, size));
}

static bool fits_space(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  const int32_t size = stage->kernel_width;
  return is_square(stage, 1, size, size - 1) &&
         are_squares(tflite_fuse_input_of(block, stage, 0), &block->tensors[stage->output], size);
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_space_to_depth = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .has_window = true,
    .moves = true,
    .fits = fits_depth,
    .compute = space_to_depth,
};

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_depth_to_space = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .has_window = true,
    .has_padding = true,
    .spreads = true,
    .moves = true,
    .fits = fits_space,
    .compute = depth_to_space,
};
