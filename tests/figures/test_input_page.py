"""The page on inputs: its examples compile with every TFLM, and behave as described."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from scripts.zoo import ModelBuilder
from tests.arduino.fake_runtime import (
    GENERATIONS,
    GLUE,
    SANITIZERS,
    build,
    compiler,
    glue_flags,
    library_objects,
    workshop,
)
from tflite_fuse.model import save_model
from tflite_fuse.runtime import tflm

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "input.md").read_text()
FLAGS = ("-std=c++11", "-Wall", "-Wextra", "-Werror")

# What the user's own program brings: an interpreter, a camera.
AROUND = """
#include <cstdint>
#include <cstdio>
#include <cstring>
namespace tflite {
struct MicroInterpreter {
  void* context;
  int SetMicroExternalContext(void* given) {
    context = given;
    return 0;
  }
};
}
static int rows_asked;
static bool next_row_of_camera(int8_t* row) {
  memset(row, rows_asked, 96 * 3);
  return rows_asked++ != 50;
}
"""

MAIN = """
int main() {
  tflite::MicroInterpreter interpreter;
  set_up(interpreter);
  const tflite_fuse_outside* given = static_cast<const tflite_fuse_outside*>(interpreter.context);
  const tflite_fuse_source* source = &given->sources[0];
  static int8_t pixels[8 * 3];
  for (int frame = 0; frame < 2; ++frame) {
    rows_asked = 51 * frame;
    int status = 0;
    for (int y = 0; y < 96 && status == 0; ++y) {
      for (int x = 0; x < 96 && status == 0; x += 8) {
        status = source->read(source->user, y, x, 8, pixels, sizeof(pixels));
        if (status == 0 && pixels[23] != static_cast<int8_t>(y + 51 * frame)) {
          std::printf("wrong pixel\\n");
        }
      }
    }
    std::printf("%d %d\\n", status, rows_asked);
  }
  return given->mark == TFLITE_FUSE_OUTSIDE_MARK_2 ? 0 : 1;
}
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("number", [0, 1])
def test_the_examples_compile(generation: int, number: int, tmp_path: Path) -> None:
    source = tmp_path / "example.cpp"
    source.write_text(AROUND + blocks("cpp")[number])
    flags = ("-Wno-unused-function", "-fsyntax-only", *glue_flags(generation))
    build([compiler("g++"), *FLAGS, *flags, source])


def test_the_camera_gives_every_row_once_and_ends_with_an_error() -> None:
    source, program = workshop() / "readme.cpp", workshop() / "readme"
    source.write_text(AROUND + blocks("cpp")[0] + MAIN)
    command = [compiler("g++"), *FLAGS, *SANITIZERS, *glue_flags(max(GENERATIONS)), source, *library_objects()]
    build([*command, "-o", program])
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n")[:2] == ["1 51", "0 147"]
    assert GLUE.exists()


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_the_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    b = ModelBuilder(1)
    x = b.conv(b.input((1, 96, 96, 3)), 4, 3, 2, activation="RELU6")
    save_model(b.build([b.fully_connected(b.mean(x), 3)]), tmp_path / "model.tflite")
    monkeypatch.chdir(tmp_path)
    (example,) = blocks("python")
    names: dict[str, np.ndarray] = {}
    exec(example, names)
    assert names["scores"].shape == (1, 3) and (names["scores"] == names["same"]).all()
