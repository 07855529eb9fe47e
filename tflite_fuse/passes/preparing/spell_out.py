"""Operators that no block supports, or not with as little memory, expressed by operators that blocks support.

The result is for blocks only: outside of blocks it would need more memory.

    CONV_2D(x, filters of two groups)  =  CONCATENATION(CONV_2D(SLICE(x), …), CONV_2D(SLICE(x), …))

The filters of a group read the channels of that group, in the same order and with the same bias and scales.

    CONCATENATION(a, b)  =  MAXIMUM(PADV2(a, -128 behind), PADV2(b, -128 before))    along rows or columns

This is exact for int8. On float32 the pads are PADs with 0, whose bits are all 0, and each MAXIMUM is a BITWISE_XOR of
bits, exact for zeros, infinities and NaN. A block cannot join tensors along rows, but it computes these pixel by pixel.

    MAX_POOL_2D(x, h × w)  =  MAX_POOL_2D(MAX_POOL_2D(x, 1 × w), h × 1)

Of equal values, as of 0 and -0, both take the first one row by row, and NaN never. With a stride along the width, a
block keeps rows of the narrower map in place of those of x.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.limits import MAX_WINDOW
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import add_constant, add_int32, add_operator_code, add_tensor, replace_operators
from tflite_fuse.model.operators import get_options, make_options, operator_label, operator_name, with_options
from tflite_fuse.model.schema import Model, Operator, Tensor
from tflite_fuse.model.types import TensorType, tensor_nbytes
from tflite_fuse.notes import Note, note
from tflite_fuse.ops.lowering.operands import is_constant, read_moved
from tflite_fuse.ops.lowering.requantization import NO_ACTIVATION
from tflite_fuse.passes.base import PassResult

MOST_GROUPS = 10
"""Largest number of groups: the inputs of one CONCATENATION."""


def groups_of(model: Model, operator: Operator) -> int:
    """Return the number of groups of a CONV_2D; 0 for a single one, or if no block supports them."""
    inputs, outputs = operator.inputs or (), operator.outputs or ()
    if operator_name(model, operator) != "CONV_2D" or len(outputs) != 1 or not 2 <= len(inputs) <= 3:
        return 0
    constants = [tensor for tensor in inputs[1:] if tensor >= 0]
    if inputs[1] < 0:
        return 0
    try:
        source, output = read_moved(model, inputs[0]), read_moved(model, outputs[0])
    except BlockError:
        return 0
    filters = model.main.tensors[inputs[1]].dims
    if (
        len(source.dims) != 4
        or len(output.dims) != 4
        or len(filters) != 4
        or {model.main.tensors[inputs[1]].type, output.type} != {source.type}
    ):
        return 0
    channels, depth, filled = source.dims[3], filters[3], output.dims[3]
    groups = channels // depth if depth > 1 and channels % depth == 0 else 0
    fits = groups > 1 and filters[0] == filled and filled % groups == 0
    return (
        groups
        if fits and groups <= MOST_GROUPS and all(equal_parts(model, tensor, filled) for tensor in constants)
        else 0
    )


def equal_parts(model: Model, tensor: int, channels: int) -> bool:
    """Return whether a constant has equal parts for ``channels`` output channels, and one scale for each or for all."""
    described = model.main.tensors[tensor]
    if not is_constant(model, tensor) or described.sparsity is not None:
        return False
    quantization, content = described.quantization, model.buffers[described.buffer].data or b""
    scales = len(quantization.scale or ()) if quantization is not None else 1
    points = len(quantization.zero_point or ()) if quantization is not None else 1
    plain = quantization is None or (quantization.details is None and quantization.quantized_dimension == 0)
    sized = described.dims[:1] == (channels,) and len(content) == tensor_nbytes(described)
    return plain and sized and {scales, points} <= {0, 1, channels}


def split_groups(model: Model, operator: Operator, groups: int) -> tuple[Model, list[Operator]]:
    """Return the operators that replace a CONV_2D with groups; the last one writes its output."""
    source, output = (operator.inputs or ())[0], operator.output
    image, whole = model.main.tensors[source], model.main.tensors[output]
    model, slicing = add_operator_code(model, builtin="SLICE", version=2)
    model, joining = add_operator_code(model, builtin="CONCATENATION", version=2)
    replacements, parts = list[Operator](), list[int]()
    depth, channels = image.dims[3] // groups, whole.dims[3] // groups
    for group in range(groups):
        model, begin = add_int32(model, f"{whole.name}/begin", (0, 0, 0, group * depth))
        model, size = add_int32(model, f"{whole.name}/size", (*image.dims[:3], depth))
        model, read = _like(model, image, depth, f"{whole.name}/read {group}")
        replacements.append(Operator(slicing, (source, begin, size), (read,), make_options("SliceOptions")))
        operands = [read]
        for constant in (operator.inputs or ())[1:]:
            model, own = (model, constant) if constant < 0 else part_of(model, constant, group, groups)
            operands.append(own)
        model, part = _like(model, whole, channels, f"{whole.name}/group {group}")
        replacements.append(replace(operator, inputs=tuple(operands), outputs=(part,)))
        parts.append(part)
    options = make_options("ConcatenationOptions", axis=3)
    return model, [*replacements, Operator(joining, tuple(parts), (output,), options)]


def part_of(model: Model, constant: int, group: int, groups: int) -> tuple[Model, int]:
    """Return a group's part of filters, of a bias, or of any constant whose first dimension groups divide."""
    described = model.main.tensors[constant]
    content, count = model.buffers[described.buffer].data or b"", described.dims[0] // groups
    nbytes = len(content) // groups
    quantization = described.quantization
    if quantization is not None:
        own = slice(group * count, (group + 1) * count)
        scale, points = quantization.scale or (), quantization.zero_point or ()
        scale, points = (scale[own] if len(scale) > 1 else scale), (points[own] if len(points) > 1 else points)
        quantization = replace(quantization, scale=scale, zero_point=points, min=None, max=None)
    part = replace(described, shape=(count, *described.dims[1:]), shape_signature=None, quantization=quantization)
    return add_constant(model, part, content[group * nbytes : (group + 1) * nbytes])


