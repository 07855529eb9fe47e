"""Damaged blocks through the C library, under AddressSanitizer and UndefinedBehaviorSanitizer, on 64 and on 32 bits."""

from __future__ import annotations

import atexit
import functools
import shutil
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import tflite_fuse
from scripts.fuzzing import libfuzzer
from tests.fusion.random_blocks import random_block, random_config
from tests.fusion.witness import plan
from tflite_fuse.fusion.encoding.encode import encode
from tflite_fuse.fusion.encoding.in_model import blocks_in
from tflite_fuse.model import load_model
from tflite_fuse.model.file import serialize_model
from tflite_fuse.zoo.networks import keyword_network, temporal_network

_SEEDS = 60
_LONGEST = 8192


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tflite-fuse-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _write_seeds(folder / "seeds")
    return folder


def _write_seeds(folder: Path) -> None:
    """Sound blocks of every kind, with inputs in the arena, outside it and streamed, and such that keep a state."""
    folder.mkdir(parents=True)
    for number in range(_SEEDS):
        rng = Random(number)
        block = random_block(rng, largest=6)
        encoded = encode(block, plan(block, random_config(rng, block)))
        head = struct.pack("<B3xI", number % 16, len(encoded.options))
        (folder / str(number)).write_bytes(head + encoded.options + encoded.constants)
    for number, (options, constants) in enumerate(_remembering()):
        head = struct.pack("<B3xI", number % 4 + 32 * (number % 2), len(options))
        (folder / f"state {number}").write_bytes(head + options + constants)


def _remembering() -> Iterator[tuple[bytes, bytes]]:
    """Options and constants of the blocks of small streams."""
    for hop in (1, 2, 3):
        for window in (temporal_network((1, 2), 3, 4), keyword_network(25, 6, 4, 1, 2)):
            data = tflite_fuse.rewrite(serialize_model(window), stream_time=hop, verify=False).model
            for plan_ in blocks_in(load_model(data)).values():
                yield plan_.encoded.options, plan_.encoded.constants


def _flags(bits: int) -> tuple[str, ...]:
    return f"-m{bits}", "-DTFLITE_FUSE_MAX_WORK=0x80000"


def run(bits: int, first: int, seconds: int) -> tuple[int, str]:
    """Executions done, and what ended them if that was not the time.

    Args:
        bits: of a pointer, 64 or 32.
        first: seed of the mutations.
        seconds: to go on for.
    """
    program = libfuzzer.build(Path(__file__).with_name("executor.c"), _folder() / f"executor{bits}", *_flags(bits))
    if isinstance(program, str):
        return 0, f"not run: {program}"
    command = [str(program), f"-max_len={_LONGEST}", "-timeout=20"]
    return libfuzzer.run(f"executor{bits}", command, _folder() / "seeds", first, seconds)
