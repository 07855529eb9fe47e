"""Kinds that call functions of the C library: FLOAT_LIBRARY_CURVE of one value, FLOAT_SOFTMAX of a pixel.

The runtime and the kernels call the same library, so their results are equal on one machine; another library may differ
in the last bit. The reference calls the library of this machine.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ops.entry import Layout, Operand, StageCheck, always, each_value, parameters_of
from tflite_fuse.ops.floats.common import Floats, float_kind
from tflite_fuse.ops.floats.elementwise import alone_or_part
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView, by_value, one_to_one

CURVES = ("LOGISTIC", "TANH", "ELU", "EXP", "LOG", "SQRT", "RSQRT", "SIN", "COS")
"""Curves by their numbers in the table."""

_FLAT_ABOVE, _EXP_BELOW = np.float32(16.619047164916992188), np.float32(-9)
"""Bounds of the reference LOGISTIC: above the first it is 1, below the second exp of its input."""


@cache
def _function(name: str) -> Callable[[float], float]:
    """Return a function of one float32 in this machine's C library."""
    try:
        function = getattr(ctypes.CDLL("libm.so.6"), name)
    except (OSError, AttributeError):
        function = getattr(ctypes.CDLL(None), name)
    function.argtypes, function.restype = (ctypes.c_float,), ctypes.c_float
    return function  # type: ignore[no-any-return]


def _called(name: str, values: Floats) -> Floats:
    function = _function(name)
    return np.array([function(value) for value in values.ravel().tolist()], np.float32).reshape(values.shape)


# ---- FLOAT_LIBRARY_CURVE ----


@dataclass(frozen=True)
class LibraryCurve:
    """One of CURVES, by its number."""

    curve: int


_CURVE = Layout.of(LibraryCurve)


def _check(check: StageCheck) -> None:
    check.same_shape(check.sources[0])
    curve = parameters_of(check.stage, LibraryCurve).curve
    check.require(0 <= curve < len(CURVES), f"computes curve {curve}")


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    ((_, values),) = operands
    name, one = CURVES[parameters_of(stage, LibraryCurve).curve], np.float32(1)
    if name == "ELU":
        return np.where(values < 0, _called("expm1f", values), values)
    with np.errstate(all="ignore"):
        if name == "RSQRT":
            return np.asarray(one / _called("sqrtf", values))
        if name != "LOGISTIC":
            return _called(f"{name.lower()}f", values)
        inside = one / (one + _called("expf", -values))
        return np.where(values > _FLAT_ABOVE, one, np.where(values < _EXP_BELOW, _called("expf", values), inside))


def _lowered_to(curve: int) -> Callable[[OperatorView], Lowered]:
    def lower(view: OperatorView) -> Lowered:
        source, output = one_to_one(*view.same())
        stage = Stage(StageKind.FLOAT_LIBRARY_CURVE, parameters=LibraryCurve(curve))
        return Lowered(stage, (source,), output, output.shape, Fit.PIXELS)

    return lower


FLOAT_LIBRARY_CURVE = float_kind(
    StageKind.FLOAT_LIBRARY_CURVE,
    writes_over=always,
    check=_check,
    reference=_reference,
    constants=_CURVE,
    work=each_value({"float functions": 1}),
)

# ---- FLOAT_SOFTMAX ----


@dataclass(frozen=True)
class FloatSoftmax:
    """The factor of exponents, float32."""

    beta: float


_SOFTMAX = Layout.of(FloatSoftmax)


def _check_softmax(check: StageCheck) -> None:
    check.same_shape(check.sources[0])
    parameters_of(check.stage, FloatSoftmax)


def _softmax(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    ((_, values),) = operands
    largest = np.full((*values.shape[:2], 1), np.finfo(np.float32).min, np.float32)
    sums = np.zeros_like(largest)
    with np.errstate(all="ignore"):
        for channel in range(values.shape[2]):
            each = values[:, :, channel, None]
            largest = np.where(largest < each, each, largest)
        exponentials = _called("expf", (values - largest) * np.float32(parameters_of(stage, FloatSoftmax).beta))
        for channel in range(values.shape[2]):
            sums += exponentials[:, :, channel, None]
        return np.asarray(exponentials / sums)


def _lower_softmax(view: OperatorView) -> Lowered:
    """Lower SOFTMAX over the last dimension."""
    source, output = one_to_one(*by_value(*view.same()))
    stage = Stage(StageKind.FLOAT_SOFTMAX, parameters=FloatSoftmax(float(np.float32(view.number("beta")))))
    return Lowered(stage, (source,), output, output.shape, Fit.PIXELS)


FLOAT_SOFTMAX = float_kind(
    StageKind.FLOAT_SOFTMAX,
    check=_check_softmax,
    reference=_softmax,
    constants=_SOFTMAX,
    work=each_value({"float functions": 1}),
)

KINDS = (FLOAT_LIBRARY_CURVE, FLOAT_SOFTMAX)

LOWERINGS: dict[str, Callable[[OperatorView], Lowered]] = {
    **{name: alone_or_part(name, _lowered_to(curve)) for curve, name in enumerate(CURVES)},
    "SOFTMAX": _lower_softmax,
}
"""Operators of these kinds if they compute in float32."""
