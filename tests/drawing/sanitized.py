"""Runs blocks in a build with AddressSanitizer and UndefinedBehaviorSanitizer. A program of its own: the process must
be started with ``sanitizer_environment``, and the first wrong access ends it.

    python -m tests.drawing.sanitized LIBRARY WHAT FIRST SEEDS

WHAT is one of RUNS.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tests.drawing.packed_blocks import deep_block, packed_block
from tests.drawing.random_blocks import random_block
from tests.drawing.random_configs import one_tile, random_config
from tests.drawing.steps.floats import float_block
from tests.drawing.steps.recurrent import recurrent_block
from tests.drawing.witness import check, check_random, plan
from tflite_fuse.emit.encode import EncodedBlock, encode
from tflite_fuse.emit.options import read_options, sealed
from tflite_fuse.errors import BlockError, UsageError
from tflite_fuse.ir.block import Block, ElementType, StageKind, Storage
from tflite_fuse.ir.structs import TensorDesc
from tflite_fuse.runtime.library.host import HostLibrary, _Block, _Memory, load_library
from tflite_fuse.runtime.streams import PixelSource

OPERANDS = ("input", "output", "external", "source")

MOST_BYTES = 1 << 22
"""A block that asks for more memory than this is not run: no caller would have it."""


RUNS = ("exercise", "fuzz", "overrun", "exercise-packed", "fuzz-packed", "exercise-recurrent", "fuzz-recurrent")
RUNS += ("exercise-floats", "fuzz-floats")


def small_block(rng: Random) -> Block:
    return random_block(rng, largest=8)


def any_packed_block(rng: Random) -> Block:
    return (deep_block if rng.random() < 0.2 else packed_block)(rng)


def exercise(library: HostLibrary, seed: int) -> str:
    """One random block, compared with the reference."""
    check_random(library, Random(seed))
    return "equal"


class ShortScratch:
    """The library's functions, but scratch is said to be four bytes shorter than the block uses."""

    def __init__(self, functions: Any) -> None:
        self._functions = functions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._functions, name)

    def tflite_fuse_scratch_bytes(self, block: Any) -> int:
        return int(self._functions.tflite_fuse_scratch_bytes(block)) - 4


def overrun(library: HostLibrary, seed: int) -> str:
    """A sound block whose caller lies about its memory: the sanitizers must end this."""
    return exercise(HostLibrary(ShortScratch(library.functions)), seed)


