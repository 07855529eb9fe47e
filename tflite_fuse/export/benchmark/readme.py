"""The README of a benchmark: from the folder to lines that count."""

from __future__ import annotations

from string import Template

from tflite_fuse.export.benchmark.candidate import INPUT_SETS, RUNS
from tflite_fuse.export.flash import Flash
from tflite_fuse.export.text import comment

_TEXT = Template("""\
# $title on a board: unfused and rewritten

1. In `board.h` name the board as `tflite-fuse boards` lists it, and the clock of its core.
2. Build all files with `-O2`, in your firmware or by `cc -std=c11 -O2 *.c -o run -lm`; where a core counts no cycles
   (Cortex-M0), `benchmark_ticks` in `board.h` needs a clock of your board.
3. Run it; copy what it prints into `results.jsonl`.
4. `tflite-fuse boards add results.jsonl`

It compares the outputs of both on $sets inputs, and prints a line of JSON for each: the board, the bytes of the arena,
the median of $runs inferences in microseconds, and what each block takes. Where outputs differ it prints the first
difference and no time.

There is no other runtime here: *unfused* is the original's operators, each as a block by itself in this library. It
says what fusing brings, and not what TensorFlow Lite Micro takes.

Flash: $flash.
""")


def benchmark_readme(title: str, flash: Flash) -> str:
    """Return the text of a benchmark's README.md.

    Args:
        title: of the rewritten model.
        flash: what the rewritten model and the library take of it.
    """
    return _TEXT.substitute(title=comment(title), sets=INPUT_SETS, runs=RUNS, flash=flash.sentence())
