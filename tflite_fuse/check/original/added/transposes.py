"""MEANs, FULLY_CONNECTEDs and others behind a TRANSPOSE, applied to the tensor that was transposed.

    MEAN(TRANSPOSE(x, permutation), axes)  =  TRANSPOSE'(MEAN(x, permutation[axes]))
    FULLY_CONNECTED(TRANSPOSE(x), W)  =  FULLY_CONNECTED(x, W')    where the columns of W' are in the order of x

    RELU(TRANSPOSE(x))                    =  TRANSPOSE(RELU(x))    and so for all operators that go value by value, pads
                                                               and joins
    RESHAPE(TRANSPOSE(x))                 =  TRANSPOSE(RESHAPE(x))    of the axes behind batch and channels, if the
                                                               channels are the last axis of x

TRANSPOSE' is the rest of the permutation on the remaining axes. An int8 MEAN sums in int32 and rounds once, so the
order of summation does not matter; on float32 the axes of a MEAN must keep their order. As soon as TRANSPOSE' only
moves axes of length 1, both sides hold the same bytes. The same holds for FULLY_CONNECTED on int8, which sums all
values of a row.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from tflite_fuse.check.original import functions, reals
from tflite_fuse.check.original.values import Original, Step
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import TensorType

_BY_VALUE = frozenset({*functions.RULES, *reals.RULES, "DEQUANTIZE", "PRELU", "QUANTIZE"})
_DTYPES: dict[int, str] = {TensorType.INT8: "i1", TensorType.FLOAT32: "<f4"}

Order = tuple[int, ...]

PlainOf = dict[int, tuple[int, Order]]
"""By moved tensor: the tensor with its values in another order, and for each axis the one it is there."""


_COLUMNS_FIRST: Order = (0, 2, 1, 3)

_WINDOWS = {
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "CONV_2D": "Conv2DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "MAX_POOL_2D": "Pool2DOptions",
}
_PAIRS = (("stride_h", "stride_w"), ("dilation_h_factor", "dilation_w_factor"), ("filter_height", "filter_width"))


def add_by_columns(original: Original) -> dict[int, int]:
    """Add to the original its operators on maps whose rows and columns are exchanged, from its inputs on.

    A TRANSPOSE leads to each exchanged map, and one back. The result of a QUANTIZE of an input is exchanged, too.

    Returns:
        For each map that is exchanged, the tensor that it is then.
    """
    plain_of: PlainOf = {}
    for source in dict.fromkeys(original.model.main.inputs):
        quantized = (step.outputs[0] for step in original.readers(source) if step.name == "QUANTIZE" and step.outputs)
        for tensor in dict.fromkeys((source, *quantized)):
            dims = original.tensors[tensor].dims
            read = original.readers(tensor) and original.encoding(tensor) is not None
            if not read or len(dims) != 4:
                continue
            one, height, width, channels = dims
            exchanged = _exchanged(original, tensor, original.add_like(tensor, (one, width, height, channels)))
            if tensor in plain_of:
                original.unite(plain_of[tensor][0], exchanged)
            else:
                _follow_all(original, plain_of, (tensor, exchanged, _COLUMNS_FIRST))
    by_value: dict[tuple[int, tuple[int, ...]], int] = {}
    for tensor, (plain, _) in plain_of.items():
        like = original.value(tensor), original.tensors[tensor].dims
        original.unite(by_value.setdefault(like, plain), plain)
        if plain >= len(original.model.main.tensors):
            original.unite(tensor, _exchanged(original, plain, original.add_tensor(original.tensors[tensor])))
    return {tensor: plain for tensor, (plain, _) in plain_of.items()}


def _exchanged(original: Original, source: int, output: int) -> int:
    """Add the TRANSPOSE of a map's rows and columns; return its output."""
    writer = original.written_by(source) or original.readers(source)[0]
    order = original.add_numbers(_COLUMNS_FIRST)
    original.add_operator(writer, "TRANSPOSE", (source, order), output, make_options("TransposeOptions"))
    return output


