"""Models of operators that move channels, in the forms of real models, and hypothesis strategies over them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from tests.drawing.raw_models import RawModel, activation_scales, add_convolution, zero_points
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Model

MOVES = ("GATHER", "PAD", "PADV2", "SLICE", "STRIDED_SLICE")
"""Operators of one output that move channels."""

SHUFFLES = ("channels first", "last dimensions", "five dimensions", "split", "slices")
"""Spellings of a channel shuffle in groups."""


def _like(model: RawModel, tensor: int, shape: Sequence[int]) -> int:
    """Another tensor of the same quantization."""
    quantization = model.tensors[tensor].quantization
    assert quantization is not None and quantization.scale and quantization.zero_point
    return model.tensor(shape, quantization.scale[0], quantization.zero_point[0])


def _int32(model: RawModel, values: Sequence[int]) -> int:
    return model.constant(np.array(values, np.int32))


def _reshape(model: RawModel, tensor: int, shape: Sequence[int]) -> int:
    output = _like(model, tensor, shape)
    options = make_options("ReshapeOptions", new_shape=tuple(shape))
    model.operator("RESHAPE", [tensor, _int32(model, shape)], [output], options)
    return output


def _transpose(model: RawModel, tensor: int, order: Sequence[int]) -> int:
    dims = model.tensors[tensor].dims
    output = _like(model, tensor, [dims[axis] for axis in order])
    model.operator("TRANSPOSE", [tensor, _int32(model, order)], [output], make_options("TransposeOptions"))
    return output


def _gather(model: RawModel, tensor: int, axis: int, place: int) -> int:
    dims = model.tensors[tensor].dims
    output = _like(model, tensor, [*dims[:axis], *dims[axis + 1 :]])
    indices = model.constant(np.array(place, np.int32))
    model.operator("GATHER", [tensor, indices], [output], make_options("GatherOptions", axis=axis))
    return output


def _join(model: RawModel, parts: Sequence[int]) -> int:
    shapes = [model.tensors[part].dims for part in parts]
    output = _like(model, parts[0], [*shapes[0][:-1], sum(shape[-1] for shape in shapes)])
    options = make_options("ConcatenationOptions", axis=len(shapes[0]) - 1)
    model.operator("CONCATENATION", parts, [output], options)
    return output


def add_split(model: RawModel, draw: st.DrawFn, tensor: int, parts: int) -> list[int]:
    """Append a SPLIT or SPLIT_V along channels; its outputs."""
    *prefix, channels = model.tensors[tensor].dims
    sizes = [channels // parts] * parts
    by_size = channels % parts != 0 or draw(st.booleans())
    sizes[-1] += channels - sum(sizes)
    axis = model.constant(np.array(draw(st.sampled_from([-1, len(prefix)])), np.int32))
    outputs = [_like(model, tensor, [*prefix, size]) for size in sizes]
    if by_size:
        listed = _int32(model, [*sizes[:-1], draw(st.sampled_from([-1, sizes[-1]]))])
        model.operator("SPLIT_V", [tensor, listed, axis], outputs, make_options("SplitVOptions", num_splits=parts))
    else:
        model.operator("SPLIT", [axis, tensor], outputs, make_options("SplitOptions", num_splits=parts))
    return outputs


def add_move(model: RawModel, draw: st.DrawFn, name: str, tensor: int) -> int:
    """Append an operator that moves channels; its output."""
    *prefix, channels = model.tensors[tensor].dims
    rank = len(prefix)
    begin = draw(st.integers(0, channels - 1))
    end, by = draw(st.integers(begin + 1, channels)), draw(st.integers(1, 3))
    if name == "GATHER":
        taken = draw(st.lists(st.integers(0, channels - 1), min_size=1, max_size=8))
        output = _like(model, tensor, [*prefix, len(taken)])
        options = make_options("GatherOptions", axis=draw(st.sampled_from([-1, rank])))
        model.operator("GATHER", [tensor, _int32(model, taken)], [output], options)
    elif name in ("PAD", "PADV2"):
        before, after = draw(st.integers(0, 4)), draw(st.integers(1, 4))
        output = _like(model, tensor, [*prefix, before + channels + after])
        inputs = [tensor, model.constant(np.array([[0, 0]] * rank + [[before, after]], np.int32))]
        if name == "PADV2":
            quantization = model.tensors[tensor].quantization
            assert quantization is not None and quantization.scale and quantization.zero_point
            value, point = np.array([draw(zero_points)], np.int8), quantization.zero_point[0]
            inputs.append(model.constant(value, quantization.scale, zero_point=point))
        model.operator(name, inputs, [output], make_options("PadOptions") if name == "PAD" else None)
    elif name == "SLICE":
        output = _like(model, tensor, [*prefix, end - begin])
        size = -1 if end == channels and draw(st.booleans()) else end - begin
        operands = _int32(model, [0] * rank + [begin]), _int32(model, [*prefix, size])
        model.operator("SLICE", [tensor, *operands], [output], make_options("SliceOptions"))
    else:
        output = _like(model, tensor, [*prefix, -(-(end - begin) // by)])
        lowest = begin - channels if draw(st.booleans()) else begin
        to_end = end == channels
        operands = (
            _int32(model, [0] * rank + [lowest]),
            _int32(model, [*prefix, 0 if to_end else end]),
            _int32(model, [1] * rank + [by]),
        )
        options = make_options("StridedSliceOptions", end_mask=(1 << rank) * to_end)
        model.operator("STRIDED_SLICE", [tensor, *operands], [output], options)
    return output


def add_shuffle(model: RawModel, draw: st.DrawFn, spelling: str, tensor: int, groups: int) -> int:
    """Append operators that deal the channels of an image out to ``groups`` piles; the image behind them."""
    _, height, width, channels = model.tensors[tensor].dims
    each, pixels = channels // groups, height * width
    if spelling == "last dimensions":
        piles = _transpose(model, _reshape(model, tensor, [pixels, groups, each]), [0, 2, 1])
        return _reshape(model, piles, [1, height, width, channels])
    if spelling == "five dimensions":
        piles = _transpose(model, _reshape(model, tensor, [1, height, width, groups, each]), [0, 1, 2, 4, 3])
        return _reshape(model, piles, [1, height, width, channels])
    if spelling == "channels first":
        first = _reshape(model, _transpose(model, tensor, [0, 3, 1, 2]), [each, groups, pixels])
        piles = _reshape(model, _transpose(model, first, [1, 0, 2]), [groups, 1, each, height, width])
        return _join(model, [_transpose(model, _gather(model, piles, 0, g), [0, 2, 3, 1]) for g in range(groups)])
    if spelling == "split":
        return _join(model, list(reversed(add_split(model, draw, tensor, groups))))
    parts = []
    for group in range(groups):
        parts.append(_like(model, tensor, [1, height, width, each]))
        operands = (
            _int32(model, [0, 0, 0, group]),
            _int32(model, [1, height, width, 0]),
            _int32(model, [1, 1, 1, groups]),
        )
        options = make_options("StridedSliceOptions", end_mask=8)
        model.operator("STRIDED_SLICE", [tensor, *operands], [parts[-1]], options)
    return _join(model, parts)


@st.composite
def channel_moves(draw: st.DrawFn) -> Model:
    """One operator that moves channels."""
    model, shape = RawModel(), draw(st.sampled_from([(1, 3, 5, 4), (1, 6, 7), (1, 12), (1, 2, 2, 9)]))
    source = model.tensor(shape, draw(activation_scales), draw(zero_points))
    return model.build([source], [add_move(model, draw, draw(st.sampled_from(MOVES)), source)])


@st.composite
def moves_everywhere(draw: st.DrawFn) -> Model:
    """Channels moved first, between convolutions, or last, and branches that a split starts and a join ends."""
    model, shape = RawModel(), (1, draw(st.integers(3, 9)), draw(st.integers(3, 9)), 2 * draw(st.integers(1, 4)))
    source = newest = model.tensor(shape, draw(activation_scales), draw(zero_points))
    for step in draw(st.lists(st.sampled_from(["convolution", "move", "shuffle", "branches"]), min_size=2, max_size=5)):
        *_, channels = model.tensors[newest].dims
        if step == "convolution":
            newest = add_convolution(model, newest, shape, kernel=draw(st.sampled_from([1, 3])))
        elif step == "move":
            newest = add_move(model, draw, draw(st.sampled_from(MOVES)), newest)
        elif step == "shuffle" and channels % 2 == 0:
            newest = add_shuffle(model, draw, draw(st.sampled_from(SHUFFLES)), newest, 2)
        elif step == "branches" and channels > 1:
            parts = add_split(model, draw, newest, 2)
            parts[0] = add_convolution(model, parts[0], shape, kernel=3)
            parts[1] = add_convolution(model, parts[1], shape)
            newest = _join(model, parts)
    return model.build([source], [add_convolution(model, newest, shape)])
