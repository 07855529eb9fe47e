/* Runs a chain of fused blocks on inputs that are part of the program, and writes what came out.
 *
 *     prepare <block> <status> <instructions>
 *     block <block> <status> <instructions>      for each input and block
 *     stack <0 prepare, 1 invoke> <block> <bytes>    behind each of these
 *     output <hexadecimal bytes>                 for each input and output
 *     guard <block> <which> <byte>               and no more, if a run wrote outside its memory
 *
 * A program with GUARD_BYTES has so many on both sides of every tensor, scratch and state, with other values in every
 * other run: what depends on them differs from run to run. The generated program.h defines `blocks`, `inputs`, `outputs`,
 * `pictures` and `sources` that hand them out, `guards`, and INPUT_SETS. */
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

#ifdef GUARD_BYTES
enum { GUARDS = sizeof(guards) / sizeof(guards[0]) };

static int8_t guard_value(uint32_t set) { return set % 2 == 0 ? 0x5A : -0x5B; }

static void paint_guards(uint32_t set) {
  for (uint32_t i = 0; i < GUARDS; ++i) {
    memset(guards[i], guard_value(set), GUARD_BYTES);
  }
}

/* Writes which guard a block wrote to; returns whether it did. */
static int broken_guard(uint32_t set, uint32_t block) {
  for (uint32_t i = 0; i < GUARDS; ++i) {
    for (uint32_t at = 0; at < GUARD_BYTES; ++at) {
      if (guards[i][at] != guard_value(set)) {
        write_line("guard ", block, i, at);
        return 1;
      }
    }
  }
  return 0;
}
#else
static void paint_guards(uint32_t set) { (void)set; }

static int broken_guard(uint32_t set, uint32_t block) {
  (void)set, (void)block;
  return 0;
}
#endif

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
    paint_guards(set);
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
      if (broken_guard(set, b)) {
        return 1;
      }
    }
    for (uint32_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); ++i) {
      write_bytes(outputs[i].tensor, outputs[i].bytes);
    }
  }
  return 0;
}
