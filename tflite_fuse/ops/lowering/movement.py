"""Operators that move values, as indices into their input, and axes of reductions.

    SPLIT of [1, 2, 6] into three along channels: its second output is [[[2, 3], [8, 9]]] of the input's values 0 … 11

For a chain of such operators, with tensors of any rank, composed indices give the values of the first input in the last
output. A channel shuffle is recognised by its effect, independent of the operators used. MEAN and REDUCE_MAX reduce
rows, columns, both, or channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.model.operators import get_options, operator_name
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.lowering.operands import Activation, Shape, read_constant, read_moved
from tflite_fuse.ops.lowering.view import OperatorView

Indices = npt.NDArray[np.int32]

MOST_VALUES = 1 << 22
"""Largest number of values of a tensor that is followed."""
MOST_IN_ALL = 1 << 24
"""Largest number of values in all followed tensors of a model: a small file may contain a thousand large RESHAPEs."""


def moved(name: str, view: OperatorView, outputs: Sequence[int]) -> tuple[Activation, tuple[Indices, ...]]:
    """Return the input of a moving operator, and for each output, in its dimensions, indices into the input's values.

    Args:
        name: name of the operator, a key of ``MOVES``.
        view: the operator's tensors and options.
        outputs: all tensors that it writes.

    Raises:
        BlockError: its operands are no constants, out of range, or contradict its outputs' shapes; or its tensors are
            no activations of one type and quantization.
    """
    source = read_moved(view.model, view.operand(_SOURCES.get(name, 0)))
    if source.elements > MOST_VALUES:
        raise BlockError(f"it moves more than {MOST_VALUES:,} values")
    values = np.arange(source.elements, dtype=np.int32).reshape(source.dims)
    parts = MOVES[name](view, values, len(outputs))
    if len(parts) != len(outputs):
        raise BlockError(f"it has {len(outputs)} outputs where its operands ask for {len(parts)}")
    for tensor, part in zip(outputs, parts, strict=True):
        output = read_moved(view.model, tensor)
        if part.shape != output.dims:
            raise BlockError(
                f"its output {output.name} has the shape {list(output.dims)} instead of {list(part.shape)}"
            )
        if (output.type, output.scale, output.zero_point) != (source.type, source.scale, source.zero_point):
            raise BlockError(f"its output {output.name} is quantized differently from its input")
    return source, tuple(parts)


def channels_of(indices: Indices, source: Shape, output: Shape) -> tuple[int, ...] | None:
    """Return the input channel of every output channel; None unless it is the same for all pixels.

    Args:
        indices: into the input's values.
        source, output: height, width and channels of both.
    """
    height, width, channels = source
    if output[0] * output[1] != height * width:
        return None
    by_pixel = indices.reshape(-1, output[2])
    first = by_pixel[0]
    if first.max() >= channels or np.any(by_pixel != first + channels * np.arange(len(by_pixel))[:, None]):
        return None
    return tuple(first.tolist())


def places_of(indices: Indices, source: Shape, output: Shape) -> tuple[list[int], list[int]] | None:
    """Return the input row of every output row and the input column of every output column; None for other moves.

    Args:
        indices: into the input's values.
        source, output: height, width and channels of both.
    """
    _, width, channels = source
    image = indices.reshape(output)
    rows, columns = image[:, 0, 0] // (width * channels), image[0, :, 0] // channels % width
    pixels = (rows[:, None] * width + columns[None, :])[:, :, None]
    if output[2] != channels or np.any(image != pixels * channels + np.arange(channels)):
        return None
    return rows.tolist(), columns.tolist()


# ---- Operators ----


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise BlockError(f"its axis {axis} is outside the {rank} dimensions of its input")
    return axis % rank


def _one_axis(view: OperatorView, position: int, rank: int) -> int:
    listed = view.integers(position, "axis")
    if len(listed) != 1:
        raise BlockError(f"its axes are {listed}")
    return _axis(listed[0], rank)


def _reshape(view: OperatorView, values: Indices, count: int) -> list[Indices]:
    dims = read_moved(view.model, view.output).dims
    if np.prod(dims) != values.size:
        raise BlockError(f"it maps {values.size} values to the shape {list(dims)}")
    return [values.reshape(dims)]


def _transpose(view: OperatorView, values: Indices, count: int) -> list[Indices]:
    order = view.integers(1, "permutation")
    if sorted(order) != list(range(values.ndim)):
        raise BlockError(f"{order} is no permutation of {values.ndim} dimensions")
    return [values.transpose(order)]


def _gather(view: OperatorView, values: Indices, count: int) -> list[Indices]:
    axis = _axis(view.option("axis", default=0), values.ndim)
    if view.option("batch_dims", default=0):
        raise BlockError("it gathers by batches")
    listed = read_constant(view.model, view.operand(1), TensorType.INT32, "indices")
    if not listed.size or listed.min() < 0 or listed.max() >= values.shape[axis]:
        raise BlockError(f"its indices are not all within the {values.shape[axis]} values of axis {axis}")
    if values.size // values.shape[axis] * listed.size > MOST_VALUES:
        raise BlockError(f"it gathers more than {MOST_VALUES:,} values")
    return [np.take(values, listed, axis)]


def _slice(view: OperatorView, values: Indices, count: int) -> list[Indices]:
    begins, sizes = view.integers(1, "begin"), view.integers(2, "size")
    if not len(begins) == len(sizes) == values.ndim:
        raise BlockError(f"it slices {len(begins)} of {values.ndim} dimensions")
    parts = []
    for begin, size, length in zip(begins, sizes, values.shape, strict=True):
        end = length if size == -1 else begin + size
        if not 0 <= begin < end <= length:
            raise BlockError(f"its slice from {begin} of size {size} is not within {length} values")
        parts.append(slice(begin, end))
    return [values[tuple(parts)]]


def _strided_slice(view: OperatorView, values: Indices, count: int) -> list[Indices]:
    begins, ends, strides = (view.integers(1 + place, role) for place, role in enumerate(("begin", "end", "strides")))
    if not len(begins) == len(ends) == len(strides) == values.ndim:
        raise BlockError(f"it slices {len(begins)} of {values.ndim} dimensions")
    if any(view.options.get(name, 0) for name in ("ellipsis_mask", "new_axis_mask", "offset")):
        raise BlockError("it slices with an ellipsis, a new axis or an offset, which TFLM has not")
    masks = [view.option(name, default=0) for name in ("begin_mask", "end_mask", "shrink_axis_mask")]
    parts: list[slice | int] = []
    for axis, (begin, end, stride, length) in enumerate(zip(begins, ends, strides, values.shape, strict=True)):
        from_start, to_end, shrinks = (bool(mask >> axis & 1) for mask in masks)
        if stride < 1 or not -length <= begin < length or not -length <= end <= length:
            raise BlockError(f"its slice {begin}:{end}:{stride} is not within {length} values, ascending")
        if shrinks:
            parts.append(0 if from_start else begin)
        else:
            parts.append(slice(None if from_start else begin, None if to_end else end, stride))
    sliced = values[tuple(parts)]
    if not sliced.size:
        raise BlockError("its slice is empty")
    return [sliced]


def _split(view: OperatorView, values: Indices, count: int) -> list[Indices]:
    axis = _one_axis(view, 0, values.ndim)
    if values.shape[axis] % count:
        raise BlockError(f"it splits {values.shape[axis]} values into {count} parts")
    return np.split(values, count, axis)


def _split_v(view: OperatorView, values: Indices, count: int) -> list[Indices]:
    sizes, axis = view.integers(1, "sizes"), _one_axis(view, 2, values.ndim)
    length = values.shape[axis]
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = length - sum(sizes) - 1
    if min(sizes) < 1 or sum(sizes) != length:
        raise BlockError(f"it splits {length} values into parts of {sizes}")
    return np.split(values, np.cumsum(sizes)[:-1], axis)


def _tile(view: OperatorView, values: Indices, count: int) -> list[Indices]:
    times = view.integers(1, "multiples")
    if len(times) != values.ndim or min(times) < 1 or values.size * prod(times) > MOST_VALUES:
        raise BlockError(f"it repeats {list(values.shape)} {times} times")
    return [np.tile(values, times)]


def _unpack(view: OperatorView, values: Indices, count: int) -> list[Indices]:
    axis = _axis(view.option("axis", default=0), values.ndim)
    if values.shape[axis] != count:
        raise BlockError(f"it has {count} outputs for {values.shape[axis]} parts")
    return [np.take(values, place, axis) for place in range(values.shape[axis])]


def _pack(view: OperatorView, values: Indices, count: int) -> list[Indices]:
    if len(view.inputs) != 1:
        raise BlockError(f"it joins {len(view.inputs)} tensors")
    return [np.expand_dims(values, _axis(view.option("axis", default=0), values.ndim + 1))]


_SOURCES = {"SPLIT": 1}
"""Position of the moved operand, if it is not the first."""

MOVES: Mapping[str, Callable[[OperatorView, Indices, int], list[Indices]]] = {
    "EXPAND_DIMS": _reshape,
    "GATHER": _gather,
    "PACK": _pack,
    "RESHAPE": _reshape,
    "SLICE": _slice,
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "SQUEEZE": _reshape,
    "STRIDED_SLICE": _strided_slice,
    "TILE": _tile,
    "TRANSPOSE": _transpose,
    "UNPACK": _unpack,
}
"""Operators that are followed, by their names in TFLite's schema."""


