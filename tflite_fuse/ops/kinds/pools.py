"""Pools: AVERAGE_POOL and MAX_POOL under a window, GLOBAL_AVERAGE, GLOBAL_MAX and CHANNEL_MAX.

GLOBAL_MAX is the largest value of each channel over the whole map, CHANNEL_MAX the largest value of each pixel over its
channels. REDUCE_MAX becomes one of them, or a MAX_POOL over rows or columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ir.limits import MAX_AVERAGED
from tflite_fuse.ops.arithmetic import Int64Array, rounding_divide
from tflite_fuse.ops.entry import (
    NOWHERE,
    Coding,
    Kernels,
    Kind,
    Operand,
    Runs,
    StageCheck,
    StoredTables,
    Tables,
    Tensors,
    Window,
    Work,
    by_pixel,
    decode_entries,
    encode_entries,
)
from tflite_fuse.ops.floats.common import FloatBounds
from tflite_fuse.ops.kinds.real import float_bounds
from tflite_fuse.ops.lowering.movement import read_reduction
from tflite_fuse.ops.lowering.operands import Activation
from tflite_fuse.ops.lowering.requantization import mean_requantization
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView, window_fit, window_padding
from tflite_fuse.ops.weighted.convolutions import sum_of_channels, sum_stage
from tflite_fuse.ops.weighted.sums import requantize, taps


def _check_largest(check: StageCheck) -> None:
    check.same_channels()
    check.one_pixel()


def _check_channels(check: StageCheck) -> None:
    check.same_shape(check.sources[0], channels=False)
    check.require(check.output.channels == 1, "writes more than one channel")


def whole_map(values: str, results: str) -> Work:
    """Return work that counts all values of the input once, independent of the runs, and one result per channel."""

    def of(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
        source = tensors[stage.inputs[0]]
        return {values: source.pixels * source.channels, results: tensors[stage.output].channels}

    return Work((values, results), of)


def windows(values: str, results: str) -> Work:
    """Return work that counts all values under each output value's window, and the output values."""

    def each(stage: Stage, tensors: Tensors) -> tuple[int, ...]:
        channels = tensors[stage.output].channels
        return channels * prod(stage.kernel_size), channels

    return by_pixel(values, results)(each)


_COMPARED, _AVERAGED = ("compared values", "largest values"), ("averaged values", "averages")


def _lower(view: OperatorView) -> Lowered:
    """Lower REDUCE_MAX over the whole map, its rows, its columns or its channels."""
    reduction = read_reduction(view)
    source, output = reduction.source, reduction.output
    if (source.scale, source.zero_point) != (output.scale, output.zero_point):
        raise BlockError("its input and output are quantized differently, which TFLM refuses")
    if reduction.channels:
        return Lowered(Stage(StageKind.CHANNEL_MAX), (source,), output, reduction.shape, Fit.PIXELS)
    if reduction.shape[:2] == (1, 1):
        return Lowered(Stage(StageKind.GLOBAL_MAX), (source,), output, reduction.shape, Fit.PIXELS)
    return Lowered(Stage(StageKind.MAX_POOL, kernel_size=reduction.window), (source,), output, reduction.shape)


GLOBAL_MAX = Kind(
    StageKind.GLOBAL_MAX,
    sum_bytes=lambda source: 1,
    check=_check_largest,
    reference=lambda stage, operands, output: np.asarray(operands[0][1].max(axis=(0, 1), keepdims=True)),
    work=whole_map(*_COMPARED),
    lowerings={"REDUCE_MAX": _lower},
)

CHANNEL_MAX = Kind(
    StageKind.CHANNEL_MAX,
    check=_check_channels,
    reference=lambda stage, operands, output: np.asarray(operands[0][1].max(axis=2, keepdims=True)),
    work=by_pixel(*_COMPARED)(lambda stage, tensors: (tensors[stage.inputs[0]].channels, 1)),
)


_SCALE_TOLERANCE = 1e-6
_NARROW_SUMS = (2**15 - 1) // 128
"""A global average of at most this many pixels sums in int16."""


def check_pool(check: StageCheck) -> None:
    """Raise BlockError if a window is dilated or covers no pixel of the input."""
    source, stage, output = check.sources[0], check.stage, check.output
    check.same_channels()
    check.require(stage.dilation == (1, 1), "has a dilated window")
    sides = zip(
        (source.height, source.width),
        (output.height, output.width),
        stage.kernel_size,
        stage.stride,
        stage.padding,
        strict=True,
    )
    for length, size, kernel, stride, padding in sides:
        inside = padding < kernel and (size - 1) * stride - padding < length
        check.require(inside, "has a window with no pixel of its input")