def add_untransposed(original: Original) -> None:
    """Add to the original its operators without the TRANSPOSEs in front of them."""
    plain_of: PlainOf = {}
    for step in tuple(original.steps):
        if step.name == "TRANSPOSE" and len(step.outputs) == 1:
            source, order = step.operand(0), original.numbers(step.operand(1))
            dims = original.tensors[source].dims if source >= 0 else ()
            moves = bool(order) and sorted(order) == list(range(len(dims)))
            moves = moves and original.tensors[step.outputs[0]].dims == tuple(dims[axis] for axis in order)
            if moves and original.same_encoding(source, step.outputs[0]):
                _follow_all(original, plain_of, (step.outputs[0], source, order))


def _follow_all(original: Original, plain_of: PlainOf, first: tuple[int, int, Order]) -> None:
    """Continue from a moved tensor, and from those that operators make of it value by value."""
    waiting = [first]
    while waiting:
        moved, plain, order = waiting.pop()
        if plain_of.get(moved, (-1, ()))[1] == order:
            original.unite(plain_of[moved][0], plain)
            continue
        plain_of[moved] = plain, order
        _follow(original, moved, plain, order)
        for step in original.readers(moved):
            if len(step.outputs) != 1 or moved not in step.inputs:
                continue
            if step.outputs[0] in plain_of and step.name != "MAX_POOL_2D":  # a pool may be there over each axis, too
                continue
            if step.name == "TRANSPOSE":
                again = original.numbers(step.operand(1))
                if sorted(again) != list(range(len(order))) or not original.same_encoding(moved, step.outputs[0]):
                    continue
                both = tuple(order[axis] for axis in again)
                dims = tuple(original.tensors[plain].dims[axis] for axis in both)
                if both == tuple(sorted(both)):
                    original.unite(plain, step.outputs[0])
                elif original.tensors[step.outputs[0]].dims == dims:
                    waiting.append((step.outputs[0], plain, both))
            elif step.name == "RESHAPE":
                if (reshaped := _reshaped(original, step, plain, order)) is not None:
                    waiting.append((step.outputs[0], *reshaped))
            elif (result := _add_turned(original, step, plain_of, order)) is not None:
                waiting.append((step.outputs[0], result, order))


def _reshaped(original: Original, step: Step, plain: int, order: Order) -> tuple[int, Order] | None:
    """Return a RESHAPE's output with channels last, and the order of its axes; None if it moves batch or channels."""
    before, output = (original.tensors[tensor] for tensor in (step.inputs[0], step.outputs[0]))
    first, rank = (0, len(order) - 1, *range(1, len(order) - 1)), len(output.dims)
    keeps = order == first and min(len(order), rank) > 2 and before.dims[:2] == output.dims[:2]
    keeps = keeps and prod(before.dims) == prod(output.dims)
    if not keeps or not original.same_encoding(step.inputs[0], step.outputs[0]):
        return None
    dims = (output.dims[0], *output.dims[2:], output.dims[1])
    result = original.add_like(step.outputs[0], dims)
    original.unite(plain, result)
    return result, (0, rank - 1, *range(1, rank - 1))


