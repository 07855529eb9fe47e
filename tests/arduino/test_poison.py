"""Outputs over inputs, checked by poison: an output overwrites only bytes that are never read again."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.drawing.plain_pull import PlainPull
from tests.drawing.random_blocks import random_block
from tests.drawing.random_configs import one_tile, random_config
from tests.drawing.steps.floats import float_block
from tests.drawing.witness import random_operands
from tflite_fuse.cost.schedule.schedule import schedule
from tflite_fuse.ir.block import Block, BlockConfig, Stage, StageKind
from tflite_fuse.runtime.reference import run_block_tensors

POISON = 1000
"""Added to what is written, so that no byte of output can pass for a byte of input."""


def as_bytes(values: np.ndarray) -> np.ndarray:
    """The bytes of int8 or float32 values, as int16."""
    return np.ascontiguousarray(values).view(np.int8).astype(np.int16)


class SpentByteReadError(Exception):
    """A run reads input bytes that output was written over."""


class PoisonedPull(PlainPull):
    """Follows a block with an output and an input in one memory; what the output writes is the reference's bytes.

    The output starts at byte 0 and the input at byte ``distance`` of the memory. Bytes of the input are spent as soon
    as an output run begins to be written, before that run reads its own windows: a kernel may write its first
    pixel before it reads its last.
    """

    def __init__(self, block: Block, config: BlockConfig, distance: int, values: dict[int, np.ndarray]) -> None:
        self.values, self.at = values, distance
        (self.source,), (self.output,) = block.inputs, block.outputs
        base = max(0, -distance)
        size = base + max(block.tensors[self.output].nbytes, distance + block.tensors[self.source].nbytes)
        self.base, self.memory = base, np.zeros(size, np.int16)
        self.image = as_bytes(values[self.source]).ravel()
        start = base + distance
        self.memory[start : start + self.image.size] = self.image
        super().__init__(block, config)

    def _note(self, tensor: int, written: int) -> None:
        """Called when a run is about to be written, ``written`` pixels of the tile's region being there then."""
        stage = self.writer[tensor]
        (top, _), (left, right) = self.region[tensor]
        run = range(self.produced[tensor], written)
        pixels = [(top + at // (right - left), left + at % (right - left)) for at in run]
        if tensor == self.output:
            for row, column in pixels:
                self._write(row, column)
        if self.source in stage.inputs:
            self._read(stage, pixels)

    def _write(self, row: int, column: int) -> None:
        extent = self.block.tensors[self.output]
        start = self.base + (row * extent.width + column) * extent.pixel_bytes
        written = as_bytes(self.values[self.output][0, row, column])
        self.memory[start : start + extent.pixel_bytes] = written + POISON

    def _read(self, stage: Stage, pixels: list[tuple[int, int]]) -> None:
        extent = self.block.tensors[self.source]
        for row, column in pixels:
            low, high = self._under(stage, 0, (row, row + 1), self.source)
            left, right = self._under(stage, 1, (column, column + 1), self.source)
            for y in range(low, high):
                first, end = ((y * extent.width + x) * extent.pixel_bytes for x in (left, right))
                start = self.base + self.at
                if end > first and (self.memory[start + first : start + end] != self.image[first:end]).any():
                    raise SpentByteReadError


def cases(count: int) -> list[tuple[Block, Random]]:
    """Blocks of one input and one output; without a tail, which writes only when all is read."""
    found = []
    for seed in range(10_000):
        rng = Random(seed)
        block = random_block(rng, largest=8, plain_inputs=True)
        if len(block.inputs) == len(block.outputs) == 1 and not has_tail(block):
            found.append((block, rng))
        if len(found) == count:
            break
    return found


def has_tail(block: Block) -> bool:
    sums = (StageKind.GLOBAL_AVERAGE, StageKind.GLOBAL_MAX, StageKind.FULLY_CONNECTED)
    sums += (StageKind.FLOAT_GLOBAL_AVERAGE, StageKind.FLOAT_FULLY_CONNECTED)
    return any(stage.kind in sums for stage in block.stages)


def survives(block: Block, config: BlockConfig, distance: int, rng: Random) -> bool:
    values = run_block_tensors(block, random_operands(rng, block)[0])
    try:
        PoisonedPull(block, config, distance, values)
    except SpentByteReadError:
        return False
    return True


def test_no_spent_byte_of_float32_is_read() -> None:
    found = 0
    for seed in range(200):
        rng = Random(seed)
        block = float_block(rng, largest=7, plain_inputs=True)
        if len(block.inputs) == len(block.outputs) == 1 and not has_tail(block):
            config, found = one_tile(random_config(rng, block)), found + 1
            (distance,) = schedule(block, config).overlaps.values()
            assert survives(block, config, distance, rng)
            if distance > -block.tensors[block.inputs[0]].nbytes:
                assert not survives(block, config, distance - 1, rng)
    assert found > 30


@pytest.mark.parametrize("first", [0, 20, 40])
def test_no_spent_byte_is_read_at_the_distance_of_the_schedule(first: int) -> None:
    for block, rng in cases(first + 20)[first:]:
        config = one_tile(random_config(rng, block))
        (distance,) = schedule(block, config).overlaps.values()
        assert survives(block, config, distance, rng)


def tiled(rng: Random, block: Block) -> BlockConfig:
    """Bands of strips, at least two tiles where the driven tensor has two pixels."""
    driven = block.tensors[block.stages[-1].output]
    height, width = rng.randint(1, driven.height), rng.randint(1, max(1, driven.width - 1))
    return BlockConfig(height, width, rng.choice([1, 2, 4]))


@pytest.mark.parametrize("first", [0, 60, 120])
def test_no_spent_byte_is_read_in_bands_of_strips(first: int) -> None:
    shared = 0
    for block, rng in cases(first + 60)[first:]:
        config = tiled(rng, block)
        (distance,) = schedule(block, config).overlaps.values()
        shared += distance < block.tensors[block.outputs[0]].nbytes
        assert survives(block, config, distance, rng)
    assert shared > 10


def test_a_row_less_and_bands_of_strips_read_spent_bytes() -> None:
    """The bound is no more than about one row of tiles too large."""
    caught = 0
    for block, rng in cases(80):
        config = tiled(rng, block)
        (distance,) = schedule(block, config).overlaps.values()
        output = block.tensors[block.outputs[0]]
        less = config.tile_height * output.width * output.channels
        caught += not survives(block, config, distance - less, rng)
    assert caught > 40


def test_one_byte_less_and_a_spent_byte_is_read() -> None:
    """The distance is the least: wherever memory is shared at all, one byte less is caught."""
    shared = 0
    for block, rng in cases(40):
        config = one_tile(random_config(rng, block))
        (distance,) = schedule(block, config).overlaps.values()
        if distance > -block.tensors[block.inputs[0]].nbytes:
            shared += 1
            assert not survives(block, config, distance - 1, rng)
    assert shared > 20
