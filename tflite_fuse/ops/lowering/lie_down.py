"""Maps one pixel wide as one row.

A signal that runs along height is a column of pixels, and kernels compute several pixels of a row together. A row of
the same pixels is the same bytes, so blocks read and write every tensor as it is stored.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tflite_fuse.ir.block import Stage, StageKind
from tflite_fuse.ir.limits import STACK_POINTERS
from tflite_fuse.ops.entry import Window
from tflite_fuse.ops.lowering.lower import Lowerings
from tflite_fuse.ops.lowering.operands import Activation, Shape
from tflite_fuse.ops.lowering.view import Lowered
from tflite_fuse.ops.table import KINDS

_WINDOWS = (Window.PIXEL, Window.SLIDING)
_BY_ROW = (StageKind.SPACE_TO_DEPTH, StageKind.DEPTH_TO_SPACE)
"""Kinds whose windows have a fixed form, over rows or squares."""


def lie_down(lowerings: Lowerings, fixed: Collection[int] = ()) -> Lowerings:
    """Return the operators with rows for columns if every map is one row or one pixel wide, otherwise unchanged.

    Converters lay a signal along the width for convolutions and along the height for pools; as rows, both share a
    block. Windows that would need too many pixel pointers on the stack keep their columns: a row needs pointers to the
    pixels that a dilated window skips, too.

    Args:
        lowerings: the operators of a model.
        fixed: tensors whose pixels the application finds by row and column: no operator turns if one of them would.
    """
    lowered = [each for each in lowerings if not isinstance(each, str)]
    columns = [each for each in lowered if not _is_flat(each)]
    turned = {tensor.index for each in columns for tensor in (*each.inputs, each.output) if _lying(tensor) != tensor}
    if not columns or not all(map(_is_column, columns)) or not turned.isdisjoint(fixed):
        return lowerings
    return tuple(each if isinstance(each, str) or _is_flat(each) else _turned(each) for each in lowerings)


def _is_flat(lowered: Lowered) -> bool:
    return all(height == 1 for height, _, _ in _shapes(lowered))


def _shapes(lowered: Lowered) -> tuple[Shape, ...]:
    tensors = (*lowered.inputs, lowered.output)
    if lowered.stage is None:
        return tuple(tensor.flattened for tensor in tensors)
    return (lowered.output_shape, *map(lowered.seen, lowered.inputs), *(tensor.flattened for tensor in tensors))


def _is_column(lowered: Lowered) -> bool:
    stage, tensors = lowered.stage, (*lowered.inputs, lowered.output)
    if any(tensor.flattened[0] > 1 and len(tensor.dims) != 4 for tensor in tensors):
        return False
    if stage is None:
        return all(1 in shape[:2] for shape in _shapes(lowered))
    if any(tensor.by_value and tensor.shape[0] > 1 and len(tensor.dims) != 4 for tensor in tensors):
        return False  # a batch of pixels stays a column
    if any(width != 1 for _, width, _ in _shapes(lowered)) or stage.kind in _BY_ROW:
        return False
    turns = stage.kind is StageKind.PAD or KINDS[stage.kind].window in _WINDOWS
    return turns and stage.kernel_size[1] == 1 and stage.padding[1] == 0 and 2 * stage.extent[0] <= STACK_POINTERS


def _turned(lowered: Lowered) -> Lowered:
    return replace(
        lowered,
        stage=None if lowered.stage is None else _as_row(lowered.stage),
        inputs=tuple(map(_lying, lowered.inputs)),
        output=_lying(lowered.output),
        output_shape=_swapped(lowered.output_shape),
        sees=None if lowered.sees is None else _swapped(lowered.sees),
    )


def _swapped(shape: Shape) -> Shape:
    height, width, channels = shape
    return (width, height, channels) if width == 1 else shape


def _lying(activation: Activation) -> Activation:
    dims = activation.dims
    return (
        replace(activation, dims=(dims[0], dims[2], dims[1], dims[3]))
        if len(dims) == 4 and dims[2] == 1
        else activation
    )


def _as_row(stage: Stage) -> Stage:
    weights = stage.weights
    if weights is not None and weights.ndim > 2:
        rows = weights.ndim - 3  # the axis of a window's rows
        weights = weights.swapaxes(rows, rows + 1)
    return replace(
        stage,
        kernel_size=stage.kernel_size[::-1],
        stride=stage.stride[::-1],
        dilation=stage.dilation[::-1],
        padding=stage.padding[::-1],
        weights=weights,
    )