def _average(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((_, values),) = operands
    total = sum(seen for _, _, seen in taps(stage, values, output, fill=0))
    inside = np.ones((*values.shape[:2], 1), np.int64)
    count = sum(seen for _, _, seen in taps(stage, inside, output, fill=0))
    return rounding_divide(np.asarray(total), np.asarray(count))


def _max(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((_, values),) = operands
    return np.asarray(np.max([seen for _, _, seen in taps(stage, values, output, fill=-128)], axis=0))


def lower_pool(kind: StageKind) -> Callable[[OperatorView], Lowered]:
    """Return the lowering of AVERAGE_POOL_2D or MAX_POOL_2D, on int8 the kind, on float32 the same on float32.

    An average over the whole map is an accumulator.
    """

    def lower(view: OperatorView) -> Lowered:
        source, output = view.image()
        difference = abs(float(np.float32(source.scale) - np.float32(output.scale)))
        if source.zero_point != output.zero_point or difference > _SCALE_TOLERANCE:
            raise BlockError("its input and output are quantized differently, which TFLM refuses")
        if source.shape[2] != output.shape[2]:
            raise BlockError(f"it maps {source.shape[2]} to {output.shape[2]} channels")
        stage = replace(
            _limited(view, kind, output),
            kernel_size=view.positive("filter_height", "filter_width"),
            stride=view.positive("stride_h", "stride_w"),
        )
        stage = replace(stage, padding=window_padding(view, source, output, stage))
        if kind is StageKind.AVERAGE_POOL and output.shape[:2] == (1, 1) and _covers(stage, source):
            stage = _limited(view, StageKind.GLOBAL_AVERAGE, output)
            return Lowered(stage, (source,), output, output.shape, Fit.PIXELS)
        return Lowered(stage, (source,), output, output.shape, window_fit(stage))

    return lower


def _limited(view: OperatorView, kind: StageKind, output: Activation) -> Stage:
    """Return a stage without a window, within the bounds of its operator's activation."""
    if output.is_real:
        return Stage(StageKind[f"FLOAT_{kind.name}"], parameters=FloatBounds(*float_bounds(view)))
    low, high = view.clamp(output)
    return Stage(kind, activation_min=low, activation_max=high)


def _covers(stage: Stage, source: Activation) -> bool:
    """Return whether the stage's first window covers the whole map."""
    sides = zip(stage.extent, stage.padding, source.shape[:2], strict=True)
    return all(extent - before >= size for extent, before, size in sides)


# ---- The whole map ----


def _sum_bytes(source: BlockTensor) -> int:
    return 2 if source.pixels <= _NARROW_SUMS else 4


def _check_global(check: StageCheck) -> None:
    check.same_channels()
    check.one_pixel()
    check.require(check.sources[0].pixels <= MAX_AVERAGED, f"averages more than {MAX_AVERAGED} pixels")
    table = check.stage.requantization
    one = table is None or table.multiplier.shape == table.shift.shape == (1,)
    check.require(one, "needs one multiplier and shift")
    check.requantization()


def _global_average(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((tensor, values),) = operands
    total = values.sum(axis=(0, 1), keepdims=True)
    pixels = values.shape[0] * values.shape[1]
    if stage.requantization is None:
        return rounding_divide(total, pixels)
    return requantize(stage, total - tensor.zero_point * pixels, output)


def _encode_global(stage: Stage, tensors: Tensors) -> Tables:
    """Return one entry, or none if the sum is divided by the number of pixels."""
    source, table = tensors[stage.inputs[0]], stage.requantization
    if table is None:
        return Tables()
    return Tables(table=encode_entries(-source.zero_point * source.pixels, table))


def _decode_global(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    if stored.table_offset == NOWHERE:
        return stage
    source, (bias, table) = tensors[stage.inputs[0]], decode_entries(stored, 1)
    if int(np.int64(-source.zero_point * source.pixels).astype(np.int32)) != int(bias[0]):
        raise BlockError("A global average of the fused block has the wrong zero point in its table.")
    return replace(stage, requantization=table)


def _mean(view: OperatorView) -> Lowered:
    """Lower MEAN over the whole map to an accumulator; over rows, columns or channels to a stage with weights of 1."""
    reduction = read_reduction(view)
    source, output = reduction.source, reduction.output
    table = mean_requantization(source.scale, output.scale, reduction.count)
    if reduction.channels:
        return Lowered(sum_of_channels(source.shape[2], table), (source,), output, reduction.shape, Fit.PIXELS)
    if reduction.shape[:2] == (1, 1):
        stage = Stage(StageKind.GLOBAL_AVERAGE, requantization=table)
        return Lowered(stage, (source,), output, reduction.shape, Fit.PIXELS)
    return Lowered(sum_stage(reduction.window, source.shape[2], table), (source,), output, reduction.shape)


AVERAGE_POOL = Kind(
    StageKind.AVERAGE_POOL,
    window=Window.SLIDING,
    outside=lambda stage, source: 0,
    check=check_pool,
    reference=_average,
    work=windows(*_AVERAGED),
    lowerings={"AVERAGE_POOL_2D": lower_pool(StageKind.AVERAGE_POOL)},
)

MAX_POOL = Kind(
    StageKind.MAX_POOL,
    window=Window.SLIDING,
    outside=lambda stage, source: -128,
    check=check_pool,
    reference=_max,
    work=windows(*_COMPARED),
    lowerings={"MAX_POOL_2D": lower_pool(StageKind.MAX_POOL)},
)

GLOBAL_AVERAGE = Kind(
    StageKind.GLOBAL_AVERAGE,
    sum_bytes=_sum_bytes,
    check=_check_global,
    reference=_global_average,
    constants=Coding(_encode_global, _decode_global),
    work=whole_map("summed values", "averages"),
    lowerings={"MEAN": _mean},
)

KINDS = (GLOBAL_MAX, CHANNEL_MAX, AVERAGE_POOL, MAX_POOL, GLOBAL_AVERAGE)
