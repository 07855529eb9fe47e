"""A benchmark in plain C without another runtime: each operator of the original runs as a block by itself.

It measures the gain of fusing on a board and the time of the rewritten model, not TensorFlow Lite Micro's.
"""

from __future__ import annotations

from string import Template

from tflite_fuse.emit.options import read_options
from tflite_fuse.errors import UsageError
from tflite_fuse.export import library
from tflite_fuse.export.benchmark.candidate import INPUT_SETS, NOT_THE_ORIGINAL, RUNS, Candidate, OnBoard, same_ports
from tflite_fuse.export.benchmark.source import BOARD, CORE, LINES
from tflite_fuse.export.folder import Files
from tflite_fuse.export.formats import plain_c
from tflite_fuse.export.steps import Step, WholeModel, whole_model
from tflite_fuse.export.text import comment
from tflite_fuse.ir.enums import StageKind
from tflite_fuse.ir.program import FUSED_OPERATOR
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model

_MAIN = Template("""\
/* Runs $title unfused and rewritten on the same inputs, compares their outputs, and prints a JSON line for each.
 * Written by tflite-fuse. What depends on your board is in board.h. */
#include <stdio.h>
#include <string.h>

#include "board.h"
#include "model.h"
#include "original.h"

enum { RUNS = $runs, INPUT_SETS = $sets, OUTPUT_BYTES = $output_bytes };
enum { ARENA_BYTES = MODEL_ARENA_BYTES > ORIGINAL_ARENA_BYTES ? MODEL_ARENA_BYTES : ORIGINAL_ARENA_BYTES };
enum { MOST_STEPS = (int)MODEL_STEPS > (int)ORIGINAL_STEPS ? (int)MODEL_STEPS : (int)ORIGINAL_STEPS };

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
} candidate;

static _Alignas(16) uint8_t arena[ARENA_BYTES];
static tflite_fuse_block model_blocks[MODEL_STEPS], original_blocks[ORIGINAL_STEPS];
static uint8_t wanted[INPUT_SETS][OUTPUT_BYTES];
static uint32_t totals[RUNS], by_step[MOST_STEPS];

$tables
$lines
/* Pseudo-random bytes, the same for every candidate. */
static void fill(const candidate* c, uint32_t set) {
  uint32_t random = set + 1;
  for (const port* p = c->inputs; p->bytes > 0; ++p) {
    for (uint32_t i = 0; i < p->bytes; ++i) {
      random = random * UINT32_C(1664525) + UINT32_C(1013904223);
      arena[p->offset + i] = (uint8_t)(random >> 24);
    }
  }
}

/* Steps run one by one, so that each can be measured. Returns what the last status is. */
static tflite_fuse_status run_steps(const candidate* c, uint32_t run) {
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

/* Runs all inputs from a fresh arena. The first candidate says what is wanted; returns whether others agree. */
static int agrees(const candidate* c, int is_first) {
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

static int measure(const candidate* c) {
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
    benchmark_print(s == 0 ? ", \\"blocks\\": [{\\"name\\": \\"" : "}, {\\"name\\": \\"");
    benchmark_print(c->names[s]);
    benchmark_print("\\"");
    put_number("microseconds", microseconds(by_step[s] / RUNS));
  }
  benchmark_print("}]}\\n");
  return 0;
}

int main(void) {
  const candidate candidates[] = {
      {original_head, &original, original_blocks, original_names, original_inputs, original_outputs},
      {model_head, &model, model_blocks, model_names, model_inputs, model_outputs},
  };
  benchmark_start();
  for (int i = 0; i < 2; ++i) {
    const tflite_fuse_status status = tflite_fuse_load(candidates[i].model, candidates[i].blocks);
    if (status != TFLITE_FUSE_OK) {
      return fail(candidates[i].head, tflite_fuse_message(status));
    }
    if (!agrees(&candidates[i], i == 0)) {
      return 1;
    }
  }
  return measure(&candidates[0]) || measure(&candidates[1]);
}
""")


def unfused(original: Model, rewritten: WholeModel) -> WholeModel:
    """Return the original with every operator as a block by itself, with the same inputs and outputs as its rewrite.

    Raises:
        UsageError: inputs and outputs differ, or no block can hold an operator.
        ModelError: a dynamic shape.
    """
    if any(operator_name(original, each) == FUSED_OPERATOR for each in original.main.operators):
        raise UsageError("the file of --benchmark has fused blocks itself: give the original")
    for kept in ((), ("SOFTMAX",)):
        found = whole_model(original, kept)
        if all(
            same_ports([port for port, _ in ours], [port for port, _ in theirs])
            for ours, theirs in ((rewritten.inputs, found.inputs), (rewritten.outputs, found.outputs))
        ):
            return found
    raise UsageError(NOT_THE_ORIGINAL)


def files(original: WholeModel, rewritten: WholeModel, whose: tuple[Candidate, ...], board: OnBoard) -> Files:
    """Return the folder's files.

    Args:
        original, rewritten: the models to run.
        whose: data of the lines about them.
        board: the board.

    Raises:
        RuntimeUnavailableError: this installation lacks the library.
    """
    title = whose[1].title
    outputs = sum(port.nbytes for port, _ in rewritten.outputs)
    tables = _tables("original", original, whose[0]) + _tables("model", rewritten, whose[1])
    main = _MAIN.substitute(
        title=comment(title), runs=RUNS, sets=INPUT_SETS, output_bytes=outputs, tables=tables, lines=LINES
    )
    return {
        **plain_c.model_files(original, f"{title}, every operator by itself,", "original"),
        **plain_c.model_files(rewritten, title, "model"),
        "main.c": main,
        "board.h": BOARD.substitute(name=board.name or "unknown", hertz=board.mhz * 1_000_000, core=CORE),
        **library.flat_sources(),
        **library.licence(""),
    }


def _stages(step: Step) -> str:
    """Return a step's name from the kinds of its stages."""
    kinds = [StageKind(stage.kind).name for stage in read_options(step.options).stages] if step.options else ["COPY"]
    return kinds[0] if len(kinds) == 1 else f"{kinds[0]} to {kinds[-1]}, {len(kinds)} stages"


def _tables(name: str, model: WholeModel, whose: Candidate) -> str:
    """Return names of the steps, ports, and the beginning of the model's line."""
    names = ", ".join(f'"{_stages(step)}"' for step in model.steps)
    ports = {
        kind: "".join(f"{{{place.offset}, {port.nbytes}}}, " for port, place in found)
        for kind, found in (("inputs", model.inputs), ("outputs", model.outputs))
    }
    lines = [
        f"static const char* const {name}_head = {whose.head('none', 'tflite-fuse')};",
        f"static const char* const {name}_names[] = {{{names}}};",
        *(f"static const port {name}_{kind}[] = {{{text}{{0, 0}}}};" for kind, text in ports.items()),
    ]
    return "\n".join(lines) + "\n"
