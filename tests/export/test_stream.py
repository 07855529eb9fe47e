"""Streaming models as plain C: states are in their arena, and a failed step leaves them unchanged."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.arduino.fake_runtime import GENERATIONS
from tests.drawing.raw_streams import RawStream
from tests.export.exported import run
from tests.export.stand_ins import FORMATS, main_of, run_with_stand_ins
from tests.export.test_plain_c import SANITIZED, compile_with, export, outputs
from tflite_fuse.api import rewrite
from tflite_fuse.export import export_model
from tflite_fuse.model import Model
from tflite_fuse.model.file import serialize_model
from tflite_fuse.runtime import tflm

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

RUNNER = """\
#include <stdio.h>
#include <string.h>
#include "model.h"

static _Alignas(16) uint8_t arena[MODEL_ARENA_BYTES];
static tflite_fuse_block blocks[MODEL_STEPS];
static int8_t step[STEP_BYTES];
static int good;
static int read_step(void* user, int y, int x, int count, void* destination, size_t capacity) {
  (void)user, (void)count;
  memcpy(destination, step + (y + x) * CHANNELS, capacity);
  return --good < 0;
}
static const tflite_fuse_source sources[] = {
    {read_step, NULL, STEP_BYTES / CHANNELS, 1, CHANNELS, TFLITE_FUSE_INT8}};
static const tflite_fuse_outside outside = {TFLITE_FUSE_OUTSIDE_MARK_2, 0, NULL, NULL, 1, sources, NULL, 0};

int main(void) {
  int status = (int)tflite_fuse_load(&model, blocks);
  for (int number = 0; status == 0 && fread(step, 1, STEP_BYTES, stdin) == STEP_BYTES; ++number) {
    if (number == RESET) status = (int)tflite_fuse_forget(&model, blocks, arena, MODEL_ARENA_BYTES);
    memset(arena, 0x5A, MODEL_STATE_OFFSET);
    for (good = STEP_BYTES / CHANNELS - 1; good >= 0; good -= 2) { /* gives so many pixels, then fails */
      const int left = good;
      if (tflite_fuse_run(&model, blocks, arena, MODEL_ARENA_BYTES, &outside) != TFLITE_FUSE_SOURCE_FAILED) return 90;
      good = left;
    }
    good = STEP_BYTES;
    status = (int)tflite_fuse_run(&model, blocks, arena, MODEL_ARENA_BYTES, &outside);
    for (int i = 0; i < MODEL_OUTPUT_0_BYTES; ++i) printf("%d ", ((int8_t*)(arena + MODEL_OUTPUT_0_OFFSET))[i]);
    printf("\\n");
  }
  return status;
}
"""

TWICE = """\
#include <stdio.h>
#include <string.h>
#include "model.h"

static _Alignas(16) uint8_t arena[2 * MODEL_ARENA_BYTES];
static int8_t step[STEP_BYTES];
static int good;
static int read_step(void* user, int y, int x, int count, void* destination, size_t capacity) {
  (void)user, (void)count;
  memcpy(destination, step + (y + x) * CHANNELS, capacity);
  return --good < 0;
}
static const tflite_fuse_source sources[] = {
    {read_step, NULL, STEP_BYTES / CHANNELS, 1, CHANNELS, TFLITE_FUSE_INT8}};
static const tflite_fuse_outside outside = {TFLITE_FUSE_OUTSIDE_MARK_2, 0, NULL, NULL, 1, sources, NULL, 0};