def _add_turned(original: Original, step: Step, plain_of: PlainOf, order: Order) -> int | None:
    """Add an operator on the tensors before the TRANSPOSEs; None if it depends on the order of axes.

    Returns:
        Its output, whose axes are in that order.
    """
    output, back = original.tensors[step.outputs[0]], np.argsort(order)
    if step.name in _WINDOWS or step.name in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "SOFTMAX"):
        return _add_windows(original, step, plain_of, order)
    computed = [tensor for tensor in step.inputs if tensor >= 0 and not original.content(tensor)]
    if order == _COLUMNS_FIRST:
        computed = [tensor for tensor in computed if not _is_pixel(original, tensor)]
    same = all(tensor in plain_of and plain_of[tensor][1] == order for tensor in computed)
    whole = all(original.encoding(tensor) is not None for tensor in (*computed, step.outputs[0]))
    if len(output.dims) != len(order) or min(step.inputs) < 0 or not computed or not same or not whole:
        return None
    operands, options = [plain_of[t][0] if t in computed else t for t in step.inputs], step.operator.builtin_options
    if step.name in _BY_VALUE:
        for place, tensor in enumerate(step.inputs):
            constant = bool(original.content(tensor))
            turned = _turned_constant(original, tensor, order) if constant else operands[place]
            if turned is None or (tensor in computed and original.tensors[tensor].dims != output.dims):
                return None
            operands[place] = turned
    elif step.name in ("PAD", "PADV2"):
        amounts = original.numbers(step.operand(1))
        one = all(original.tensors[tensor].dims in ((), (1,)) for tensor in step.inputs[2:])
        if computed != [step.inputs[0]] or len(amounts) != 2 * len(order) or not one:
            return None
        operands[1] = original.add_numbers(np.reshape(amounts, (-1, 2))[back])
    elif step.name == "CONCATENATION":
        axis = step.number("axis")
        if len(computed) != len(step.inputs) or not -len(order) <= axis < len(order):
            return None
        options = make_options("ConcatenationOptions", **{**step.options, "axis": order[axis]})
    else:
        return None
    result = original.add_like(step.outputs[0], [output.dims[axis] for axis in back])
    original.add_copy(step, operands, (result,), options)
    return result


def _is_pixel(original: Original, tensor: int) -> bool:
    """Return whether a tensor is one pixel, whose rows and columns may be exchanged."""
    dims = original.tensors[tensor].dims
    return len(dims) == 4 and prod(dims[:3]) == 1


def _add_windows(original: Original, step: Step, plain_of: PlainOf, order: Order) -> int | None:
    """Add an operator whose windows have rows as columns; None if the sums of its windows would have another order."""
    source, output, inputs = step.operand(0), original.tensors[step.outputs[0]], list(step.inputs)
    if order != _COLUMNS_FIRST or plain_of.get(source, (-1, ()))[1] != order or len(output.dims) != 4:
        return None
    options, types = dict(step.options), {original.tensors[source].type, output.type}
    window = [options.get("filter_height", 1), options.get("filter_width", 1)]
    if step.name.startswith("RESIZE"):
        size = original.numbers(step.operand(1))
        if len(size) != 2 or types != {TensorType.INT8}:
            return None
        inputs[1] = original.add_numbers(size[::-1])
    elif step.name in _WINDOWS and len(inputs) > 1:
        weights = original.tensors[inputs[1]]
        content, dtype = original.content(inputs[1]), _DTYPES.get(weights.type, "i1")
        sized = len(content) == prod(weights.dims) * np.dtype(dtype).itemsize
        if weights.type not in types or len(weights.dims) != 4 or not sized or weights.sparsity is not None:
            return None
        window = [*weights.dims[1:3]]
        turned = np.frombuffer(content, dtype).reshape(weights.dims).swapaxes(1, 2)
        shaped = replace(weights, shape=turned.shape, shape_signature=None)
        inputs[1] = original.add_tensor(shaped, turned.tobytes())
    if types != {TensorType.INT8} and not (types == {TensorType.FLOAT32} and 1 in window):
        return None
    inputs[0], stored = plain_of[source][0], step.operator.builtin_options
    if step.name in _WINDOWS:
        for down, across in _PAIRS:
            if down in options:
                options[down], options[across] = options[across], options[down]
        stored = make_options(_WINDOWS[step.name], **options)
    one, height, width, channels = output.dims
    result = original.add_like(step.outputs[0], (one, width, height, channels))
    original.add_copy(step, inputs, (result,), stored)
    return result


