/* row_kernels KIND CALL: row kernels that are right, or whose KIND (1 convolution, 2 depthwise) is off by one in one value
 * of its CALL'th call. Writes status, calls when the block is run, and sums of the outputs without and with them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "tflite_fuse_rows.h"

typedef struct {
  int wrong_kind, wrong_call;
  int calls[3];
} state;

/* The two roundings of TFLM's reference kernels. */
static int32_t scale(int32_t value, int32_t multiplier, int32_t shift) {
  const int32_t left = shift > 0 ? shift : 0, right = shift > 0 ? 0 : -shift;
  const int64_t product = (int64_t)value * (1 << left) * multiplier;
  const int32_t high = (int32_t)((product + (product >= 0 ? 1 << 30 : 1 - (1 << 30))) / ((int64_t)1 << 31));
  const int32_t mask = (int32_t)(((int64_t)1 << right) - 1), rest = high & mask;
  return (high >> right) + (rest > (mask >> 1) + (high < 0));
}

static int8_t finished(const tflite_fuse_call* call, int32_t channel, int32_t sum) {
  const tflite_fuse_channel entry = ((const tflite_fuse_channel*)call->table)[channel];
  const int32_t low = call->stage->activation_min, high = call->stage->activation_max;
  const int32_t value = scale(sum + entry.bias, entry.multiplier, entry.shift) + call->output->zero_point;
  return (int8_t)(value < low ? low : value > high ? high : value);
}

static const int8_t* pixel(const tflite_fuse_call* call, int32_t i, int32_t ky, int32_t kx) {
  const tflite_fuse_stage* stage = call->stage;
  const int32_t column = i * stage->stride_width + kx * stage->dilation_width;
  const int8_t* const* window = call->windows[0];
  return call->at_once == 1 ? window[ky * call->columns + column] : window[ky + column * stage->kernel_height];
}

static void compute(const tflite_fuse_call* call, int kind) {
  state* s = call->user;
  const int32_t width = call->stage->kernel_width, taps = call->stage->kernel_height * width;
  const int32_t depth = call->inputs[0]->channels, channels = call->output->channels;
  if (call->stage->weight_layout != TFLITE_FUSE_LAYOUT_PLAIN) {
    tflite_fuse_kernel_of(kind)(call);
    return;
  }
  for (int32_t i = 0; i < call->count; ++i) {
    for (int32_t c = 0; c < channels; ++c) {
      int32_t sum = 0;
      for (int32_t t = 0; t < taps; ++t) {
        const int8_t* x = pixel(call, i, t / width, t % width);
        if (kind == TFLITE_FUSE_KIND_DEPTHWISE) {
          sum += x[c / call->stage->depth_multiplier] * call->weights[t * channels + c];
        } else {
          for (int32_t k = 0; k < depth; ++k) sum += x[k] * call->weights[(c * taps + t) * depth + k];
        }
      }
      call->outputs[i][c] = finished(call, c, sum);
    }
  }
  if (kind == s->wrong_kind && s->calls[kind] == s->wrong_call) {
    int8_t* value = &call->outputs[call->count - 1][channels - 1];
    *value = (int8_t)(*value == 127 ? 126 : *value + 1);
  }
  ++s->calls[kind];
}

static void convolution(const tflite_fuse_call* call) { compute(call, TFLITE_FUSE_KIND_CONV); }
static void depthwise(const tflite_fuse_call* call) { compute(call, TFLITE_FUSE_KIND_DEPTHWISE); }

static unsigned run(const tflite_fuse_block* block, const tflite_fuse_io* io, int8_t* in, int32_t in_bytes,
                    const int8_t* out, int32_t out_bytes) {
  unsigned sum = 0;
  for (int32_t i = 0; i < in_bytes; ++i) in[i] = (int8_t)(i * 37 + 11);
  if (tflite_fuse_invoke(block, io) != TFLITE_FUSE_OK) exit(9);
  for (int32_t i = 0; i < out_bytes; ++i) sum = sum * 31 + (unsigned char)out[i];
  return sum;
}

int main(int argc, char** argv) {
  tflite_fuse_block block;
  state s = {argc > 1 ? atoi(argv[1]) : 0, argc > 2 ? atoi(argv[2]) : 0, {0, 0, 0}};
  const tflite_fuse_rows rows = {convolution, depthwise, &s, NULL};
  if (tflite_fuse_prepare(&block, options, sizeof(options), constants, sizeof(constants)) != TFLITE_FUSE_OK) return 8;
  const int32_t in_bytes = tflite_fuse_operand_bytes(&block, TFLITE_FUSE_INPUT, 0);
  const int32_t out_bytes = tflite_fuse_operand_bytes(&block, TFLITE_FUSE_OUTPUT, 0);
  int8_t *in = malloc((size_t)in_bytes), *out = malloc((size_t)out_bytes);
  void* scratch = malloc((size_t)tflite_fuse_scratch_bytes(&block));
  const int8_t* inputs[] = {in};
  int8_t* outputs[] = {out};
  const tflite_fuse_io io = {.inputs = inputs, .outputs = outputs, .scratch = scratch};
  const unsigned plain = run(&block, &io, in, in_bytes, out, out_bytes);
  const int status = (int)tflite_fuse_use_rows(&block, &rows, &io);
  memset(s.calls, 0, sizeof(s.calls));
  s.wrong_kind = 0;
  const unsigned used = run(&block, &io, in, in_bytes, out, out_bytes);
  printf("%d %d %u %u\n", status, s.calls[1] + s.calls[2], plain, used);
  free(in);
  free(out);
  free(scratch);
  return 0;
}
