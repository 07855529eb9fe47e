"""QUANTIZEs before what they stand behind.

    q(CONCATENATION(a, b)) = CONCATENATION(q(a), q(b))    and so for whatever puts each value somewhere and changes none
    q(PAD(a)) = PAD(q(a))                                 as PAD fills with 0, and in int8 with the zero point
    q(MAX_POOL_2D(a)) = MAX_POOL_2D(q(a))                 as q never falls

q is a QUANTIZE, or functions of one value with a QUANTIZE at their end; before PAD and MAX_POOL_2D nothing else than
a QUANTIZE. It falls for no numbers but NaN and those whose quotient with the scale has more than 31 bits, which the
runtime's conversion to an integer turns into the least one: so values must be known to stay below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite, prod

import numpy as np

from tflite_fuse.check.original.reals import RULES
from tflite_fuse.check.original.values import RENAMING, Original, Step
from tflite_fuse.model.types import TensorType

_PUT = RENAMING | {"CONCATENATION", "TRANSPOSE", "RESIZE_NEAREST_NEIGHBOR"}

_MOST_SITES = 10_000
"""Looked at at most: models that need more are not proven."""

_MOST_VALUES = 1 << 26


@dataclass(frozen=True)
class _Site:
    """Functions of one value that a tensor's values may go through, a QUANTIZE to int8 at last.

    Attributes:
        tensor: of float32, in the file.
        functions: the steps they are of.
        mover: what puts the values somewhere, and behind it those before ``functions``; None where nothing does.
        before: the functions that its operands may go through instead.
    """

    tensor: int
    functions: tuple[Step, ...]
    mover: Step | None
    before: tuple[Step, ...]

    @property
    def read(self) -> tuple[int, ...]:
        """The operands of the mover that it moves."""
        return () if self.mover is None else _moved(self.mover)


_Key = tuple[int, tuple[int, ...]]


def add_quantized(original: Original) -> None:
    """Adds to the original, for every QUANTIZE of float32 behind moved values, those of the values before."""
    sites, results = dict[_Key, _Site](), dict[_Key, tuple[int, ...]]()
    waiting = list[tuple[int, tuple[Step, ...]]]()
    for step in original.steps:
        if _is_to_int8(original, step):
            waiting.append((step.inputs[0], (step,)))
            results[_key(*waiting[-1])] = step.outputs
    while waiting and len(sites) < _MOST_SITES:
        tensor, functions = waiting.pop()
        if (key := _key(tensor, functions)) not in sites:
            mover, before = _behind(original, tensor, functions)
            sites[key] = _Site(tensor, functions, mover, before)
            waiting += [(part, before) for part in sites[key].read]
    # What writes a tensor stands before what moves it, so operands are added before what reads them.
    for key in sorted(sites, key=lambda key: original.in_file.get(key[0], -1)):
        site = sites[key]
        if key not in results:
            results[key] = _add_functions(original, site.functions, site.tensor)
        parts = [results.get(_key(part, site.before), ()) for part in site.read]
        if site.mover is not None and all(parts):
            _add_mover(original, site.mover, [part[-1] for part in parts], results[key][-1])
            if site.mover.name in RENAMING:
                between = site.before[: len(site.before) - len(site.functions)]
                written = (*(step.outputs[0] for step in between), *results[key])
                for same in zip(parts[0], written, strict=True):
                    original.unite(*same)


def _key(tensor: int, functions: tuple[Step, ...]) -> _Key:
    return tensor, tuple(map(id, functions))


def _moved(mover: Step) -> tuple[int, ...]:
    return mover.inputs if mover.name == "CONCATENATION" else mover.inputs[:1]


def _add_mover(original: Original, mover: Step, parts: Sequence[int], result: int) -> None:
    operator = replace(mover.operator, inputs=(*parts, *mover.inputs[len(parts) :]), outputs=(result,))
    version = mover.code.version if mover.name in RENAMING else max(mover.code.version, 2)
    original.add_step(Step(mover.label, mover.name, operator, replace(mover.code, version=version)))


def _is_to_int8(original: Original, step: Step) -> bool:
    if step.name != "QUANTIZE" or len(step.outputs) != 1 or len(step.inputs) != 1 or step.inputs[0] < 0:
        return False
    source, output = original.tensors[step.inputs[0]], original.tensors[step.outputs[0]]
    types = source.type == TensorType.FLOAT32 and output.type == TensorType.INT8
    return types and original.activation(step.outputs[0]) is not None and source.dims == output.dims


def _behind(original: Original, tensor: int, functions: tuple[Step, ...]) -> tuple[Step | None, tuple[Step, ...]]:
    """What moves a tensor's values, through further functions of one value, and those with all that follow."""
    last = len(original.steps)
    while True:
        step, place = original.written_by(tensor), original.in_file.get(tensor, -1)
        if step is None or place >= last or len(step.outputs) != 1 or not step.inputs or min(step.inputs) < 0:
            return None, functions
        if step.name not in RULES or not _is_of_one(original, step):
            return (step if _commutes(original, step, functions) else None), functions
        tensor, functions, last = _read(original, step), (step, *functions), place


