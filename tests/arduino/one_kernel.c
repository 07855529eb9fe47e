/* Calls kernels by themselves, on two pixels of three channels, and writes their outputs: one line for each. */
#include <stdio.h>
#include <string.h>

#include "tflite_fuse_rows.h"

enum { PIXELS = 2, CHANNELS = 3 };

static const int8_t first[PIXELS][CHANNELS] = {{-128, 5, 127}, {0, -7, 64}};
static const int8_t second[PIXELS][CHANNELS] = {{-1, 6, -127}, {100, -7, 63}};
static const tflite_fuse_tensor tensor = {.height = 1, .width = PIXELS, .channels = CHANNELS};

static void call(int32_t kind, const int8_t* weights, const void* table) {
  static const int8_t* const windows[2][PIXELS] = {{first[0], first[1]}, {second[0], second[1]}};
  int8_t values[PIXELS][CHANNELS];
  int8_t* const outputs[PIXELS] = {values[0], values[1]};
  const tflite_fuse_stage stage = {.kind = (uint8_t)kind,
                                   .kernel_height = 1,
                                   .kernel_width = 1,
                                   .stride_height = 1,
                                   .stride_width = 1,
                                   .dilation_height = 1,
                                   .dilation_width = 1,
                                   .depth_multiplier = 1,
                                   .activation_min = -100,
                                   .activation_max = 127};
  const tflite_fuse_call c = {.stage = &stage,
                              .inputs = {&tensor, &tensor},
                              .output = &tensor,
                              .weights = weights,
                              .table = table,
                              .windows = {windows[0], windows[1]},
                              .outputs = outputs,
                              .columns = PIXELS,
                              .count = PIXELS,
                              .at_once = 1};
  tflite_fuse_kernel_of(kind)(&c);
  for (int i = 0; i < PIXELS * CHANNELS; ++i) {
    printf("%d%c", values[i / CHANNELS][i % CHANNELS], i == PIXELS * CHANNELS - 1 ? '\n' : ' ');
  }
}

int main(void) {
  /* Half of the sum, by a multiplier of 2^30 in units of 2^-31. */
  static const tflite_fuse_channel halves[4] = {{0, 1 << 30, 0}, {10, 1 << 30, 0}, {0, 1 << 30, 0}};
  static const int8_t rows[CHANNELS][CHANNELS] = {{2, 0, 0}, {0, 2, 0}, {1, 1, 1}};
  static const int8_t columns[CHANNELS] = {2, 4, -2};
  int8_t negated[256];
  for (int i = 0; i < 256; ++i) {
    negated[i] = (int8_t)(i == 0 ? 127 : 128 - i);
  }
  call(TFLITE_FUSE_KIND_PAD, NULL, NULL);
  call(TFLITE_FUSE_KIND_LOOKUP, NULL, negated);
  call(TFLITE_FUSE_KIND_MAXIMUM, NULL, NULL);
  call(TFLITE_FUSE_KIND_CONV, rows[0], halves);
  call(TFLITE_FUSE_KIND_DEPTHWISE, columns, halves);
  return tflite_fuse_kernel_of(-1) != NULL || tflite_fuse_kernel_of(TFLITE_FUSE_KIND_SOURCE) != NULL ||
         tflite_fuse_kernel_of(TFLITE_FUSE_KIND_GLOBAL_AVERAGE) != NULL || tflite_fuse_kernel_of(10000) != NULL;
}
