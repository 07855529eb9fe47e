"""The C library, compiled for this machine, against the numpy reference: byte for byte, on random blocks."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fusion.random_blocks import one_tile, random_block, random_config, random_operands
from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block import Block, BlockConfig, Int8Array, StageKind, Storage
from tflite_fuse.fusion.encode import encode
from tflite_fuse.fusion.schedule import Schedule, schedule
from tflite_fuse.runtime.host import Source, run_block
from tflite_fuse.runtime.reference import run_block_tensors


def array_source(image: Int8Array) -> Source:
    return lambda y, x, count: image[y, x : x + count]


def plan(block: Block, config: BlockConfig) -> Schedule:
    try:
        return schedule(block, config)
    except BlockError as error:
        assert "holes" in str(error)
        return schedule(block, one_tile(config))


def reference(block: Block, operands: tuple[list[Int8Array], list[Int8Array], list[Int8Array]]) -> list[Int8Array]:
    """The reference takes one external image; give it a block whose external tensors and sources are inputs."""
    inputs, externals, sources = operands
    external = [index for index, tensor in enumerate(block.tensors) if tensor.storage is Storage.EXTERNAL]
    sourced = [stage.output for stage in block.stages if stage.kind is StageKind.SOURCE]
    stages = tuple(stage for stage in block.stages if stage.kind is not StageKind.SOURCE)
    inside = tuple(
        replace(t, storage=Storage.INPUT if t.storage is Storage.EXTERNAL else t.storage) for t in block.tensors
    )
    plain = Block(inside, stages, (*block.inputs, *external, *sourced), block.outputs)
    tensors = run_block_tensors(plain, [*inputs, *externals, *sources])
    return [tensors[index] for index in block.outputs]


def check(seed_or_rng: Random, largest: int = 12) -> None:
    rng = seed_or_rng
    block = random_block(rng, largest=largest)
    config = random_config(rng, block)
    operands = random_operands(rng, block)
    encoded = encode(block, plan(block, config))
    inputs, externals, sources = operands
    outputs = run_block(encoded.options, encoded.constants, inputs, externals, [array_source(s) for s in sources])
    for got, expected in zip(outputs, reference(block, operands), strict=True):
        np.testing.assert_array_equal(got, expected.ravel())


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_random_blocks(rng: Random) -> None:
    check(rng)


@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_many_seeds(first: int) -> None:
    for seed in range(first, first + 500):
        check(Random(seed))
