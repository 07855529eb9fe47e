"""Projects contain the kernels and loops of their model, link and run, and refuse blocks that need others."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tflite_fuse
from scripts.zoo import ModelBuilder
from scripts.zoo.float_twin import float_twin, with_float16_weights
from scripts.zoo.networks import dense_network
from tests.export.exported import fused, network, run
from tests.runtime.fused_models import fuse
from tflite_fuse.export import export_model
from tflite_fuse.export.library import Parts, flat_sources, parts_of, sources, with_parts
from tflite_fuse.export.steps import whole_model
from tflite_fuse.ir.enums import StageKind, WeightLayout
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.ops.weighted.sums import OF_SUMS

ALL_LOOPS = {"convolutions": 0x2F, "depthwise": 0x7F, "float16": 1}
KINDS = frozenset(StageKind) - frozenset(OF_SUMS)

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def depthwise(width: int, stride: int, channels: int = 4) -> Parts:
    b = ModelBuilder(seed=1)
    x = b.depthwise(b.conv(b.input((1, 16, 16, 3)), channels, 1), width, stride)
    rewritten = tflite_fuse.rewrite(serialize_model(b.build([x])), verify=False).model
    return parts_of(step.options for step in whole_model(load_model(rewritten)).steps)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("width", [3, 5, 7])
def test_each_window_of_a_depthwise_convolution_has_a_bit_of_its_own(width: int, stride: int) -> None:
    assert depthwise(width, stride).depthwise == 1 << (width - 3 + stride)


def test_windows_without_a_packed_form_take_the_plain_loop() -> None:
    assert depthwise(4, 1).depthwise == 1


def test_a_depthwise_convolution_of_one_channel_takes_a_convolutions_loop() -> None:
    found = depthwise(3, 1, channels=1)
    assert found.depthwise == 0 and found.convolutions & 1 << WeightLayout.PACKED_DOWN


@pytest.mark.parametrize("weights", ["8bit", "paired", "16bit"])
def test_the_layout_of_weights_selects_the_loops_of_convolutions(weights: str) -> None:
    b = ModelBuilder(seed=1)
    x = b.conv(b.conv(b.input((1, 16, 16, 8)), 8, 3), 8, 1)
    options = {"target": "cortex-m4", "weights": weights}
    rewritten = tflite_fuse.rewrite(serialize_model(b.build([x])), verify=False, **options).model  # type: ignore[arg-type]
    layout = {"8bit": "PACKED_DOWN", "paired": "PAIRED_DOWN", "16bit": "INT16_DOWN"}[weights]
    found = parts_of(step.options for step in whole_model(load_model(rewritten)).steps)
    assert found == Parts(frozenset([StageKind.CONV]), 1 << WeightLayout[layout], 0)


@pytest.mark.parametrize("narrow", [False, True])
def test_a_model_of_float32_weights_has_no_loop_for_float16(narrow: bool) -> None:
    model = float_twin(dense_network())
    data = serialize_model(with_float16_weights(model) if narrow else model)
    rewritten = load_model(tflite_fuse.rewrite(data, verify=False).model)
    found = parts_of(step.options for step in whole_model(rewritten).steps)
    assert found.float16 == narrow
    loops = with_parts(flat_sources(), found)["tflite_fuse_loops.h"]
    assert f"TFLITE_FUSE_FLOAT16_LOOPS {int(narrow):#x}\n" in (loops if isinstance(loops, str) else loops.decode())


def test_kernels_of_other_kinds_are_not_in_the_folder() -> None:
    brought = set(with_parts(flat_sources(), Parts(frozenset([StageKind.ADD]), 0, 0)))
    assert {"tflite_fuse_add.c", "tflite_fuse_compute.c"} <= brought
    assert not {"tflite_fuse_softmax.c", "tflite_fuse_conv.c", "tflite_fuse_float_conv.c"} & brought


@needs_gcc
def test_a_project_of_any_one_kind_links(tmp_path: Path) -> None:
    """Files that are left out are called by none that stay."""
    for name, content in with_parts(flat_sources(), Parts(KINDS, **ALL_LOOPS)).items():
        (tmp_path / name).write_text(content if isinstance(content, str) else content.decode())
    run(["gcc", "-std=c11", "-c", *sorted(tmp_path.glob("*.c"))], cwd=tmp_path)
    (tmp_path / "main.c").write_text(
        "#include <stddef.h>\nint tflite_fuse_load(void*, void*);\nint tflite_fuse_run(void*);\n"
        "int main(int n, char** v) { return n > 1 ? tflite_fuse_load(v, v) : n > 2 ? "
        "tflite_fuse_run(v) : 0; }\n"
    )
    for kind in sorted(KINDS):
        files = with_parts(flat_sources(), Parts(frozenset([kind]), **ALL_LOOPS))
        objects = [f"{Path(name).stem}.o" for name in files if name.endswith(".c") and name != "tflite_fuse_kinds.c"]
        table = files["tflite_fuse_kinds.c"]
        (tmp_path / "one.c").write_text(table if isinstance(table, str) else table.decode())
        run(["gcc", "-std=c11", "main.c", "one.c", *objects, "-lm", "-o", "program"], cwd=tmp_path)


@needs_gcc
@pytest.mark.parametrize("of_floats", [False, True])
def test_a_program_of_one_type_has_no_kernel_of_the_other(of_floats: bool, tmp_path: Path) -> None:
    others = {StageKind.QUANTIZE, StageKind.DEQUANTIZE, StageKind.REAL_PAIR}
    kinds = frozenset(kind for kind in KINDS - others if kind.name.startswith("FLOAT_") is of_floats)
    for name, content in with_parts(flat_sources(), Parts(kinds, **ALL_LOOPS)).items():
        (tmp_path / name).write_text(content if isinstance(content, str) else content.decode())
    (tmp_path / "main.c").write_text("int tflite_fuse_run(void*);\nint main(void) { return tflite_fuse_run(0); }\n")
    flags = ["-std=c11", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]
    run(["gcc", *flags, *sorted(tmp_path.glob("*.c")), "-lm", "-o", "program"], cwd=tmp_path)
    listed = subprocess.run(["nm", tmp_path / "program"], check=True, capture_output=True, text=True).stdout
    found = {StageKind[name.upper()] for name in re.findall(r" tflite_fuse_kind_(\w+)$", listed, re.MULTILINE)}
    assert found - {StageKind.SOURCE} == kinds - {StageKind.SOURCE}


@needs_gcc
@pytest.mark.parametrize("loops", ["CONV", "DEPTHWISE"])
def test_a_block_that_needs_a_loop_the_project_lacks_is_refused(loops: str, tmp_path: Path) -> None:
    export_model(fused("none"), tmp_path / "model", "c")
    header = tmp_path / "model" / "tflite_fuse_loops.h"
    other, count = re.subn(rf"({loops}_LOOPS) 0x\w+", r"\1 0", header.read_text())
    assert count == 1
    run(["sh", "-c", "gcc -std=c11 *.c -o program && ./program"], cwd=tmp_path / "model")
    header.write_text(other)
    said = run(
        ["sh", "-c", "gcc -std=c11 -Wall -Wextra -Werror *.c -o program && ./program || true"], cwd=tmp_path / "model"
    )
    assert "constants" in said and "output" not in said


@needs_gcc
def test_kinds_of_operators_in_no_block_are_brought_along(tmp_path: Path) -> None:
    """They become blocks when the folder is written: CONV and DEPTHWISE here, which the block of the file has not."""
    export_model(fuse(network("none"), range(4, 6)), tmp_path / "model", "c")
    assert "output 0[0] = " in run(["sh", "-c", "gcc -std=c11 *.c -o program && ./program"], cwd=tmp_path / "model")


@pytest.mark.parametrize("format", ["arduino", "platformio", "esp-idf"])
def test_parts_for_splits_alone_are_left_out(format: str, tmp_path: Path) -> None:
    export_model(fused(), tmp_path / "model", format)
    brought = {path.name for path in (tmp_path / "model").rglob("*.[ch]*")}
    of_splits = {name.rpartition("/")[2] for name in sources("", splits=True)} - {
        name.rpartition("/")[2] for name in sources("")
    }
    assert "tflite_fuse_tflm.cpp" in brought and "tflite_fuse_coordinator.h" in of_splits
    assert not brought & of_splits


@pytest.mark.parametrize("format", ["arduino", "platformio", "esp-idf"])
def test_a_model_without_blocks_brings_no_library(format: str, tmp_path: Path) -> None:
    found = export_model(network(), tmp_path / "model", format)
    assert not [path for path in found.files if path.name.startswith("tflite_fuse")]
    assert found.flash.library_bytes == 0
