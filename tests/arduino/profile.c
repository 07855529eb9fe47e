/* Runs a block without a profile, with one, with one over an application's kernels, and without again. The clock counts its
 * readings. Writes the sums of the outputs of the four runs, then for each stage its kind and its ticks, of the second run. */
#include <stdio.h>
#include <stdlib.h>

#include "block.h"
#include "tflite_fuse_profile.h"

typedef struct {
  uint32_t now, by_stage[3];
  int32_t kinds[3];
} record;

static uint32_t read_clock(void* user) { return ((record*)user)->now++; }

static void took(void* user, int32_t stage, int32_t kind, uint32_t ticks) {
  record* r = user;
  r->by_stage[stage] += ticks;
  r->kinds[stage] = kind;
}

static void passed_on(const tflite_fuse_call* call) {
  ++*(int*)call->user;
  tflite_fuse_kernel_of(call->stage->kind)(call);
}

static unsigned run(const tflite_fuse_block* block, const tflite_fuse_io* io, int8_t* in, int32_t in_bytes,
                    const int8_t* out, int32_t out_bytes) {
  unsigned sum = 0;
  for (int32_t i = 0; i < in_bytes; ++i) in[i] = (int8_t)(i * 37 + 11);
  if (tflite_fuse_invoke(block, io) != TFLITE_FUSE_OK) exit(9);
  for (int32_t i = 0; i < out_bytes; ++i) sum = sum * 31 + (unsigned char)out[i];
  return sum;
}

int main(void) {
  tflite_fuse_block block;
  if (tflite_fuse_prepare(&block, options, sizeof(options), constants, sizeof(constants)) != TFLITE_FUSE_OK) return 8;
  const int32_t in_bytes = tflite_fuse_operand_bytes(&block, TFLITE_FUSE_INPUT, 0);
  const int32_t out_bytes = tflite_fuse_operand_bytes(&block, TFLITE_FUSE_OUTPUT, 0);
  int8_t *in = malloc((size_t)in_bytes), *out = malloc((size_t)out_bytes);
  void* scratch = malloc((size_t)tflite_fuse_scratch_bytes(&block));
  const int8_t* inputs[] = {in};
  int8_t* outputs[] = {out};
  const tflite_fuse_io io = {.inputs = inputs, .outputs = outputs, .scratch = scratch};
  int calls = 0;
  const tflite_fuse_rows rows = {passed_on, NULL, &calls, NULL};
  record r = {0}, second = {0};
  tflite_fuse_profile profile = {read_clock, took, &r, NULL, NULL, {NULL, NULL, NULL, NULL}};
  tflite_fuse_profile other = {read_clock, took, &second, NULL, NULL, {NULL, NULL, NULL, NULL}};
  unsigned sums[4];
  sums[0] = run(&block, &io, in, in_bytes, out, out_bytes);
  tflite_fuse_use_profile(&block, &profile);
  sums[1] = run(&block, &io, in, in_bytes, out, out_bytes);
  tflite_fuse_use_profile(&block, NULL);
  if (tflite_fuse_use_rows(&block, &rows, &io) != TFLITE_FUSE_OK) return 7;
  tflite_fuse_use_profile(&block, &profile);
  tflite_fuse_use_profile(&block, &other); /* takes the place of the first */
  calls = 0;
  sums[2] = run(&block, &io, in, in_bytes, out, out_bytes);
  const int of_rows = calls;
  tflite_fuse_use_profile(&block, NULL);
  sums[3] = run(&block, &io, in, in_bytes, out, out_bytes);
  printf("%u %u %u %u %d %d %u %u\n", sums[0], sums[1], sums[2], sums[3], of_rows, calls, r.now, second.now);
  for (int i = 0; i < 3; ++i) printf("%d %u %u\n", (int)r.kinds[i], r.by_stage[i], second.by_stage[i]);
  free(in);
  free(out);
  free(scratch);
  return 0;
}
