/* Computes partial sums of a convolution over some input channels, int32 as four int8 channels, little-endian; and adds
 * two of them, with a table to int8 values. Sums wrap, so their order does not matter. */
#include "../executor/tflite_fuse_checks.h"
#include "../kernels/tflite_fuse_packed.h"
#include "tflite_fuse_fragment.h"

enum { BYTES = 4 };

static int32_t load(const int8_t* from) {
  const uint8_t* byte = (const uint8_t*)from;
  return (int32_t)(byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 | (uint32_t)byte[3] << 24);
}

static void store(int8_t* to, int32_t sum) {
  for (int32_t b = 0; b < BYTES; ++b) {
    to[b] = (int8_t)((uint32_t)sum >> 8 * b);
  }
}

/* ---- Partial sums ---- */

/* Sums one output channel of one pixel. */
static TFLITE_FUSE_NOINLINE int32_t sum_of(const tflite_fuse_call* call, const int8_t* const* window,
                                           const int8_t* weights) {
  const tflite_fuse_stage* stage = call->stage;
  const int32_t depth = call->inputs[0]->channels;
  int32_t sum = 0;
  for (int32_t ky = 0; ky < stage->kernel_height; ++ky, window += call->columns) {
    for (int32_t kx = 0; kx < stage->kernel_width; ++kx, weights += depth) {
      sum = tflite_fuse_add_products(sum, window[kx * stage->dilation_width], weights, depth);
    }
  }
  return sum;
}

static TFLITE_FUSE_RARE void conv_sums(const tflite_fuse_call* call) {
  const tflite_fuse_stage* stage = call->stage;
  const ptrdiff_t filter = (ptrdiff_t)stage->kernel_height * stage->kernel_width * call->inputs[0]->channels;
  for (int32_t i = 0; i < call->count; ++i) {
    const int8_t* weights = call->weights;
    for (int32_t c = 0; c < call->output->channels; c += BYTES, weights += filter) {
      store(call->outputs[i] + c, sum_of(call, call->windows[0] + i * stage->stride_width, weights));
    }
  }
}

static TFLITE_FUSE_RARE int64_t weight_bytes(const tflite_fuse_stage* stage, const tflite_fuse_tensor* input,
                                             const tflite_fuse_tensor* output) {
  const int32_t taps = stage->kernel_height * stage->kernel_width;
  return is_packed(stage) ? -1 : (int64_t)tflite_fuse_volume(taps, input->channels, output->channels / BYTES);
}

static TFLITE_FUSE_RARE bool writes_sums(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  return block->tensors[stage->output].channels % BYTES == 0;
}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_conv_sums = {
    .min_inputs = 1,
    .max_inputs = 1,
    .operands = 1,
    .has_window = true,
    .has_padding = true,
    .cuts = true,
    .fits = writes_sums,
    .weight_bytes = weight_bytes,
    .compute = conv_sums,
};

/* ---- Addition ---- */

static TFLITE_FUSE_RARE void add_sums(const tflite_fuse_call* call) {
  const tflite_fuse_range range = tflite_fuse_range_of(call);
  const int32_t bytes = call->inputs[0]->channels;
  for (int32_t i = 0; i < call->count; ++i) {
    const tflite_fuse_channel* channel = call->table;
    int8_t* output = call->outputs[i];
    for (int32_t b = 0; b < bytes; b += BYTES) {
      const int32_t sum = tflite_fuse_wrapping_add(load(call->windows[0][i] + b), load(call->windows[1][i] + b));
      if (call->stage->table_offset < 0) {
        store(output + b, sum);
      } else {
        *output++ = tflite_fuse_requantize(sum, *channel++, range);
      }
    }
  }
}

/* Returns whether inputs hold one sum per output channel; without a table the output holds sums, too. */
static TFLITE_FUSE_RARE bool parts_fit(const tflite_fuse_block* block, const tflite_fuse_stage* stage) {
  const int32_t channels = block->tensors[stage->output].channels;
  const int32_t expected = stage->table_offset < 0 ? channels : channels * BYTES;
  for (int32_t i = 0; i < 2; ++i) {
    const int32_t input_channels = tflite_fuse_input_of(block, stage, i)->channels;
    if (input_channels != expected || input_channels % BYTES != 0) {
      return false;
    }
  }
  return true;
}

static TFLITE_FUSE_RARE bool table_is_sound(const tflite_fuse_stage* stage, const tflite_fuse_tensor* output,
                                            const void* table, int64_t room) {
  return stage->table_offset < 0 || tflite_fuse_channels_are_sound(stage, output, table, room);
}

void tflite_fuse_worker_bring_sums(void) {}

TFLITE_FUSE_HIDDEN const tflite_fuse_entry tflite_fuse_kind_add_sums = {
    .min_inputs = 2,
    .max_inputs = 2,
    .operands = 2,
    .keeps_extent = true,
    .fits = parts_fit,
    .table_is_sound = table_is_sound,
    .compute = add_sums,
};
