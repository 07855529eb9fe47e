/* Tries kernels of the application on a block before they are used. */
#include "tflite_fuse_machine.h"

enum { TRIES = 4 };

static void fill_inputs(const tflite_fuse_block* block, const tflite_fuse_io* io, uint32_t* state) {
  const int32_t count = tflite_fuse_operand_count(block, TFLITE_FUSE_INPUT);
  for (int32_t number = 0; number < count; ++number) {
    int8_t* values = (int8_t*)io->inputs[number];
    for (int32_t i = tflite_fuse_operand_bytes(block, TFLITE_FUSE_INPUT, number); i > 0; --i) {
      *state = *state * UINT32_C(1664525) + UINT32_C(1013904223);
      *values++ = (int8_t)(*state >> 24);
    }
  }
}

TFLITE_FUSE_RARE tflite_fuse_status tflite_fuse_use_rows(tflite_fuse_block* block, const tflite_fuse_rows* rows,
                                                         const tflite_fuse_io* io) {
  uint32_t differences = 0, state = 1;
  tflite_fuse_status status = TFLITE_FUSE_OK;
  if (rows != NULL) {
    tflite_fuse_rows tried = *rows;
    tried.differences = &differences;
    block->rows = &tried;
    for (int i = 0; i < TRIES && status == TFLITE_FUSE_OK; ++i) {
      fill_inputs(block, io, &state);
      status = tflite_fuse_invoke(block, io);
    }
  }
  if (status == TFLITE_FUSE_OK && differences != 0) {
    status = TFLITE_FUSE_WRONG_ROWS;
  }
  block->rows = status == TFLITE_FUSE_OK ? rows : NULL;
  return status;
}
