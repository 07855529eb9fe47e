"""LOOKUP: any function of one value, as a table of all 256 results.

The results are those of TFLM's reference kernels. Each function below repeats the arithmetic of its operator's kernel,
on all values at once. Scales are float32; their quotients are taken in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, erfc, floor, frexp, pi, sqrt

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ir.limits import MAX_POSITION
from tflite_fuse.model.types import half_away
from tflite_fuse.ops import fixed_point
from tflite_fuse.ops.arithmetic import (
    INT32_MAX,
    Int64Array,
    clip_int16,
    multiply_by_quantized_multiplier,
    rounding_divide_by_power_of_two,
    truncating_divide,
)
from tflite_fuse.ops.entry import (
    AS_BYTES,
    Kernels,
    Kind,
    Layout,
    Numbers,
    Operand,
    Runs,
    StageCheck,
    Tensors,
    counted,
    parameters_of,
    pixels_of,
)
from tflite_fuse.ops.lowering.operands import Activation
from tflite_fuse.ops.lowering.requantization import RELU, RELU6, activation_range, quantize_multiplier
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView, one_to_one

VALUES = np.arange(-128, 128, dtype=np.int64)
"""Input values of a table, in its order."""

Function = Callable[[OperatorView, Activation, Activation], Int64Array]
"""Function from an operator's view, input and output to its results, not clamped to int8."""


@dataclass(frozen=True)
class LookupParameters:
    """Results for −128, −127, … 127, as int8."""

    answers: bytes


def lookup_parameters(answers: Int64Array) -> LookupParameters:
    """Return the table of results, clamped to int8."""
    return LookupParameters(np.clip(answers, -128, 127).astype(np.int8).tobytes())


def answers_of(stage: Stage) -> Int64Array:
    """Return the results for VALUES."""
    return np.frombuffer(parameters_of(stage, LookupParameters).answers, np.int8).astype(np.int64)


def _check(check: StageCheck) -> None:
    check.same_shape(check.sources[0])
    check.require(
        len(parameters_of(check.stage, LookupParameters).answers) == len(VALUES), "has no table of 256 answers"
    )


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    values: Int64Array = operands[0][1]
    return answers_of(stage)[values + 128]


LAYOUT = Layout(LookupParameters, (Numbers("answers", lambda output: len(VALUES), AS_BYTES),))

_AT_ONCE = 16
"""Number of values that Helium looks up at once."""


@counted("looked up")
def _work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    channels = tensors[stage.output].channels
    return {"looked up": pixels_of(runs) * (ceil(channels / _AT_ONCE) if kernels is Kernels.HELIUM else channels)}


# ---- Operators ----


def _lowered_by(function: Function) -> Callable[[OperatorView], Lowered]:
    def lower(view: OperatorView) -> Lowered:
        source, output = view.elementwise()
        parameters = lookup_parameters(function(view, source, output))
        stage = Stage(StageKind.LOOKUP, parameters=parameters)
        return Lowered(stage, (source,), output, output.shape, Fit.PIXELS)

    return lower


def scaled(values: Int64Array, scale: float) -> Int64Array:
    """Return values times a scale, by the runtime's multiplier and shift."""
    multiplier, shift = quantize_multiplier(scale)
    return multiply_by_quantized_multiplier(values, multiplier, shift)


def _quantize(view: OperatorView, source: Activation, output: Activation) -> Int64Array:
    return scaled(VALUES - source.zero_point, source.scale / output.scale) + output.zero_point


def _lower_quantize(view: OperatorView) -> Lowered:
    """Lower QUANTIZE; between int8 and uint8 it is usually a renaming that changes only the interpretation of bytes."""
    source, output = one_to_one(*view.border())
    answers = np.clip(_quantize(view, source, output), -128, 127)
    if len(set(view.types(source, output))) > 1 and np.array_equal(answers, VALUES):
        return Lowered(None, (source,), output)
    stage = Stage(StageKind.LOOKUP, parameters=lookup_parameters(answers))
    return Lowered(stage, (source,), output, output.shape, Fit.PIXELS)


