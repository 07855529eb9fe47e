/* Runs a chain of fused blocks on inputs that are part of the program, and writes what came out.
 *
 *     prepare <block> <status> <instructions>
 *     block <block> <status> <instructions>      for each input and block
 *     stack <0 prepare, 1 invoke> <block> <bytes>    behind each of these
 *     output <hexadecimal bytes>                 for each input and output
 *
 * The generated program.h defines `blocks`, `inputs`, `outputs` and INPUT_SETS. */
#include <string.h>

#include "device.h"
#include "tflite_fuse.h"

typedef struct {
  const uint8_t *options, *options_end, *constants, *constants_end;
  const int8_t* const* inputs;
  int8_t* const* outputs;
  void* scratch;
  void* state; /* zeros: it has never run */
} program_block;

/* Of an input: its values for all runs, one after another. */
typedef struct {
  int8_t* tensor;
  const uint8_t* values;
  uint32_t bytes;
} program_tensor;

#include "program.h"

enum { BLOCKS = sizeof(blocks) / sizeof(blocks[0]) };

static void write_number(uint64_t value) {
  /* Powers of ten by subtraction: there is no 64-bit division on every target. */
  static const uint64_t powers[] = {1000000000000, 100000000000, 10000000000, 1000000000, 100000000, 10000000, 1000000,
                                    100000,        10000,        1000,        100,        10,        1};
  char text[16];
  int length = 0;
  for (unsigned i = 0; i < sizeof(powers) / sizeof(powers[0]); ++i) {
    char digit = '0';
    while (value >= powers[i]) {
      value -= powers[i];
      ++digit;
    }
    if (length > 0 || digit != '0' || powers[i] == 1) {
      text[length++] = digit;
    }
  }
  text[length] = 0;
  device_write(text);
}

static void write_line(const char* word, uint64_t a, uint64_t b, uint64_t c) {
  device_write(word);
  write_number(a);
  device_write(" ");
  write_number(b);
  device_write(" ");
  write_number(c);
  device_write("\n");
}

static void write_bytes(const int8_t* bytes, uint32_t count) {
  static const char digits[] = "0123456789abcdef";
  char text[129];
  device_write("output ");
  while (count > 0) {
    uint32_t some = count < 64 ? count : 64;
    for (uint32_t i = 0; i < some; ++i) {
      text[2 * i] = digits[(uint8_t)bytes[i] >> 4];
      text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * some] = 0;
    device_write(text);
    bytes += some;
    count -= some;
  }
  device_write("\n");
}

/* The stack below the caller is painted, and later found painted but for what was used: exact but for the few bytes that
 * these two functions push themselves. */
enum { DEEP = 8192, PAINT = 0xA5 };

static __attribute__((noinline)) void paint_stack(void) {
  volatile uint8_t below[DEEP];
  for (uint32_t i = 0; i < DEEP; ++i) {
    below[i] = PAINT;
  }
}

static __attribute__((noinline)) uint32_t stack_used(void) {
  volatile uint8_t below[DEEP];
  uint32_t untouched = 0;
  __asm__ volatile("" : : "r"(below) : "memory");
  while (untouched < DEEP && below[untouched] == PAINT) {
    ++untouched;
  }
  return DEEP - untouched;
}

int main(void) {
  static tflite_fuse_block prepared[BLOCKS];
  for (uint32_t b = 0; b < BLOCKS; ++b) {
    const program_block* block = &blocks[b];
    paint_stack();
    const uint64_t start = device_instructions();
    const tflite_fuse_status status =
        tflite_fuse_prepare(&prepared[b], block->options, (size_t)(block->options_end - block->options),
                            block->constants, (size_t)(block->constants_end - block->constants));
    const uint64_t count = device_instructions() - start;
    const uint32_t used = stack_used();
    write_line("prepare ", b, status, count);
    write_line("stack ", 0, b, used);
    if (status != TFLITE_FUSE_OK) {
      return 1;
    }
  }
  for (uint32_t set = 0; set < INPUT_SETS; ++set) {
    for (uint32_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); ++i) {
      memcpy(inputs[i].tensor, inputs[i].values + set * inputs[i].bytes, inputs[i].bytes);
    }
    for (uint32_t b = 0; b < BLOCKS; ++b) {
      const tflite_fuse_io io = {
          .inputs = blocks[b].inputs, .outputs = blocks[b].outputs, .scratch = blocks[b].scratch,
          .state = blocks[b].state};
      paint_stack();
      const uint64_t start = device_instructions();
      const tflite_fuse_status status = tflite_fuse_invoke(&prepared[b], &io);
      const uint64_t count = device_instructions() - start;
      const uint32_t used = stack_used();
      write_line("block ", b, status, count);
      write_line("stack ", 1, b, used);
    }
    for (uint32_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); ++i) {
      write_bytes(outputs[i].tensor, outputs[i].bytes);
    }
  }
  return 0;
}
