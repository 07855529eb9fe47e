"""FLOAT_AVERAGE_POOL and FLOAT_MAX_POOL under a window, FLOAT_GLOBAL_AVERAGE over the whole map.

An average is the sum, row by row, divided by the number of its values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ir.limits import MAX_AVERAGED
from tflite_fuse.ops.entry import Operand, StageCheck, Window, parameters_of
from tflite_fuse.ops.floats.common import BOUNDS, FLOAT_BYTES, FloatBounds, Floats, bounded, float_kind
from tflite_fuse.ops.kinds.pools import check_pool, lower_pool, whole_map, windows
from tflite_fuse.ops.lowering.view import Lowered, OperatorView
from tflite_fuse.ops.weighted.sums import taps


def _within(stage: Stage, values: Floats) -> Floats:
    bounds = parameters_of(stage, FloatBounds)
    return bounded(values, bounds.low, bounds.high)


def _check_pool(check: StageCheck) -> None:
    check_pool(check)
    parameters_of(check.stage, FloatBounds)


def _average(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    ((_, values),) = operands
    sums = np.zeros((output.height, output.width, output.channels), np.float32)
    counts = np.zeros((output.height, output.width, 1), np.float32)
    image = np.ones((*values.shape[:2], 1), np.float32)
    pairs = zip(taps(stage, values, output, 0), taps(stage, image, output, 0), strict=True)
    with np.errstate(all="ignore"):
        for (_, _, seen), (_, _, inside) in pairs:
            np.add(sums, seen, out=sums, where=inside > 0)
            counts += inside
        return _within(stage, sums / counts)


def _max(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    ((_, values),) = operands
    least = float(np.finfo(np.float32).min)
    largest = np.full((output.height, output.width, output.channels), least, np.float32)
    for _, _, seen in taps(stage, values, output, least):
        largest = np.where(largest < seen, seen, largest)
    return _within(stage, largest)


FLOAT_AVERAGE_POOL = float_kind(
    StageKind.FLOAT_AVERAGE_POOL,
    window=Window.SLIDING,
    check=_check_pool,
    reference=_average,
    constants=BOUNDS,
    work=windows("float pooled", "float values"),
)

FLOAT_MAX_POOL = replace(FLOAT_AVERAGE_POOL, number=StageKind.FLOAT_MAX_POOL, reference=_max)

# ---- The whole map ----


def _check_global(check: StageCheck) -> None:
    check.same_channels()
    check.one_pixel()
    check.require(check.sources[0].pixels <= MAX_AVERAGED, f"averages more than {MAX_AVERAGED} pixels")
    parameters_of(check.stage, FloatBounds)


def _global_average(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    ((tensor, values),) = operands
    sums = np.zeros((1, 1, tensor.channels), np.float32)
    with np.errstate(all="ignore"):
        for pixel in values.reshape(-1, tensor.channels):
            sums += pixel
        return _within(stage, sums / np.float32(tensor.pixels))


GLOBAL_WORK = whole_map("float summed", "float values")

FLOAT_GLOBAL_AVERAGE = float_kind(
    StageKind.FLOAT_GLOBAL_AVERAGE,
    sum_bytes=lambda source: FLOAT_BYTES,
    sums_in_order=True,
    check=_check_global,
    reference=_global_average,
    constants=BOUNDS,
    work=GLOBAL_WORK,
)

KINDS = (FLOAT_AVERAGE_POOL, FLOAT_MAX_POOL, FLOAT_GLOBAL_AVERAGE)

LOWERINGS: dict[str, Callable[[OperatorView], Lowered]] = {
    "AVERAGE_POOL_2D": lower_pool(StageKind.AVERAGE_POOL),
    "MAX_POOL_2D": lower_pool(StageKind.MAX_POOL),
}
"""Operators of these kinds if they compute in float32."""
