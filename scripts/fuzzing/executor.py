"""Damaged blocks through the C library, under AddressSanitizer and UndefinedBehaviorSanitizer, on 64 and on 32 bits."""

from __future__ import annotations

import atexit
import functools
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from random import Random

from scripts.fuzzing import libfuzzer
from tests.fusion.random_blocks import random_block, random_config
from tests.fusion.witness import plan
from tflite_fuse.fusion.encoding.encode import encode
from tflite_fuse.runtime.library.sources import library_directory, library_sources

_COMPILERS = ("clang", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14")
_FLAGS = (
    "-std=c11",
    "-g",
    "-O1",
    "-fsanitize=fuzzer,address,undefined,pointer-overflow",
    "-fno-sanitize-recover=all",
    "-DTFLITE_FUSE_MAX_WORK=0x80000",
)
_SEEDS = 60
_LONGEST = 8192


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tflite-fuse-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _write_seeds(folder / "seeds")
    return folder


@functools.cache
def _program(bits: int) -> Path | str:
    """The fuzzer for a width of pointers, or why there is none here."""
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        return "no clang"
    program = _folder() / f"executor{bits}"
    sources = [Path(__file__).with_name("executor.c"), *library_sources()]
    command = [compiler, *_FLAGS, f"-m{bits}", f"-I{library_directory()}", *map(str, sources), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return program if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it cannot be built"])[-1]


def _write_seeds(folder: Path) -> None:
    """Sound blocks of every kind, with inputs in the arena, outside it and streamed."""
    folder.mkdir(parents=True)
    for number in range(_SEEDS):
        rng = Random(number)
        block = random_block(rng, largest=6)
        encoded = encode(block, plan(block, random_config(rng, block)))
        head = struct.pack("<B3xI", number % 16, len(encoded.options))
        (folder / str(number)).write_bytes(head + encoded.options + encoded.constants)


def run(bits: int, first: int, seconds: int) -> tuple[int, str]:
    """Executions done, and what ended them if that was not the time.

    Args:
        bits: of a pointer, 64 or 32.
        first: seed of the mutations.
        seconds: to go on for.
    """
    program = _program(bits)
    if isinstance(program, str):
        return 0, f"not run: {program}"
    command = [str(program), f"-max_len={_LONGEST}", "-timeout=20"]
    return libfuzzer.run(f"executor{bits}", command, _folder() / "seeds", first, seconds)
