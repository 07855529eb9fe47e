"""CONCATENATIONs along rows or columns as maxima of bytes or as float32 with the bits of all parts.

    CONCATENATION(a, b, …)[p]  =  max(A[p], B[p], …)    where A is a in its place and -128 everywhere else

Each byte of the result is in one of the inputs; the others hold -128 there, the least int8. On float32 A is 0
elsewhere, without a bit set, and an exclusive or of bits is in the place of the maximum.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tflite_fuse.check.original.values import Original, Step
from tflite_fuse.model.schema import Tensor
from tflite_fuse.model.types import TensorType


def add_joins(original: Original) -> None:
    """Add to the original its CONCATENATIONs along rows or columns as pads, and MAXIMUMs or BITWISE_XORs."""
    for step in tuple(original.steps):
        if step.name == "CONCATENATION" and len(step.outputs) == 1 and step.inputs and not _refused(original, step):
            _add(original, step)


def _refused(original: Original, step: Step) -> bool:
    """Return whether a CONCATENATION joins other axes, has an activation, or has other types or shapes."""
    output = original.tensors[step.outputs[0]]
    dims, axis = output.dims, _axis(original, step)
    if len(dims) not in (3, 4) or not 0 < axis < len(dims) - 1 or step.number("fused_activation_function"):
        return True
    stands_for = original.stands_for(step.outputs[0])
    if output.type not in (TensorType.INT8, TensorType.FLOAT32) or stands_for is None:
        return True
    length = 0
    for tensor in step.inputs:
        part = original.tensors[tensor] if tensor >= 0 else None
        same = original.stands_for(tensor) == stands_for
        if part is None or not same or part.type != output.type or len(part.dims) != len(dims):
            return True
        if [d for a, d in enumerate(part.dims) if a != axis] != [d for a, d in enumerate(dims) if a != axis]:
            return True
        length += part.dims[axis]
    return length != dims[axis]


def _axis(original: Original, step: Step) -> int:
    axis = step.number("axis")
    return axis if axis >= 0 else axis + len(original.tensors[step.outputs[0]].dims)


def _add(original: Original, step: Step) -> None:
    (result,) = step.outputs
    whole, axis, before = replace(original.tensors[result], shape_signature=None), _axis(original, step), 0
    pad, join, fill = "PAD", "BITWISE_XOR", list[int]()
    if whole.type == TensorType.INT8:
        lowest = Tensor((), TensorType.INT8, 0, "lowest", whole.quantization)
        pad, join, fill = "PADV2", "MAXIMUM", [original.add_tensor(lowest, b"\x80")]
    so_far = -1
    for tensor in step.inputs:
        length = original.tensors[tensor].dims[axis]
        amounts = np.zeros((len(whole.dims), 2), np.int32)
        amounts[axis] = before, whole.dims[axis] - before - length
        in_place = original.add_tensor(whole)
        original.add_operator(step, pad, (tensor, original.add_numbers(amounts), *fill), in_place, version=2)
        before += length
        if so_far >= 0:
            larger = original.add_tensor(whole)
            original.add_operator(step, join, (so_far, in_place), larger, version=2)
            in_place = larger
        so_far = in_place
    original.unite(result, so_far)
