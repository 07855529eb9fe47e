"""Options and constants: round trips, equal fields in schema, C and Python, BlockError for damage."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.drawing.host import run_block
from tests.drawing.random_blocks import random_block
from tests.drawing.random_configs import one_tile, random_config
from tests.drawing.sanitized import damage
from tflite_fuse.cost.schedule.schedule import schedule
from tflite_fuse.emit.decode import decode
from tflite_fuse.emit.encode import EncodedBlock, encode
from tflite_fuse.emit.options import read_options, sealed, write_options
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockConfig, BlockTensor, Int8Array, Requantization, Stage, StageKind, Storage
from tflite_fuse.ir.structs import ALIGNMENT, VERSION
from tflite_fuse.ops.arithmetic import multiply_by_quantized_multiplier

ROOT = Path(__file__).resolve().parents[2]


def small_block(**changes: object) -> Block:
    """One 3x3 convolution with padding, 4x4x2 to 4x4x3."""
    weights = np.arange(54, dtype=np.int8).reshape(3, 3, 3, 2)
    table = Requantization(np.full(3, 2**30, np.int32), np.full(3, -8, np.int32))
    stage = Stage(
        StageKind.CONV, (0,), 1, -1, (3, 3), padding=(1, 1), weights=weights, bias=np.arange(3, dtype=np.int32),
        requantization=table,
    )  # fmt: skip
    tensors = (BlockTensor("in", 4, 4, 2, 5, Storage.INPUT), BlockTensor("out", 4, 4, 3, -1, Storage.OUTPUT))
    return Block(tensors, (replace(stage, **changes),), (0,), (1,))  # type: ignore[arg-type]


def encoded(block: Block, config: BlockConfig | None = None) -> EncodedBlock:
    return encode(block, schedule(block, config or BlockConfig(65535, 65535)))


def assert_same_stage(got: Stage, expected: Stage, channels: int) -> None:
    for field in (
        "kind",
        "inputs",
        "output",
        "kernel_size",
        "stride",
        "dilation",
        "padding",
        "depth_multiplier",
        "parameters",
    ):
        assert getattr(got, field) == getattr(expected, field), field
    assert (got.activation_min, got.activation_max) == (expected.activation_min, expected.activation_max)
    for field in ("weights", "requantization"):
        assert (getattr(got, field) is None) == (getattr(expected, field) is None), field
    if expected.weights is not None:
        np.testing.assert_array_equal(got.weights, expected.weights)
    if expected.requantization is not None and got.requantization is not None:
        zeros = np.zeros(channels, np.int32)
        same = np.all(_table(got, zeros) == _table(expected, zeros), axis=0)
        assert np.all(same) or np.all(same | _constant(_table(expected, zeros), expected))


def _table(stage: Stage, zeros: Int8Array) -> np.ndarray:
    assert stage.requantization is not None
    bias = zeros if stage.bias is None else stage.bias
    return np.stack(np.broadcast_arrays(bias, stage.requantization.multiplier, stage.requantization.shift))


def _constant(table: np.ndarray, stage: Stage) -> np.ndarray:
    """Channels whose output is the same whatever the input: they may come back with other numbers."""
    assert stage.weights is not None
    weights = np.abs(stage.weights.astype(np.int64))
    axes = (0, 1) if stage.kind is StageKind.DEPTHWISE else tuple(range(1, weights.ndim))
    bias, multiplier, shift = table.astype(np.int64)
    ends = [
        multiply_by_quantized_multiplier(bias + sign * 256 * weights.sum(axis=axes), multiplier, shift)
        for sign in (-1, 1)
    ]
    return np.asarray(ends[0] == ends[1])


@pytest.mark.parametrize("seed", range(80))
def test_decoding_gives_the_block_back(seed: int) -> None:
    rng = Random(seed)
    block = random_block(rng)
    config = one_tile(random_config(rng, block))
    plan = schedule(block, config)
    found = decode(*(lambda e: (e.options, e.constants))(encode(block, plan)))
    assert (found.config, found.driven, found.spatial_stages) == (config, plan.driven, plan.spatial_stages)
    assert (found.capacities, found.offsets) == (plan.capacities, plan.offsets)
    assert found.scratch_bytes == plan.scratch_bytes
    assert (found.block.inputs, found.block.outputs) == (block.inputs, block.outputs)
    assert [replace(t, name="") for t in found.block.tensors] == [replace(t, name="") for t in block.tensors]
    for got, expected in zip(found.block.stages, block.stages, strict=True):
        assert_same_stage(got, expected, block.tensors[expected.output].channels)
        if expected.kind is StageKind.PAD and max(expected.padding) > 0:
            assert got.pad_value == expected.pad_value


@pytest.mark.parametrize("seed", range(40))
def test_every_section_of_the_constants_is_aligned(seed: int) -> None:
    data = encoded(random_block(Random(seed)))
    for stage in read_options(data.options).stages:
        for offset in (stage.weights_offset, stage.table_offset, stage.pad_offset):
            assert offset == -1 or (offset % ALIGNMENT == 0 and 0 <= offset < len(data.constants))


@pytest.mark.parametrize("seed", range(60))
def test_scratch_holds_each_thing_in_its_own_place(seed: int) -> None:
    rng = Random(seed)
    block = random_block(rng)
    plan = schedule(block, one_tile(random_config(rng, block)))
    spatial = {stage.output for stage in block.stages[: plan.spatial_stages]}
    in_place = {stage.output for stage in block.stages if stage.overwrites >= 0}
    places = [(0, plan.reserved_bytes)]
    for index, tensor in enumerate(block.tensors):
        if index in spatial - in_place and tensor.storage is Storage.SCRATCH:
            places.append((plan.offsets[index], plan.offsets[index] + plan.capacities[index] * tensor.pixel_bytes))
    places.sort()
    assert all(before[1] <= after[0] for before, after in pairwise(places))
    assert places[-1][1] <= plan.scratch_bytes
    assert all(start % 4 == 0 for start, _ in places)


# ---- Bad input ----


def test_every_truncation_of_the_options_is_an_error() -> None:
    data = encoded(small_block())
    for length in range(len(data.options)):
        with pytest.raises(BlockError):
            decode(data.options[:length], data.constants)


def test_truncated_constants_are_an_error() -> None:
    data = encoded(small_block())
    for length in (0, 1, len(data.constants) // 2):
        with pytest.raises(BlockError, match="outside the fused block's constants"):
            constants = data.constants[:length]
            decode(sealed(data.options, constants), constants)


def test_another_version_is_named() -> None:
    data = bytearray(encoded(small_block()).options)
    where = [at for at in range(8, len(data), 4) if data[at : at + 4] == VERSION.to_bytes(4, "little")]
    messages = set()
    for at in where:
        changed = bytes(data[:at]) + (7).to_bytes(4, "little") + bytes(data[at + 4 :])
        try:
            decode(changed, encoded(small_block()).constants)
        except BlockError as error:
            messages.add(str(error))
    assert any("version 7" in message for message in messages)


@pytest.mark.parametrize("first", range(0, 600, 300))
def test_damaged_options_decode_to_a_block_or_an_error(first: int) -> None:
    outcomes = set()
    for seed in range(first, first + 300):
        rng = Random(seed)
        data = encoded(random_block(rng, largest=6))
        try:
            constants = damage(rng, data.constants) if rng.random() < 0.3 else data.constants
            decode(sealed(damage(rng, data.options), constants), constants)
            outcomes.add("decoded")
        except BlockError:
            outcomes.add("refused")
    assert outcomes == {"decoded", "refused"}


def test_options_survive_being_read_and_written() -> None:
    data = encoded(small_block())
    assert write_options(read_options(data.options), data.constants) == data.options


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"weights": np.zeros((3, 3, 3, 1), np.int8)}, "needs int8 weights of shape"),
        ({"bias": np.zeros(2, np.int32)}, "needs 3 biases"),
        ({"requantization": None}, "needs 3 multipliers"),
        ({"stride": (0, 1)}, "impossible window"),
        ({"padding": (-40000, 0)}, "impossible padding"),
        ({"activation_min": 3, "activation_max": 2}, "clamps to 3...2"),
        ({"inputs": (1,)}, "before it is computed"),
        ({"inputs": (0, 0)}, "reads 2 tensors"),
        ({"output": 0}, "read only"),
        ({"kind": StageKind.ADD, "inputs": (0, 0)}, "impossible window"),
        ({"kernel_size": (1, 40000)}, "impossible window"),
    ],
)
def test_an_inconsistent_stage_is_refused_by_name(changes: dict[str, object], complaint: str) -> None:
    block = small_block()
    plan = schedule(block, BlockConfig(65535, 65535))
    with pytest.raises(BlockError, match=complaint):
        encode(small_block(**changes), plan)


@pytest.mark.parametrize(
    "config", [BlockConfig(0, 1), BlockConfig(1, 65536), BlockConfig(1, 1, 0), BlockConfig(1, 1, 256)]
)
def test_a_configuration_out_of_range_is_refused(config: BlockConfig) -> None:
    with pytest.raises(BlockError):
        schedule(small_block(), config)


@pytest.mark.parametrize("storage", [Storage.EXTERNAL, Storage.SCRATCH])
@pytest.mark.parametrize("number", [0, 1, 255])
def test_blocks_of_a_model_share_the_numbers_of_outside_inputs(storage: Storage, number: int) -> None:
    block = small_block()
    tensors = (replace(block.tensors[0], storage=storage), block.tensors[1])
    stages = block.stages if storage is Storage.EXTERNAL else (Stage(StageKind.SOURCE, (), 0), *block.stages)
    block = replace(block, tensors=tensors, stages=stages, inputs=())
    data = encode(block, schedule(block, BlockConfig(9, 9)), {0: number})
    assert decode(data.options, data.constants).outside == {0: number}
    image = np.arange(32, dtype=np.int8).reshape(4, 4, 2)
    nothing, empty = [lambda y, x, count: b""] * number, [np.zeros(0, np.int8)] * number
    if storage is Storage.EXTERNAL:
        (output,) = run_block(data.options, data.constants, externals=[*empty, image])
    else:
        (output,) = run_block(data.options, data.constants, sources=[*nothing, lambda y, x, n: image[y, x : x + n]])
    (same,) = run_block(*(lambda e: (e.options, e.constants))(encoded(small_block())), [image])
    np.testing.assert_array_equal(output, same)


def test_numbers_of_outside_inputs_are_limited() -> None:
    block = replace(small_block(), inputs=())
    block = replace(block, tensors=(replace(block.tensors[0], storage=Storage.EXTERNAL), block.tensors[1]))
    for number in (-1, 256, 2**31 - 1):
        with pytest.raises(BlockError, match="external tensor or source"):
            encode(block, schedule(block, BlockConfig(9, 9)), {0: number})
