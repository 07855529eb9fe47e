/* Runs an exported folder of plain C on inputs that are part of the program, then treats it badly.
 *
 *     arena <declared bytes>
 *     output <hexadecimal bytes>            for each input and output
 *     small <sizes tried> <refused>         arenas of fewer bytes than are declared
 *     changed <changes tried> <refused>     options and constants with a bit flipped somewhere
 *
 * The generated ports.h defines `inputs`, `outputs`, `outside`, INPUT_SETS and CHANGES. */
#include <stdbool.h>
#include <string.h>

#include "report.h"
#include "model.h"

/* Of an input or output: where it lies in the arena, and of an input its values for all runs. */
typedef struct {
  uint32_t offset, bytes;
  const uint8_t* values;
} port;

/* Of an input outside the arena: its values for all runs, and those of this run. */
typedef struct {
  uint32_t bytes, columns, pixel_bytes;
  const uint8_t* values;
  const uint8_t* now;
} picture;

static int read_picture(void* user, int y, int x, int count, void* destination, size_t capacity) {
  const picture* from = user;
  if (capacity != (size_t)count * from->pixel_bytes) {
    return 1;
  }
  memcpy(destination, from->now + ((uint32_t)y * from->columns + (uint32_t)x) * from->pixel_bytes, capacity);
  return 0;
}

#include "ports.h"

enum { MOST_SIZES = 4096 };

static _Alignas(16) uint8_t arena[MODEL_ARENA_BYTES];
static tflite_fuse_block blocks[MODEL_STEPS];

static void run_all(void) {
  for (uint32_t set = 0; set < INPUT_SETS; ++set) {
    for (const port* p = inputs; p->bytes > 0; ++p) {
      memcpy(arena + p->offset, p->values + set * p->bytes, p->bytes);
    }
    give_pictures(set);
    const tflite_fuse_status status = tflite_fuse_run(&model, blocks, arena, sizeof(arena), outside_given);
    if (status != TFLITE_FUSE_OK) {
      write_line("failed ", set, status, 0);
    }
    for (const port* p = outputs; p->bytes > 0; ++p) {
      write_bytes((const int8_t*)arena + p->offset, p->bytes);
    }
  }
}

/* All sizes up to some, then the largest ones below what is declared. */
static void try_small_arenas(void) {
  uint32_t tried = 0, refused = 0;
  for (uint32_t size = 0; size < MODEL_ARENA_BYTES; ++size) {
    if (size < MOST_SIZES || size + MOST_SIZES >= MODEL_ARENA_BYTES) {
      ++tried;
      refused += tflite_fuse_run(&model, blocks, arena, size, outside_given) != TFLITE_FUSE_OK;
    }
  }
  write_line("small ", tried, refused, 0);
}

/* Flash is read only: what is changed is a copy. */
static _Alignas(16) uint8_t options[MOST_OPTIONS], constants[MOST_CONSTANTS];

static void try_changes(void) {
  uint32_t random = 1, refused = 0;
  for (uint32_t i = 0; i < CHANGES; ++i) {
    const tflite_fuse_step* step = &model.steps[i % MODEL_STEPS];
    tflite_fuse_block block;
    if (step->options == NULL) {
      ++refused; /* a copy has neither */
      continue;
    }
    memcpy(options, step->options, step->options_bytes);
    memcpy(constants, step->constants, step->constants_bytes);
    random = random * UINT32_C(1664525) + UINT32_C(1013904223);
    const bool in_options = i / MODEL_STEPS % 2 == 0 || step->constants_bytes == 0;
    uint8_t* bytes = in_options ? options : constants;
    const uint32_t count = (uint32_t)(in_options ? step->options_bytes : step->constants_bytes);
    bytes[(random >> 8) % count] ^= (uint8_t)(1u << (random & 7u));
    refused += tflite_fuse_prepare(&block, options, step->options_bytes, constants, step->constants_bytes) !=
               TFLITE_FUSE_OK;
  }
  write_line("changed ", CHANGES, refused, 0);
}

int main(void) {
  const tflite_fuse_status status = tflite_fuse_load(&model, blocks);
  write_line("arena ", MODEL_ARENA_BYTES, status, 0);
  if (status == TFLITE_FUSE_OK) {
    run_all();
    try_small_arenas();
    try_changes();
  }
  return (int)status;
}
