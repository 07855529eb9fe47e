"""An ADD by multiples of its operands equals TFLM's arithmetic for all 65,536 pairs of values."""

from __future__ import annotations

import numpy as np
import pytest

from tests.drawing.witness import reference, run
from tflite_fuse.cost.schedule.schedule import schedule
from tflite_fuse.emit.encode import encode
from tflite_fuse.ir.block import Block, BlockConfig, BlockTensor, Stage, StageKind, Storage
from tflite_fuse.ops.kinds.pairs import ADD, add_parameters
from tflite_fuse.runtime.library.host import host_library, load_library

VALUES = np.arange(-128, 128, dtype=np.int8)


def block_of(scales: tuple[float, float, float], zero_points: tuple[int, int, int], low: int, sign: int = 1) -> Block:
    parameters = add_parameters(*scales)
    if sign < 0:
        parameters = type(parameters)(**{**vars(parameters), "multiplier_1": -parameters.multiplier_1})
    stage = Stage(StageKind.ADD, (0, 1), 2, activation_min=low, parameters=parameters)
    storages = (Storage.INPUT, Storage.INPUT, Storage.OUTPUT)
    pairs = zip("abc", zero_points, storages, strict=True)
    tensors = tuple(BlockTensor(name, 16, 16, 256, zero, storage) for name, zero, storage in pairs)
    return Block(tensors, (stage,), (0, 1), (2,))


def check(block: Block) -> None:
    operands = [np.repeat(VALUES, 256).reshape(16, 16, 256), np.tile(VALUES, 256).reshape(16, 16, 256)]
    encoded = encode(block, schedule(block, BlockConfig(65535, 65535)))
    found = run(load_library(host_library()), encoded, (operands, [], []))
    np.testing.assert_array_equal(found[0].view(np.int8).ravel(), reference(block, (operands, [], []))[0])


def has_multiples(block: Block) -> bool:
    return ADD.constants.encode(block.stages[0], block.tensors).weights != b""


@pytest.mark.parametrize("seed", range(12))
def test_scales_of_any_network_are_added_by_multiples(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second, spread = np.exp(rng.uniform(-1, 1, 3))
    zeros = tuple(rng.integers(-128, 128, 3).tolist())
    scales = (float(first), float(second), float((first + second) * (0.5 + spread / 4)))
    block = block_of(scales, zeros, zeros[2] if seed % 3 == 0 else -128, 1 if seed % 2 else -1)
    assert has_multiples(block)
    check(block)


@pytest.mark.parametrize("zero", [-77, 0, 117])
def test_sums_halfway_between_two_are_rounded_away_from_zero(zero: int) -> None:
    block = block_of((0.0625, 0.0625, 0.125), (-3, 5, zero), -128)
    assert has_multiples(block)
    check(block)


def test_where_no_multiples_will_do_the_sum_is_scaled_as_the_runtime_does() -> None:
    block = block_of((0.0078125, 0.0625, 0.0625), (-88, 12, -77), -128)
    assert not has_multiples(block)
    check(block)


def test_sums_that_leave_32_bits_are_not_made_of_multiples() -> None:
    block = block_of((0.5, 0.25, 0.01), (0, 0, 0), -128)
    assert not has_multiples(block)
    check(block)
