"""CONCATENATION along rows or columns as a maximum of its inputs, each padded to the whole with the least value.

    CONCATENATION(a, b)  =  MAXIMUM(PADV2(a, -128 behind), PADV2(b, -128 before))

For int8 that is exact. A block holds no tensor that is made of several along rows, but it pads and takes maxima as it
goes, and a pad inside a block is a few pixels. Outside of blocks it would be whole tensors: this is for blocks alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.limits import MAX_WINDOW
from tflite_fuse.fusion.block.operators.operands import read_activation
from tflite_fuse.fusion.block.operators.requantization import NO_ACTIVATION
from tflite_fuse.model.edit import add_buffer, add_operator_code, add_tensor
from tflite_fuse.model.operators import get_options, operator_name
from tflite_fuse.model.schema import Model, Operator, Tensor
from tflite_fuse.model.types import TensorType

MOST_JOINED = 10
"""Inputs of a CONCATENATION: each becomes two stages."""

_LEAST = -128


def joins_rows(model: Model, operator: Operator) -> bool:
    """Whether an operator is a CONCATENATION of int8 along rows or columns."""
    inputs, outputs = operator.inputs or (), operator.outputs or ()
    if operator_name(model, operator) != "CONCATENATION" or not 2 <= len(inputs) <= MOST_JOINED or len(outputs) != 1:
        return False
    try:
        output, parts = read_activation(model, outputs[0]), [read_activation(model, part) for part in inputs]
    except BlockError:
        return False
    rank, axis = len(output.dims), _axis(operator, len(output.dims))
    if rank not in (3, 4) or not 1 <= axis < rank - 1 or output.dims[0] != 1 or output.dims[axis] > MAX_WINDOW:
        return False
    plain = get_options(operator).get("fused_activation_function", NO_ACTIVATION) == NO_ACTIVATION
    alike = all(
        (part.scale, part.zero_point) == (output.scale, output.zero_point)
        and len(part.dims) == rank
        and all(a == b for at, (a, b) in enumerate(zip(part.dims, output.dims, strict=True)) if at != axis)
        for part in parts
    )
    return plain and alike and sum(part.dims[axis] for part in parts) == output.dims[axis]


def _axis(operator: Operator, rank: int) -> int:
    axis = get_options(operator).get("axis", 0)
    return int(axis) + rank * (int(axis) < 0) if isinstance(axis, int) else -1


def join_rows(model: Model, operator: Operator) -> tuple[Model, list[Operator]]:
    """The operators in the place of one CONCATENATION, the last of which writes what it wrote."""
    inputs, (output,) = operator.inputs or (), operator.outputs or ()
    whole = model.main.tensors[output]
    axis = _axis(operator, len(whole.dims))
    model, code = add_operator_code(model, builtin="PADV2", version=2)
    model, maximum = add_operator_code(model, builtin="MAXIMUM", version=2)
    model, least = _constant(model, Tensor((), TensorType.INT8, 0, f"{whole.name}/least", whole.quantization), [_LEAST])
    made: list[Operator] = []
    padded: list[int] = []
    for part, amounts in zip(inputs, _amounts(model, inputs, axis), strict=True):
        around = Tensor((len(amounts), 2), TensorType.INT32, 0, f"{whole.name}/around")
        model, around_it = _constant(model, around, [number for pair in amounts for number in pair])
        model, filled = add_tensor(model, _like(whole, f"{whole.name}/part {len(padded)}"))
        made.append(Operator(code, (part, around_it, least), (filled,)))
        padded.append(filled)
    joined = padded[0]
    for place, filled in enumerate(padded[1:], start=2):
        model, result = (
            (model, output) if place == len(padded) else add_tensor(model, _like(whole, f"{whole.name}/join {place}"))
        )
        made.append(Operator(maximum, (joined, filled), (result,)))
        joined = result
    return model, made


def _amounts(model: Model, inputs: Sequence[int], axis: int) -> Iterator[list[tuple[int, int]]]:
    """For each input what is before and behind it, along every axis."""
    lengths = [model.main.tensors[part].dims[axis] for part in inputs]
    for length, end in zip(lengths, accumulate(lengths), strict=True):
        rank = len(model.main.tensors[inputs[0]].dims)
        yield [(end - length, sum(lengths) - end) if at == axis else (0, 0) for at in range(rank)]


def _like(whole: Tensor, name: str) -> Tensor:
    return replace(whole, buffer=0, name=name, shape_signature=None)


def _constant(model: Model, tensor: Tensor, values: Sequence[int]) -> tuple[Model, int]:
    form = "<i4" if tensor.type == TensorType.INT32 else "i1"
    model, buffer = add_buffer(model, np.array(values, form).tobytes())
    return add_tensor(model, Tensor(tensor.shape, tensor.type, buffer, tensor.name, tensor.quantization))
