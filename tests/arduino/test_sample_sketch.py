"""The example SampleModel: its model and picture belong together, and the sketch compiles.

If a change of the block format makes the committed model old, scripts/build_sample_sketch.py writes it anew.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scripts import shapes
from tests.arduino.fake_runtime import GLUE, HERE, SANITIZERS, build, compiler, headers_of, library_objects
from tflite_fuse.data import SAMPLE_MODEL
from tflite_fuse.export.arena import arena_for
from tflite_fuse.memory.tflm.runtimes import FULL_STRUCTS
from tflite_fuse.model import load_model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.library.sources import library_directory

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "arduino" / "examples" / "SampleModel"

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def numbers_of(file: str, array: str) -> list[int]:
    text = (EXAMPLE / file).read_text()
    body = text.split(f" {array}[", 1)[1].split("{", 1)[1].split("}", 1)[0]
    return [int(number) for number in re.findall(r"-?\d+", body)]


def model() -> bytes:
    return bytes(numbers_of("model_data.c", "model_data"))


def picture() -> np.ndarray:
    return np.array(numbers_of("picture.c", "picture"), np.int8).reshape(1, shapes.SIZE, shapes.SIZE, 3)


@needs_tflm
def test_the_model_gives_the_bytes_of_the_original() -> None:
    fused = tflm.run(model(), [[]], outside=[[picture()]]).outputs[0][0]
    original = tflm.run(SAMPLE_MODEL.read_bytes(), [[picture()]]).outputs[0][0]
    assert (fused == original).all()
    assert fused.ravel().tolist() == numbers_of("picture.c", "expected")


def test_it_recognises_the_picture() -> None:
    best = int(np.argmax(numbers_of("picture.c", "expected")))
    assert f"A picture of a {shapes.CLASSES[best]}:" in (EXAMPLE / "picture.h").read_text()
    names = re.findall(r'"(\w+)"', (EXAMPLE / "picture.c").read_text().split("names[", 1)[1].split("}", 1)[0])
    assert tuple(names) == shapes.CLASSES


def test_the_arena_is_the_one_the_model_needs() -> None:
    (declared,) = re.findall(r"#define MODEL_ARENA_BYTES (\d+)", (EXAMPLE / "model_data.h").read_text())
    assert int(declared) == arena_for(load_model(model()), FULL_STRUCTS).needed < picture().size


@pytest.mark.parametrize("generation", [1, 5])
def test_the_sketch_compiles_and_prints_its_result(generation: int, tmp_path: Path) -> None:
    """Against stand-ins for board and runtime, whose outputs are all 7: not what the picture shows."""
    headers = ["tensorflow/lite/micro/micro_interpreter.h", "tensorflow/lite/schema/schema_generated.h"]
    for name in ("Chirale_TensorFlowLite.h", *headers):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('#include "fake_board.h"\n')
    whole = tmp_path / "whole.cpp"
    sketch = EXAMPLE / "SampleModel.ino"
    whole.write_text(
        f'#include "fake_board.h"\n#include "{sketch}"\nint main() {{\n  setup();\n  for (;;) loop();\n}}\n'
    )
    folders = [tmp_path, headers_of(generation), HERE, HERE.parent / "export", library_directory(), EXAMPLE]
    include = [f"-I{folder}" for folder in folders]
    warnings = ["-Wall", "-Wextra", "-Werror"]
    objects = []
    for name in ("model_data", "picture"):
        objects.append(tmp_path / f"{name}.o")
        build([compiler("gcc"), "-std=c11", *warnings, "-c", EXAMPLE / f"{name}.c", "-o", objects[-1]])
    flags = ["-std=c++11", *warnings, *SANITIZERS, f"-DFAKE_GENERATION={generation}", *include]
    build([compiler("g++"), *flags, whole, GLUE, *objects, *library_objects(), "-o", tmp_path / "program"])
    said = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True).stdout
    assert said == "the picture shows a disc, with OTHER bytes than the original model\n"


@needs_tflm
def test_the_script_writes_the_committed_files(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "build_sample_sketch.py"
    subprocess.run([sys.executable, script, "--folder", tmp_path], capture_output=True, check=True)
    for name in ("picture.h", "picture.c", "model_ops.h"):
        assert (tmp_path / name).read_text() == (EXAMPLE / name).read_text()
    assert (tmp_path / "model_data.c").exists() and (tmp_path / "model_data.h").exists()
