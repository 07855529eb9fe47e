/* Computes convolutions with int16 or paired weights in plain C, for cores without DSP instructions for them: the same
 * bytes as the DSP loops, slower than with int8 weights.
 *
 * Values of a window are ordered as in tflite_fuse_conv_packed.c. int16 weights: [output channels / 2][values / 4] [2
 * channels][4 values: 0, 2, 1, 3], doubled. Paired weights: the same without [2 channels], one halfword for both. */
#include "../mve/tflite_fuse_mve.h"

#if !TFLITE_FUSE_DSP || TFLITE_FUSE_MVE

typedef struct {
  int32_t channel[2]; /* accumulators of two channels, scaled as the layout stores them */
  const int16_t* weights;
  bool are_paired;
} two_sums;

/* Adds the products of `count` values, a multiple of 4, to the sums of two channels. */
static void add_values(two_sums* sums, const int8_t* values, int32_t count) {
  const int16_t* w = sums->weights;
  int32_t a = sums->channel[0], b = sums->channel[1];
  for (const int8_t* end = values + count; values != end; values += 4) {
    for (int32_t i = 0; i < 4; ++i, ++w) {
      const int32_t value = values[i % 2 * 2 + i / 2];
      a = tflite_fuse_mac(a, value, *w);
      b = tflite_fuse_mac(b, value, sums->are_paired ? (int8_t)*w : w[4]);
    }
    w += sums->are_paired ? 0 : 4;
  }
  sums->channel[0] = a, sums->channel[1] = b, sums->weights = w;
}

/* Copies a window whose taps are not whole words, each row padded with zeros to whole words; returns the
 * number of values. */
static int32_t copy_window(const tflite_fuse_call* call, const int8_t* const* window, int8_t* to) {
  const tflite_fuse_stage* stage = call->stage;
  const int32_t depth = call->inputs[0]->channels;
  const int8_t* const first = to;
  for (int32_t ky = stage->kernel_height; ky > 0; --ky, window += call->columns) {
    for (int32_t kx = 0; kx < stage->kernel_width; ++kx, to += depth) {
      memcpy(to, window[kx * stage->dilation_width], (size_t)depth);
    }
    for (; (to - first) % 4 != 0; ++to) {
      *to = 0;
    }
  }
  return (int32_t)(to - first);
}

static void add_taps(two_sums* sums, const tflite_fuse_call* call, const int8_t* const* window) {
  const tflite_fuse_stage* stage = call->stage;
  for (int32_t ky = stage->kernel_height; ky > 0; --ky, window += call->columns) {
    for (int32_t kx = 0; kx < stage->kernel_width; ++kx) {
      add_values(sums, window[kx * stage->dilation_width], call->inputs[0]->channels);
    }
  }
}

static int8_t finish(int32_t twice, const tflite_fuse_channel* entry, const tflite_fuse_call* call) {
  const tflite_fuse_stage* stage = call->stage;
  const tflite_fuse_scale scale = tflite_fuse_scale_of(entry, 2 * call->output->zero_point + 1);
  return tflite_fuse_clamp(tflite_fuse_scale_twice_down(twice, scale), stage->activation_min, stage->activation_max);
}

static void compute_pixel(const tflite_fuse_call* call, int32_t index) {
  const int8_t* const* window = call->windows[0] + index * call->stage->stride_width;
  const tflite_fuse_channel *entry = call->table, *const end = entry + call->output->channels;
  /* Pixels that outputs replace are copied, because every channel needs all of their values. */
  const bool is_copied = call->inputs[0]->channels % 4 != 0 || call->output->overwrites != 0;
  int8_t* output = call->outputs[index];
  int8_t copy[TFLITE_FUSE_MAX_PATCH_VALUES];
  const int32_t copied = is_copied ? copy_window(call, window, copy) : 0;
  const bool are_paired = call->stage->weight_layout == TFLITE_FUSE_LAYOUT_PAIRED_DOWN;
  two_sums sums = {{0, 0}, (const int16_t*)(const void*)call->weights, are_paired};
  for (; entry < end; entry += 2) {
    sums.channel[0] = entry[0].bias, sums.channel[1] = entry[1].bias;
    if (is_copied) {
      add_values(&sums, copy, copied);
    } else {
      add_taps(&sums, call, window);
    }
    if (are_paired) {
      tflite_fuse_split_pairs(sums.channel, 2, 1);
    }
    *output++ = finish(sums.channel[0], &entry[0], call);
    if (entry + 1 < end) {
      *output++ = finish(sums.channel[1], &entry[1], call);
    }
  }
}

void tflite_fuse_conv_int16(const tflite_fuse_call* call) {
  for (int32_t i = 0; i < call->count; ++i) {
    compute_pixel(call, i);
  }
}

void tflite_fuse_conv_paired(const tflite_fuse_call* call) { tflite_fuse_conv_int16(call); }

#endif
