/* Runs $title once and prints its outputs. Written by tflite-fuse; yours to change. */
#include <stdio.h>
#include <string.h>

#include "model.h"

/* Where a board has more than one memory, the compiler's flags say in which the arena lies:
 * -DMODEL_ARENA_SECTION='__attribute__((section(".dtcm")))' */
#ifndef MODEL_ARENA_SECTION
#define MODEL_ARENA_SECTION
#endif

static _Alignas(16) uint8_t arena[MODEL_ARENA_BYTES] MODEL_ARENA_SECTION;
static tflite_fuse_block blocks[MODEL_STEPS];
$outside
static int stop(tflite_fuse_status status) {
  printf("%s\n", tflite_fuse_message(status));
  return 1;
}

int main(void) {
  tflite_fuse_status status = tflite_fuse_load(&model, blocks);
  if (status != TFLITE_FUSE_OK) {
    return stop(status);
  }
  const int used = MODEL_ARENA_BYTES;
  printf("arena: %d bytes used, %d free (MODEL_ARENA_BYTES)\n", used, (int)sizeof(arena) - used);
$fill  status = tflite_fuse_run(&model, blocks, arena, sizeof(arena), $argument);
  if (status != TFLITE_FUSE_OK) {
    return stop(status);
  }
$print  return 0;
}
