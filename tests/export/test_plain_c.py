"""Folders of plain C compile without a warning and compute the model's bytes, in an arena of just the declared size."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tflite_fuse
from scripts.zoo import ModelBuilder
from scripts.zoo.float_twin import float_twin
from tests.arduino.fake_runtime import SANITIZERS, library_objects
from tests.constant_map_models import JOINS, with_constant_map
from tests.export.exported import FUSED_OPERATORS, SHAPE, chained, fused, images, network, outside, run
from tests.ops.lowering.test_arg_max import segmentation
from tests.runtime.fused_models import fuse
from tests.uint8_models import with_uint8_borders
from tflite_fuse.emit.in_model import blocks_in
from tflite_fuse.errors import UsageError
from tflite_fuse.export import export_model
from tflite_fuse.export.steps import arena_without_tflm
from tflite_fuse.ir.block import Storage
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.schema import Quantization
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.lowering.extract import extract
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs
from tflite_fuse.runtime.reference import run_block_reference

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

STRICT = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
SANITIZED = [*STRICT, *SANITIZERS]

RUNNER = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model.h"

static tflite_fuse_block blocks[MODEL_STEPS];

#ifdef OUTSIDE_BYTES
static int8_t image[OUTSIDE_BYTES];
static int broken;
static int read_image(void* user, int y, int x, int count, void* destination, size_t capacity) {
  (void)user;
  if (capacity != (size_t)count * CHANNELS) return 9;
  memcpy(destination, image + (y * COLUMNS + x) * CHANNELS, capacity);
  return broken;
}
#define ROWS (OUTSIDE_BYTES / COLUMNS / CHANNELS)
static const tflite_fuse_source sources[] = {{read_image, NULL, ROWS, COLUMNS, CHANNELS, TFLITE_FUSE_INT8}};
static const void* const frames[] = {image};
static const size_t sizes[] = {OUTSIDE_BYTES};
static const tflite_fuse_outside outside = {TFLITE_FUSE_OUTSIDE_MARK_2, 1, frames, sizes, 1, sources, NULL, 0};
#define INPUT image
#define INPUT_BYTES OUTSIDE_BYTES
#define GIVEN &outside
#else
#define INPUT arena + MODEL_INPUT_0_OFFSET
#define INPUT_BYTES MODEL_INPUT_0_BYTES
#define GIVEN NULL
#endif

int main(void) {
  uint8_t* arena = aligned_alloc(16, MODEL_ARENA_BYTES);
  memset(arena, 0xA5, MODEL_ARENA_BYTES);
  int status = (int)tflite_fuse_load(&model, blocks);
#ifdef OUTSIDE_BYTES
  if (tflite_fuse_run(&model, blocks, arena, MODEL_ARENA_BYTES, NULL) != TFLITE_FUSE_BAD_MEMORY) return 90;
  broken = STREAMED ? 7 : 0;
  int wanted = STREAMED ? TFLITE_FUSE_SOURCE_FAILED : TFLITE_FUSE_OK;
  if ((int)tflite_fuse_run(&model, blocks, arena, MODEL_ARENA_BYTES, GIVEN) != wanted) return 91;
  broken = 0;
#endif
  while (status == 0 && fread(INPUT, 1, INPUT_BYTES, stdin) == INPUT_BYTES) {
    status = (int)tflite_fuse_run(&model, blocks, arena, MODEL_ARENA_BYTES, GIVEN);
    for (int i = 0; i < MODEL_OUTPUT_0_BYTES; ++i) printf("%d ", ((int8_t*)(arena + MODEL_OUTPUT_0_OFFSET))[i]);
    printf("\\n");
  }
  free(arena);
  return status;
}
"""


def export(model: bytes, folder: Path) -> Path:
    export_model(model, folder, "c")
    return folder


def compile_with(folder: Path, main: str, flags: list[str]) -> Path:
    """The folder's model with another main program; the library, which is the same in each, is compiled once."""
    (folder / "other.c").write_text(main)
    return link(folder, "other.c", flags)