def _like(model: Model, tensor: Tensor, channels: int, name: str) -> tuple[Model, int]:
    shape = (*tensor.dims[:3], channels)
    return add_tensor(model, replace(tensor, shape=shape, shape_signature=None, buffer=0, name=name))


MOST_JOINED = 10
"""Largest number of inputs of a CONCATENATION, each of which becomes two stages."""

_LEAST = -128


def joins_rows(model: Model, operator: Operator) -> bool:
    """Return whether an operator is a CONCATENATION of int8 or float32 along rows or columns."""
    inputs, outputs = operator.inputs or (), operator.outputs or ()
    if operator_name(model, operator) != "CONCATENATION" or not 2 <= len(inputs) <= MOST_JOINED or len(outputs) != 1:
        return False
    try:
        output, parts = read_moved(model, outputs[0]), [read_moved(model, part) for part in inputs]
    except BlockError:
        return False
    rank, axis = len(output.dims), _axis(operator, len(output.dims))
    if rank not in (3, 4) or not 1 <= axis < rank - 1 or output.dims[0] != 1 or output.dims[axis] > MAX_WINDOW:
        return False
    plain = get_options(operator).get("fused_activation_function", NO_ACTIVATION) == NO_ACTIVATION
    alike = all(
        (part.type, part.scale, part.zero_point) == (output.type, output.scale, output.zero_point)
        and len(part.dims) == rank
        and all(a == b for at, (a, b) in enumerate(zip(part.dims, output.dims, strict=True)) if at != axis)
        for part in parts
    )
    return plain and alike and sum(part.dims[axis] for part in parts) == output.dims[axis]


def _axis(operator: Operator, rank: int) -> int:
    axis = get_options(operator).get("axis", 0)
    return int(axis) + rank * (int(axis) < 0) if isinstance(axis, int) else -1


def join_rows(model: Model, operator: Operator) -> tuple[Model, list[Operator]]:
    """Return the operators that replace one CONCATENATION; the last one writes its output."""
    inputs, (output,) = operator.inputs or (), operator.outputs or ()
    whole = model.main.tensors[output]
    axis = _axis(operator, len(whole.dims))
    pad, join, fill = "PAD", "BITWISE_XOR", list[int]()
    if whole.type == TensorType.INT8:
        least = Tensor((), TensorType.INT8, 0, f"{whole.name}/least", whole.quantization)
        model, constant = _constant(model, least, [_LEAST])
        pad, join, fill = "PADV2", "MAXIMUM", [constant]
    model, code = add_operator_code(model, builtin=pad, version=2)
    model, joining = add_operator_code(model, builtin=join, version=2)
    replacements: list[Operator] = []
    padded: list[int] = []
    for part, amounts in zip(inputs, _amounts(model, inputs, axis), strict=True):
        around = Tensor((len(amounts), 2), TensorType.INT32, 0, f"{whole.name}/around")
        model, around_it = _constant(model, around, [number for pair in amounts for number in pair])
        model, filled = add_tensor(model, _longer(whole, f"{whole.name}/part {len(padded)}"))
        replacements.append(Operator(code, (part, around_it, *fill), (filled,)))
        padded.append(filled)
    joined = padded[0]
    for place, filled in enumerate(padded[1:], start=2):
        model, result = (
            (model, output) if place == len(padded) else add_tensor(model, _longer(whole, f"{whole.name}/join {place}"))
        )
        replacements.append(Operator(joining, (joined, filled), (result,)))
        joined = result
    return model, replacements


