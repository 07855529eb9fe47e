"""QUANTIZEs moved to the front of operators that they follow.

    q(CONCATENATION(a, b)) = CONCATENATION(q(a), q(b))    and so for every operator that only moves values
    q(PAD(a)) = PAD(q(a))                                 as PAD fills with 0, and in int8 with the zero point
    q(MAX_POOL_2D(a)) = MAX_POOL_2D(q(a))                 as q is monotonic

q is a QUANTIZE to int8, or a function of one value on the way to one; before PAD and MAX_POOL_2D only a QUANTIZE. It is
monotonic except for NaN and numbers whose quotient by the scale exceeds 31 bits, which the runtime's conversion turns
into the least integer: so values must be known to stay below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite, prod

import numpy as np

from tflite_fuse.check.original.reals import RULES
from tflite_fuse.check.original.values import RENAMING, Original, Step
from tflite_fuse.model.types import TensorType

_PUT = RENAMING | {"CONCATENATION", "TRANSPOSE", "RESIZE_NEAREST_NEIGHBOR"}

_MOST_COPIES = 10_000
"""Most copies of functions on other tensors: models that need more are not proven."""

_MOST_VALUES = 1 << 26


def add_quantized(original: Original) -> None:
    """Add to the original, for every QUANTIZE of moved float32 values, the QUANTIZEs of the values before the move."""
    writers = {tensor: [original.steps[place]] for tensor, place in original.in_file.items()}
    waiting = [(step, place) for place, step in enumerate(_functions(original))]
    # (place of a function in the file, tensor that it or a copy of it reads) -> tensor it writes
    results = {(place, _read(original, step)): step.outputs[0] for step, place in waiting}
    movers = list[Step]()
    for step, place in waiting:  # grows by copies while it is walked
        if len(waiting) > _MOST_COPIES:
            return
        for mover in tuple(writers.get(_read(original, step), ())):
            if not _commutes(original, mover, step):
                continue
            for part in dict.fromkeys(_moved(mover)):
                if (place, part) not in results:
                    copy = _add_copy(original, step, part)
                    (results[place, part],) = copy.outputs
                    writers[copy.outputs[0]] = [copy]
                    waiting.append((copy, place))
            parts = [results[place, part] for part in _moved(mover)]
            movers.append(_mover(mover, parts, step.outputs[0]))
            writers[step.outputs[0]].append(movers[-1])
            if mover.name in RENAMING:
                original.unite(parts[0], step.outputs[0])
    for mover in reversed(movers):  # writers before readers
        original.add_step(mover)


def _functions(original: Original) -> list[Step]:
    """Return the QUANTIZEs to int8, and the functions of one value that lead to them, in order."""
    steps, read = list[Step](), set[int]()
    for step in reversed(original.steps):
        goes_on = step.name in RULES and len(step.outputs) == 1 and step.outputs[0] in read
        if _is_to_int8(original, step) or (goes_on and _is_of_one(original, step)):
            steps.append(step)
            read.add(_read(original, step))
    return steps[::-1]


def _add_copy(original: Original, function: Step, tensor: int) -> Step:
    """Add a copy of a function of one value that reads another tensor."""
    read, result = _read(original, function), original.add_like(function.outputs[0], original.tensors[tensor].dims)
    original.add_copy(function, [tensor if each == read else each for each in function.inputs], (result,))
    return original.steps[-1]


def _moved(mover: Step) -> tuple[int, ...]:
    return mover.inputs if mover.name == "CONCATENATION" else mover.inputs[:1]


def _mover(mover: Step, parts: Sequence[int], result: int) -> Step:
    """Return an operator that moves values, with other inputs and output."""
    operator = replace(mover.operator, inputs=(*parts, *mover.inputs[len(parts) :]), outputs=(result,))
    version = mover.code.version if mover.name in RENAMING else max(mover.code.version, 2)
    return Step(mover.label, mover.name, operator, replace(mover.code, version=version))


def _is_to_int8(original: Original, step: Step) -> bool:
    if step.name != "QUANTIZE" or len(step.outputs) != 1 or len(step.inputs) != 1 or step.inputs[0] < 0:
        return False
    source, output = original.tensors[step.inputs[0]], original.tensors[step.outputs[0]]
    types = source.type == TensorType.FLOAT32 and output.type == TensorType.INT8
    return types and original.activation(step.outputs[0]) is not None and source.dims == output.dims


def _read(original: Original, step: Step) -> int:
    """Return the only tensor of a function of one value that is no constant, -1 if there are several."""
    read = [tensor for tensor in step.inputs if tensor >= 0 and not original.content(tensor)]
    return read[0] if len(read) == 1 else -1


def _is_of_one(original: Original, step: Step) -> bool:
    source = _read(original, step)
    operands = [tensor for tensor in step.inputs if tensor != source]
    tensors = original.tensors
    alike = source >= 0 and tensors[source].dims == tensors[step.outputs[0]].dims
    real = all(tensors[tensor].type == TensorType.FLOAT32 for tensor in (*step.inputs, *step.outputs))
    return alike and real and all(tensors[tensor].dims in ((), (1,)) for tensor in operands)


def _commutes(original: Original, mover: Step, function: Step) -> bool:
    """Return whether a function of one value may be applied before an operator instead of behind it."""
    tensors, read = original.tensors, _moved(mover)
    if len(mover.outputs) != 1 or not read or min(mover.inputs) < 0:
        return False
    if any(tensors[tensor].type != TensorType.FLOAT32 for tensor in (*read, *mover.outputs)):
        return False
    if any(original.content(tensor) or tensors[tensor].is_variable for tensor in (*read, *mover.outputs)):
        return False
    if mover.number("fused_activation_function") or _shape(original, mover) != tensors[mover.outputs[0]].dims:
        return False
    if mover.name == "MAX_POOL_2D":
        affine = original.activation(function.outputs[0]) if function.name == "QUANTIZE" else None
        largest = _magnitude(original, read[0])
        return affine is not None and largest is not None and largest < affine[0] * 2.0**30
    return mover.name in _PUT or (mover.name == "PAD" and function.name == "QUANTIZE")


def _shape(original: Original, mover: Step) -> Sequence[int] | None:
    """Return the shape that follows from an operator's inputs; None if it is not known."""
    shapes = [original.tensors[tensor].dims for tensor in _moved(mover)]
    if any(prod(shape) < 1 or prod(shape) > _MOST_VALUES for shape in shapes):
        return None
    values, rank = np.zeros(shapes[0], np.int8), len(shapes[0])
    numbers = original.numbers(mover.operand(1)) if len(mover.inputs) == 2 else ()
    if mover.name in RENAMING:
        dims = original.tensors[mover.outputs[0]].dims
        return dims if prod(dims) == values.size and min(dims, default=1) > 0 else None
    if mover.name == "CONCATENATION":
        try:
            return np.concatenate([np.zeros(shape, np.int8) for shape in shapes], mover.number("axis")).shape
        except ValueError:  # other axes differ, or there is no such axis
            return None
    if mover.name == "TRANSPOSE":
        return values.transpose(numbers).shape if sorted(numbers) == list(range(rank)) else None
    if mover.name == "PAD":
        sound = len(numbers) == 2 * rank <= 8 and 0 <= min(numbers) <= max(numbers) <= _MOST_VALUES
        padded = tuple(size + sum(numbers[2 * axis : 2 * axis + 2]) for axis, size in enumerate(shapes[0]))
        return padded if sound else None
    if rank != 4:
        return None
    if mover.name == "RESIZE_NEAREST_NEIGHBOR":
        return (shapes[0][0], *numbers, shapes[0][3]) if len(numbers) == 2 and min(numbers) > 0 else None
    windows = [(mover.number(f"filter_{side}"), mover.number(f"stride_{side[0]}")) for side in ("height", "width")]
    if any(window < 1 or stride < 1 for window, stride in windows) or mover.number("padding") not in (0, 1):
        return None
    inside = mover.number("padding")
    sides = zip(shapes[0][1:3], windows, strict=True)
    counts = [len(range(0, size - (window - 1) * inside, stride)) for size, (window, stride) in sides]
    return (shapes[0][0], *counts, shapes[0][3]) if min(counts) > 0 else None


def _magnitude(original: Original, tensor: int) -> float | None:
    """Return a bound of a float32 tensor's absolute values, none of which is NaN; None if none is known."""
    largest, waiting, seen = 0.0, [tensor], set[int]()
    while waiting:
        tensor = waiting.pop()
        step = original.written_by(tensor)
        if tensor in seen:
            continue
        seen.add(tensor)
        if step is None or step.operand(0) < 0:
            return None
        if step.name == "DEQUANTIZE":
            affine = original.activation(step.inputs[0])
            if affine is None or not (isfinite(affine[0]) and affine[0] > 0):
                return None
            largest = max(largest, 256 * affine[0])
        elif step.name in _PUT or step.name in ("MAX_POOL_2D", "PAD"):
            waiting += _moved(step)
        else:
            return None
    return largest
