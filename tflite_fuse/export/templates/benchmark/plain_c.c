/* Runs $title $how, and prints a line of JSON each.
 * Written by tflite-fuse. Code for your board belongs in board.h. */
#include <stdio.h>
#include <string.h>

#include "board.h"
$includes
enum { RUNS = $runs, INPUT_SETS = $sets, OUTPUT_BYTES = $output_bytes, ARENA_BYTES = $arena, MOST_STEPS = $steps };

/* An input or output: where it lies in the arena. */
typedef struct {
  uint32_t offset, bytes;
} port;

typedef struct {
  const char* head; /* of its line */
  const tflite_fuse_model* model;
  tflite_fuse_block* blocks;
  const char* const* names; /* of its steps */
  const port *inputs, *outputs; /* one of 0 bytes ends them */
} contender;

#define CONTENDER(name) {name##_head, &name, name##_blocks, name##_names, name##_inputs, name##_outputs}

static _Alignas(16) uint8_t arena[ARENA_BYTES];
static uint8_t wanted[INPUT_SETS][OUTPUT_BYTES];
static uint32_t totals[RUNS], by_step[MOST_STEPS];

$tables
$lines
/* Pseudo-random bytes, the same for every contender. */
static void fill(const contender* c, uint32_t set) {
  uint32_t random = set + 1;
  for (const port* p = c->inputs; p->bytes > 0; ++p) {
    for (uint32_t i = 0; i < p->bytes; ++i) {
      random = random * UINT32_C(1664525) + UINT32_C(1013904223);
      arena[p->offset + i] = (uint8_t)(random >> 24);
    }
  }
}

/* Runs steps one by one, so that each can be measured. Returns the last status. */
static tflite_fuse_status run_steps(const contender* c, uint32_t run) {
  tflite_fuse_status status = TFLITE_FUSE_OK;
  totals[run] = 0;
  for (uint32_t s = 0; s < c->model->step_count && status == TFLITE_FUSE_OK; ++s) {
    const tflite_fuse_model step = {&c->model->steps[s], 1, c->model->arena_bytes};
    const uint32_t start = benchmark_ticks();
    status = tflite_fuse_run(&step, &c->blocks[s], arena, sizeof(arena), NULL);
    const uint32_t ticks = benchmark_ticks() - start;
    totals[run] += ticks;
    by_step[s] += ticks;
  }
  return status;
}

/* Runs all inputs from a fresh arena. Returns whether the outputs equal those of the first contender. */
static int agrees(const contender* c, int is_first) {
  char text[128];
  memset(arena, 0, sizeof(arena));
  for (uint32_t set = 0; set < INPUT_SETS; ++set) {
    fill(c, set);
    const tflite_fuse_status status = run_steps(c, 0);
    if (status != TFLITE_FUSE_OK) {
      return !fail(c->head, tflite_fuse_message(status));
    }
    uint8_t* expected = wanted[set];
    for (const port* p = c->outputs; p->bytes > 0; expected += p->bytes, ++p) {
      const uint8_t* found = arena + p->offset;
      if (is_first) {
        memcpy(expected, found, p->bytes);
      }
      for (uint32_t i = 0; i < p->bytes; ++i) {
        if (found[i] != expected[i]) {
          snprintf(text, sizeof(text), "output %d, byte %lu, of input set %lu is %d, and %d in the original",
                   (int)(p - c->outputs), (unsigned long)i, (unsigned long)set, (int8_t)found[i], (int8_t)expected[i]);
          return !fail(c->head, text);
        }
      }
    }
  }
  return 1;
}

static int measure(const contender* c) {
  memset(by_step, 0, sizeof(by_step));
  for (uint32_t run = 0; run < RUNS; ++run) {
    fill(c, 0);
    (void)run_steps(c, run);
  }
  const uint32_t middle = median(totals, RUNS);
  if (middle == 0) {
    return fail(c->head, "the clock does not move: see benchmark_ticks in board.h");
  }
  put_head(c->head);
  put_number("arena_bytes", c->model->arena_bytes);
  put_number("arena_used", c->model->arena_bytes);
  put_number("runs", RUNS);
  put_number("microseconds", microseconds(middle));
  for (uint32_t s = 0; s < c->model->step_count; ++s) {
    benchmark_print(s == 0 ? ", \"blocks\": [{\"name\": \"" : "}, {\"name\": \"");
    benchmark_print(c->names[s]);
    benchmark_print("\"");
    put_number("microseconds", microseconds(by_step[s] / RUNS));
  }
  benchmark_print("}]}\n");
  return 0;
}

int main(void) {
  const contender contenders[] = {$contenders};
  const int count = (int)(sizeof(contenders) / sizeof(contenders[0]));
  benchmark_start();
  for (int i = 0; i < count; ++i) {
    const tflite_fuse_status status = tflite_fuse_load(contenders[i].model, contenders[i].blocks);
    if (status != TFLITE_FUSE_OK) {
      return fail(contenders[i].head, tflite_fuse_message(status));
    }
    if (!agrees(&contenders[i], i == 0)) {
      return 1;
    }
  }
  int failed = 0;
  for (int i = 0; i < count && !failed; ++i) {
    failed = measure(&contenders[i]);
  }
  return failed;
}