def _amounts(model: Model, inputs: Sequence[int], axis: int) -> Iterator[list[tuple[int, int]]]:
    """Yield for each input the padding before and behind it, along every axis."""
    lengths = [model.main.tensors[part].dims[axis] for part in inputs]
    for length, end in zip(lengths, accumulate(lengths), strict=True):
        rank = len(model.main.tensors[inputs[0]].dims)
        yield [(end - length, sum(lengths) - end) if at == axis else (0, 0) for at in range(rank)]


def _is_pool_of_both_axes(model: Model, operator: Operator) -> bool:
    """Return whether an operator is a MAX_POOL_2D over rows and columns whose output is narrower than its input."""
    inputs, outputs, options = operator.inputs or (), operator.outputs or (), get_options(operator)
    if operator_name(model, operator) != "MAX_POOL_2D" or len(inputs) != 1 or len(outputs) != 1:
        return False
    try:
        source, output = read_moved(model, inputs[0]), read_moved(model, outputs[0])
    except BlockError:
        return False
    return len(source.dims) == len(output.dims) == 4 and all(
        options.get(each, 0) not in (0, 1) for each in ("filter_height", "filter_width", "stride_w")
    )


def pool_by_axes(model: Model, kept: Collection[str] = ()) -> PassResult:
    """Replace every MAX_POOL_2D over both axes, whose output is narrower than its input: over columns, then over rows.

    Those that write tensors of the names ``kept`` stay, and those whose input has other readers, for which blocks keep
    its rows. An offline memory plan is dropped if the model changes.
    """
    rewritten, operators, notes = remove_plan(model), list[Operator](), list[Note]()
    reads = Counter(tensor for operator in model.main.operators for tensor in operator.inputs or ())
    for index, operator in enumerate(model.main.operators):
        written = {model.main.tensors[tensor].name for tensor in operator.outputs or ()}
        stays = not written.isdisjoint(kept) or any(reads[tensor] > 1 for tensor in operator.inputs or ())
        if stays or not _is_pool_of_both_axes(model, operator):
            operators.append(operator)
            continue
        source, whole = (model.main.tensors[(some or (-1,))[0]] for some in (operator.inputs, operator.outputs))
        columns, rows = (with_options(model, operator, **changes) for changes in (_OF_COLUMNS, _OF_ROWS))
        shape = (*source.dims[:2], *whole.dims[2:])
        narrow = replace(whole, buffer=0, name=f"{whole.name}/columns", shape=shape, shape_signature=None)
        rewritten, between = add_tensor(rewritten, narrow)
        operators += replace(columns, outputs=(between,)), replace(rows, inputs=(between,))
        notes.append(note("changed", "pooled by axes", operator_label(model, index)))
    return PassResult(replace_operators(rewritten, operators) if notes else model, bool(notes), tuple(notes))


_OF_COLUMNS = {"stride_h": 1, "filter_height": 1, "fused_activation_function": NO_ACTIVATION}
_OF_ROWS = {"stride_w": 1, "filter_width": 1}


def _longer(whole: Tensor, name: str) -> Tensor:
    return replace(whole, buffer=0, name=name, shape_signature=None)


def _constant(model: Model, tensor: Tensor, values: Sequence[int]) -> tuple[Model, int]:
    form = "<i4" if tensor.type == TensorType.INT32 else "i1"
    return add_constant(model, tensor, np.array(values, form).tobytes())


@dataclass(frozen=True)
class Spelled:
    """A model with some operators replaced by others.

    Attributes:
        model: the rewritten model, the same object if nothing changed.
        replaced: by index of a replaced operator in the original model, the names of its replacements' outputs.
        notes: one per replaced operator.
    """

    model: Model
    replaced: dict[int, frozenset[str]]
    notes: tuple[Note, ...]


def spell_out(model: Model, kept: Collection[int] = ()) -> Spelled:
    """Replace operators that blocks do not support; an offline memory plan is dropped if the model changes.

    Args:
        model: any valid model.
        kept: indices of operators that stay unchanged.
    """
    rewritten = remove_plan(model)
    operators, replaced, notes = list[Operator](), dict[int, frozenset[str]](), list[Note]()
    for index, operator in enumerate(model.main.operators):
        groups = 0 if index in kept else groups_of(model, operator)
        if groups:
            rewritten, replacements = split_groups(rewritten, operator, groups)
            notes.append(note("changed", "groups", operator_label(model, index), groups=groups))
        elif index not in kept and joins_rows(model, operator):
            rewritten, replacements = join_rows(rewritten, operator)
            notes.append(note("changed", "rows joined", operator_label(model, index)))
        else:
            operators.append(operator)
            continue
        names = (rewritten.main.tensors[tensor].name for each in replacements for tensor in each.outputs or ())
        replaced[index] = frozenset(name for name in names if name)
        operators += replacements
    return Spelled(replace_operators(rewritten, operators) if replaced else model, replaced, tuple(notes))
