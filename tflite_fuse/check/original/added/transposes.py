"""MEANs and FULLY_CONNECTEDs behind a TRANSPOSE, applied to the tensor that was transposed.

    MEAN(TRANSPOSE(x, permutation), axes)  =  TRANSPOSE'(MEAN(x, permutation[axes]))
    FULLY_CONNECTED(TRANSPOSE(x), W)  =  FULLY_CONNECTED(x, W')    where the columns of W' are in the order of x

TRANSPOSE' is the rest of the permutation on the remaining axes. An int8 MEAN sums in int32 and rounds once, so the
order of summation does not matter; on float32 the axes of a MEAN must keep their order. As soon as TRANSPOSE' only
moves axes of length 1, both sides hold the same bytes. The same holds for FULLY_CONNECTED on int8, which sums all
values of a row.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from tflite_fuse.check.original.values import Original, Step
from tflite_fuse.model.types import TensorType


def add_untransposed(original: Original) -> None:
    """Add to the original its MEANs and FULLY_CONNECTEDs without the TRANSPOSEs in front of them."""
    for step in tuple(original.steps):
        if step.name == "TRANSPOSE" and len(step.outputs) == 1:
            source, order = step.operand(0), original.numbers(step.operand(1))
            dims = original.tensors[source].dims if source >= 0 else ()
            moves = bool(order) and sorted(order) == list(range(len(dims)))
            moves = moves and original.tensors[step.outputs[0]].dims == tuple(dims[axis] for axis in order)
            if moves and _alike(original, source, step.outputs[0]):
                _follow(original, step.outputs[0], source, order)


def _alike(original: Original, a: int, b: int) -> bool:
    return original.stands_for(a) is not None and original.stands_for(a) == original.stands_for(b)


def _follow(original: Original, moved: int, plain: int, order: tuple[int, ...]) -> None:
    """Continue from ``moved``, which holds the bytes of ``plain`` with axis ``order[i]`` as axis i."""
    dims = original.tensors[moved].dims
    visible = [axis for axis, dim in zip(order, dims, strict=True) if dim > 1]
    if visible == sorted(visible):
        original.unite(moved, plain)
        return
    for step in original.readers(moved):
        if step.name == "FULLY_CONNECTED":
            _add_dense(original, step, moved, plain, order)
            continue
        listed = original.numbers(step.operand(1))
        if step.name != "MEAN" or len(step.outputs) != 1 or not listed or original.stands_for(step.outputs[0]) is None:
            continue
        reduced = {axis % len(order) for axis in listed}
        summed = [order[axis] for axis in sorted(reduced)]
        if original.stands_for(moved) == TensorType.FLOAT32 and summed != sorted(summed):
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
        result = original.add_tensor(replace(output, shape=natural, shape_signature=None))
        operator = replace(step.operator, inputs=(plain, original.add_numbers(axes)), outputs=(result,))
        original.add_step(Step(step.label, step.name, operator, step.code))
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
    source, result = (original.add_tensor(original.tensors[tensor]) for tensor in (read, step.outputs[0]))
    original.unite(plain, source)
    operator = replace(step.operator, inputs=(source, weights, *step.inputs[2:]), outputs=(result,))
    original.add_step(Step(step.label, step.name, operator, step.code))
    original.unite(step.outputs[0], result)
