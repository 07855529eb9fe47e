"""Operators between a DEQUANTIZE and a QUANTIZE: float32 results for each of the 256 int8 values they start from.

Rounding is exact: a float32 result of +, -, * and / is the float64 result rounded once more, because 53 bits are more
than 2 * 24 + 2.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import cos, exp, expm1, floor, fmod, isfinite, log, sin, sqrt, tanh

import numpy as np
import numpy.typing as npt

from tflite_fuse.check.original.values import Original, Step
from tflite_fuse.model.types import TensorType

Floats = npt.NDArray[np.float64]
"""Float32 numbers, stored as float64."""

Operand = npt.NDArray[np.float64] | npt.NDArray[np.int64] | int | None
"""The known numbers of an operand, else its tensor."""


def is_real(original: Original, step: Step) -> bool:
    """Return whether a step has a float32 input or output."""
    tensors = (*step.inputs, *step.outputs)
    return any(t >= 0 and original.tensors[t].type == TensorType.FLOAT32 for t in tensors)


def real_answers(original: Original, step: Step, operands: Sequence[Operand]) -> npt.NDArray[np.float64] | None:
    """Return the 256 results, float32 numbers or int8 of a QUANTIZE; None if one is not defined or not known."""
    if any(t >= 0 and original.tensors[t].is_variable for t in (*step.inputs, *step.outputs)):
        return None
    values = [_constant(original, operand) if isinstance(operand, int) else operand for operand in operands]
    if any(operand is None for operand in values):
        return None
    if step.name == "DEQUANTIZE":
        affine = original.activation(step.inputs[0])
        return None if affine is None else _single((np.asarray(values[0]) - affine[1]) * affine[0])
    if step.name == "CAST":
        return _single(np.asarray(values[0]) + (128 if original.is_unsigned(step.inputs[0]) else 0))
    if step.name == "QUANTIZE":
        return _quantized(original, step, np.asarray(values[0]))
    rule = RULES.get(step.name)
    if rule is None or len(values) != rule.operands:
        return None
    options, bounds = [_option(step, name) for name in rule.options], _bounds(step) if rule.activated else _UNBOUNDED
    if None in options or bounds is None:
        return None
    try:
        columns = [np.asarray(each, np.float64).tolist() for each in values]
        results = [rule.function(*numbers, *options) for numbers in zip(*columns, strict=True)]
    except (ArithmeticError, ValueError):  # undefined for some value
        return None
    return np.clip(_single(results), *bounds)


def _single(values: npt.ArrayLike) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float32).astype(np.float64)


def _constant(original: Original, tensor: int) -> Floats | None:
    """Return a float32 constant of equal numbers, repeated 256 times."""
    content = original.content(tensor)
    if tensor < 0 or original.tensors[tensor].type != TensorType.FLOAT32 or not content or len(content) % 4:
        return None
    values = np.unique(np.frombuffer(content, "<f4"))
    return np.full(256, float(values[0])) if len(values) == 1 and not original.tensors[tensor].sparsity else None


def _quantized(original: Original, step: Step, values: Floats) -> Floats | None:
    """Return the float32 quotients by the scale, rounded half away from zero."""
    affine = original.activation(step.outputs[0])
    if affine is None:
        return None
    steps = _single(values / affine[0])
    if not np.all(np.abs(steps) < 2**30):
        return None
    away = [floor(abs(value) + 0.5) * (-1 if value < 0 else 1) for value in steps.tolist()]
    return np.clip(np.array(away, np.int64) + affine[1], -128, 127)


def _option(step: Step, name: str) -> float | None:
    """Return a finite option as float32."""
    value = step.options.get(name, 0.0)
    return float(np.float32(value)) if isinstance(value, float) and isfinite(value) else None


def _bounds(step: Step) -> tuple[float, float] | None:
    """Return the bounds of a fused activation; without one, infinities become the largest float32."""
    largest = 2.0**128 - 2.0**104
    bounds = {0: (-largest, largest), 1: (0.0, largest), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
    return bounds.get(step.number("fused_activation_function"))


_UNBOUNDED = -np.inf, np.inf


def _f(value: float) -> float:
    """Return a number rounded to float32."""
    return float(np.float32(value))


def _logistic(x: float) -> float:
    if x > _f(16.619047164916992188):
        return 1.0
    return exp(x) if x < -9 else 1 / _f(1 + _f(exp(-x)))


def _hard_swish(x: float) -> float:
    return _f(x * min(6.0, max(0.0, _f(x + 3)))) / 6


def _floor_mod(a: float, b: float) -> float:
    rest = fmod(a, b)
    return rest + b if rest and (rest < 0) != (b < 0) else rest


@dataclass(frozen=True)
class Rule:
    """How an operator on float32 computes a number from one or two.

    Attributes:
        function: of the operands, then the options; not yet rounded to float32. Raises ArithmeticError or ValueError if
            the result is not defined.
        operands: number of operands.
        activated: whether it clamps its result: by its fused activation, else to finite numbers.
        options: names of the options it uses.
    """

    function: Callable[..., float]
    operands: int = 1
    activated: bool = False
    options: tuple[str, ...] = ()


RULES: dict[str, Rule] = {
    "ABS": Rule(abs),
    "ADD": Rule(lambda a, b: a + b, 2, activated=True),
    "CEIL": Rule(lambda x: -floor(-x)),
    "COS": Rule(cos),
    "DIV": Rule(lambda a, b: a / b, 2, activated=True),
    "ELU": Rule(lambda x: expm1(x) if x < 0 else x),
    "EXP": Rule(lambda x: exp(x) if x < 700 else float("inf")),
    "FLOOR": Rule(floor),
    "FLOOR_DIV": Rule(lambda a, b: floor(a / b), 2),
    "FLOOR_MOD": Rule(_floor_mod, 2),
    "HARD_SWISH": Rule(_hard_swish),
    "LEAKY_RELU": Rule(lambda x, alpha: x if x > 0 else x * alpha, options=("alpha",)),
    "LOG": Rule(log),
    "LOGISTIC": Rule(_logistic),
    "MAXIMUM": Rule(max, 2),
    "MINIMUM": Rule(min, 2),
    "MUL": Rule(lambda a, b: a * b, 2, activated=True),
    "NEG": Rule(lambda x: -x),
    "RELU": Rule(lambda x: max(x, 0.0)),
    "RELU6": Rule(lambda x: min(max(x, 0.0), 6.0)),
    "ROUND": Rule(round),
    "RSQRT": Rule(lambda x: 1 / _f(sqrt(x))),
    "SIN": Rule(sin),
    "SQRT": Rule(sqrt),
    "SQUARE": Rule(lambda x: x * x),
    "SQUARED_DIFFERENCE": Rule(lambda a, b: _f(a - b) ** 2, 2),
    "SUB": Rule(lambda a, b: a - b, 2, activated=True),
    "TANH": Rule(tanh),
}
"""Pointwise operators on float32. DEQUANTIZE, CAST and QUANTIZE are in ``real_answers``."""


# ---- Float32 that blocks read and write ----


def border_table(original: Original, step: Step) -> bytes | None:
    """Return the table of a stage from float32 to int8, or from int8 to float32; None for any other step."""
    source, output = (original.tensors[t] for t in (step.operand(0), step.outputs[0]))
    if step.operand(0) < 0 or source.is_variable or output.is_variable or original.content(step.inputs[0]):
        return None
    wide, narrow = (TensorType.INT8, TensorType.FLOAT32), (TensorType.FLOAT32, TensorType.INT8)
    types = {"QUANTIZE": [narrow], "DEQUANTIZE": [wide], "CAST": [wide, (TensorType.UINT8, TensorType.FLOAT32)]}
    if (source.type, output.type) not in types.get(step.name, ()):
        return None
    if step.name == "CAST":  # it ignores the quantization
        answers = real_answers(original, step, [np.arange(-128, 128)])
        return None if answers is None else answers.astype("<f4").tobytes()
    affine = original.activation(step.outputs[0] if step.name == "QUANTIZE" else step.inputs[0])
    if affine is None or not (isfinite(affine[0]) and affine[0] > 0):
        return None
    if step.name == "QUANTIZE":
        numbers = (*_steps(Fraction(affine[0]), affine[1]), -128 if affine[1] >= 0 else 127)
        return struct.pack(f"<{len(numbers)}i", *numbers)
    answers = real_answers(original, step, [np.arange(-128, 128)])
    return None if answers is None else answers.astype("<f4").tobytes()


def _steps(scale: Fraction, point: int) -> Iterator[int]:
    """Return the float32 at which each result of a QUANTIZE begins: the first one, the others, and the end of 32 bits.

    The result is n or more if the float32 quotient reaches n - 1/2, or for n <= 0 exceeds it: halves are rounded away
    from 0.
    """
    yield _first_to_reach(scale, float(_after(-(2.0**31))))
    for answer in range(-127, 128):
        half = answer - point - 0.5
        yield _first_to_reach(scale, half if half > 0 else float(_after(half)))
    yield _first_to_reach(scale, 2.0**31)


def pair_table(original: Original, step: Step) -> tuple[tuple[int, int], bytes] | None:
    """Return the two int8 tensors that an operation on float32 starts from, and its table with that of its QUANTIZE."""
    middle = original.written_by(step.operand(0))
    affine = original.activation(step.outputs[0])
    if middle is None or middle.name not in _OPERATIONS or len(middle.inputs) != 2 or affine is None:
        return None
    bounds = _bounds(middle)
    sides = [_side(original, tensor) for tensor in middle.inputs]
    if bounds is None or sides[0] is None or sides[1] is None or original.is_unsigned(step.outputs[0]):
        return None
    steps = [_clamped(key, bounds) for key in _steps(Fraction(affine[0]), affine[1])]
    numbers = struct.pack(f"<{len(steps) + 1}i", *steps, -128 if affine[1] >= 0 else 127)
    tables = b"".join(side[1].astype("<f4").tobytes() for side in (sides[0], sides[1]))
    operation = struct.pack("<i", _OPERATIONS.index(middle.name))
    return (sides[0][0], sides[1][0]), numbers + tables + operation


_OPERATIONS = ("ADD", "SUB", "MUL", "DIV")
"""Operators by their number in the table."""


def _side(original: Original, tensor: int) -> tuple[int, Floats] | None:
    """Return the int8 tensor that a float32 one is a function of, and its 256 numbers, all finite."""
    step = original.written_by(tensor)
    if step is None or len(step.outputs) != 1 or not is_real(original, step):
        return None
    inputs = [t for t in step.inputs if t >= 0 and not original.content(t)]
    if len(inputs) != 1 or original.rows(inputs[0]) != original.rows(tensor):
        return None
    starts = original.tensors[inputs[0]].type != TensorType.FLOAT32
    below = (inputs[0], np.arange(-128, 128)) if starts else _side(original, inputs[0])
    if below is None or (starts and not original.is_computed_byte(inputs[0])):
        return None
    answers = real_answers(original, step, [below[1] if t == inputs[0] else t for t in step.inputs])
    return None if answers is None or not np.isfinite(answers).all() else (below[0], answers)


def _clamped(key: int, bounds: tuple[float, float]) -> int:
    """Return where a result begins if numbers are clamped first: at once, or never, where the clamp decides."""
    low, high = (_in_order(np.float32(bound)) for bound in bounds)
    least, most = (_in_order(np.float32(end)) for end in (-np.inf, np.inf))
    return least if key <= low else most + 1 if key > high else key


def _after(number: float | np.float32, towards: float = np.inf) -> np.float32:
    """Return the next float32."""
    with np.errstate(over="ignore"):
        return np.float32(np.nextafter(np.float32(number), np.float32(towards)))


def _first_to_reach(scale: Fraction, quotient: float) -> int:
    """Return the least float32, in order as an integer, whose quotient by the scale, rounded to float32, is
    ``quotient`` or more.

    The bound is halfway between ``quotient`` and the float32 before it; the tie goes to the even one of the two.
    """
    before = float(_after(quotient, -np.inf))
    bound = (Fraction(quotient) + Fraction(before)) / 2 * scale
    is_even = not np.float32(quotient).view(np.int32) & 1
    largest = Fraction(2) ** 128 - Fraction(2) ** 104
    if bound > largest or (bound == largest and not is_even):
        return _in_order(np.float32(np.inf))
    least = np.float32(float(max(bound, -largest)))
    while _lies_there(least, bound, is_even) and (below := _after(least, -np.inf)) != -np.inf:
        least = below
    while not _lies_there(least, bound, is_even):
        least = _after(least)
    return _in_order(least if least else np.float32(-0.0))


def _lies_there(number: np.float32, bound: Fraction, is_even: bool) -> bool:
    if not np.isfinite(number):
        return bool(number > 0)
    return Fraction(float(number)) >= bound if is_even else Fraction(float(number)) > bound


def _in_order(number: np.float32) -> int:
    (bits,) = struct.unpack("<i", struct.pack("<f", number))
    return int(bits if bits >= 0 else -(bits & 0x7FFFFFFF) - 1)