def link(folder: Path, main: str, flags: list[str]) -> Path:
    sources = [folder / "model.c", folder / main]
    run([*flags, f"-I{folder}", *sources, *library_objects(), "-lm", "-o", folder / "program"])
    return folder / "program"


def outputs(program: Path, inputs: list[np.ndarray]) -> list[list[int]]:
    data = b"".join(image.tobytes() for image in inputs)
    (program.parent / "inputs").write_bytes(data)
    with (program.parent / "inputs").open() as stream:
        text = run([program], stdin=stream)
    return [[int(value) for value in line.split()] for line in text.splitlines()]


def expected(inputs: list[np.ndarray], tail: str = "none") -> list[list[int]]:
    """What the numpy reference makes of the network, its SOFTMAX included."""
    operators = range(7) if tail in ("softmax", "float") else FUSED_OPERATORS
    block = extract(load_model(network()), operators).block
    return [run_block_reference(block, [image])[0].ravel().tolist() for image in inputs]


@pytest.mark.parametrize(
    ("make", "tail"), [(fused, "none"), (fused, "float"), (chained, "softmax"), (chained, "reshape")]
)
def test_outputs_equal_the_reference(make: object, tail: str, tmp_path: Path) -> None:
    folder = export(make(tail), tmp_path / "model")  # type: ignore[operator]
    assert outputs(compile_with(folder, RUNNER, SANITIZED), images(6)) == expected(images(6), tail)


def test_kernels_the_model_has_no_use_for_are_left_out(tmp_path: Path) -> None:
    folder = export(fused("none"), tmp_path / "model")
    (folder / "main.c").write_text(RUNNER)
    collected = ["-O1", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]
    run([*STRICT, *collected, f"-I{folder}", *sorted(folder.glob("*.c")), "-o", folder / "program"])
    linked = set(re.findall(r"\btflite_fuse_kind_(\w+)", run(["nm", folder / "program"])))
    blocks = blocks_in(load_model(fused("none"))).values()
    assert linked == {stage.kind.name.lower() for plan in blocks for stage in plan.block.stages}
    assert outputs(folder / "program", images(3)) == expected(images(3))


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_plain_c_equals_the_runtime(tmp_path: Path) -> None:
    folder = export(chained("none"), tmp_path / "model")
    found = outputs(compile_with(folder, RUNNER, SANITIZED), images(6))
    oracle = tflm.run(network("none"), [[image] for image in images(6)]).outputs
    assert found == [arrays[0].ravel().tolist() for arrays in oracle]


@pytest.mark.parametrize("storage", [Storage.EXTERNAL, Storage.SCRATCH])
def test_inputs_outside_the_arena(storage: Storage, tmp_path: Path) -> None:
    folder = export(outside(storage), tmp_path / "model")
    streamed = int(storage is Storage.SCRATCH)
    sizes = {"OUTSIDE_BYTES": int(np.prod(SHAPE)), "COLUMNS": SHAPE[2], "CHANNELS": SHAPE[3], "STREAMED": streamed}
    flags = [*SANITIZED, *(f"-D{name}={value}" for name, value in sizes.items())]
    assert ("read_input_0" if streamed else "frame_0") in (folder / "main.c").read_text()
    run([link(folder, "main.c", SANITIZED)])
    assert outputs(compile_with(folder, RUNNER, flags), images(4)) == expected(images(4))


SMALL_ARENAS = """\
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include "model.h"

static tflite_fuse_block blocks[MODEL_STEPS];

int main(void) {
  int refused = 0;
  if (tflite_fuse_load(&model, blocks) != TFLITE_FUSE_OK) return 90;
  for (size_t size = 0; size <= MODEL_ARENA_BYTES; ++size) {
    void* arena = NULL;
    if (posix_memalign(&arena, 16, size) != 0) return 91;
    refused += tflite_fuse_run(&model, blocks, arena, size, NULL) == TFLITE_FUSE_BAD_MEMORY;
    free(arena);
  }
  printf("%d\\n", refused);
  return 0;
}
"""


