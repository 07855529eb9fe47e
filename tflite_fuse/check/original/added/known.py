"""Whole numbers of the original that are the same in every inference: shapes, and what is computed of them.

A rewritten model may hold such a tensor as a constant. Here its numbers are worked out as lists, one at a time.
"""

from __future__ import annotations

import struct
from math import prod

from tflite_fuse.check.original.values import Original, Step
from tflite_fuse.model.types import TensorType

_FORMS: dict[int, str] = {TensorType.INT32: "i", TensorType.INT64: "q"}
_MOST = 1 << 10
"""Numbers of a tensor: joined again and again, they would be any number."""


def add_known_numbers(original: Original) -> None:
    """Gives tensors whose numbers are known their content, as if the file had it."""
    for step in list(original.steps):
        if len(step.outputs) != 1 or step.outputs[0] in original.model.main.outputs:
            continue
        output = original.tensors[step.outputs[0]]
        found = _numbers(original, step) if output.type in _FORMS and not output.is_variable else None
        if found is None or len(found) != prod(output.dims) or not 0 < len(found) <= _MOST:
            continue
        form = _FORMS[output.type]
        bits = 8 * struct.calcsize("<" + form) - 1
        if all(-(1 << bits) <= number < 1 << bits for number in found):
            original.know(step.outputs[0], struct.pack(f"<{len(found)}{form}", *found))


def _read(original: Original, tensor: int) -> list[int] | None:
    described = original.tensors[tensor]
    form, content = _FORMS.get(described.type), original.content(tensor)
    if form is None or not content or described.sparsity is not None or described.is_variable:
        return None
    count, rest = divmod(len(content), struct.calcsize("<" + form))
    return list(struct.unpack(f"<{count}{form}", content)) if rest == 0 and count == prod(described.dims) else None


def _numbers(original: Original, step: Step) -> list[int] | None:
    """The numbers an operator writes, None where they are not known."""
    tensors = [tensor for tensor in step.inputs if tensor >= 0]
    if step.name == "SHAPE" and tensors:
        dims = list(original.tensors[tensors[0]].dims)
        return dims if dims and min(dims) > 0 else None
    read = [_read(original, tensor) for tensor in tensors]
    values = [each for each in read if each is not None]
    if not values or len(values) != len(read):
        return None
    ranks = [len(original.tensors[tensor].dims) for tensor in tensors]
    if step.name in ("CAST", "EXPAND_DIMS", "RESHAPE", "SQUEEZE"):
        return values[0]
    if step.name in ("PACK", "CONCATENATION"):
        wanted = 0 if step.name == "PACK" else 1
        return [number for each in values for number in each] if set(ranks) == {wanted} else None
    if step.name == "STRIDED_SLICE" and len(values) == 4 and ranks[0] == 1:
        return _slice(step, *values)
    if step.name == "GATHER" and len(values) == 2 and ranks[0] == 1:
        plain = not step.number("axis") and not step.number("batch_dims")
        inside = all(0 <= index < len(values[0]) for index in values[1])
        return [values[0][index] for index in values[1]] if plain and inside else None
    return _arithmetic(step, *values) if len(values) == 2 else None


def _slice(step: Step, values: list[int], begin: list[int], end: list[int], stride: list[int]) -> list[int] | None:
    odd = step.number("ellipsis_mask") or step.number("new_axis_mask") or step.options.get("offset")
    if odd or not len(begin) == len(end) == len(stride) == 1 or stride[0] < 1:
        return None
    size = len(values)
    first = 0 if step.number("begin_mask") else begin[0] + (size if begin[0] < 0 else 0)
    if step.number("shrink_axis_mask"):
        return [values[first]] if 0 <= first < size else None
    behind = size if step.number("end_mask") else end[0] + (size if end[0] < 0 else 0)
    return [values[at] for at in range(max(first, 0), min(behind, size), stride[0])]


def _arithmetic(step: Step, first: list[int], second: list[int]) -> list[int] | None:
    if step.number("fused_activation_function") or max(map(abs, first + second)) >= 1 << 31:
        return None
    if len(first) != len(second) and 1 not in (len(first), len(second)):
        return None
    longest = max(len(first), len(second))
    pairs = list(zip(first * longest, second * longest, strict=False))[:longest]
    if step.name == "ADD":
        return [a + b for a, b in pairs]
    if step.name == "SUB":
        return [a - b for a, b in pairs]
    if step.name == "MUL":
        return [a * b for a, b in pairs]
    extreme = {"MAXIMUM": max, "MINIMUM": min}.get(step.name)
    return None if extreme is None else [extreme(a, b) for a, b in pairs]
