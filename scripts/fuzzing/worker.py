"""Damaged fragments through the worker in C, under AddressSanitizer and UndefinedBehaviorSanitizer, 64 and 32 bits."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from scripts.fuzzing import libfuzzer
from tests.split.fragments.cases import fragments, without_operators

_LONGEST = 65536


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tflite-fuse-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "seeds").mkdir()
    for number, data in enumerate(_seeds()):
        (folder / "seeds" / str(number)).write_bytes(data)
    return folder


def _seeds() -> list[bytes]:
    """Sound fragments: of cut layers, of blocks by rows, and coordinators'."""
    found = [data for strategy in ("paper", "time", "ram") for data in fragments(strategy).workers]
    return [*found, fragments().coordinator, without_operators()[1].coordinator]


def run(bits: int, first: int, seconds: int) -> tuple[int, str]:
    """Executions done, and what ended them if that was not the time; arguments as of the executor's."""
    source, flags = Path(__file__).with_name("worker.c"), (f"-m{bits}", "-DTFLITE_FUSE_MAX_WORK=0x80000")
    program = libfuzzer.build(source, _folder() / f"worker{bits}", *flags, "-DTFLITE_FUSE_NO_CRC")
    if isinstance(program, str):
        return 0, f"not run: {program}"
    command = [str(program), f"-max_len={_LONGEST}", "-timeout=20"]
    return libfuzzer.run(f"worker{bits}", command, _folder() / "seeds", first, seconds)
