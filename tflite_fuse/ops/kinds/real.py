"""Float32: at the borders of blocks, between two int8 tensors, and within tables.

QUANTIZE and DEQUANTIZE connect the application's float32 and the int8 in which blocks compute, without float arithmetic
at run time. DEQUANTIZE has a table of 256 results. QUANTIZE is monotonic, so a table of the numbers at which the result
changes defines it; the rounding of a quotient then depends on no compiler or core.

REAL_PAIR is two int8 tensors as float32, one operation on them value by value, and the QUANTIZE behind it. Each operand
is a function of one int8 value, usually DEQUANTIZE: a table of 256 numbers. The operation is in single precision; the
device computes it with integers.

Operators between a DEQUANTIZE and a QUANTIZE of one int8 value are parts of tables. They are computed as in TFLM's
reference kernels, in single precision step by step. Where those call libm, the result here is the exact one rounded to
single precision. A libm may differ in the last bit, which matters only if the following QUANTIZE rounds there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ir.limits import MAX_POSITION
from tflite_fuse.model.types import TensorType, dequantize, half_away
from tflite_fuse.ops.arithmetic import Int64Array
from tflite_fuse.ops.entry import (
    AS_BYTES,
    Coding,
    Kernels,
    Kind,
    Layout,
    Numbers,
    Operand,
    Runs,
    StageCheck,
    StoredTables,
    Tables,
    Tensors,
    Values,
    counted,
    each_value,
    parameters_of,
    pixels_of,
)
from tflite_fuse.ops.lowering.operands import Activation, read_bytes, read_real
from tflite_fuse.ops.lowering.requantization import NO_ACTIVATION, RELU, RELU6, RELU_N1_TO_1
from tflite_fuse.ops.lowering.view import Fit, Function, Lowered, OperatorView, by_value, check_pair, one_to_one

# ---- QUANTIZE and DEQUANTIZE ----

Floats = npt.NDArray[np.float32]

_ANSWERS = 256
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
_HALVINGS = 9
"""Comparisons of the search in QUANTIZE's table, including the first with its ends."""
_GUESS = 4
"""Cost of a correct initial guess; cores with DSP instructions are assumed to have float instructions, too."""


@dataclass(frozen=True)
class QuantizeParameters:
    """Table of a QUANTIZE.

    Attributes:
        steps: 257 numbers in ascending order, as ``keys_of`` returns them: the least number with a defined result, the
            least numbers with the results −127, −126, … 127, and the first number above all with a result.
            Little-endian int32.
        otherwise: result for all other numbers and for NaN.
    """

    steps: bytes
    otherwise: int

    def to_bytes(self) -> bytes:
        """Return the bytes of the table."""
        return self.steps + self.otherwise.to_bytes(4, "little", signed=True)


@dataclass(frozen=True)
class DequantizeParameters:
    """Results for −128, −127, … 127, as float32, little-endian."""

    answers: bytes


def keys_of(values: Floats) -> Int64Array:
    """Return for each float32 an int32 in the same order: −0 right below 0, NaN at both ends."""
    bits = np.asarray(values, np.float32).view(np.int32).astype(np.int64)
    return np.where(bits < 0, bits ^ _INT32_MAX, bits)


def _floats_of(keys: Int64Array) -> Floats:
    bits = np.where(keys < 0, keys ^ _INT32_MAX, keys)
    return bits.astype(np.int32).view(np.float32)


