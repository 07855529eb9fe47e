"""Packed layouts: round trips, chosen where allowed, and scaled exactly as by the runtime."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawing.packed_blocks import DSP, PORTABLE
from tflite_fuse.ir.block import BlockTensor, Requantization, Stage, StageKind
from tflite_fuse.ops.arithmetic import multiply_by_quantized_multiplier
from tflite_fuse.ops.packing import (
    can_pack,
    down_table,
    pack_weights,
    packed_size,
    packs_sums,
    undo_down_table,
    unpack_weights,
)
from tflite_fuse.runtime.library.compiler import build_library
from tflite_fuse.runtime.library.sources import library_directory

NOISE = np.random.default_rng(5)


def source(channels: int, pixels: tuple[int, int] = (9, 9)) -> BlockTensor:
    return BlockTensor("in", *pixels, channels, 3)


def weights(*shape: int) -> np.ndarray:
    return NOISE.integers(-128, 128, shape).astype(np.int8)


# ---- Weights ----


@pytest.mark.parametrize("channels", [1, 2, 3, 8])
@pytest.mark.parametrize("window", [(1, 1), (3, 3), (2, 5)])
@pytest.mark.parametrize("depth", [1, 3, 4, 6])
def test_packed_convolutions_come_back(channels: int, window: tuple[int, int], depth: int) -> None:
    stage = Stage(StageKind.CONV, (0,), 1, weights=weights(channels, *window, depth))
    packed = pack_weights(stage, source(depth))
    assert stage.weights is not None
    assert packed.size == packed_size(stage.kind, stage.weights.shape, source(depth))
    np.testing.assert_array_equal(unpack_weights(packed, stage.kind, stage.weights.shape, source(depth)), stage.weights)


@pytest.mark.parametrize("window", [(3, 3), (5, 5), (7, 7)])
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_packed_depthwise_convolutions_come_back(window: tuple[int, int], depth: int) -> None:
    stage = Stage(StageKind.DEPTHWISE, (0,), 1, weights=weights(*window, 6))
    packed = pack_weights(stage, source(depth))
    assert stage.weights is not None
    assert packed.size == packed_size(stage.kind, stage.weights.shape, source(depth))
    np.testing.assert_array_equal(unpack_weights(packed, stage.kind, stage.weights.shape, source(depth)), stage.weights)


def test_convolutions_are_packed_in_quads_of_two_channels() -> None:
    filters = np.arange(24, dtype=np.int8).reshape(3, 1, 1, 8)
    stage = Stage(StageKind.CONV, (0,), 1, weights=filters)
    expected = [
        0,
        1,
        2,
        3,
        8,
        9,
        10,
        11,
        4,
        5,
        6,
        7,
        12,
        13,
        14,
        15,
        *range(16, 20),
        *[0] * 4,
        *range(20, 24),
        *[0] * 4,
    ]
    assert pack_weights(stage, source(8)).tolist() == expected


def test_depthwise_convolutions_are_packed_in_pairs_of_rows() -> None:
    filters = np.arange(9, dtype=np.int8).reshape(3, 3, 1).repeat(2, axis=2)
    stage = Stage(StageKind.DEPTHWISE, (0,), 1, weights=filters)
    each = [0, 1, 3, 4, 2, 0, 5, 0, 6, 7, 8, 0]
    assert pack_weights(stage, source(2)).tolist() == each * 2


@pytest.mark.parametrize(
    ("kind", "depth", "pixels", "changes", "packs"),
    [
        (StageKind.CONV, 4, (9, 9), {"kernel_size": (4, 8)}, True),
        (StageKind.CONV, 4, (9, 9), {"kernel_size": (3, 11)}, False),
        (StageKind.CONV, 5, (9, 9), {"kernel_size": (4, 8)}, True),
        (StageKind.CONV, 5, (9, 9), {"kernel_size": (5, 7)}, False),
        (StageKind.CONV, 5, (9, 9), {"kernel_size": (1, 13)}, False),
        (StageKind.CONV, 90, (9, 9), {}, True),
        (StageKind.DEPTHWISE, 6, (9, 9), {"kernel_size": (3, 3)}, True),
        (StageKind.DEPTHWISE, 6, (9, 9), {"kernel_size": (3, 4)}, False),
        (StageKind.DEPTHWISE, 6, (9, 9), {"kernel_size": (3, 3), "stride": (1, 3)}, False),
        (StageKind.DEPTHWISE, 6, (9, 9), {"kernel_size": (3, 3), "dilation": (1, 2)}, False),
        (StageKind.DEPTHWISE, 6, (9, 9), {"kernel_size": (3, 3), "dilation": (2, 1)}, True),
        (StageKind.DEPTHWISE, 6, (9, 9), {"kernel_size": (7, 7), "stride": (2, 2)}, True),
        (StageKind.DEPTHWISE, 6, (9, 9), {"kernel_size": (9, 9)}, False),
        (StageKind.DEPTHWISE, 6, (9, 9), {"kernel_size": (3, 5)}, False),
        (StageKind.DEPTHWISE, 6, (9, 9), {"kernel_size": (3, 3), "depth_multiplier": 2}, False),
        (StageKind.DEPTHWISE, 1, (9, 9), {"kernel_size": (3, 4), "depth_multiplier": 8}, True),
        (StageKind.FULLY_CONNECTED, 64, (1, 1), {}, True),
        (StageKind.FULLY_CONNECTED, 64, (1, 2), {}, False),
        (StageKind.ADD, 4, (9, 9), {}, False),
    ],
)
def test_the_stages_that_can_be_packed(
    kind: StageKind, depth: int, pixels: tuple[int, int], changes: dict[str, object], packs: bool
) -> None:
    stage = replace(Stage(kind, (0,), 1), **changes)  # type: ignore[arg-type]
    assert can_pack(stage, source(depth, pixels)) is packs


@pytest.mark.parametrize(("depth", "pixels", "channels"), [(64, (1, 1), 2), (62, (1, 2), 2), (64, (1, 2), 1)])
def test_which_sums_over_pixels_are_packed(depth: int, pixels: tuple[int, int], channels: int) -> None:
    output = replace(source(channels, (1, 1)), channels=channels)
    assert not packs_sums(StageKind.FULLY_CONNECTED, source(depth, pixels), output)
    assert packs_sums(StageKind.FULLY_CONNECTED, source(64, (1, 2)), replace(output, channels=3))


# ---- Scaling ----


def channel(
    multiplier: int, shift: int, bias: int = 0, weight: int = 127, values: int = 64
) -> tuple[Stage, np.ndarray]:
    """A convolution of one channel, and its bias as its table holds it."""
    table = Requantization(np.array([multiplier], np.int32), np.array([shift], np.int32))
    filters = np.full((1, 1, 1, values), weight, np.int8)
    return Stage(StageKind.CONV, (0,), 1, weights=filters, requantization=table), np.array([bias], np.int64)


@pytest.mark.parametrize(
    ("multiplier", "shift", "bias", "down"),
    [
        (2**30, -1, 0, True),
        (2**31 - 1, -23, 0, True),
        (2**30, 0, 0, False),
        (-(2**30), -5, 0, False),
        (2**30, -5, 2**30 - 127 * 64 * 128 - 1, True),
        (2**30, -5, 2**30 - 127 * 64 * 128, False),
        (0, 0, 2**31 - 1, True),
        (2**31 - 1, -31, 2**28, True),
        (2**31 - 1, -24, 2**23, False),
    ],
)
def test_which_channels_are_scaled_down(multiplier: int, shift: int, bias: int, down: bool) -> None:
    assert (down_table(*channel(multiplier, shift, bias)) is not None) is down


@given(st.data())
@settings(max_examples=60)
def test_tables_equal_the_runtime(data: st.DataObject) -> None:
    """Whatever a table holds, also for channels that are constant: scaled as it says, sums come out the same."""
    multiplier = data.draw(st.one_of(st.just(0), st.integers(2**30, 2**31 - 1)))
    shift, bias = data.draw(st.integers(-31, -1)), data.draw(st.integers(-(2**30), 2**30))
    weight, values = data.draw(st.integers(0, 127)), data.draw(st.integers(1, 40))
    stage, biases = channel(multiplier, shift, bias, weight, values)
    table = down_table(stage, biases)
    if table is None:
        return
    spread = 128 * weight * values
    parts = np.unique(np.concatenate([[-spread, spread, 0], NOISE.integers(-spread, spread + 1, 200)]))
    undone = undo_down_table(table.astype(np.int32)).astype(np.int64)[0]
    expected = multiply_by_quantized_multiplier(parts + bias, np.int64(multiplier), np.int64(shift))
    got = multiply_by_quantized_multiplier(parts + undone[0], undone[1], undone[2])
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("flags", [PORTABLE, DSP], ids=["portable", "DSP"])
def test_scaling_down_in_one_go_is_scaling_with_two_roundings(flags: tuple[str, ...]) -> None:
    """Any sum a packed table allows, above all those next to where the result changes."""
    path = Path(__file__).with_name("packed_probe.c")
    library = ctypes.CDLL(str(build_library("packed_probe", [path], [library_directory()], flags=flags)))
    shift = np.repeat(np.arange(1, 24), 3000)
    multiplier = NOISE.integers(2**30, 2**31, shift.size)
    multiplier[::7], multiplier[1::7], multiplier[2::97] = 2**30, 2**31 - 1, 0
    zero_point = NOISE.integers(-128, 128, shift.size)
    target = (NOISE.integers(-300, 301, shift.size) * 2 + 1) << (shift - 1)
    steps = (target << 31) // np.maximum(multiplier, 1)
    sums = np.where(NOISE.random(shift.size) < 0.8, steps + NOISE.integers(-3, 4, shift.size), target)
    wild = NOISE.integers(-(2**30) + 1, 2**30, shift.size)
    sums = np.where((np.abs(sums) < 2**30) & (multiplier > 0), sums, wild)
    sums[:4] = [2**30 - 1, -(2**30) + 1, 0, -1]
    expected = np.clip(multiply_by_quantized_multiplier(sums, multiplier, -shift) + zero_point, -128, 127)
    assert len(np.unique(expected)) == 256

    entries = np.stack([np.zeros_like(shift), multiplier, shift - 1], axis=1)
    arrays = [np.ascontiguousarray(column, np.int32) for column in (sums, entries, zero_point)]
    results = np.empty(shift.size, np.int32)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (*arrays, results)]
    library.probe_scale_down(*pointers, ctypes.c_size_t(shift.size))
    np.testing.assert_array_equal(results, expected)