def moves_in(model: Model) -> Iterator[tuple[Activation, tuple[tuple[int, Indices], ...]]]:
    """Yield for each moving operator of the first subgraph its input, and each output with its indices.

    It ends after ``MOST_IN_ALL`` values.
    """
    followed = 0
    for operator in model.main.operators:
        name, outputs = operator_name(model, operator), operator.outputs or ()
        if name not in MOVES or not outputs:
            continue
        view = OperatorView(model, operator.inputs or (), outputs[0], get_options(operator))
        try:
            source, parts = moved(name, view, outputs)
        except BlockError:
            continue
        followed += sum(part.size for part in parts)
        if followed > MOST_IN_ALL:
            return
        yield source, tuple(zip(outputs, parts, strict=True))


@dataclass(frozen=True)
class Reduction:
    """An operator that reduces many values to one.

    Attributes:
        source, output: its input and output.
        window: rows and columns of the source that become one, both 1 if channels do.
        channels: whether all channels of a pixel become one.
        shape: shape of the output as an image.
    """

    source: Activation
    output: Activation
    window: tuple[int, int]
    channels: bool
    shape: Shape

    @property
    def count(self) -> int:
        """Return the number of values that become one."""
        return self.source.shape[2] if self.channels else self.window[0] * self.window[1]


def read_reduction(view: OperatorView, tensors: tuple[Activation, Activation] | None = None) -> Reduction:
    """Return the axes of a reduction.

    Args:
        view: the operator.
        tensors: its input and output, if they are not int8.

    Raises:
        BlockError: the axes are no constant, out of range, or channels together with rows or columns.
    """
    source, output = tensors or (view.read(), view.write())
    rank = len(source.dims)
    listed = view.integers(1, "axes")
    if not all(-rank <= axis < rank for axis in listed):
        raise BlockError(f"its axes {listed} are outside the {rank} dimensions of its input")
    axes = {axis % rank for axis in listed}
    height, width, channels = source.shape
    rows = height if rank == 4 and 1 in axes else 1
    columns = width if rank >= 3 and rank - 2 in axes else 1
    over_channels = rank - 1 in axes and channels > 1
    if over_channels and rows * columns > 1:
        raise BlockError("it reduces channels together with rows or columns")
    shape = (height // rows, width // columns, 1 if over_channels else channels)
    if output.elements != shape[0] * shape[1] * shape[2]:
        raise BlockError(f"its output {output.name} has the shape {list(output.dims)} after axes {sorted(axes)}")
    return Reduction(source, output, (rows, columns), over_channels, shape)
