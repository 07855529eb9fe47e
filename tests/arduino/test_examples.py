"""The library's examples: they compile as a sketch does, and print the expected lines."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.arduino.fake_runtime import SANITIZERS, build, compiler, library_objects, workshop
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.library.sources import library_directory

ROOT = Path(__file__).resolve().parents[2]
STREAMED = ROOT / "arduino" / "examples" / "StreamedInput"
WAKE_WORD = ROOT / "arduino" / "examples" / "WakeWord"

# As much of the Arduino API as the sketch uses. `loop` runs eight times.
ARDUINO = """
#include <cstdint>
#include <cstdio>
#include <cstring>
struct Port {
  void begin(long) {}
  void print(const char* text) { std::printf("%s", text); }
  void println(const char* text) { std::printf("%s\\n", text); }
};
static Port Serial;
static void delay(unsigned long) {}
"""
MAIN = """
int main() {
  setup();
  for (int i = 0; i < 8; ++i) {
    loop();
    const int8_t* found = reinterpret_cast<const int8_t*>(arena + MODEL_OUTPUT_0_OFFSET);
    std::printf("%d %d %d %d\\n", found[0], found[1], found[2], found[3]);
  }
  return 0;
}
"""
STEPS = """
int main() {
  setup();
  for (int i = 0; i < 128; ++i) {
    loop();
    std::printf("%d\\n", *reinterpret_cast<const int8_t*>(arena + MODEL_OUTPUT_0_OFFSET));
  }
  return 0;
}
"""


@pytest.fixture(scope="module")
def stripes() -> Iterator[Model]:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from build_example import stripes_model

        yield stripes_model()
    finally:
        sys.path.pop(0)


SENSORS = Path(__file__).resolve().parent / "sensors"
"""Stand-ins for the libraries of cameras and microphones."""


def run_sketch(sketch: str, name: str, folder: Path = STREAMED, main: str = MAIN) -> list[str]:
    source, program = workshop() / f"{name}.cpp", workshop() / name
    source.write_text(ARDUINO + sketch + main)
    model = workshop() / f"{name}_model.o"
    include = [f"-I{library_directory()}", f"-I{folder}", f"-I{SENSORS}"]
    build([compiler("gcc"), "-std=c11", *SANITIZERS, *include, "-c", folder / "model.c", "-o", model])
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Werror", *SANITIZERS, *include]
    build([compiler("g++"), *flags, source, model, *library_objects(), "-o", program])
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def picture(direction: int) -> np.ndarray:
    """What the sketch's camera sees, worked out anew."""
    right, down = ((1, 0), (0, 1), (1, 1), (1, -1))[direction]
    rows, columns = np.mgrid[0:64, 0:64]
    return np.where((columns * right + rows * down) & 8, 100, -100).astype(np.int8)[None, ..., None]


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_stripes_are_recognised_with_the_bytes_of_the_original(stripes: Model) -> None:
    pictures = [picture((turn + 1) % 4) for turn in range(8)]
    expected = [outputs[0] for outputs in tflm.run(serialize_model(stripes), [[each] for each in pictures]).outputs]
    lines = run_sketch((STREAMED / "StreamedInput.ino").read_text(), "streamed")
    assert len(lines) == 16
    for turn, (said, found) in enumerate(zip(lines[::2], lines[1::2], strict=True)):
        stroke = "|-/\\"[(turn + 1) % 4]
        assert said == f"stripes run {stroke}, the model says {stroke}"
        assert [int(value) for value in found.split()] == expected[turn].ravel().tolist()


def test_a_camera_that_fails_costs_one_picture() -> None:
    sketch = (STREAMED / "StreamedInput.ino").read_text()
    good = "  return true;\n}"
    bad = "  static int begun;\n  begun += picture.rows_read == 1;\n  return begun != 3 || picture.rows_read < 9;\n}"
    assert sketch.count(good) == 1
    expected, lines = run_sketch(sketch, "streamed"), run_sketch(sketch.replace(good, bad), "broken")
    assert lines[4] == "the source of the input reported an error"
    assert (lines[:4], lines[6:]) == (expected[:4], expected[6:])


def test_the_arena_is_a_fraction_of_the_picture() -> None:
    header = (STREAMED / "model.h").read_text()
    (arena,) = re.findall(r"#define MODEL_ARENA_BYTES (\d+)", header)
    assert int(arena) < 64 * 64 / 10 and "INPUT" not in header


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_the_script_writes_a_model_that_does_the_same(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "build_example.py"
    done = subprocess.run([sys.executable, script, "--folder", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "streams it through" in done.stdout
    sketch = (STREAMED / "StreamedInput.ino").read_text()
    assert run_sketch(sketch, "written", tmp_path) == run_sketch(sketch, "streamed")


@pytest.mark.parametrize("camera", ["CAMERA_OV2640", "CAMERA_OV7670"])
def test_camera_pictures_are_classified_like_drawn_ones(camera: str) -> None:
    sketch = (STREAMED / "StreamedInput.ino").read_text()
    seen, drawn = run_sketch(f"#define {camera}\n{sketch}", camera), run_sketch(sketch, "streamed")
    assert seen[1::2] == drawn[1::2]
    assert seen[::2] == [line[line.index("the model says") :] for line in drawn[::2]]


@pytest.mark.parametrize("microphone", ["MICROPHONE_PDM", "MICROPHONE_I2S"])
def test_microphone_sounds_are_split_and_classified(microphone: str) -> None:
    sketch = (WAKE_WORD / "WakeWord.ino").read_text()
    lines = run_sketch(f"#define {microphone}\n{sketch}", microphone, WAKE_WORD, STEPS)
    heard = [at for at, line in enumerate(lines) if line == "a rising tone"]
    drawn = run_sketch(sketch, "wake_word", WAKE_WORD, STEPS)
    assert heard == [at for at, line in enumerate(drawn) if line == "a rising tone"] and len(heard) == 2


def bands(number: int) -> np.ndarray:
    """What the sketch's microphone hears in a step, worked out anew."""
    turn, at = divmod(number, 32)
    loud = np.arange(8) if turn % 2 == 0 else np.arange(8)[::-1]
    return np.where(loud == at // 2, 110, -110).astype(np.int8)


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_a_stream_detects_each_rising_tone_once_with_the_bytes_of_the_window() -> None:
    from scripts.build_wake_word import sweep_model

    window, expected, heard = [np.full(8, -128, np.int8)] * 16, [], []
    with tflm.session(serialize_model(sweep_model())) as loaded:
        for number in range(128):
            window = [*window[1:], bands(number)]
            (found,) = loaded.infer([np.stack(window)[None, ..., None]], (), reset=False)
            expected.append(int(found.ravel()[0]))
            if expected[-1] + 128 >= 200:
                heard.append(number)
                window = [np.full(8, -128, np.int8)] * 16
    lines = run_sketch((WAKE_WORD / "WakeWord.ino").read_text(), "wake_word", WAKE_WORD, STEPS)
    assert [int(line) for line in lines if line != "a rising tone"] == expected
    assert len(heard) == lines.count("a rising tone") == 2


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
def test_the_wake_words_model_equals_its_scripts_output(tmp_path: Path) -> None:
    from scripts.build_wake_word import write_example

    write_example(tmp_path)
    assert (tmp_path / "model.c").read_text() == (WAKE_WORD / "model.c").read_text()
