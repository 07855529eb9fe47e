"""The numpy reference against the same formulas written as scalar loops, and its errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockTensor, Requantization, Stage, StageKind, Storage
from tflite_fuse.ops.arithmetic import multiply_by_quantized_multiplier
from tflite_fuse.ops.kinds.pairs import AddParameters
from tflite_fuse.runtime.reference import run_block_reference, run_block_tensors


def one_stage(stage: Stage, inputs: list[BlockTensor], output: BlockTensor) -> Block:
    return Block((*inputs, output), (stage,), tuple(range(len(inputs))), (len(inputs),))


def tensor(name: str, shape: tuple[int, int, int], zero_point: int = 0, output: bool = False) -> BlockTensor:
    return BlockTensor(name, *shape, zero_point, Storage.OUTPUT if output else Storage.INPUT)


def requantize(accumulator: int, table: Requantization, channel: int, zero_point: int, stage: Stage) -> int:
    multiplier, shift = (np.asarray(array[channel], np.int64) for array in (table.multiplier, table.shift))
    scaled = int(multiply_by_quantized_multiplier(np.asarray(accumulator, np.int64), multiplier, shift))
    return min(max(scaled + zero_point, stage.activation_min), stage.activation_max)


def table(rng: np.random.Generator, channels: int) -> Requantization:
    return Requantization(
        rng.integers(2**30, 2**31, channels).astype(np.int32), rng.integers(-12, -6, channels).astype(np.int32)
    )


def window(stage: Stage, source: np.ndarray, y: int, x: int) -> Iterator[tuple[int, int, np.ndarray]]:
    for ky in range(stage.kernel_size[0]):
        for kx in range(stage.kernel_size[1]):
            row = y * stage.stride[0] - stage.padding[0] + ky * stage.dilation[0]
            column = x * stage.stride[1] - stage.padding[1] + kx * stage.dilation[1]
            if 0 <= row < source.shape[0] and 0 <= column < source.shape[1]:
                yield ky, kx, source[row, column].astype(int)


@st.composite
def geometries(draw: st.DrawFn) -> dict[str, Any]:
    def pair(low: int, high: int) -> tuple[int, int]:
        return draw(st.integers(low, high)), draw(st.integers(low, high))

    kernel, stride, dilation, size = pair(1, 4), pair(1, 3), pair(1, 2), pair(1, 7)
    extent = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    before = tuple(draw(st.integers(0, e - 1)) for e in extent)
    after = tuple(draw(st.integers(0, e - 1)) for e in extent)
    span = [s + b + a - e for s, b, a, e in zip(size, before, after, extent, strict=True)]
    out = tuple(max(s, 0) // t + 1 for s, t in zip(span, stride, strict=True))
    return {"kernel_size": kernel, "stride": stride, "dilation": dilation, "padding": before, "size": size, "out": out}


@settings(max_examples=60)
@given(geometries(), st.integers(1, 3), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_convolution(geometry: dict[str, Any], cin: int, cout: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, out = geometry.pop("size"), geometry.pop("out")
    weights = rng.integers(-127, 128, (cout, *geometry["kernel_size"], cin)).astype(np.int8)
    bias = rng.integers(-5000, 5000, cout).astype(np.int32)
    stage = Stage(
        StageKind.CONV, (0,), 1, **geometry, activation_min=-100, weights=weights, bias=bias,
        requantization=table(rng, cout),
    )  # fmt: skip
    block = one_stage(stage, [tensor("in", (*size, cin), 7)], tensor("out", (*out, cout), -3, output=True))
    source = rng.integers(-128, 128, (*size, cin)).astype(np.int8)
    (result,) = run_block_reference(block, [source])
    assert stage.requantization is not None
    for y, x, c in np.ndindex(*out, cout):
        total = sum(int(((seen - 7) * weights[c, ky, kx]).sum()) for ky, kx, seen in window(stage, source, y, x))
        assert result[0, y, x, c] == requantize(total + int(bias[c]), stage.requantization, c, -3, stage)


@settings(max_examples=60)
@given(geometries(), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_depthwise(geometry: dict[str, Any], cin: int, multiplier: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, out, cout = geometry.pop("size"), geometry.pop("out"), cin * multiplier
    weights = rng.integers(-127, 128, (*geometry["kernel_size"], cout)).astype(np.int8)
    stage = Stage(
        StageKind.DEPTHWISE, (0,), 1, **geometry, depth_multiplier=multiplier, weights=weights,
        requantization=table(rng, cout),
    )  # fmt: skip
    block = one_stage(stage, [tensor("in", (*size, cin), -9)], tensor("out", (*out, cout), 4, output=True))
    source = rng.integers(-128, 128, (*size, cin)).astype(np.int8)
    (result,) = run_block_reference(block, [source])
    assert stage.requantization is not None
    for y, x, c in np.ndindex(*out, cout):
        taps = window(stage, source, y, x)
        total = sum(int((seen[c // multiplier] + 9) * int(weights[ky, kx, c])) for ky, kx, seen in taps)
        assert result[0, y, x, c] == requantize(total, stage.requantization, c, 4, stage)


@settings(max_examples=60)
@given(geometries(), st.sampled_from([StageKind.AVERAGE_POOL, StageKind.MAX_POOL]), st.integers(0, 2**32 - 1))
def test_pools(geometry: dict[str, Any], kind: StageKind, seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, out = geometry.pop("size"), geometry.pop("out")
    stage = Stage(kind, (0,), 1, **geometry, activation_min=-90, activation_max=100)
    block = one_stage(stage, [tensor("in", (*size, 2))], tensor("out", (*out, 2), output=True))
    source = rng.integers(-128, 128, (*size, 2)).astype(np.int8)
    seen_everywhere = {(y, x): [seen for _, _, seen in window(stage, source, y, x)] for y, x in np.ndindex(*out)}
    assume(all(seen_everywhere.values()))  # a window that lies wholly outside has no defined pool
    (result,) = run_block_reference(block, [source])
    for (y, x), seen in seen_everywhere.items():
        total, count = np.sum(seen, axis=0), len(seen)
        average = np.sign(total) * ((np.abs(total) + count // 2) // count)
        expected = average if kind is StageKind.AVERAGE_POOL else np.max(seen, axis=0)
        assert result[0, y, x].tolist() == np.clip(expected, -90, 100).tolist()


def test_global_average_of_a_pool_rounds_half_away_from_zero() -> None:
    stage = Stage(StageKind.GLOBAL_AVERAGE, (0,), 1)
    block = one_stage(stage, [tensor("in", (1, 2, 4), 5)], tensor("out", (1, 1, 4), 5, output=True))
    source = np.array([[1, -1, 0, 127], [2, -2, 0, 127]], np.int8)
    assert run_block_reference(block, [source])[0].ravel().tolist() == [2, -2, 0, 127]


def test_global_average_of_a_mean_uses_its_multiplier_on_the_sum_without_zero_points() -> None:
    quarter = Requantization(np.array([2**30], np.int32), np.array([-1], np.int32))
    stage = Stage(StageKind.GLOBAL_AVERAGE, (0,), 1, requantization=quarter)
    block = one_stage(stage, [tensor("in", (2, 1, 2), 3)], tensor("out", (1, 1, 2), -10, output=True))
    source = np.array([[3, 13], [7, 23]], np.int8)
    assert run_block_reference(block, [source])[0].ravel().tolist() == [-10 + 1, -10 + 8]


def test_fully_connected_reads_rows_then_columns_then_channels() -> None:
    weights = np.arange(16, dtype=np.int8).reshape(2, 8)
    identity = Requantization(np.array([2**30, 2**30], np.int32), np.array([1, 0], np.int32))
    bias = np.array([-100, 1], np.int32)
    stage = Stage(StageKind.FULLY_CONNECTED, (0,), 1, weights=weights, bias=bias, requantization=identity)
    block = one_stage(stage, [tensor("in", (2, 2, 2), 1)], tensor("out", (1, 1, 2), 2, output=True))
    source = np.array([[[1, 1], [1, 1]], [[2, 1], [1, 3]]], np.int8)
    assert run_block_reference(block, [source])[0].ravel().tolist() == [4 + 14 - 100 + 2, (12 + 30 + 1 + 1) // 2 + 2]


def test_add_pad_and_concatenation() -> None:
    half = AddParameters(20, 2**30, 0, 2**30, -1, 2**30, -19)
    add = Stage(StageKind.ADD, (0, 1), 2, parameters=half, activation_min=-5)
    pad = Stage(StageKind.PAD, (2,), 3, padding=(1, 0), pad_value=-7)
    concatenation = Stage(StageKind.CONCATENATION, (3, 4), 5)
    tensors = (
        tensor("a", (1, 2, 1), 1),
        tensor("b", (1, 2, 1), -1),
        BlockTensor("sum", 1, 2, 1, 10),
        BlockTensor("padded", 2, 3, 1, 10),
        tensor("c", (2, 3, 1)),
        tensor("out", (2, 3, 2), output=True),
    )
    block = Block(tensors, (add, pad, concatenation), (0, 1, 4), (5,))
    third = np.arange(6, dtype=np.int8)
    values = run_block_tensors(block, [np.array([9, -101], np.int8), np.array([7, 3], np.int8), third])
    # sum = (8/2 + 8/4) + 10 ; (-102/2 + 4/4) + 10 clamped
    assert values[2].ravel().tolist() == [16, -5]
    assert values[3].ravel().tolist() == [-7, -7, -7, 16, -5, -7]
    assert values[5][0, :, :, 1].ravel().tolist() == third.tolist()


def test_source_and_external_read_the_external_array() -> None:
    stages = (Stage(StageKind.SOURCE, (), 1), Stage(StageKind.CONCATENATION, (0, 1), 2))
    outside = BlockTensor("image", 1, 1, 2, 0, Storage.EXTERNAL)
    block = Block((outside, BlockTensor("rows", 1, 1, 2, 0), tensor("out", (1, 1, 4), output=True)), stages, (), (2,))
    assert run_block_reference(block, [], np.array([4, -4], np.int8))[0].ravel().tolist() == [4, -4, 4, -4]
    with pytest.raises(BlockError, match=r"image .*no external array"):
        run_block_reference(block, [])


def test_wrong_inputs_are_refused() -> None:
    block = one_stage(Stage(StageKind.MAX_POOL, (0,), 1), [tensor("in", (2, 2, 1))], tensor("out", (2, 2, 1)))
    with pytest.raises(BlockError, match="1 inputs but 0"):
        run_block_reference(block, [])
    with pytest.raises(BlockError, match="in needs 4 int8 values but got 3"):
        run_block_reference(block, [np.zeros(3, np.int8)])
    with pytest.raises(BlockError, match="float32"):
        run_block_reference(block, [np.zeros(4, np.float32)])


def test_a_stage_that_contradicts_its_output_is_refused() -> None:
    block = one_stage(Stage(StageKind.GLOBAL_AVERAGE, (0,), 1), [tensor("in", (2, 2, 3))], tensor("out", (1, 1, 2)))
    with pytest.raises(BlockError, match=r"out is 1x1x2 .* computes 1x1x3"):
        run_block_reference(block, [np.zeros(12, np.int8)])
    without = one_stage(Stage(StageKind.CONV, (0,), 1), [tensor("in", (1, 1, 1))], tensor("out", (1, 1, 1)))
    with pytest.raises(BlockError, match="CONV stage has no weights"):
        run_block_reference(without, [np.zeros(1, np.int8)])
