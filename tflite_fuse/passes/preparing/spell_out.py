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
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.limits import MAX_WINDOW
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import Editor
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


def split_groups(editor: Editor, operator: Operator, groups: int) -> None:
    """Add the operators that replace a CONV_2D with groups; the last one writes its output."""
    (source, *constants), output, parts = operator.inputs or (), operator.output, list[int]()
    image, whole = editor.dims(source), editor.dims(output)
    depth, channels, name = image[3] // groups, whole[3] // groups, editor.tensors[output].name
    for group in range(groups):
        begin = editor.int32(f"{name}/begin", (0, 0, 0, group * depth))
        size = editor.int32(f"{name}/size", (*image[:3], depth))
        read = editor.like(source, (*image[:3], depth), f"{name}/read {group}")
        editor.add("SLICE", (source, begin, size), read, make_options("SliceOptions"), version=2)
        own = [each if each < 0 else part_of(editor, each, group, groups) for each in constants]
        parts.append(editor.like(output, (*whole[:3], channels), f"{name}/group {group}"))
        editor.operators.append(replace(operator, inputs=(read, *own), outputs=(parts[-1],)))
    editor.add("CONCATENATION", parts, output, make_options("ConcatenationOptions", axis=3), version=2)


def part_of(editor: Editor, constant: int, group: int, groups: int) -> int:
    """Add a group's part of filters, of a bias, or of any constant whose first dimension groups divide."""
    model, described = editor.model, editor.tensors[constant]
    content, count = model.buffers[described.buffer].data or b"", described.dims[0] // groups
    nbytes = len(content) // groups
    quantization = described.quantization
    if quantization is not None:
        own = slice(group * count, (group + 1) * count)
        scale, points = quantization.scale or (), quantization.zero_point or ()
        scale, points = (scale[own] if len(scale) > 1 else scale), (points[own] if len(points) > 1 else points)
        quantization = replace(quantization, scale=scale, zero_point=points, min=None, max=None)
    part = replace(described, shape=(count, *described.dims[1:]), shape_signature=None, quantization=quantization)
    return editor.constant(part, content[group * nbytes : (group + 1) * nbytes])


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


def join_rows(editor: Editor, operator: Operator) -> None:
    """Add the operators that replace one CONCATENATION; the last one writes its output."""
    inputs, output = operator.inputs or (), operator.output
    whole = editor.tensors[output]
    axis, padded = _axis(operator, len(whole.dims)), list[int]()
    pad, join, fill = "PAD", "BITWISE_XOR", list[int]()
    if whole.type == TensorType.INT8:
        least = Tensor((), TensorType.INT8, 0, f"{whole.name}/least", whole.quantization)
        pad, join, fill = "PADV2", "MAXIMUM", [editor.constant(least, _LEAST.to_bytes(1, "little", signed=True))]
    before = 0
    for part in inputs:
        amounts, length = np.zeros((len(whole.dims), 2), np.int64), editor.dims(part)[axis]
        amounts[axis] = before, whole.dims[axis] - before - length
        around = editor.int32(f"{whole.name}/around", amounts.ravel().tolist(), amounts.shape)
        filled = editor.like(output, whole.dims, f"{whole.name}/part {len(padded)}")
        padded.append(editor.add(pad, (part, around, *fill), filled, version=2))
        before += length
    joined = padded[0]
    for place, filled in enumerate(padded[1:], start=2):
        is_last = place == len(padded)
        result = output if is_last else editor.like(output, whole.dims, f"{whole.name}/join {place}")
        joined = editor.add(join, (joined, filled), result, version=2)


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
    editor, notes = Editor(remove_plan(model)), list[Note]()
    reads = Counter(tensor for operator in model.main.operators for tensor in operator.inputs or ())
    for index, operator in enumerate(model.main.operators):
        written = {model.main.tensors[tensor].name for tensor in operator.outputs or ()}
        stays = not written.isdisjoint(kept) or any(reads[tensor] > 1 for tensor in operator.inputs or ())
        if stays or not _is_pool_of_both_axes(model, operator):
            editor.operators.append(operator)
            continue
        source, whole = (operator.inputs or (-1,))[0], operator.output
        columns, rows = (with_options(model, operator, **changes) for changes in (_OF_COLUMNS, _OF_ROWS))
        shape = (*editor.dims(source)[:2], *editor.dims(whole)[2:])
        between = editor.like(whole, shape, f"{editor.tensors[whole].name}/columns")
        editor.operators += replace(columns, outputs=(between,)), replace(rows, inputs=(between,))
        notes.append(note("changed", "pooled by axes", operator_label(model, index)))
    return PassResult(editor.finish() if notes else model, bool(notes), tuple(notes))


_OF_COLUMNS = {"stride_h": 1, "filter_height": 1, "fused_activation_function": NO_ACTIVATION}
_OF_ROWS = {"stride_w": 1, "filter_width": 1}


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
    editor, replaced, notes = Editor(remove_plan(model)), dict[int, frozenset[str]](), list[Note]()
    for index, operator in enumerate(model.main.operators):
        groups, begin = 0 if index in kept else groups_of(model, operator), len(editor.operators)
        if groups:
            split_groups(editor, operator, groups)
            notes.append(note("changed", "groups", operator_label(model, index), groups=groups))
        elif index not in kept and joins_rows(model, operator):
            join_rows(editor, operator)
            notes.append(note("changed", "rows joined", operator_label(model, index)))
        else:
            editor.operators.append(operator)
            continue
        names = (editor.tensors[each.output].name for each in editor.operators[begin:])
        replaced[index] = frozenset(name for name in names if name)
    return Spelled(editor.finish() if replaced else model, replaced, tuple(notes))
