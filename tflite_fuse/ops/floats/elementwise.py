"""Float32 value by value: FLOAT_PAIR of two tensors, FLOAT_BY_CHANNEL of a tensor and a constant, FLOAT_CURVE.

Each operation rounds once, in single precision, with TFLM's bounds. Between a DEQUANTIZE and a QUANTIZE such an
operator can be part of a table instead: ``kinds/real.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ops.entry import (
    AS_BYTES,
    Coding,
    Layout,
    Numbers,
    Operand,
    StageCheck,
    StoredTables,
    Tensors,
    always,
    each_value,
    parameters_of,
)
from tflite_fuse.ops.floats.common import ANY, FLOAT_BYTES, Floats, bounded, float_kind
from tflite_fuse.ops.kinds.real import REAL_LOWERINGS, float_bounds
from tflite_fuse.ops.lowering.operands import is_by_channel, read_real
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView, by_value, check_pair, one_to_one

OPERATIONS: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "DIV": np.divide,
    "MAXIMUM": lambda a, b: np.where(a > b, a, b),
    "MINIMUM": lambda a, b: np.where(a < b, a, b),
    "SQUARED_DIFFERENCE": lambda a, b: np.square(a - b),
    "PRELU": lambda a, b: np.where(a >= 0, a, a * b),
    "BITWISE_XOR": lambda a, b: (a.view(np.uint32) ^ b.view(np.uint32)).view(np.float32),
}
"""Operations, in the order of their numbers in the table."""

JOIN = list(OPERATIONS).index("BITWISE_XOR")
"""Number of the operation that joins tensors, each padded with zeros where the other ones are."""

_ACTIVATED = ("ADD", "SUB", "MUL", "DIV")
"""Operators with a fused activation."""


@dataclass(frozen=True)
class FloatOperation:
    """Parameters of FLOAT_PAIR and FLOAT_BY_CHANNEL.

    Attributes:
        operation: number in OPERATIONS.
        constant_first: 1 if a constant is the first operand, else 0.
        low, high: least and largest output.
        constants: float32 of each channel, little-endian; empty for FLOAT_PAIR.
    """

    operation: int
    constant_first: int
    low: float
    high: float
    constants: bytes = b""


_PAIR = Layout.of(FloatOperation)
_CONSTANTS = Numbers("constants", lambda output: FLOAT_BYTES * output.channels, AS_BYTES)
_BY_CHANNEL = Layout.of(FloatOperation, _CONSTANTS)


def _decoded(layout: Layout) -> Callable[[Stage, Tensors, StoredTables], Stage]:
    def decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
        stage = layout.decode(stage, tensors, stored)
        check = StageCheck(stage, (), tensors[stage.output])
        _check_numbers(check, parameters_of(stage, FloatOperation))
        return stage

    return decode


def _check_numbers(check: StageCheck, operation: FloatOperation) -> None:
    check.require(0 <= operation.operation < len(OPERATIONS), f"does operation {operation.operation}")
    check.require(operation.constant_first in (0, 1), f"has its constant at place {operation.constant_first}")


def _check_pair(check: StageCheck) -> None:
    check.broadcast(thin=True)
    operation = parameters_of(check.stage, FloatOperation)
    _check_numbers(check, operation)
    check.require(not operation.constants and not operation.constant_first, "has a constant operand")


def _check_by_channel(check: StageCheck) -> None:
    check.broadcast(thin=True)
    operation = parameters_of(check.stage, FloatOperation)
    _check_numbers(check, operation)
    channels = check.output.channels
    check.require(len(operation.constants) == FLOAT_BYTES * channels, f"needs {channels} constants")


def _computed(operation: FloatOperation, first: Floats, second: Floats) -> Floats:
    with np.errstate(all="ignore"):
        results = list(OPERATIONS.values())[operation.operation](first, second)
    return bounded(results, operation.low, operation.high)


def _pair(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    (_, first), (_, second) = operands
    return _computed(parameters_of(stage, FloatOperation), first, second)


def _by_channel(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    ((_, values),) = operands
    operation = parameters_of(stage, FloatOperation)
    constants = np.frombuffer(operation.constants, "<f4")
    return _computed(operation, *((constants, values) if operation.constant_first else (values, constants)))


def _lower_pair(name: str) -> Callable[[OperatorView], Lowered]:
    """Return the lowering for two tensors of one shape, or one and a pixel or channel, or a constant and either."""

    def lower(view: OperatorView) -> Lowered:
        first, second, output = by_value(
            *(read_real(view.model, view.operand(position)) for position in (0, 1)), read_real(view.model, view.output)
        )
        check_pair(first, second, output, thin=name != "PRELU")
        bounds = float_bounds(view) if name in _ACTIVATED else ANY
        operation = FloatOperation(list(OPERATIONS).index(name), 0, *bounds)
        constant = next((part for part in (first, second) if part.constant is not None), None)
        if name == "PRELU" and constant is not second:
            raise BlockError("its factors are computed" if constant is None else "its input is a constant")
        channels = output.shape[2]
        if constant is None or not (constant.elements == 1 or is_by_channel(constant, channels)):
            stage = Stage(StageKind.FLOAT_PAIR, parameters=operation)
            return Lowered(stage, (first, second), output, output.shape, Fit.PIXELS)
        source, values = second if constant is first else first, np.ravel(np.asarray(constant.constant))
        constants = np.broadcast_to(values, channels).astype("<f4").tobytes()
        operation = replace(operation, constant_first=int(constant is first), constants=constants)
        stage = Stage(StageKind.FLOAT_BY_CHANNEL, parameters=operation)
        return Lowered(stage, (source,), output, output.shape, Fit.PIXELS)

    return lower


def alone_or_part(name: str, alone: Callable[[OperatorView], Lowered]) -> Callable[[OperatorView], Lowered]:
    """Return the lowering to a stage, to a part of a table, or to a stage that can be part of a table."""

    def lower(view: OperatorView) -> Lowered:
        try:
            part = REAL_LOWERINGS[name](view) if name in REAL_LOWERINGS else None
        except BlockError:
            part = None
        try:
            stage = alone(view)
        except BlockError:
            if part is None:
                raise
            return part
        return stage if part is None else replace(stage, function=part.function, operation=part.operation)

    return lower


FLOAT_PAIR = float_kind(
    StageKind.FLOAT_PAIR,
    inputs=(2, 2),
    by_value=True,
    check=_check_pair,
    reference=_pair,
    constants=Coding(_PAIR.encode, _decoded(_PAIR)),
    work=each_value({"float values": 1}),
)

FLOAT_BY_CHANNEL = float_kind(
    StageKind.FLOAT_BY_CHANNEL,
    writes_over=always,
    check=_check_by_channel,
    reference=_by_channel,
    constants=Coding(_BY_CHANNEL.encode, _decoded(_BY_CHANNEL)),
    work=each_value({"float values": 1}),
)

# ---- FLOAT_CURVE ----


@dataclass(frozen=True)
class FloatCurve:
    """A function of one value.

    Attributes:
        curve: number in CURVES.
        low, high: least and largest output; for LEAKY_RELU the factor of values below zero, and 0.
    """

    curve: int
    low: float
    high: float


_CURVE = Layout.of(FloatCurve)

BOUNDED, LEAKY_RELU, HARD_SWISH, ABS, NEG, SQUARE = CURVES = range(6)
"""Numbers of the curves in the table."""

_RAMPS = {"RELU": (0.0, np.inf), "RELU6": (0.0, 6.0)}


_PLAIN: Mapping[int, Callable[[Floats], Floats]] = {ABS: np.abs, NEG: np.negative, SQUARE: np.square}


def _check_curve(check: StageCheck) -> None:
    check.same_shape(check.sources[0])
    parameters = parameters_of(check.stage, FloatCurve)
    check.require(parameters.curve in CURVES, f"computes curve {parameters.curve}")


def _curve(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    ((_, values),) = operands
    parameters = parameters_of(stage, FloatCurve)
    with np.errstate(all="ignore"):
        if parameters.curve == LEAKY_RELU:
            return np.where(values > 0, values, values * np.float32(parameters.low))
        if parameters.curve == HARD_SWISH:
            zero, three, six = map(np.float32, (0, 3, 6))
            raised = np.where(zero < values + three, values + three, zero)
            return np.asarray(values * np.where(raised < six, raised, six) / six)
        if parameters.curve in _PLAIN:
            return np.asarray(_PLAIN[parameters.curve](values))
        return bounded(values, parameters.low, parameters.high)


def _lower_curve(parameters: Callable[[OperatorView], FloatCurve]) -> Callable[[OperatorView], Lowered]:
    def lower(view: OperatorView) -> Lowered:
        source, output = one_to_one(*view.same())
        stage = Stage(StageKind.FLOAT_CURVE, parameters=parameters(view))
        return Lowered(stage, (source,), output, output.shape, Fit.PIXELS)

    return lower


def _curved(curve: int, low: float, high: float) -> Callable[[OperatorView], FloatCurve]:
    return lambda view: FloatCurve(curve, low, high)


_CURVES: Mapping[str, Callable[[OperatorView], FloatCurve]] = {
    **{name: _curved(BOUNDED, *bounds) for name, bounds in _RAMPS.items()},
    **{name: _curved(curve, *ANY) for name, curve in (("ABS", ABS), ("NEG", NEG), ("SQUARE", SQUARE))},
    "LEAKY_RELU": lambda view: FloatCurve(LEAKY_RELU, float(np.float32(view.number("alpha"))), 0.0),
    "HARD_SWISH": _curved(HARD_SWISH, *ANY),
}


FLOAT_CURVE = float_kind(
    StageKind.FLOAT_CURVE,
    writes_over=always,
    check=_check_curve,
    reference=_curve,
    constants=_CURVE,
    work=each_value({"float values": 1}),
)

KINDS = (FLOAT_PAIR, FLOAT_BY_CHANNEL, FLOAT_CURVE)

LOWERINGS: dict[str, Callable[[OperatorView], Lowered]] = {
    **{name: alone_or_part(name, _lower_pair(name)) for name in OPERATIONS},
    **{name: alone_or_part(name, _lower_curve(parameters)) for name, parameters in _CURVES.items()},
}
"""Operators of these kinds if they compute in float32."""