def _abs(view: OperatorView, source: Activation, output: Activation) -> Int64Array:
    """Return absolute values; the quotient of the scales is in single precision."""
    with np.errstate(all="ignore"):  # scales of any size: an impossible multiplier is rejected below
        ratio = float(np.float32(source.scale) / np.float32(output.scale))
    return scaled(np.abs(VALUES - source.zero_point), ratio) + output.zero_point


def _relu(view: OperatorView, source: Activation, output: Activation) -> Int64Array:
    low, _ = activation_range(RELU, output.scale, output.zero_point)
    return np.maximum(_quantize(view, source, output), low)


def _relu6(view: OperatorView, source: Activation, output: Activation) -> Int64Array:
    """Return clamped bytes; only the input's quantization counts."""
    return np.clip(VALUES, *activation_range(RELU6, source.scale, source.zero_point))


def _elu(view: OperatorView, source: Activation, output: Activation) -> Int64Array:
    """Return results in single precision throughout, halves rounded away from zero; the runtime fills a table, too."""
    real = np.float32(source.scale) * (VALUES - source.zero_point).astype(np.float32)
    below = np.exp(np.minimum(real, 0).astype(np.float64)).astype(np.float32) - np.float32(1)
    return _in_steps(np.where(real < 0, below, real), output)


def _in_steps(curved: npt.NDArray[np.float32], output: Activation) -> Int64Array:
    """Return single precision in steps of the output's scale."""
    steps = curved * (np.float32(1) / np.float32(output.scale))
    if not np.all(np.abs(steps) < MAX_POSITION):
        raise BlockError(f"its output scale {output.scale:g} is too small for its input's range")
    return np.asarray(half_away(steps).astype(np.int64) + output.zero_point)


def _gelu(view: OperatorView, source: Activation, output: Activation) -> Int64Array:
    """Return LiteRT's results with erfc and tanh rounded once to single precision; TFLM lacks this operator.

    The functions of a C library may be off by their last bit, and LiteRT's table then by one step in a value.
    """
    with np.errstate(all="ignore"):  # scales of any size: an impossible result is rejected below
        real = np.float32(source.scale) * (VALUES - source.zero_point).astype(np.float32)
        if view.options.get("approximate"):
            cube = (real.astype(np.float64) ** 3).astype(np.float32)
            bent = np.float32(sqrt(2 / pi)) * (real + np.float32(0.044715) * cube)
            twice = np.float32(1) + np.tanh(bent.astype(np.float64)).astype(np.float32)
        else:
            twice = np.array([erfc(x) for x in real * np.float32(-sqrt(0.5))], np.float32)
        return _in_steps(np.float32(0.5) * real * twice, output)


def _leaky_relu(view: OperatorView, source: Activation, output: Activation) -> Int64Array:
    """Return results for a possibly negative alpha: its sign is applied after the product."""
    alpha = view.number("alpha")
    values = VALUES - source.zero_point
    below = scaled(values, source.scale * abs(alpha) / output.scale) * (-1 if alpha < 0 else 1)
    return np.where(values >= 0, _quantize(view, source, output), below + output.zero_point)


def _saturating(curve: Callable[[Int64Array], Int64Array], bits: int, offset: int) -> Function:
    """Return LOGISTIC or TANH: the curve of the input with four integer bits, reduced to 31 − ``bits`` bits."""

    def function(view: OperatorView, source: Activation, output: Activation) -> Int64Array:
        if offset and output.zero_point != offset:
            raise BlockError(f"its output has zero point {output.zero_point}, not {offset}, which TFLM refuses")
        multiplier, shift = frexp(source.scale * 2**27)
        if shift < 0:
            raise BlockError(f"its input scale {source.scale:g} is too small for the reference kernel")
        radius = floor(15 * 2**27 / 2**shift)
        values = VALUES - source.zero_point
        near = np.clip(values, -radius, radius)
        raw = multiply_by_quantized_multiplier(near, int(multiplier * 2**31), min(shift, 30))
        answers = rounding_divide_by_power_of_two(curve(raw), bits) + offset
        return np.where(values <= -radius, -128, np.where(values >= radius, 127, answers))

    return function


