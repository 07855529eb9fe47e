"""Damaged blocks through the C library, under AddressSanitizer and UndefinedBehaviorSanitizer, on 64 and on 32 bits.

The kernels with DSP and Helium instructions run, too, with intrinsics emulated in C: each accesses memory through
pointers that the sanitizers watch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

import tflite_fuse
from scripts.fuzzing.libfuzzer import Target
from scripts.zoo.networks import keyword_network, temporal_network
from tests.drawing.packed_blocks import DSP, MVE, deep_block, one_column_block, packed_block
from tests.drawing.random_blocks import random_block
from tests.drawing.random_configs import random_config
from tests.drawing.steps.floats import float_block
from tests.drawing.waiting_blocks import waiting_block
from tests.drawing.witness import plan
from tflite_fuse.emit.encode import encode
from tflite_fuse.emit.in_model import blocks_in
from tflite_fuse.ir.limits import MAX_WINDOW
from tflite_fuse.model import load_model
from tflite_fuse.model.file import serialize_model

_SEEDS = 60
_WAITING_SEEDS = 20
_WIDE_SEEDS = 8
_PACKED_SEEDS = 30
_FLOAT_SEEDS = 40
_LONGEST = 8192


def _seeds() -> Iterator[bytes]:
    """Return sound blocks of every kind, with inputs in the arena, outside it and streamed, packed weights, stages that
    wait, windows of one column, whose dilation may have any size, blocks on float32 and blocks that keep a state."""
    for number in range(_SEEDS):
        rng = Random(number)
        block = random_block(rng, largest=6)
        encoded = encode(block, plan(block, random_config(rng, block)))
        yield struct.pack("<B3xI", number % 16, len(encoded.options)) + encoded.options + encoded.constants
    for number in range(_WAITING_SEEDS):
        block, config = waiting_block(Random(number))
        encoded = encode(block, plan(block, config))
        yield struct.pack("<B3xI", number % 16, len(encoded.options)) + encoded.options + encoded.constants
    for number in range(_FLOAT_SEEDS):
        rng = Random(number)
        block = float_block(rng, largest=6)
        encoded = encode(block, plan(block, random_config(rng, block)))
        yield struct.pack("<B3xI", number % 16, len(encoded.options)) + encoded.options + encoded.constants
    for number in range(_PACKED_SEEDS):
        rng = Random(number)
        block = packed_block(rng) if number % 2 else deep_block(rng)
        encoded = encode(block, plan(block, random_config(rng, block)))
        yield struct.pack("<B3xI", 0, len(encoded.options)) + encoded.options + encoded.constants
    for number in range(_WIDE_SEEDS):
        rng = Random(number)
        block = one_column_block(rng, MAX_WINDOW, rng.choice([4, 5, 16, 65, 128]))
        encoded = encode(block, plan(block, random_config(rng, block)))
        yield struct.pack("<B3xI", number % 16, len(encoded.options)) + encoded.options + encoded.constants
    for number, (options, constants) in enumerate(_remembering()):
        yield struct.pack("<B3xI", number % 4 + 32 * (number % 2), len(options)) + options + constants


def _remembering() -> Iterator[tuple[bytes, bytes]]:
    """Return options and constants of the blocks of small streams."""
    for hop in (1, 2, 3):
        for window in (temporal_network((1, 2), 3, 4), keyword_network(25, 6, 4, 1, 2)):
            data = tflite_fuse.rewrite(serialize_model(window), stream_time=hop, verify=False).model
            for plan_ in blocks_in(load_model(data)).values():
                yield plan_.encoded.options, plan_.encoded.constants


_BUILDS = {
    "executor64": ("-m64",),
    "executor32": ("-m32",),
    "executor32_registers": ("-m32", "-DTFLITE_FUSE_MANY_REGISTERS=1"),  # as on RISC-V, whose workspaces are larger
    "executor64_dsp": DSP,
    "executor64_mve": MVE,
}

TARGETS = tuple(
    Target(name, "executor.c", _seeds, _LONGEST, (*flags, "-DTFLITE_FUSE_MAX_WORK=0x80000"))
    for name, flags in _BUILDS.items()
)