int main(void) { /* the model's only block twice, one behind the other; the second fails first */
  tflite_fuse_block blocks[2];
  tflite_fuse_place second_output = model.steps[0].outputs[0];
  second_output.offset += MODEL_ARENA_BYTES;
  tflite_fuse_step steps[2] = {model.steps[0], model.steps[0]};
  steps[1].outputs = &second_output;
  steps[1].scratch.offset += MODEL_ARENA_BYTES;
  steps[1].state.offset += MODEL_ARENA_BYTES;
  const tflite_fuse_model twice = {steps, 2, sizeof(arena)};
  int status = MODEL_STEPS == 1 ? (int)tflite_fuse_load(&model, blocks) : 91;
  blocks[1] = blocks[0];
  while (status == 0 && fread(step, 1, STEP_BYTES, stdin) == STEP_BYTES) {
    good = STEP_BYTES / CHANNELS + 1;
    if (tflite_fuse_run(&twice, blocks, arena, sizeof(arena), &outside) != TFLITE_FUSE_SOURCE_FAILED) return 90;
    good = 2 * STEP_BYTES;
    status = (int)tflite_fuse_run(&twice, blocks, arena, sizeof(arena), &outside);
    if (memcmp(arena + MODEL_OUTPUT_0_OFFSET, arena + second_output.offset, MODEL_OUTPUT_0_BYTES) != 0) return 92;
    for (int i = 0; i < MODEL_OUTPUT_0_BYTES; ++i) printf("%d ", ((int8_t*)(arena + MODEL_OUTPUT_0_OFFSET))[i]);
    printf("\\n");
  }
  return status;
}
"""


def small_stream() -> Model:
    """Two windows, of which the first begins with values of its own."""
    rng = np.random.default_rng(5)
    model = RawStream()
    model.call_once()
    source = model.tensor((1, 3, 1, 4), 0.1, -3)
    first = model.window(source, 4, 4, "STRIDED_SLICE", rng.integers(-128, 128, 16).astype(np.int8).tobytes())
    inner = model.convolution(first, 6, (3, 1), (2, 1), rng)
    second = model.window(inner, 2, 5, "SLICE")
    return model.stream([source], [model.convolution(second, 3, (3, 1), (1, 1), rng)])


def test_a_stream_in_plain_c_equals_the_runtime_though_every_step_fails_first(tmp_path: Path) -> None:
    model = small_stream()
    steps = [np.random.default_rng(n).integers(-128, 128, (1, 3, 1, 4)).astype(np.int8) for n in range(20)]
    with tflm.session(serialize_model(model)) as loaded:
        expected = [
            loaded.infer([step], (), reset=number == 11)[0].ravel().tolist() for number, step in enumerate(steps)
        ]
    folder = export(rewrite(serialize_model(model), input_mode="streamed", verify=False).model, tmp_path / "exported")
    flags = [*SANITIZED, "-DSTEP_BYTES=12", "-DCHANNELS=4", "-DRESET=11"]
    assert outputs(compile_with(folder, RUNNER, flags), steps) == expected


def test_no_block_has_gone_on_a_step_where_a_later_one_fails(tmp_path: Path) -> None:
    model = small_stream()
    steps = [np.random.default_rng(n).integers(-128, 128, (1, 3, 1, 4)).astype(np.int8) for n in range(6)]
    with tflm.session(serialize_model(model)) as loaded:
        expected = [loaded.infer([step], (), reset=False)[0].ravel().tolist() for step in steps]
    folder = export(rewrite(serialize_model(model), input_mode="streamed", verify=False).model, tmp_path / "exported")
    flags = [*SANITIZED, "-DSTEP_BYTES=12", "-DCHANNELS=4"]
    assert outputs(compile_with(folder, TWICE, flags), steps) == expected


def test_the_main_program_of_a_stream_compiles_and_runs(tmp_path: Path) -> None:
    folder = export(rewrite(serialize_model(small_stream()), verify=False).model, tmp_path / "exported")
    run(["sh", "-c", "gcc -Wall -Wextra -Wconversion -Werror *.c -o program"], cwd=folder)
    assert "output 0[0] = " in run([folder / "program"])


@pytest.mark.parametrize("format", FORMATS)
def test_the_main_program_for_a_runtime_runs_a_stream_step_by_step(format: str, tmp_path: Path) -> None:
    export_model(rewrite(serialize_model(small_stream()), verify=False).model, tmp_path / "model", format)
    program = tmp_path / "model" / FORMATS[format]
    text = main_of(program).read_text()
    assert "a step of a model every 20 ms" in text and "Your data goes here, the new time steps" in text
    assert "MicroResourceVariables" not in text
    assert run_with_stand_ins(program, format, max(GENERATIONS), tmp_path).count("output 0[0] = 7") == 2
