"""SPACE_TO_DEPTH and DEPTH_TO_SPACE: squares of pixels as the channels of one pixel, and the inverse; TRANSPOSE.

A TRANSPOSE from channels first to channels last is a SPACE_TO_DEPTH, too: its input is an image of one channel in which
the planes lie one below the other, and a window covers one pixel of each plane. A TRANSPOSE of rows and columns is a
kind of its own, which needs all of its input for every pixel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind, Storage
from tflite_fuse.ir.limits import MAX_WINDOW
from tflite_fuse.ops.arithmetic import Int64Array
from tflite_fuse.ops.entry import Kind, Operand, StageCheck, Window, each_value
from tflite_fuse.ops.lowering.movement import moved
from tflite_fuse.ops.lowering.view import Lowered, OperatorView, four_dimensional

MOST_PLANES = 32
"""Largest number of planes that a TRANSPOSE joins: each needs a pointer."""


def _to_depth(size: int) -> Stage:
    """Return a stage with adjacent windows of size x size pixels."""
    square = (size, size)
    return Stage(StageKind.SPACE_TO_DEPTH, kernel_size=square, stride=square)


def _to_space(size: int) -> Stage:
    """Return a stage whose windows contain the one pixel from whose channels the output pixel is taken."""
    square, before = (size, size), (size - 1, size - 1)
    return Stage(StageKind.DEPTH_TO_SPACE, kernel_size=square, spread=square, padding=before)


def _to_channels(planes: int, height: int) -> Stage:
    """Return a stage with windows of one pixel of each plane."""
    return Stage(StageKind.SPACE_TO_DEPTH, kernel_size=(planes, 1), dilation=(height, 1))


def _geometry(stage: Stage) -> tuple[tuple[int, int], ...]:
    return stage.kernel_size, stage.stride, stage.dilation, stage.spread, stage.padding


def _check(make_stage: Callable[[int], Stage]) -> Callable[[StageCheck], None]:
    def check(check: StageCheck) -> None:
        stage, source, output = check.stage, check.sources[0], check.output
        if stage.kind is StageKind.SPACE_TO_DEPTH and _are_planes(stage, source, output):
            return
        same = _geometry(stage) == _geometry(make_stage(stage.kernel_size[0]))
        check.require(same, "has another window than squares side by side")
        small, large = (output, source) if stage.kind is StageKind.SPACE_TO_DEPTH else (source, output)
        check.require(_are_squares(small, large, stage.kernel_size[0]), f"reads {source.name}, which has another shape")

    return check


def _are_squares(small: BlockTensor, large: BlockTensor, size: int) -> bool:
    """Return whether each pixel of ``small`` has the channels of size x size pixels of ``large``."""
    extents = (small.height * size, small.width * size) == (large.height, large.width)
    return extents and small.channels == large.channels * size * size


def _are_planes(stage: Stage, source: BlockTensor, output: BlockTensor) -> bool:
    """Return whether the output's channels are one pixel of each of the input's planes."""
    shape = (output.height * output.channels, output.width, 1)
    planes = (source.height, source.width, source.channels) == shape
    return planes and _geometry(stage) == _geometry(_to_channels(output.channels, output.height))


def _gather(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((_, values),) = operands
    rows, columns = np.arange(output.height) * stage.stride[0], np.arange(output.width) * stage.stride[1]
    taps = np.ndindex(stage.kernel_size)
    parts = [values[rows + y * stage.dilation[0]][:, columns + x * stage.dilation[1]] for y, x in taps]
    return np.concatenate(parts, axis=2)


def _scatter(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((_, values),) = operands
    size = stage.kernel_size[0]
    squares = values.reshape(*values.shape[:2], size, size, -1).transpose(0, 2, 1, 3, 4)
    return squares.reshape(output.height, output.width, -1)


_MOVED = each_value({"other values": 1, "other outputs": 1})


def _lowered_to(make_stage: Callable[[int], Stage]) -> Callable[[OperatorView], Lowered]:
    """Return the lowering of an operator that copies bytes."""

    def lower(view: OperatorView) -> Lowered:
        source, output = four_dimensional(*view.moved())
        size = view.option("block_size")
        if not 2 <= size <= MAX_WINDOW:
            raise BlockError(f"its option block_size is {size}")
        stage = make_stage(size)
        tensors = [BlockTensor(part.name, *part.shape, 0) for part in (source, output)]
        small, large = reversed(tensors) if stage.kind is StageKind.SPACE_TO_DEPTH else tensors
        if not _are_squares(small, large, size):
            raise BlockError(f"it maps {list(source.dims)} to {list(output.dims)} by squares of {size}")
        return Lowered(stage, (source,), output, output.shape)

    return lower


def _lower_transpose(view: OperatorView) -> Lowered:
    """Lower a TRANSPOSE of rows and columns, of an input with channels first, or one that moves no byte."""
    source, (indices,) = moved("TRANSPOSE", view, (view.output,))
    _, output = view.moved()
    order = indices.reshape(output.shape)
    if np.array_equal(order.ravel(), np.arange(source.elements)):
        return Lowered(None, (source,), output)
    height, width, channels = output.shape
    image = (width, height, channels)
    if np.array_equal(order, np.arange(source.elements).reshape(image).swapaxes(0, 1)):
        return Lowered(Stage(StageKind.TRANSPOSE), (source,), output, output.shape, sees=image)
    planes = np.arange(source.elements).reshape(channels, height, width)
    if not np.array_equal(order, planes.transpose(1, 2, 0)) or channels > MOST_PLANES:
        raise BlockError("it does not move channels from the first place to the last")
    if source.index not in view.model.main.inputs:
        raise BlockError(f"{source.name} is computed with its channels first, and blocks compute with channels last")
    sees = (channels * height, width, 1)
    return Lowered(_to_channels(channels, height), (source,), output, output.shape, sees=sees)


SPACE_TO_DEPTH = Kind(
    StageKind.SPACE_TO_DEPTH,
    window=Window.SLIDING,
    moves=True,
    check=_check(_to_depth),
    reference=_gather,
    work=_MOVED,
    lowerings={"SPACE_TO_DEPTH": _lowered_to(_to_depth)},
)

DEPTH_TO_SPACE = Kind(
    StageKind.DEPTH_TO_SPACE,
    window=Window.SPREAD,
    moves=True,
    check=_check(_to_space),
    reference=_scatter,
    work=_MOVED,
    lowerings={"DEPTH_TO_SPACE": _lowered_to(_to_space)},
)


def _check_transpose(check: StageCheck) -> None:
    (source,), output = check.sources, check.output
    turned = source.width, source.height, source.channels
    check.require(turned == (output.height, output.width, output.channels), f"reads {source.name} of another shape")
    check.require(source.storage is not Storage.PERSISTENT, f"reads the state {source.name} by column")


TRANSPOSE = Kind(
    StageKind.TRANSPOSE,
    whole=0,
    moves=True,
    check=_check_transpose,
    reference=lambda stage, operands, output: operands[0][1].swapaxes(0, 1),
    work=_MOVED,
    lowerings={"TRANSPOSE": _lower_transpose},
)

KINDS = (SPACE_TO_DEPTH, DEPTH_TO_SPACE, TRANSPOSE)
