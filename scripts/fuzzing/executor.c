/* Feeds damaged options and constants to the library, as libFuzzer's target.
 *
 * Input: one byte of flags, three of padding, uint32 length of the options, the options, the constants. What the library
 * prepares is run in memory of exact size, so that the sanitizers see every access outside of it. Flags: bits 0 and 1
 * lay the first output over the first input at a distance, bit 2 makes a source fail, bit 3 lets sources have another
 * picture, bit 4 leaves the checksum as it is: else it is made to fit, or nothing damaged would come past it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "executor/tflite_fuse_checks.h"
#include "tflite_fuse.h"

enum { MOST_BYTES = 1 << 18, MOST_OPERANDS = 16, HEADER = 8 };

static int fail_after;

static int read_pixels(void* user, int y, int x, int count, void* destination, size_t capacity) {
  (void)user;
  (void)y;
  (void)x;
  (void)count;
  memset(destination, 7, capacity);
  return --fail_after < 0;
}

static void* exact(const void* data, size_t bytes) {
  void* memory = malloc(bytes == 0 ? 1 : bytes);
  if (memory == NULL) abort();
  if (bytes != 0) {
    if (data != NULL) {
      memcpy(memory, data, bytes);
    } else {
      memset(memory, 0xA5, bytes);
    }
  }
  return memory;
}

static void run(const tflite_fuse_block* block, uint8_t flags) {
  const tflite_fuse_operand kinds[] = {TFLITE_FUSE_INPUT, TFLITE_FUSE_OUTPUT, TFLITE_FUSE_EXTERNAL};
  void* memory[3][MOST_OPERANDS] = {{NULL}};
  tflite_fuse_source sources[MOST_OPERANDS];
  const size_t state_bytes = (size_t)tflite_fuse_state_bytes(block);
  size_t total = (size_t)tflite_fuse_scratch_bytes(block) + state_bytes;
  const int32_t source_count = tflite_fuse_operand_count(block, TFLITE_FUSE_SOURCE);
  void* shared = NULL;
  if (source_count > MOST_OPERANDS) return;
  for (int k = 0; k < 3; ++k) {
    const int32_t count = tflite_fuse_operand_count(block, kinds[k]);
    if (count > MOST_OPERANDS) return;
    for (int32_t i = 0; i < count; ++i) total += (size_t)tflite_fuse_operand_bytes(block, kinds[k], i);
  }
  if (total > MOST_BYTES) return;
  for (int k = 0; k < 3; ++k) {
    const int32_t count = tflite_fuse_operand_count(block, kinds[k]);
    for (int32_t i = 0; i < count; ++i) {
      memory[k][i] = exact(NULL, (size_t)tflite_fuse_operand_bytes(block, kinds[k], i));
    }
  }
  if ((flags & 3) != 0 && memory[0][0] != NULL && memory[1][0] != NULL) {
    const size_t in = (size_t)tflite_fuse_operand_bytes(block, TFLITE_FUSE_INPUT, 0);
    const size_t out = (size_t)tflite_fuse_operand_bytes(block, TFLITE_FUSE_OUTPUT, 0);
    const size_t distance = (flags & 3) == 1 ? 0 : (flags & 3) == 2 ? 16 : out / 2;
    const size_t end = distance + in > out ? distance + in : out;
    free(memory[0][0]);
    free(memory[1][0]);
    shared = exact(NULL, end);
    memory[1][0] = shared;
    memory[0][0] = (uint8_t*)shared + distance;
  }
  for (int32_t t = 0; t < source_count; ++t) sources[t] = (tflite_fuse_source){read_pixels, NULL, 0, 0, 0, TFLITE_FUSE_INT8};
  for (int32_t t = 0; t < block->tensor_count; ++t) {
    const tflite_fuse_tensor* tensor = &block->tensors[t];
    if (tensor->producer != TFLITE_FUSE_NONE && block->stages[tensor->producer].input_count == 0 &&
        tensor->operand < source_count) {
      sources[tensor->operand].height = tensor->height + (flags >> 3 & 1);
      sources[tensor->operand].width = tensor->width;
      sources[tensor->operand].channels = tensor->channels;
      sources[tensor->operand].type = (tflite_fuse_type)(tensor->element_type + 1);
    }
  }
  fail_after = (flags & 4) != 0 ? 3 : INT32_MAX;
  {
    void* scratch = exact(NULL, (size_t)tflite_fuse_scratch_bytes(block));
    void* state = exact(NULL, state_bytes); /* what no run left there */
    tflite_fuse_io io = {(const int8_t* const*)memory[0], (int8_t* const*)memory[1], (const int8_t* const*)memory[2],
                         sources, scratch, state};
    if ((flags & 32) != 0) memset(state, 0, state_bytes);
    (void)tflite_fuse_invoke(block, &io);
    if (state_bytes != 0) {
      (void)tflite_fuse_invoke(block, &io);
      tflite_fuse_reset(block, state);
      (void)tflite_fuse_invoke(block, &io);
    }
    free(state);
    free(scratch);
  }
  if (shared != NULL) memory[0][0] = NULL;
  for (int k = 0; k < 3; ++k) {
    for (int i = 0; i < MOST_OPERANDS; ++i) free(memory[k][i]);
  }
}

static void make_checksum_fit(void* options, size_t options_bytes, const void* constants, size_t constants_bytes) {
  const uint8_t* field = tflite_fuse_checksum_field(options, options_bytes);
  if (field != NULL) {
    const uint32_t sum = tflite_fuse_checksum(options, options_bytes, field, constants, constants_bytes);
    memcpy((uint8_t*)options + (field - (const uint8_t*)options), &sum, sizeof(sum));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint32_t options_bytes;
  tflite_fuse_block block;
  if (size < HEADER) return 0;
  memcpy(&options_bytes, data + 4, 4);
  if (options_bytes > size - HEADER) options_bytes = (uint32_t)(size - HEADER);
  {
    const size_t constants_bytes = size - HEADER - options_bytes;
    void* options = exact(data + HEADER, options_bytes);
    void* constants = exact(data + HEADER + options_bytes, constants_bytes);
    if ((data[0] & 16) == 0) make_checksum_fit(options, options_bytes, constants, constants_bytes);
    if (tflite_fuse_prepare(&block, options, options_bytes, constants, constants_bytes) == TFLITE_FUSE_OK) {
      run(&block, data[0]);
    }
    free(options);
    free(constants);
  }
  return 0;
}
