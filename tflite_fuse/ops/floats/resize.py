"""FLOAT_RESIZE: RESIZE_NEAREST_NEIGHBOR copies pixels, RESIZE_BILINEAR interpolates between four in TFLM's order.

Slices of every n-th row or column and MIRROR_PAD copy pixels, too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ops.arithmetic import Int64Array
from tflite_fuse.ops.entry import (
    Coding,
    Operand,
    StageCheck,
    StoredTables,
    Tables,
    Tensors,
    Window,
    each_value,
    parameters_of,
)
from tflite_fuse.ops.floats.common import Floats, float_kind
from tflite_fuse.ops.kinds import resize
from tflite_fuse.ops.kinds.moves import CHANNELS
from tflite_fuse.ops.kinds.resize import PARTS, ResizeParameters, check_places, smallest_window
from tflite_fuse.ops.lowering.view import Lowered, OperatorView

Place = tuple[int, int, float]
"""Input row (or column) at or before a position, the one at or behind it, and the distance from the first."""

_PLACE = struct.Struct("<2if")


@dataclass(frozen=True)
class FloatPlaces:
    """Positions of output rows and columns in the input.

    Attributes:
        interpolates: 1; 0 if pixels are copied from the first position of each place.
        rows, columns: a place for each.
    """

    interpolates: int
    rows: tuple[Place, ...]
    columns: tuple[Place, ...]


def _encode(stage: Stage, tensors: Tensors) -> Tables:
    parameters = parameters_of(stage, FloatPlaces)
    places = b"".join(_PLACE.pack(*place) for place in (*parameters.rows, *parameters.columns))
    return Tables(table=struct.pack("<i", parameters.interpolates) + places)


def _decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    output = tensors[stage.output]
    table = stored.table_bytes(4 + _PLACE.size * (output.height + output.width))
    places = tuple(_PLACE.iter_unpack(table[4:]))
    (interpolates,) = struct.unpack("<i", table[:4])
    return replace(stage, parameters=FloatPlaces(interpolates, places[: output.height], places[output.height :]))


def _check(check: StageCheck) -> None:
    parameters = parameters_of(check.stage, FloatPlaces)
    check_places(check, _between(parameters.rows), _between(parameters.columns))


def _between(places: Sequence[tuple[int, int, float]]) -> tuple[Int64Array, Int64Array]:
    """Return the two input positions around each place."""
    low, high = np.array([place[:2] for place in places], np.int64).reshape(-1, 2).T
    return low, high


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    values: Floats = operands[0][1]
    parameters = parameters_of(stage, FloatPlaces)
    (above, below), (left, right) = _between(parameters.rows), _between(parameters.columns)
    if not parameters.interpolates:
        return np.asarray(values[above][:, left])
    down = np.array([place[2] for place in parameters.rows], np.float32)[:, None, None]
    beside = np.array([place[2] for place in parameters.columns], np.float32)[None, :, None]
    one = np.float32(1)
    with np.errstate(all="ignore"):
        sums: Floats = values[above][:, left] * (one - down) * (one - beside)
        sums += values[below][:, left] * down * (one - beside)
        sums += values[above][:, right] * (one - down) * beside
        return np.asarray(sums + values[below][:, right] * down * beside + np.float32(0))


# ---- Lowering ----


def bilinear(length: int, size: int, corners: bool, centres: bool) -> tuple[tuple[Place, ...], tuple[int, int]]:
    """Return the places that TFLM computes in single precision, and the rate.

    Args:
        length, size: rows or columns of the input and of the output.
        corners, centres: ``align_corners`` and ``half_pixel_centers``.
    """
    if corners and centres:
        raise BlockError("it aligns corners and takes centres of pixels at once, which TFLM refuses")
    single, meets = np.float32, corners and size > 1
    rate = (length - 1, size - 1) if meets else (length, size)
    scale, at = single(rate[0]) / single(rate[1]), np.arange(size).astype(np.float32)
    scaled = (at + single(0.5)) * scale - single(0.5) if centres else at * scale
    low = np.maximum(np.floor(scaled).astype(np.int64), 0)
    high = np.minimum(np.ceil(scaled).astype(np.int64), length - 1)
    if low.max() >= length or high.min() < 0:
        raise BlockError("the runtime reads outside its input")
    parts = scaled - low.astype(np.float32)
    return tuple(zip(low.tolist(), high.tolist(), parts.tolist(), strict=True)), rate


def window_of(places: tuple[Place, ...], rate: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return stride, spread, padding and extent of the smallest windows that contain both ends of all places."""
    lows, highs = (np.array([place[end] for place in places], np.int64) for end in (0, 1))
    return smallest_window(np.where(highs > lows, lows * PARTS + 1, np.minimum(lows, highs) * PARTS), rate)


def _interpolated(axes: Sequence[tuple[tuple[Place, ...], tuple[int, int]]]) -> Stage:
    """Return the stage that interpolates between the places of rows and of columns, at their rates."""
    places = FloatPlaces(1, axes[0][0], axes[1][0])
    return resize.spread_stage(StageKind.FLOAT_RESIZE, [window_of(*axis) for axis in axes], places)


def copied(places: Sequence[int]) -> tuple[Place, ...]:
    """Return places of whole pixels, given in 1 / ``PARTS`` of a pixel."""
    return tuple((place // PARTS, place // PARTS, 0.0) for place in places)


def _copying(lower: Callable[[OperatorView], Lowered]) -> Callable[[OperatorView], Lowered]:
    """Return the lowering of an operator that moves values, with a copying FLOAT_RESIZE in place of RESIZE."""

    def lower_real(view: OperatorView) -> Lowered:
        lowered = lower(view)
        stage = lowered.stage
        if stage is None or stage.kind is not StageKind.RESIZE:
            return lowered
        parameters = parameters_of(stage, ResizeParameters)
        places = FloatPlaces(0, copied(parameters.rows), copied(parameters.columns))
        stage = replace(stage, kind=StageKind.FLOAT_RESIZE, parameters=places)
        return replace(lowered, stage=stage)

    return lower_real


FLOAT_RESIZE = float_kind(
    StageKind.FLOAT_RESIZE,
    window=Window.SPREAD,
    check=_check,
    reference=_reference,
    constants=Coding(_encode, _decode),
    work=each_value({"float values": 4}),
)

KINDS = (FLOAT_RESIZE,)

LOWERINGS: dict[str, Callable[[OperatorView], Lowered]] = {
    **{name: _copying(lower) for name, lower in CHANNELS.lowerings.items()},
    "MIRROR_PAD": _copying(resize.mirror_pad),
    "RESIZE_BILINEAR": resize.lowered_by(bilinear, _interpolated),
    "RESIZE_NEAREST_NEIGHBOR": _copying(resize.lower_nearest),
}
"""Operators of this kind if they compute in float32."""
