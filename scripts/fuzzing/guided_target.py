"""The program that libFuzzer drives for ``guided``: any exception but the project's own errors ends it.

Nothing of the package may be imported before atheris instruments imports: it counts the lines of later imports.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

_COUNTED = ["tflite_fuse.model", "tflite_fuse.memory", "tflite_fuse.emit", "tflite_fuse.ops.lowering"]

with atheris.instrument_imports(include=_COUNTED):
    import tflite_fuse
    from scripts.fuzzing.seeds import without_runtime
    from tflite_fuse.errors import TfliteFuseError


def inspect(data: bytes) -> None:
    """Return one file, damaged or not."""
    with contextlib.suppress(TfliteFuseError):
        tflite_fuse.inspect(data)


if __name__ == "__main__":
    with without_runtime():
        atheris.Setup(sys.argv, inspect)
        atheris.Fuzz()
