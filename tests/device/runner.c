/* Runs a chain of fused blocks on inputs that are part of the program, and writes what came out.
 *
 *     prepare <block> <status> <instructions>
 *     block <block> <status> <instructions>      for each input and block
 *     stack <0 prepare, 1 invoke> <block> <bytes>    behind each of these
 *     output <hexadecimal bytes>                 for each input and output
 *
 * The generated program.h defines `blocks`, `inputs`, `outputs`, `pictures` and `sources` that hand them out, and
 * INPUT_SETS. */
#include "report.h"
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

/* Of an input outside the arena: the pixels of the run there is, and those of all runs, one after another. */
typedef struct {
  const uint8_t* pixels;
  const uint8_t* values;
  uint32_t bytes, row_bytes, pixel_bytes;
} program_picture;

static int read_picture(void* user, int y, int x, int count, void* destination, size_t capacity) {
  const program_picture* picture = user;
  const uint32_t bytes = (uint32_t)count * picture->pixel_bytes;
  if (bytes > capacity) {
    return 1;
  }
  memcpy(destination, picture->pixels + (uint32_t)y * picture->row_bytes + (uint32_t)x * picture->pixel_bytes, bytes);
  return 0;
}

#include "program.h"

enum {
  BLOCKS = sizeof(blocks) / sizeof(blocks[0]),
  INPUTS = sizeof(inputs) / sizeof(inputs[0]),
  PICTURES = sizeof(pictures) / sizeof(pictures[0])
};

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
    for (uint32_t i = 0; i < INPUTS; ++i) {
      memcpy(inputs[i].tensor, inputs[i].values + set * inputs[i].bytes, inputs[i].bytes);
    }
    for (uint32_t i = 0; i < PICTURES; ++i) {
      pictures[i].pixels = pictures[i].values + set * pictures[i].bytes;
    }
    for (uint32_t b = 0; b < BLOCKS; ++b) {
      const tflite_fuse_io io = {
          .inputs = blocks[b].inputs, .outputs = blocks[b].outputs, .sources = sources, .scratch = blocks[b].scratch,
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
