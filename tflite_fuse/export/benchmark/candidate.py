"""Data of a benchmark: two files, the board they run on, the lines about their runs, and its README."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from tflite_fuse.cost.instructions import Target, block_instructions
from tflite_fuse.emit.in_model import blocks_in
from tflite_fuse.errors import UsageError
from tflite_fuse.export.flash import Flash
from tflite_fuse.export.ports import Port, checked_outside
from tflite_fuse.export.text import comment, fill
from tflite_fuse.ir.program import FUSED_OPERATOR
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model

RESULT_SCHEMA = "tflite-fuse/board-result/1"
"""Schema of a line that a benchmark prints."""

RUNS = 30
"""Inferences whose median time is printed."""

INPUT_SETS = 4
"""Number of inputs on which outputs are compared."""


@dataclass(frozen=True)
class OnBoard:
    """The board of a benchmark.

    Attributes:
        name: as ``tflite-fuse boards`` lists it; empty if the user fills it in.
        mhz: of its core; 0 if the user fills it in.
        target: the core whose instructions are predicted.
    """

    name: str = ""
    mhz: int = 0
    target: Target = Target.GENERIC


@dataclass(frozen=True)
class Candidate:
    """A file to run.

    Attributes:
        run: ``original``, ``unfused`` or ``rewritten``.
        title: of the model.
        digest: SHA-256 of the file.
        nbytes: of the file.
        instructions: predicted for the board's core; 0 if operators are outside of blocks.
    """

    run: str
    title: str
    digest: str
    nbytes: int
    instructions: int

    def head(self, runtime: str, kernels: str) -> str:
        """Return the beginning of its lines, a C string literal of JSON up to the fields that the board fills in."""
        fields = {
            "schema": RESULT_SCHEMA,
            "run": self.run,
            "model": comment(self.title),
            "sha256": self.digest,
            "bytes": self.nbytes,
            "runtime": runtime,
            "kernels": kernels,
            "predicted_instructions": self.instructions,
        }
        return json.dumps(json.dumps(fields)[:-1])


def candidate(run: str, title: str, data: bytes, model: Model, board: OnBoard) -> Candidate:
    """Return the data of a file before it runs.

    Raises:
        ModelError: a block is damaged.
    """
    blocks = blocks_in(model)
    whole = all(operator_name(model, each) == FUSED_OPERATOR for each in model.main.operators)
    count = block_instructions(((plan.block, plan.schedule) for plan in blocks.values()), board.target) if whole else 0
    return Candidate(run, title, hashlib.sha256(data).hexdigest(), len(data), count)


def same_ports(ours: Sequence[Port], theirs: Sequence[Port]) -> bool:
    """Return whether two models have the same inputs, or outputs, in order: types, shapes and quantizations."""
    return [(port.tensor.type, port.tensor.dims, port.scale) for port in ours] == [
        (port.tensor.type, port.tensor.dims, port.scale) for port in theirs
    ]


def require_resident(rewritten: Model) -> None:
    """Raise UsageError for a model that reads inputs from outside the arena."""
    if checked_outside(rewritten):
        raise UsageError(
            "a benchmark has inputs in the arena, and this model reads some from elsewhere; rewrite it without --input"
        )


NOT_THE_ORIGINAL = "inputs or outputs of the two models differ: give --benchmark the file that MODEL was rewritten from"


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


def benchmark_readme(format: str, title: str, flash: Flash) -> str:
    """Return the text of a benchmark's README.md.

    Args:
        format: of the project.
        title: of the rewritten model.
        flash: of the rewritten model and the library.
    """
    return fill(
        "benchmark/README.md",
        title=comment(title),
        other="unfused" if format == "c" else "original",
        build=_BUILD[format],
        run=_RUN[format],
        sets=INPUT_SETS,
        runs=RUNS,
        about=_UNFUSED if format == "c" else _ORIGINAL,
        flash=flash.sentence(),
    )
