"""Windows on a variable of the original: tensors that hold the end of its steps and, behind it, the new ones.

Values are numbered: those of the variable from 0 on, the new ones from there on. Operators that move or join values are
followed by what they make of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from tflite_fuse.proof.moves import origin
from tflite_fuse.proof.original.values import Original, Step

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Window:
    """The result of a CONCATENATION that holds the newest values of a variable and the new ones.

    Attributes:
        joining: the operator.
        new: the tensor of the new values.
        tensor: the window.
        earlier: values of the variable in it.
    """

    joining: Step
    new: int
    tensor: int
    earlier: int


def find_windows(original: Original, held: Sequence[int], value: int) -> list[Window]:
    """The windows on a variable that tensors hold; none unless ``value``, which is assigned to it, is all's end.

    Those of one quantization, and of int8, alone.
    """
    new = next((step.inputs[1] for step in _joinings(original) if origin(original, step.inputs[0])[0] in held), -1)
    if min(*held, value, new) < 0 or origin(original, new)[0] in held:
        return []
    kept, end = (prod(original.tensors[held[0]].dims), prod(original.tensors[new].dims))
    end += kept
    numbers = _numbered(original, held, new, kept, end)
    if not _holds(original, numbers, value, end - kept, end):
        return []
    found = []
    for step in _joinings(original):
        size = prod(original.tensors[step.outputs[0]].dims)
        alike = _alike(original, (*held, new, value, *step.inputs, step.outputs[0]))
        if alike and end - kept < size <= end and _holds(original, numbers, step.outputs[0], end - size, end):
            found.append(Window(step, new, step.outputs[0], size - (end - kept)))
    return found


def _joinings(original: Original) -> Iterator[Step]:
    for step in original.steps[: len(original.model.main.operators)]:
        joins = step.name == "CONCATENATION" and len(step.inputs) > 1 and len(step.outputs) == 1
        if joins and min(step.inputs) >= 0 and not step.number("fused_activation_function"):
            yield step


def _numbered(original: Original, held: Sequence[int], new: int, kept: int, end: int) -> dict[int, Numbers]:
    """The numbers of the values of tensors that no operator moves there; -1 for values of something else."""
    source, places = origin(original, new)
    numbers = np.full(prod(original.tensors[source].dims), -1, np.int64)
    numbers[places.ravel()] = np.arange(kept, end)
    found = {source: numbers}
    found.update((tensor, np.arange(kept)) for tensor in held)
    for step in _joinings(original):
        dims, parts = original.tensors[step.outputs[0]].dims, []
        for tensor in step.inputs:
            further, which = origin(original, tensor)
            if further in found:
                parts.append(found[further][which])
        axis = step.number("axis")
        if len(parts) < len(step.inputs) or not -len(dims) <= axis < len(dims):
            continue
        sides = [tuple(np.delete(part.shape, axis)) if part.ndim == len(dims) else None for part in parts]
        if None not in sides and len(set(sides)) == 1:
            joined = np.concatenate(parts, axis)
            if joined.shape == dims:
                found[step.outputs[0]] = joined.ravel()
    return found


def _holds(original: Original, numbers: dict[int, Numbers], tensor: int, first: int, end: int) -> bool:
    source, which = origin(original, tensor)
    return source in numbers and np.array_equal(numbers[source][which.ravel()], np.arange(first, end))


def _alike(original: Original, tensors: Sequence[int]) -> bool:
    quantized = {original.activation(tensor) for tensor in tensors}
    return len(quantized) == 1 and None not in quantized and not any(map(original.is_unsigned, tensors))
