"""FLOAT_GLOBAL_REDUCE of each channel over the whole map, FLOAT_CHANNEL_REDUCE of each pixel over its channels.

Values are taken one after the other, pixel by pixel, from the number TFLM starts from. A MEAN over the whole map is a
FLOAT_GLOBAL_AVERAGE; over rows or columns alone MEAN and REDUCE_MAX are pools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ir.limits import MAX_AVERAGED
from tflite_fuse.ops.entry import Layout, Operand, StageCheck, by_pixel, parameters_of
from tflite_fuse.ops.floats.common import ANY, FLOAT_BYTES, FloatBounds, Floats, float_kind
from tflite_fuse.ops.floats.pools import GLOBAL_WORK
from tflite_fuse.ops.lowering.movement import read_reduction
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView

_LARGEST = np.finfo(np.float32).max

_STEPS: Mapping[str, tuple[np.float32, Callable[[Floats, Floats], Floats]]] = {
    "SUM": (np.float32(0), np.add),
    "MEAN": (np.float32(0), np.add),
    "REDUCE_MAX": (-_LARGEST, lambda current, value: np.where(value > current, value, current)),
    "REDUCE_MIN": (_LARGEST, lambda current, value: np.where(value < current, value, current)),
}
"""Start value of each, and its function of the result so far and the next value; in the order of their numbers."""

_POOLS = {"MEAN": StageKind.FLOAT_AVERAGE_POOL, "REDUCE_MAX": StageKind.FLOAT_MAX_POOL}
"""Reductions of rows or columns alone."""


@dataclass(frozen=True)
class FloatReduction:
    """Rule by which many values become one.

    Attributes:
        reduction: number in the table: 0 SUM, 1 MEAN, 2 REDUCE_MAX, 3 REDUCE_MIN.
    """

    reduction: int


LAYOUT = Layout.of(FloatReduction)


def _check(check: StageCheck) -> None:
    reduction = parameters_of(check.stage, FloatReduction).reduction
    check.require(0 <= reduction < len(_STEPS), f"reduces by rule {reduction}")


def _check_global(check: StageCheck) -> None:
    check.same_channels()
    check.one_pixel()
    check.require(check.sources[0].pixels <= MAX_AVERAGED, f"reduces more than {MAX_AVERAGED} pixels")
    _check(check)


def _check_channels(check: StageCheck) -> None:
    check.same_shape(check.sources[0], channels=False)
    check.require(check.output.channels == 1, "writes more than one channel")
    _check(check)


def _reduced(stage: Stage, values: Iterable[Floats], count: int, output: BlockTensor) -> Floats:
    number = parameters_of(stage, FloatReduction).reduction
    start, step = list(_STEPS.values())[number]
    current: Floats = np.full((output.height, output.width, output.channels), start, np.float32)
    with np.errstate(all="ignore"):
        for each in values:
            current = step(current, each)
        return np.asarray(current / np.float32(count)) if list(_STEPS)[number] == "MEAN" else current


def _global(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    ((tensor, values),) = operands
    return _reduced(stage, values.reshape(-1, 1, 1, tensor.channels), tensor.pixels, output)


def _channels(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    ((tensor, values),) = operands
    return _reduced(stage, np.moveaxis(values, 2, 0)[..., None], tensor.channels, output)


def _lowered_by(name: str) -> Callable[[OperatorView], Lowered]:
    def lower(view: OperatorView) -> Lowered:
        reduction = read_reduction(view, view.same())
        parameters: object = FloatReduction(list(_STEPS).index(name))
        kind, window, fit = StageKind.FLOAT_GLOBAL_REDUCE, (1, 1), Fit.PIXELS
        if reduction.channels:
            kind = StageKind.FLOAT_CHANNEL_REDUCE
        elif reduction.shape[:2] != (1, 1):
            if name not in _POOLS:
                raise BlockError("it reduces rows or columns alone")
            kind, window, fit, parameters = _POOLS[name], reduction.window, Fit.EXACT, FloatBounds(*ANY)
        elif name == "MEAN":
            kind, parameters = StageKind.FLOAT_GLOBAL_AVERAGE, FloatBounds(*ANY)
        stage = Stage(kind, kernel_size=window, parameters=parameters)
        return Lowered(stage, (reduction.source,), reduction.output, reduction.shape, fit)

    return lower


FLOAT_GLOBAL_REDUCE = float_kind(
    StageKind.FLOAT_GLOBAL_REDUCE,
    sum_bytes=lambda source: FLOAT_BYTES,
    sums_in_order=True,
    check=_check_global,
    reference=_global,
    constants=LAYOUT,
    work=GLOBAL_WORK,
)

FLOAT_CHANNEL_REDUCE = float_kind(
    StageKind.FLOAT_CHANNEL_REDUCE,
    check=_check_channels,
    reference=_channels,
    constants=LAYOUT,
    work=by_pixel("float summed", "float values")(lambda stage, tensors: (tensors[stage.inputs[0]].channels, 1)),
)

KINDS = (FLOAT_GLOBAL_REDUCE, FLOAT_CHANNEL_REDUCE)

LOWERINGS: dict[str, Callable[[OperatorView], Lowered]] = {name: _lowered_by(name) for name in _STEPS}
"""Operators that are these kinds, or pools, where they compute in float32."""