def _read(original: Original, step: Step) -> int:
    """The one tensor a function of one value reads that is no constant, -1 if it is not one."""
    read = [tensor for tensor in step.inputs if tensor >= 0 and not original.content(tensor)]
    return read[0] if len(read) == 1 else -1


def _is_of_one(original: Original, step: Step) -> bool:
    source = _read(original, step)
    others = [tensor for tensor in step.inputs if tensor != source]
    tensors = original.tensors
    alike = source >= 0 and tensors[source].dims == tensors[step.outputs[0]].dims
    real = all(tensors[tensor].type == TensorType.FLOAT32 for tensor in (*step.inputs, *step.outputs))
    return alike and real and all(tensors[tensor].dims in ((), (1,)) for tensor in others)


def _commutes(original: Original, mover: Step, functions: tuple[Step, ...]) -> bool:
    """Whether it is the same to apply functions of one value, a QUANTIZE at last, before an operator or behind it."""
    tensors, read = original.tensors, _moved(mover)
    if any(tensors[tensor].type != TensorType.FLOAT32 for tensor in (*read, *mover.outputs)):
        return False
    if any(original.content(tensor) or tensors[tensor].is_variable for tensor in (*read, *mover.outputs)):
        return False
    if mover.number("fused_activation_function") or _shape(original, mover) != tensors[mover.outputs[0]].dims:
        return False
    if mover.name == "MAX_POOL_2D":
        affine = original.activation(functions[-1].outputs[0])
        largest = _magnitude(original, read[0])
        return len(functions) == 1 and affine is not None and largest is not None and largest < affine[0] * 2.0**30
    return mover.name in _PUT or (mover.name == "PAD" and len(functions) == 1)


def _shape(original: Original, mover: Step) -> Sequence[int] | None:
    """The shape that follows from what an operator reads, by moving an array of it; None where it is not known."""
    shapes = [original.tensors[tensor].dims for tensor in _moved(mover)]
    if any(prod(shape) < 1 or prod(shape) > _MOST_VALUES for shape in shapes):
        return None
    values, rank = np.zeros(shapes[0], np.int8), len(shapes[0])
    numbers = original.numbers(mover.operand(1)) if len(mover.inputs) == 2 else ()
    if mover.name in RENAMING:
        wanted = original.tensors[mover.outputs[0]].dims
        return wanted if prod(wanted) == values.size and min(wanted, default=1) > 0 else None
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
    """A bound of a float32 tensor's values, none of which is NaN; None where there is none."""
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


def _add_functions(original: Original, functions: tuple[Step, ...], tensor: int) -> tuple[int, ...]:
    """Adds functions of one value of another tensor than theirs; what each of them writes."""
    newest, dims = tensor, original.tensors[tensor].dims
    moved, written = _read(original, functions[0]), list[int]()
    for step in functions:
        result = original.add_tensor(replace(original.tensors[step.outputs[0]], shape=dims, shape_signature=None))
        operands = tuple(newest if each == moved else each for each in step.inputs)
        operator = replace(step.operator, inputs=operands, outputs=(result,))
        original.add_step(Step(step.label, step.name, operator, step.code))
        moved, newest = step.outputs[0], result
        written.append(result)
    return tuple(written)