@lru_cache(maxsize=64)
def quantize_parameters(
    scale: float, zero_point: int, low: float = -np.inf, high: float = np.inf
) -> QuantizeParameters:
    """Return the table of TFLM's QUANTIZE.

    It divides by the scale in single precision, rounds to the nearest integer, halves away from zero, adds the zero
    point and clamps. A quotient outside int32 is undefined in C; the oracle's machine yields −2³¹, to which the zero
    point is added in 32 bits: the result is −128, or 127 if the zero point is negative.

    Args:
        scale: float32, positive.
        zero_point: −128 … 127.
        low, high: bounds to which numbers are clamped first.
    """

    def integers(values: Floats) -> npt.NDArray[np.float64]:
        with np.errstate(all="ignore"):
            clamped = np.clip(values, np.float32(low), np.float32(high))
            return half_away(clamped / np.float32(scale))

    offsets = np.arange(-127, 128) - zero_point
    first, end = (
        _least(lambda values: integers(values) > _INT32_MIN, 1)[0],
        _least(lambda values: integers(values) > _INT32_MAX, 1)[0],
    )
    steps = np.concatenate([[first], _least(lambda values: integers(values) >= offsets, len(offsets)), [end]])
    return QuantizeParameters(steps.astype("<i4").tobytes(), -128 if zero_point >= 0 else 127)


def _least(holds: Callable[[Floats], npt.NDArray[np.bool_]], count: int) -> Int64Array:
    """Return the keys of the least floats for which each of ``count`` monotonic conditions holds.

    A condition that never holds yields the key behind infinity.
    """
    ends = keys_of(np.array([-np.inf, np.inf], np.float32))
    low, high = np.full(count, ends[0]), np.full(count, ends[1] + 1)
    while np.any(low < high):
        middle = (low + high) // 2
        reached = holds(_floats_of(middle))
        low, high = np.where(reached, low, middle + 1), np.where(reached, middle, high)
    return high


def dequantize_parameters(scale: float, zero_point: int) -> DequantizeParameters:
    """Return the table of TFLM's DEQUANTIZE: products in double precision, rounded once."""
    return DequantizeParameters(dequantize(np.arange(-128, 128), scale, zero_point).astype("<f4").tobytes())


def check_steps(check: StageCheck, parameters: QuantizeParameters) -> None:
    """Require a complete table of a QUANTIZE."""
    check.require(len(parameters.steps) == 4 * (_ANSWERS + 1), f"has no table of {_ANSWERS + 1} numbers")
    check.require(-128 <= parameters.otherwise <= 127, f"answers {parameters.otherwise} to what is no number")


def answers_to(parameters: QuantizeParameters, values: Values) -> Int64Array:
    """Return the results for float32 numbers."""
    steps, keys = np.frombuffer(parameters.steps, "<i4").astype(np.int64), keys_of(np.asarray(values, np.float32))
    inside = (keys >= steps[0]) & (keys < steps[-1])
    return np.where(inside, np.searchsorted(steps[1:-1], keys, side="right") - 128, parameters.otherwise)


def decode_steps(table: bytes) -> QuantizeParameters:
    """Return the inverse of ``to_bytes``."""
    return QuantizeParameters(table[:-4], int.from_bytes(table[-4:], "little", signed=True))


def _check_quantize(check: StageCheck) -> None:
    check.same_shape(check.sources[0])
    check_steps(check, parameters_of(check.stage, QuantizeParameters))