def _hard_swish(view: OperatorView, source: Activation, output: Activation) -> Int64Array:
    """Return x times the ramp (x + 3) / 6 limited to 0…1, in 16 bits."""
    fine = source.scale / 128
    to_output, output_shift = _multiplier_16(fine / output.scale)
    to_ramp, ramp_shift = _multiplier_16(fine / (3 / 32768))
    if output_shift > 0:
        raise BlockError("its input's scale is more than 128 times its output's, which TFLM refuses")
    if min(output_shift, ramp_shift) < -15:
        raise BlockError("its scales leave nothing of its input in the 16 bits of the reference kernel")
    values = (VALUES - source.zero_point) << 7
    ramp = clip_int16(values << max(ramp_shift - 1, 0))
    ramp = _high_mul_16(ramp, to_ramp)
    ramp = clip_int16(ramp << 1) if ramp_shift > 0 else rounding_divide_by_power_of_two(ramp, -ramp_shift)
    product = truncating_divide(((ramp + 2**15) >> 1) * _high_mul_16(values, to_output), 2**15)
    return rounding_divide_by_power_of_two(product, -output_shift) + output.zero_point


def _multiplier_16(scale: float) -> tuple[int, int]:
    multiplier, shift = quantize_multiplier(scale)
    return min((multiplier + 2**15) >> 16, 2**15 - 1), shift


def _high_mul_16(values: Int64Array, multiplier: int) -> Int64Array:
    """Return the high 16 bits of twice the product, rounded to the nearest integer, halves up."""
    product = values * multiplier
    return truncating_divide(product + np.where(product >= 0, 1 << 14, 1 - (1 << 14)), 1 << 15)


_ROOT_BITS = 20
"""Bits by which inverse roots are scaled up before they are rescaled."""


def _rsqrt(view: OperatorView, source: Activation, output: Activation) -> Int64Array:
    """Return inverse roots of 1 … 255 in fixed point, rescaled by the input's scale; 0 gives the largest value."""
    if source.zero_point != -128:
        raise BlockError(f"its input has zero point {source.zero_point}: TFLM stops at values below it")
    multiplier, shift = quantize_multiplier(1 / (float(np.sqrt(np.float32(source.scale))) * output.scale))
    if shift < _ROOT_BITS - 31:
        raise BlockError("its scales leave nothing of its results in 32 bits")
    roots = [multiply_by_quantized_multiplier(np.array([1]), *_inverse_root(value)) for value in range(1, 256)]
    answers = multiply_by_quantized_multiplier(np.concatenate(roots), multiplier, shift - _ROOT_BITS)
    return np.concatenate([[127], answers + output.zero_point])


def _inverse_root(value: int) -> tuple[int, int]:
    """Return multiplier and shift of 2²⁰ / √value: Newton's iteration, five steps from 1."""
    if value == 1:
        return INT32_MAX, _ROOT_BITS
    pairs = (32 - value.bit_length() - 1) // 2 - 1
    root = fixed_point.inverse_root(np.array([value << (2 * pairs - 1)]))
    right = 11 - pairs
    return int(root[0]) << max(-right, 0), _ROOT_BITS - max(right, 0)


FUNCTIONS: Mapping[str, Function] = {
    "ABS": _abs,
    "ELU": _elu,
    "GELU": _gelu,
    "HARD_SWISH": _hard_swish,
    "LEAKY_RELU": _leaky_relu,
    "LOGISTIC": _saturating(fixed_point.logistic, 23, -128),
    "RELU": _relu,
    "RELU6": _relu6,
    "RSQRT": _rsqrt,
    "TANH": _saturating(fixed_point.tanh, 24, 0),
}
"""The operators on one int8 value, by their names in TFLite's schema."""

LOOKUP = Kind(
    StageKind.LOOKUP,
    by_value=True,
    check=_check,
    reference=_reference,
    constants=LAYOUT,
    work=_work,
    lowerings={name: _lowered_by(function) for name, function in FUNCTIONS.items()} | {"QUANTIZE": _lower_quantize},
)

KINDS = (LOOKUP,)
