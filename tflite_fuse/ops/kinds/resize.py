"""RESIZE: an image with other numbers of rows and columns, by nearest pixels or bilinear interpolation.

The position of every output row (and column) in the input is given in 1024ths of a pixel, as in TFLM's int8 kernel; for
nearest pixels it is an integer. Windows follow from the positions: their stride is the ratio of the two sizes, and
their extent covers every position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.axes import stage_windows
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ir.limits import MAX_WINDOW
from tflite_fuse.ops.arithmetic import Int64Array, rounding_divide
from tflite_fuse.ops.entry import Kind, Layout, Numbers, Operand, StageCheck, Window, each_value, parameters_of
from tflite_fuse.ops.lowering.view import Lowered, OperatorView

PARTS = 1024
"""Units per pixel of positions."""

Places = tuple[int, ...]
Rate = tuple[int, int]
"""Input positions per output positions."""

Axis = TypeVar("Axis")


@dataclass(frozen=True)
class ResizeParameters:
    """Position of each output row and column in the input, in 1 / ``PARTS`` of a pixel."""

    rows: Places
    columns: Places


def _check(check: StageCheck) -> None:
    parameters = parameters_of(check.stage, ResizeParameters)
    check_places(check, _between(parameters.rows), _between(parameters.columns))


def check_places(check: StageCheck, *ends: tuple[Int64Array, Int64Array]) -> None:
    """Require the two input rows around each output row, then the columns, to lie inside their windows."""
    check.same_channels()
    source, output = check.sources[0], check.output
    lengths = ((source.height, output.height), (source.width, output.width))
    for (low, high), (length, size), window in zip(ends, lengths, stage_windows(check.stage), strict=True):
        check.require(len(low) == size, f"has places of {len(low)} rows or columns, not {size}")
        at = np.arange(size)
        check.require(bool(low.min() >= 0 and high.max() < length), "interpolates what lies outside its input")
        inside = (window.first(at) <= low) & (high < window.end(at + 1))
        check.require(bool(inside.all()), "interpolates what lies outside its windows")


def _between(places: Places) -> tuple[Int64Array, Int64Array]:
    """Return the two input positions around each place, equal if it lies on one."""
    positions = np.asarray(places, np.int64)
    return positions // PARTS, -(-positions // PARTS)


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    values: Int64Array = operands[0][1]
    parameters = parameters_of(stage, ResizeParameters)
    (above, below), (left, right) = _between(parameters.rows), _between(parameters.columns)
    down: Int64Array = (np.asarray(parameters.rows, np.int64) % PARTS)[:, None, None]
    beside: Int64Array = (np.asarray(parameters.columns, np.int64) % PARTS)[None, :, None]
    rows: Int64Array = values[above] * (PARTS - down) + values[below] * down
    sums: Int64Array = rows[:, left] * (PARTS - beside) + rows[:, right] * beside
    return rounding_divide(sums, np.asarray(PARTS * PARTS))


LAYOUT = Layout(
    ResizeParameters, (Numbers("rows", lambda output: output.height), Numbers("columns", lambda output: output.width))
)


# ---- Places, as TFLM's kernels find them ----


def nearest(length: int, size: int, corners: bool, centres: bool) -> tuple[Int64Array, Rate]:
    """Return the places of RESIZE_NEAREST_NEIGHBOR, in single precision, and the rate.

    Args:
        length, size: rows or columns of the input and of the output.
        corners: ``align_corners``.
        centres: ``half_pixel_centers``.
    """
    single = np.float32
    meets = corners and size > 1
    scale = single(length - 1) / single(size - 1) if meets else single(length) / single(size)
    scaled: npt.NDArray[np.float32] = (np.arange(size).astype(np.float32) + single(0.5 if centres else 0)) * scale
    # Halves are rounded away from zero; all values are non-negative.
    positions = np.floor(scaled.astype(np.float64) + (0.5 if corners else 0)).astype(np.int64)
    return np.minimum(positions, length - 1) * PARTS, (length - 1, size - 1) if meets else (length, size)


def bilinear(length: int, size: int, corners: bool, centres: bool) -> tuple[Int64Array, Rate]:
    """Return the places of RESIZE_BILINEAR, in integers, and the rate. Arguments as in ``nearest``.

    Raises:
        BlockError: TFLM rejects the options, or reads outside the input.
    """
    if corners and centres:
        raise BlockError("it aligns corners and takes centres of pixels at once, which TFLM refuses")
    meets = corners and size > 1
    from_, to = (length - 1, size - 1) if meets else (length, size)
    scale = (PARTS * from_ + to // 2) // to
    places = np.maximum(np.arange(size, dtype=np.int64) * scale + (scale // 2 - PARTS // 2 if centres else 0), 0)
    if places[-1] >= length * PARTS:
        raise BlockError("the runtime reads outside its input")
    return np.minimum(places, (length - 1) * PARTS), (scale, PARTS)


def smallest_window(places: Int64Array, rate: Rate) -> tuple[int, int, int, int]:
    """Return stride, spread, padding and extent of the smallest windows of this rate that cover all places."""
    shared = gcd(max(rate[0], 1), rate[1])
    stride, spread = max(rate[0], 1) // shared, rate[1] // shared
    at, (low, high) = np.arange(len(places)) * stride, _between(tuple(places.tolist()))
    padding = max(0, int((at - low * spread).max()))
    extent = max(1, int((high * spread - at).max()) + padding + 1)
    if max(stride, spread, padding, extent) > MAX_WINDOW:
        raise BlockError(f"its rate of {stride} to {spread} needs larger windows than blocks have")
    return stride, spread, padding, extent


MOST_SKIPPED = 3
"""Largest number of rows or columns skipped before the first row of a slice: its windows reach back that far."""


def sliced(rows: Sequence[int], columns: Sequence[int]) -> Stage | None:
    """Return every n-th row and column of an image as a stage; None if windows would have to reach far.

    Neighbouring rows and columns are a PAD that cuts.
    """
    if all(before + 1 == after for places in (rows, columns) for before, after in pairwise(places)):
        return Stage(StageKind.PAD, padding=(-rows[0], -columns[0]))
    axes = []
    for places in (rows, columns):
        steps = {after - before for before, after in pairwise(places)} or {1}
        step = min(steps)
        if len(steps) > 1 or step < 1 or places[0] > max(step - 1, MOST_SKIPPED):
            return None
        axes.append((np.asarray(places, np.int64) * PARTS, (step, 1)))
    return _placed(axes)


def _placed(axes: Sequence[tuple[Int64Array, Rate]]) -> Stage:
    """Return the stage that takes rows, then columns, from these places."""
    places = ResizeParameters(*(tuple(each.tolist()) for each, _ in axes))
    return spread_stage(StageKind.RESIZE, [smallest_window(*each) for each in axes], places)


def spread_stage(kind: StageKind, windows: Sequence[tuple[int, int, int, int]], places: object) -> Stage:
    """Return a stage of strides, spreads, paddings and extents of rows, then columns."""
    stride, spread, padding, extent = zip(*windows, strict=True)
    return Stage(kind, kernel_size=extent, stride=stride, spread=spread, padding=padding, parameters=places)


def lowered_by(
    find: Callable[[int, int, bool, bool], Axis], placed: Callable[[Sequence[Axis]], Stage]
) -> Callable[[OperatorView], Lowered]:
    """Return the lowering of a resize: ``find`` returns the places of an axis, ``placed`` makes a stage of both."""

    def lower(view: OperatorView) -> Lowered:
        source, output = view.image()
        sizes = view.integers(1, "size")
        if sizes != list(output.shape[:2]) or source.shape[2] != output.shape[2]:
            raise BlockError(f"it resizes {list(source.dims)} to {sizes}, which is not the shape of {output.name}")
        corners, centres = (bool(view.options.get(name)) for name in ("align_corners", "half_pixel_centers"))
        axes = [find(*axis, corners, centres) for axis in zip(source.shape[:2], sizes, strict=True)]
        return Lowered(placed(axes), (source,), output, output.shape)

    return lower


_EDGES: dict[int, Literal["reflect", "symmetric"]] = {0: "reflect", 1: "symmetric"}
"""Numbers of the schema's ``MirrorPadMode``, with their names in numpy: without the edge itself, and with it."""