def _quantized(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Values:
    ((_, values),) = operands
    return answers_to(parameters_of(stage, QuantizeParameters), values)


_STEPS = Layout(
    QuantizeParameters, (Numbers("steps", lambda output: 4 * (_ANSWERS + 1), AS_BYTES), Numbers("otherwise"))
)


@counted("looked up")
def _work_of_halving(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    comparisons = _GUESS if kernels is Kernels.DSP else _HALVINGS
    return {"looked up": comparisons * pixels_of(runs) * tensors[stage.output].channels}


def _check_dequantize(check: StageCheck) -> None:
    check.same_shape(check.sources[0])
    answers = parameters_of(check.stage, DequantizeParameters).answers
    check.require(len(answers) == 4 * _ANSWERS, f"has no table of {_ANSWERS} answers")


def _dequantized(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Values:
    ((_, values),) = operands
    answers = np.frombuffer(parameters_of(stage, DequantizeParameters).answers, "<f4")
    return np.asarray(answers[values + 128], np.float32)


_NUMBERS = Layout(DequantizeParameters, (Numbers("answers", lambda output: 4 * _ANSWERS, AS_BYTES),))


QUANTIZE = Kind(
    StageKind.QUANTIZE,
    reads_real=True,
    check=_check_quantize,
    reference=_quantized,
    constants=_STEPS,
    work=_work_of_halving,
)

DEQUANTIZE = Kind(
    StageKind.DEQUANTIZE,
    writes_real=True,
    check=_check_dequantize,
    reference=_dequantized,
    constants=_NUMBERS,
    work=each_value({"looked up": 1}),
)

# ---- Operators within tables ----

_FLAT_ABOVE, _EXP_BELOW = np.float32(16.619047164916992188), np.float32(-9)
"""Bounds of the reference LOGISTIC: above the first it is 1, below the second exp of its input."""


def _part(sources: Sequence[Activation], output: Activation, function: Function) -> Lowered:
    """Return an operator that exists only within a table."""
    stage = Stage(StageKind.LOOKUP)
    return Lowered(stage, tuple(sources), output, output.shape, Fit.PIXELS, function=function, part_alone=True)


def _rounded_once(curve: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]) -> Callable[[Floats], Floats]:
    return lambda x: curve(x.astype(np.float64)).astype(np.float32)


_exp, _tanh = _rounded_once(np.exp), _rounded_once(np.tanh)


def _logistic(x: Floats) -> Floats:
    one = np.float32(1)
    inside = one / (one + _exp(-x))
    return np.where(x > _FLAT_ABOVE, one, np.where(x < _EXP_BELOW, _exp(x), inside))


def _hard_swish(x: Floats) -> Floats:
    ramp = np.minimum(np.float32(6), np.maximum(np.float32(0), x + np.float32(3)))
    return np.asarray(x * ramp / np.float32(6))


def _quotient(a: Floats, b: Floats) -> npt.NDArray[np.float64]:
    """Return the quotient in double precision; TFLM rejects a division by 0."""
    if not np.all(b):
        raise BlockError("it divides by 0")
    return np.asarray(a.astype(np.float64) / b)


def _floor_mod(a: Floats, b: Floats) -> Floats:
    """Return the remainder of a quotient rounded towards 0, with the sign of the divisor."""
    _quotient(a, b)
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


def _leaky_relu(x: Floats, alpha: np.float32) -> Floats:
    return np.where(x > 0, x, x * alpha)


OF_ONE: Mapping[str, Callable[..., Values]] = {
    "ABS": np.abs,
    "CEIL": np.ceil,
    "COS": _rounded_once(np.cos),
    "ELU": lambda x: np.where(x < 0, _rounded_once(np.expm1)(x), x),
    "EXP": _exp,
    "FLOOR": np.floor,
    "HARD_SWISH": _hard_swish,
    "LEAKY_RELU": _leaky_relu,
    "LOG": _rounded_once(np.log),
    "LOGISTIC": _logistic,
    "NEG": np.negative,
    "RELU": lambda x: np.maximum(x, np.float32(0)),
    "RELU6": lambda x: np.clip(x, np.float32(0), np.float32(6)),
    "ROUND": np.rint,
    "RSQRT": lambda x: np.asarray(np.float32(1) / np.sqrt(x)),
    "SIN": _rounded_once(np.sin),
    "SQRT": np.sqrt,
    "SQUARE": np.square,
    "TANH": _tanh,
}
"""Operators on one float32 value, with their options as further arguments."""

_OPTIONS = {"LEAKY_RELU": ("alpha",)}
"""Numeric options of operators on one value."""

OF_TWO: Mapping[str, Callable[[Floats, Floats], Values]] = {
    "ADD": np.add,
    "DIV": np.divide,
    "FLOOR_DIV": lambda a, b: np.floor(_quotient(a, b)).astype(np.float32),
    "FLOOR_MOD": _floor_mod,
    "MAXIMUM": lambda a, b: np.where(a > b, a, b),
    "MINIMUM": lambda a, b: np.where(a < b, a, b),
    "MUL": np.multiply,
    "SQUARED_DIFFERENCE": lambda a, b: np.square(a - b),
    "SUB": np.subtract,
}
"""Operators on two float32 values."""

REAL_OPERATORS = frozenset({*OF_ONE, *OF_TWO})
"""Operators on float32 that can be part of tables."""

_LARGEST = float(np.finfo(np.float32).max)

_ACTIVATED = frozenset({"ADD", "DIV", "MUL", "SUB"})
"""Operators that clamp their result, without an activation to finite numbers."""

_ACTIVATIONS: Mapping[int, tuple[float, float]] = {
    NO_ACTIVATION: (-_LARGEST, _LARGEST),
    RELU: (0.0, _LARGEST),
    RELU_N1_TO_1: (-1.0, 1.0),
    RELU6: (0.0, 6.0),
}


def float_bounds(view: OperatorView) -> tuple[float, float]:
    """Return the bounds of a fused activation; without one TFLM clamps to finite numbers.

    Raises:
        BlockError: TFLM does not support the activation.
    """
    number = view.option("fused_activation_function", default=NO_ACTIVATION)
    if number not in _ACTIVATIONS:
        raise BlockError(f"its fused activation (number {number}) is none of RELU, RELU_N1_TO_1, RELU6")
    return _ACTIVATIONS[number]


def _lower_one(name: str) -> Callable[[OperatorView], Lowered]:
    def lower(view: OperatorView) -> Lowered:
        source, output = one_to_one(read_real(view.model, view.operand(0)), read_real(view.model, view.output))
        options = [np.float32(view.number(option)) for option in _OPTIONS.get(name, ())]
        return _part([source], output, lambda values: OF_ONE[name](values[0], *options))

    return lower


def _lower_two(name: str) -> Callable[[OperatorView], Lowered]:
    def lower(view: OperatorView) -> Lowered:
        first, second, output = by_value(
            *(read_real(view.model, view.operand(position)) for position in (0, 1)), read_real(view.model, view.output)
        )
        check_pair(first, second, output)
        low, high = (np.float32(bound) for bound in float_bounds(view))
        constants = [None if part.constant is None else one_value(part) for part in (first, second)]

        def function(values: Sequence[Values]) -> Values:
            operands = iter(values)
            a, b = (next(operands) if constant is None else constant for constant in constants)
            result = OF_TWO[name](a, b)
            return np.clip(result, low, high) if name in _ACTIVATED else result

        lowered = _part([part for part in (first, second) if part.constant is None], output, function)
        return replace(lowered, operation=(name, float(low), float(high))) if name in _ACTIVATED else lowered

    return lower


def one_value(part: Activation) -> Values:
    """Return the value shared by all elements of a constant, shape [1].

    Raises:
        BlockError: the elements differ.
    """
    values = np.unique(part.constant if part.constant is not None else [])
    if values.size != 1:
        raise BlockError(f"its constant {part.name} holds {values.size} different values")
    return values


def _cast(view: OperatorView) -> Lowered:
    """Lower CAST of int8 or uint8 values to float32: a DEQUANTIZE with scale 1; uint8 values are 128 less in blocks."""
    source, output = one_to_one(read_bytes(view.model, view.operand(0)), read_real(view.model, view.output))
    view.require_alone(source)
    point = -128 if view.types(source)[0] == TensorType.UINT8 else 0
    return _widened(source, output, 1.0, point)


def _dequantize(view: OperatorView) -> Lowered:
    """Lower DEQUANTIZE; it is a stage of its own if its float32 output has a reader."""
    source, output = one_to_one(view.read(), read_real(view.model, view.output))
    return _widened(source, output, source.scale, source.zero_point)


def _widened(source: Activation, output: Activation, scale: float, zero_point: int) -> Lowered:
    stage = Stage(StageKind.DEQUANTIZE, parameters=dequantize_parameters(scale, zero_point))
    function: Function = lambda values: dequantize(values[0], scale, zero_point)  # noqa: E731
    return Lowered(stage, (source,), output, output.shape, Fit.PIXELS, function=function)


def _quantize(view: OperatorView) -> Lowered:
    """Lower QUANTIZE; it is a stage of its own if its input is float32."""
    source, output = one_to_one(read_real(view.model, view.operand(0)), view.write())

    def function(values: Sequence[Values]) -> Values:
        steps = values[0] / np.float32(output.scale)
        if not np.all(np.abs(steps) < MAX_POSITION):
            raise BlockError(f"its input {source.name} is no number, or too large for its output's scale")
        return np.clip(half_away(steps).astype(np.int64) + output.zero_point, -128, 127)

    stage = Stage(StageKind.QUANTIZE, parameters=quantize_parameters(output.scale, output.zero_point))
    return Lowered(stage, (source,), output, output.shape, Fit.PIXELS, function=function)


REAL_LOWERINGS: Mapping[str, Callable[[OperatorView], Lowered]] = {
    "CAST": _cast,
    "DEQUANTIZE": _dequantize,
    "QUANTIZE": _quantize,
    **{name: _lower_one(name) for name in OF_ONE},
    **{name: _lower_two(name) for name in OF_TWO},
}
"""Lowerings of operators that read or write float32."""


OPERATIONS: Mapping[str, np.ufunc] = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "DIV": np.divide}
"""Operations, in the order of their numbers in the table."""

_STEPS_BYTES = 4 * (_ANSWERS + 2)
_SIDE_BYTES = 4 * _ANSWERS


@dataclass(frozen=True)
class RealPairParameters:
    """Parameters of a REAL_PAIR.

    Attributes:
        operation: one of OPERATIONS.
        first, second: float32 numbers, little-endian, for the int8 values −128 … 127 of each input.
        quantize: table for the result; includes a fused activation.
    """

    operation: str
    first: bytes
    second: bytes
    quantize: QuantizeParameters


def _check(check: StageCheck) -> None:
    check.broadcast()
    parameters = parameters_of(check.stage, RealPairParameters)
    check.require(len(parameters.first) == len(parameters.second) == _SIDE_BYTES, "has no two tables of 256 numbers")
    check_steps(check, parameters.quantize)


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Values:
    (_, first), (_, second) = operands
    parameters = parameters_of(stage, RealPairParameters)
    sides = np.frombuffer(parameters.first, "<f4")[first + 128], np.frombuffer(parameters.second, "<f4")[second + 128]
    with np.errstate(all="ignore"):
        return answers_to(parameters.quantize, OPERATIONS[parameters.operation](*sides))


def _encode(stage: Stage, tensors: Tensors) -> Tables:
    parameters = parameters_of(stage, RealPairParameters)
    operation = list(OPERATIONS).index(parameters.operation).to_bytes(4, "little")
    return Tables(table=parameters.quantize.to_bytes() + parameters.first + parameters.second + operation)


def _decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    table = stored.table_bytes(_STEPS_BYTES + 2 * _SIDE_BYTES + 4)
    sides = table[_STEPS_BYTES : _STEPS_BYTES + _SIDE_BYTES], table[_STEPS_BYTES + _SIDE_BYTES : -4]
    number = int.from_bytes(table[-4:], "little")
    operation = list(OPERATIONS)[number] if number < len(OPERATIONS) else ""
    StageCheck(stage, (), tensors[stage.output]).require(bool(operation), f"does operation {number}")
    return replace(stage, parameters=RealPairParameters(operation, *sides, decode_steps(table[:_STEPS_BYTES])))


REAL_PAIR = Kind(
    StageKind.REAL_PAIR,
    inputs=(2, 2),
    by_value=True,
    check=_check,
    reference=_reference,
    constants=Coding(_encode, _decode),
    # Not measured: an estimate in look-ups.
    work=each_value({"looked up": 20}),
)

KINDS = (QUANTIZE, DEQUANTIZE, REAL_PAIR)