@pytest.mark.parametrize("model", [fused("none"), chained("none")])
def test_an_arena_of_any_size_below_the_declared_is_refused(model: bytes, tmp_path: Path) -> None:
    folder = export(model, tmp_path / "model")
    (declared,) = re.findall(r"#define MODEL_ARENA_BYTES (\d+)", (folder / "model.h").read_text())
    assert run([compile_with(folder, SMALL_ARENAS, SANITIZED)]) == f"{declared}\n"


def test_cc_builds_the_folder_and_its_main_program_prints_the_outputs(tmp_path: Path) -> None:
    """The promise is ``cc *.c``."""
    folder = export(fused(), tmp_path / "model")
    run(["sh", "-c", "gcc -Wall -Wextra -Wconversion -Werror *.c -o program"], cwd=folder)
    said = run([folder / "program"])
    shown = re.findall(r"output 0\[(\d+)\] = (-?\d+)", said)
    (declared,) = re.findall(r"#define MODEL_ARENA_BYTES (\d+)", (folder / "model.h").read_text())
    assert f"arena: {declared} bytes used, 0 free (MODEL_ARENA_BYTES)\n" in said
    assert [int(value) for _, value in shown] == expected(images(1), "softmax")[0]


def test_operators_left_out_are_noted(tmp_path: Path) -> None:
    result = export_model(fused("float"), tmp_path / "model", "c")
    assert arena_without_tflm(load_model(fused("float"))) is None, "its outputs have another type there"
    assert result.notes == (
        "DEQUANTIZE_2 is left out: output 0 is the int8 tensor before it",
        "SOFTMAX_1 is in no block of the model and runs as one by itself",
    )
    assert all(note in (tmp_path / "model" / "model.h").read_text() for note in result.notes)
    wide = export_model(with_int16_scores(), tmp_path / "wide", "c")
    assert wide.notes[-1] == "SOFTMAX_1 is left out: output 0 is the int8 tensor before it"


def with_int16_scores() -> bytes:
    """The network with a SOFTMAX that writes int16, which no block can hold."""
    model = load_model(fused())
    tensors = list(model.main.tensors)
    (output,) = model.main.outputs
    scores = Quantization(scale=(1 / 32768,), zero_point=(-32768,))
    tensors[output] = replace(tensors[output], type=TensorType.INT16, quantization=scores)
    return serialize_model(replace_main(model, replace(model.main, tensors=tuple(tensors))))


def test_declares_the_arena_it_uses(tmp_path: Path) -> None:
    result = export_model(fused(), tmp_path / "model", "c")
    text = (tmp_path / "model" / "model.h").read_text()
    assert f"#define MODEL_ARENA_BYTES {result.arena_bytes}\n" in text
    assert result.arena_bytes == arena_without_tflm(load_model(fused())) <= tflm_free_head(fused())