def _turned_constant(original: Original, tensor: int, order: Order) -> int | None:
    """Return a constant with its axes in the order before a TRANSPOSE; None if that is unknown."""
    stored, content = original.tensors[tensor], original.content(tensor)
    if prod(stored.dims) == 1:
        return tensor
    scales = 0 if stored.quantization is None else len(stored.quantization.scale or ())
    sized = stored.type in _DTYPES and len(content) == prod(stored.dims) * np.dtype(_DTYPES[stored.type]).itemsize
    if not sized or scales > 1 or stored.sparsity is not None or len(stored.dims) > len(order):
        return None
    dims = (1,) * (len(order) - len(stored.dims)) + stored.dims
    turned = np.frombuffer(content, _DTYPES[stored.type]).reshape(dims).transpose(np.argsort(order))
    return original.add_tensor(replace(stored, shape=turned.shape), turned.tobytes())


def _follow(original: Original, moved: int, plain: int, order: tuple[int, ...]) -> None:
    """Continue from ``moved``, which holds the bytes of ``plain`` with axis ``order[i]`` as axis i."""
    dims, readers = original.tensors[moved].dims, original.readers(moved)
    visible = [axis for axis, dim in zip(order, dims, strict=True) if dim > 1]
    same = visible == sorted(visible)
    if same:
        original.unite(moved, plain)
    for step in readers:
        if step.name == "FULLY_CONNECTED" and not same:
            _add_dense(original, step, moved, plain, order)
            continue
        listed = original.numbers(step.operand(1))
        if step.name != "MEAN" or step.operand(0) != moved or len(step.outputs) != 1:
            continue  # other tensors of the same bytes have other axes
        if not listed or original.encoding(step.outputs[0]) is None:
            continue
        reduced = {axis % len(order) for axis in listed}
        summed = [order[axis] for axis in sorted(reduced)]
        if original.encoding(moved) == TensorType.FLOAT32 and summed != sorted(summed):
            continue  # the same numbers in another order
        kept = bool(step.options.get("keep_dims", False))
        left = order if kept else tuple(axis for place, axis in enumerate(order) if place not in reduced)
        output = original.tensors[step.outputs[0]]
        sizes = [1 if place in reduced else dim for place, dim in enumerate(dims)]
        if output.dims != tuple(dim for place, dim in enumerate(sizes) if kept or place not in reduced):
            continue
        before = sorted(order)
        axes = sorted(before.index(order[place]) for place in reduced)
        natural = tuple(dim for _, dim in sorted(zip(left, output.dims, strict=True)))
        result = original.add_like(step.outputs[0], natural)
        original.add_copy(step, (plain, original.add_numbers(axes)), (result,))
        _follow(original, step.outputs[0], result, left)


def _add_dense(original: Original, step: Step, moved: int, plain: int, order: tuple[int, ...]) -> None:
    """Add a FULLY_CONNECTED that reads all of ``moved`` as one row, over ``plain``."""
    rows = original.weights(step.operand(1))
    read = step.operand(0)
    if rows is None or rows.ndim != 2 or len(step.outputs) != 1 or read not in original.members(moved):
        return
    count = prod(original.tensors[moved].dims)
    if rows.shape[1] != count or prod(original.tensors[plain].dims) != count or read == step.operand(1):
        return
    # places[t]: index in the plain tensor of value t of the transposed one.
    dims = dict(zip(order, original.tensors[moved].dims, strict=True))
    axes = sorted(dims)
    strides = {axis: prod(dims[later] for later in axes[place + 1 :]) for place, axis in enumerate(axes)}
    places = np.zeros((1,), np.int64)
    for axis in order:
        places = (places[:, None] + strides[axis] * np.arange(dims[axis])).ravel()
    turned = rows[:, np.argsort(places)]
    weights = original.add_tensor(original.tensors[step.inputs[1]], turned.tobytes())
    # The same bytes before the TRANSPOSE in the shapes of all tensors between it and the operator, `read` among them.
    shaped = {tensor: original.add_tensor(original.tensors[tensor]) for tensor in original.members(moved)}
    for tensor in shaped.values():
        original.unite(plain, tensor)
    source, result = shaped[read], original.add_tensor(original.tensors[step.outputs[0]])
    original.add_copy(step, (source, weights, *step.inputs[2:]), (result,))
    original.unite(step.outputs[0], result)