def mirror_pad(view: OperatorView) -> Lowered:
    """Lower MIRROR_PAD of rows and columns: each copies one of the image."""
    source, output = view.moved()
    amounts = view.paddings(source)
    mode = _EDGES.get(view.option("mode", default=0))
    if len(amounts) < 2 or mode is None or (source.scale, source.zero_point) != (output.scale, output.zero_point):
        raise BlockError("it does not copy its input into one of the same rank and quantization")
    rows, columns, channels = ([0, 0], [0, 0], *amounts[1:])[-3:]
    if any((*amounts[0], *channels)):
        raise BlockError("it pads more than rows and columns")
    axes, room = [], 1 if mode == "reflect" else 0
    for length, size, pads in zip(source.shape[:2], output.shape[:2], (rows, columns), strict=True):
        if min(pads) < 0 or max(pads) > length - room or length + sum(pads) != size:
            raise BlockError(f"its paddings {amounts} do not lead from {list(source.dims)} to {list(output.dims)}")
        places = np.pad(np.arange(length, dtype=np.int64), pads, mode=mode) if any(pads) else np.arange(length)
        axes.append((places * PARTS, (1, 1)))
    return Lowered(_placed(axes), (source,), output, output.shape)


lower_nearest = lowered_by(nearest, _placed)


RESIZE = Kind(
    StageKind.RESIZE,
    window=Window.SPREAD,
    check=_check,
    reference=_reference,
    constants=LAYOUT,
    work=each_value({"other values": 4, "other outputs": 1}),
    lowerings={
        "MIRROR_PAD": mirror_pad,
        "RESIZE_BILINEAR": lowered_by(bilinear, _placed),
        "RESIZE_NEAREST_NEIGHBOR": lower_nearest,
    },
)

KINDS = (RESIZE,)
