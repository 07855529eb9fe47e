"""The README of a benchmark: how to build and run it and add its results."""

from __future__ import annotations

from string import Template

from tflite_fuse.export.benchmark.candidate import INPUT_SETS, RUNS
from tflite_fuse.export.flash import Flash
from tflite_fuse.export.text import comment

_BUILD = {
    "c": """\
Build all files with `-O2`, in your firmware or by `cc -std=c11 -O2 *.c -o run -lm`; where a core counts no cycles
   (Cortex-M0), `benchmark_ticks` in `board.h` needs a clock of your board.""",
    "arduino": "Install `Chirale_TensorFlowLite` in the Library Manager, open the sketch, choose a board, upload.",
    "platformio": "`pio run -e nano33ble -t upload`, or the environment of your board.",
    "esp-idf": "`idf.py set-target esp32s3`, or your chip, and `idf.py build flash`.",
}
_RUN = {
    "c": "Run it; copy",
    "arduino": "Open the Serial Monitor at 115200 baud; copy",
    "platformio": "`pio device monitor`; copy",
    "esp-idf": "`idf.py monitor`; copy",
}
_UNFUSED = """\
There is no other runtime here: *unfused* is the original's operators, each as a block by itself in this library. It
says what fusing brings, and not what TensorFlow Lite Micro takes."""
_ORIGINAL = """\
Both run in your TensorFlow Lite Micro, one after the other in the same arena, which has to be as large as the original
needs. A board on which it does not fit has nothing to compare with."""

_TEXT = Template("""\
# $title on a board: $other and rewritten

1. In `board.h` name the board as `tflite-fuse boards` lists it, and the clock of its core.
2. $build
3. $run what it prints into `results.jsonl`.
4. `tflite-fuse boards add results.jsonl`

It compares the outputs of both on $sets inputs, and prints a line of JSON for each: the board, the bytes of the arena,
the median of $runs inferences in microseconds, and what each block takes. Where outputs differ it prints the first
difference and no time.

$about

Flash: $flash.
""")


def benchmark_readme(format: str, title: str, flash: Flash) -> str:
    """Return the text of a benchmark's README.md.

    Args:
        format: of the project.
        title: of the rewritten model.
        flash: of the rewritten model and the library.
    """
    return _TEXT.substitute(
        title=comment(title),
        other="unfused" if format == "c" else "original",
        build=_BUILD[format],
        run=_RUN[format],
        sets=INPUT_SETS,
        runs=RUNS,
        about=_UNFUSED if format == "c" else _ORIGINAL,
        flash=flash.sentence(),
    )