def tflm_free_head(model: bytes) -> int:
    """The sum of all arena tensors, which no plan should exceed."""
    found = load_model(model)
    arena = [t for t in found.main.tensors if not found.buffers[t.buffer].data]
    return sum((int(np.prod(t.dims)) + 15) // 16 * 16 for t in arena)


def test_an_operator_in_the_way_is_named(tmp_path: Path) -> None:
    b = ModelBuilder(seed=0)
    x = b.conv(b.input((1, 4, 4, 2)), 4, 1)
    model = serialize_model(b.build([b.conv(b.log_softmax(x), 4, 1)]))
    assert arena_without_tflm(load_model(model)) is None
    with pytest.raises(
        UsageError, match=r"LOG_SOFTMAX_1 is no fused block .* Micro: export its rewrite, or, if .*, export for"
    ):
        export_model(model, tmp_path / "model", "c")
    with pytest.raises(UsageError, match=r"LOG_SOFTMAX_1 is no fused block .* Micro: export for arduino"):
        export_model(fuse(model, [2]), tmp_path / "model", "c")
    assert not (tmp_path / "model").exists()


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_uint8_and_float32_models_equal_the_runtime(dtype: type, tmp_path: Path) -> None:
    model = load_model(network("softmax"))
    data = serialize_model(float_twin(model) if dtype is np.float32 else with_uint8_borders(model))
    inputs = [image.view(np.uint8) if dtype is np.uint8 else image.astype(np.float32) / 16 for image in images(4)]
    folder = export(tflite_fuse.rewrite(data, verify=False).model, tmp_path / "model")
    results = outputs(compile_with(folder, RUNNER, SANITIZED), inputs)
    oracle = tflm.run(data, [[image] for image in inputs]).outputs
    assert results == [arrays[0].view(np.int8).ravel().tolist() for arrays in oracle]


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("is_rewritten", [False, True], ids=["original", "rewritten"])
def test_constants_for_each_pixel_are_read_from_flash(join: str, is_rewritten: bool, tmp_path: Path) -> None:
    data = serialize_model(with_constant_map(join))
    inputs = [arrays[0] for arrays in generate_inputs(load_model(data), 3)]
    folder = export(tflite_fuse.rewrite(data, verify=False).model if is_rewritten else data, tmp_path / "model")
    results = outputs(compile_with(folder, RUNNER, SANITIZED), inputs)
    assert results == [x[0].ravel().tolist() for x in tflm.run(data, [[x] for x in inputs]).outputs]


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_an_int32_output_equals_the_runtime(tmp_path: Path) -> None:
    data = serialize_model(segmentation())
    inputs = [arrays[0] for arrays in generate_inputs(load_model(data), 3)]
    folder = export(tflite_fuse.rewrite(data, verify=False).model, tmp_path / "model")
    results = outputs(compile_with(folder, RUNNER, SANITIZED), inputs)
    assert results == [x[0].view(np.int8).ravel().tolist() for x in tflm.run(data, [[x] for x in inputs]).outputs]


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_float32_operators_in_no_block_run_as_blocks_by_themselves(tmp_path: Path) -> None:
    data = serialize_model(float_twin(load_model(network("softmax"))))
    inputs = [image.astype(np.float32) / 16 for image in images(4)]
    results = outputs(compile_with(export(data, tmp_path / "model"), RUNNER, SANITIZED), inputs)
    assert results == [x[0].view(np.int8).ravel().tolist() for x in tflm.run(data, [[x] for x in inputs]).outputs]


def test_the_main_program_prints_float32_in_thousandths(tmp_path: Path) -> None:
    data = serialize_model(float_twin(load_model(network("none"))))
    folder = export(tflite_fuse.rewrite(data, verify=False).model, tmp_path / "model")
    run(["sh", "-c", "gcc -Wall -Wextra -Wconversion -Werror *.c -o program -lm"], cwd=folder)
    assert re.findall(r"output 0\[0\] \* 1000 = -?\d+\n", run([folder / "program"]))
    assert "output 0[0] * 1000 = " in (folder / "README.md").read_text()


def test_types_that_the_library_does_not_read_are_refused(tmp_path: Path) -> None:
    model = load_model(network("reshape"))
    tensors = tuple(
        replace(tensor, type=int(TensorType.INT16)) if index in model.main.outputs else tensor
        for index, tensor in enumerate(model.main.tensors)
    )
    odd = serialize_model(replace_main(model, replace(model.main, tensors=tensors)))
    with pytest.raises(UsageError, match="is int16, and the C library reads and writes int8, uint8, int32 and float32"):
        export_model(odd, tmp_path / "model", "c")


@pytest.mark.parametrize("model", [network("none"), fuse(network("none"), range(2, 6))])
def test_operators_in_no_block_run_as_blocks_by_themselves(model: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    notes = export_model(model, folder, "c").notes
    assert sum("runs as one by itself" in note for note in notes) == len(load_model(model).main.operators) - len(
        blocks_in(load_model(model))
    )
    assert outputs(compile_with(folder, RUNNER, SANITIZED), images(4)) == expected(images(4))
