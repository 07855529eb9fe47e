"""A random block, run by the C library and by the reference."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np

from tests.drawing.random_blocks import random_block, random_operands
from tests.drawing.random_configs import one_tile, random_config
from tflite_fuse.cost.schedule.schedule import Schedule, schedule
from tflite_fuse.emit.encode import EncodedBlock, encode
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockConfig, Int8Array, StageKind, Storage
from tflite_fuse.runtime.library.host import HostLibrary
from tflite_fuse.runtime.reference import run_block_tensors
from tflite_fuse.runtime.streams import PixelSource

Operands = tuple[list[Int8Array], list[Int8Array], list[Int8Array]]


def plan(block: Block, config: BlockConfig) -> Schedule:
    """The schedule; in one tile where others would leave an output with holes."""
    try:
        return schedule(block, config)
    except BlockError as error:
        assert "holes" in str(error)
        return schedule(block, one_tile(config))


def array_source(image: Int8Array) -> PixelSource:
    return lambda y, x, count: image[y, x : x + count]


def reference(block: Block, operands: Operands) -> list[Int8Array]:
    """The reference takes one external image; give it a block whose external tensors and sources are inputs."""
    inputs, externals, sources = operands
    external = [index for index, tensor in enumerate(block.tensors) if tensor.storage is Storage.EXTERNAL]
    sourced = [stage.output for stage in block.stages if stage.kind is StageKind.SOURCE]
    stages = tuple(stage for stage in block.stages if stage.kind is not StageKind.SOURCE)
    tensors = tuple(
        replace(tensor, storage=Storage.INPUT) if index in external else tensor
        for index, tensor in enumerate(block.tensors)
    )
    plain = Block(tensors, stages, (*block.inputs, *external, *sourced), block.outputs)
    values = run_block_tensors(plain, [*inputs, *externals, *sources])
    return [values[index].ravel() for index in block.outputs]


def run(library: HostLibrary, encoded: EncodedBlock, operands: Operands, overlap: int | None = None) -> list[Int8Array]:
    inputs, externals, sources = operands
    readers = [array_source(image) for image in sources]
    return library.run(encoded.options, encoded.constants, inputs, externals, readers, overlap)


def check(library: HostLibrary, block: Block, config: BlockConfig, rng: Random) -> None:
    """The C library computes what the reference computes, byte for byte."""
    operands = random_operands(rng, block)
    outputs = run(library, encode(block, plan(block, config)), operands)
    for got, expected in zip(outputs, reference(block, operands), strict=True):
        assert_same_bytes(got, expected)


def assert_same_bytes(got: Int8Array, expected: Int8Array) -> None:
    """Equal bytes; of float32 what is no number is as good as any other that is none."""
    if got.dtype == expected.dtype == np.float32:
        both = np.isnan(got) & np.isnan(expected)
        got, expected = (np.where(both, np.float32(0), each) for each in (got, expected))
    np.testing.assert_array_equal(got.view(np.int8), expected.view(np.int8))


def check_random(library: HostLibrary, rng: Random, largest: int = 12) -> None:
    block = random_block(rng, largest=largest)
    check(library, block, random_config(rng, block), rng)