def damage(rng: Random, data: bytes) -> bytes:
    """Changes a few bytes or whole numbers, or cuts the end off."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        at = rng.randrange(len(changed))
        if rng.random() < 0.3:
            changed[at] = rng.randrange(256)
        else:
            at -= at % 4
            old = int.from_bytes(changed[at : at + 4], "little", signed=True)
            near = [old + rng.choice([-16, -4, -2, -1, 1, 2, 4, 16]), -old, old * 2]
            wild = [0, 1, -1, 2**31 - 1, -(2**31), 65535, 65536, 32767, 255, 256, rng.randrange(-(2**31), 2**31)]
            new = rng.choice(near if rng.random() < 0.6 else wild)
            changed[at : at + 4] = (new & 0xFFFFFFFF).to_bytes(4, "little")[: len(changed) - at]
    if rng.random() < 0.05:
        del changed[rng.randrange(len(changed)) :]
    return bytes(changed)


def exercise_packed(library: HostLibrary, seed: int) -> str:
    """As ``exercise``, with a block for the kernels of packed weights."""
    rng = Random(seed)
    block = any_packed_block(rng)
    check(library, block, random_config(rng, block), rng)
    return "equal"


def fuzz(library: HostLibrary, seed: int, make: Callable[[Random], Block] = small_block, *, whole: bool = False) -> str:
    """One random block, damaged: the library refuses it or runs it within its memory."""
    rng = Random(seed)
    block = make(rng)
    config = random_config(rng, block)
    encoded = encode(block, plan(block, one_tile(config) if whole else config))
    options, constants = encoded.options, encoded.constants
    if rng.random() < 0.8:
        options = damage(rng, options)
    else:
        constants = damage(rng, constants)
    with suppress(BlockError):
        options = sealed(options, constants)  # or the checksum would stop everything
    return run_damaged(library, rng, EncodedBlock(options, constants, 0))


def fuzz_packed(library: HostLibrary, seed: int) -> str:
    """As ``fuzz``, with a block for the kernels of packed weights."""
    return fuzz(library, seed, any_packed_block)


def exercise_recurrent(library: HostLibrary, seed: int) -> str:
    """As ``exercise``, with blocks that hold an LSTM."""
    rng = Random(seed)
    block = recurrent_block(rng)
    check(library, block, one_tile(random_config(rng, block)), rng)
    return "equal"


def fuzz_recurrent(library: HostLibrary, seed: int) -> str:
    """As ``fuzz``, with blocks that hold an LSTM."""
    return fuzz(library, seed, recurrent_block, whole=True)


def exercise_floats(library: HostLibrary, seed: int) -> str:
    """As ``exercise``, with blocks on float32."""
    rng = Random(seed)
    block = float_block(rng, largest=7)
    check(library, block, random_config(rng, block), rng)
    return "equal"


def fuzz_floats(library: HostLibrary, seed: int) -> str:
    """As ``fuzz``, with blocks on float32."""
    return fuzz(library, seed, float_block)


def operand_sizes(library: HostLibrary, encoded: EncodedBlock) -> dict[str, list[int]]:
    """Bytes of every input, output, external and source of a sound block, of its scratch and of its state."""
    block, functions = _Block(), library.functions
    with _Memory() as memory:
        library._check(library._prepare(block, memory, encoded.options, encoded.constants))
        kinds = {name: library._sizes(block, kind) for kind, name in enumerate(OPERANDS, 1)}
        own = {"scratch": functions.tflite_fuse_scratch_bytes, "state": functions.tflite_fuse_state_bytes}
        return kinds | {name: [size(ctypes.byref(block))] for name, size in own.items()}


def run_damaged(library: HostLibrary, rng: Random, encoded: EncodedBlock) -> str:
    try:
        sizes = operand_sizes(library, encoded)
    except BlockError:
        return "refused"
    if sum(sum(group) for group in sizes.values()) > MOST_BYTES:
        return "too large"
    noise = np.random.default_rng(rng.randrange(2**32))

    def values(kind: str) -> list[np.ndarray]:
        types = types_of(encoded.options, kind)
        drawn = [noise.integers(-128, 128, size).astype(np.int8) for size in sizes[kind]]
        return [each.view(types.get(number, np.int8)) for number, each in enumerate(drawn)]

    made = {desc.operand: desc for desc in sourced(encoded.options)}
    sources = [zeros(made.get(number)) for number in range(len(sizes["source"]))]
    try:
        library.run(encoded.options, encoded.constants, values("input"), values("external"), sources)
    except (BlockError, UsageError):  # a source that gives too few pixels ends the run
        return "ended"
    return "ran"


def sourced(options: bytes) -> list[TensorDesc]:
    """The tensors that sources write, by operand number."""
    found = read_options(options)
    made = [found.tensors[stage.output] for stage in found.stages if stage.kind == StageKind.SOURCE]
    return sorted(made, key=lambda desc: desc.operand)


NUMPY = {ElementType.INT8: np.int8, ElementType.UINT8: np.uint8, ElementType.FLOAT32: np.float32}


def types_of(options: bytes, kind: str) -> dict[int, type]:
    """Types of inputs or external tensors by operand number."""
    storage = {"input": Storage.INPUT, "external": Storage.EXTERNAL}[kind]
    return {desc.operand: NUMPY[desc.element_type] for desc in read_options(options).tensors if desc.storage == storage}


def zeros(desc: TensorDesc | None) -> PixelSource:
    channels, kind = (1, np.int8) if desc is None else (desc.channels, NUMPY[desc.element_type])
    return lambda y, x, count: np.zeros(count * channels, kind)


def main() -> None:
    path, what, first, count = sys.argv[1:]
    library = load_library(Path(path))
    ways = (exercise, fuzz, overrun, exercise_packed, fuzz_packed, exercise_recurrent, fuzz_recurrent)
    ways += (exercise_floats, fuzz_floats)
    run = dict(zip(RUNS, ways, strict=True))[what]
    outcomes = [run(library, seed) for seed in range(int(first), int(first) + int(count))]
    print({outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))})


if __name__ == "__main__":
    main()
