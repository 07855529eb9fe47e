"""Functions of one int8 value as tables of 256 results, and operators on two such tables.

Computes all values at once, as the runtime's reference kernels do. LOGISTIC and TANH are gemmlowp's: numbers in
0...1 are int32 over 2^31, products are rounded to 31 bits, exp is a Taylor series around -1/8 in the last quarter and a
product of constants for the other quarters, division is three Newton steps.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import erfc, exp, floor, frexp, isfinite, pi, tanh
from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_fuse.check.original import reals
from tflite_fuse.check.original.reals import is_real, real_answers
from tflite_fuse.check.original.scales import (
    activation_bounds,
    added,
    addition_numbers,
    difference_numbers,
    quotient_ratio,
    scaled,
    split_scale,
)
from tflite_fuse.check.original.values import Original, Step

Int64s = npt.NDArray[np.int64]

VALUES = np.arange(-128, 128, dtype=np.int64)

_ONE = 2**31 - 1

_MOST_TABLES = 4
"""Most tables that are kept for a value."""


def answers_behind(original: Original, value: int) -> Iterator[tuple[Step, int, Int64s]]:
    """Return all results that depend on one value alone: (step, tensor the table starts from, its 256 results).

    A step may read the value and earlier results: LOGISTIC, then MUL of its result with the value, is SiLU. A value has
    several tables where several tensors hold it: the tables agree on the bytes that occur, not on all 256. Where RELU
    after RELU changes nothing, both results are one value, and later steps may start from either.
    """
    by_value: dict[int, list[tuple[int, npt.NDArray[Any]]]] = {}
    waiting, yielded = list(original.readers(value)), set()
    while waiting:
        step = waiting.pop(0)
        if len(step.outputs) != 1 or not original.computes_in_int8(step):
            continue
        tensors = [t for t in _operands(original, step) if t >= 0]
        for t in tensors:
            if _starts(original, step, t, value):
                by_value.setdefault(original.value(t), [(t, VALUES)])
        read = [t for t in dict.fromkeys(tensors) if original.value(t) in by_value]
        for chosen in product(*(by_value[original.value(t)] for t in read)):
            answers = _answers(original, step, {t: table for t, (_, table) in zip(read, chosen, strict=True)})
            if answers is None or (result := (id(step), answers.tobytes())) in yielded:
                continue
            yielded.add(result)
            tables = by_value.setdefault(original.value(step.outputs[0]), [])
            if len(tables) < _MOST_TABLES and not any(np.array_equal(answers, table) for _, table in tables):
                tables.append((chosen[0][0], answers))
                waiting += original.readers(step.outputs[0])
            if original.activation(step.outputs[0]) is not None:
                yield step, chosen[0][0], answers


def table_of(original: Original, step: Step) -> Int64s | None:
    """Return the 256 results of a pointwise operator on int8; None for any other."""
    rule = RULES.get(step.name)
    if rule is None or rule.operands > 1 or not rule.whole or len(step.outputs) != 1:
        return None
    if original.activation(step.operand(0)) is None:
        return None
    if any(map(original.is_unsigned, (step.inputs[0], step.outputs[0]))):
        return None
    return _answers(original, step, {step.inputs[0]: VALUES})


def _operands(original: Original, step: Step) -> list[int]:
    """Return the tensors that a step computes from, -1 for those left out; their number is in its rule."""
    rules: Mapping[str, Rule | reals.Rule] = reals.RULES if is_real(original, step) else RULES
    return [step.operand(place) for place in range(rules[step.name].operands if step.name in rules else 1)]


def _starts(original: Original, step: Step, tensor: int, value: int) -> bool:
    """Return whether a step reads a tensor of the value; a CAST also reads bytes without quantization."""
    is_quantized = original.is_computed_byte(tensor) if step.name == "CAST" else original.activation(tensor) is not None
    return original.value(tensor) == original.value(value) and is_quantized


def _answers(original: Original, step: Step, tables: Mapping[int, npt.NDArray[Any]]) -> npt.NDArray[Any] | None:
    """Return a step's results, given operands that are known for all 256 values or constants of one value."""
    tensors = _operands(original, step)
    if not tables or _shapes_differ(original, step, tensors, tables):
        return None
    if is_real(original, step):
        return real_answers(original, step, [tables.get(t) if t in tables else t for t in tensors])
    if step.name not in RULES or original.activation(step.outputs[0]) is None:
        return None
    operands = [tables[t] if t in tables else _constant(original, t) for t in tensors]
    if any(operand is None for operand in operands):
        return None
    answers = RULES[step.name].answers(original, step, *operands)
    return None if answers is None else np.clip(answers, -128, 127)


def _shapes_differ(original: Original, step: Step, tensors: Sequence[int], tables: Container[int]) -> bool:
    """Return whether an operand that is no constant has another image than the result, so pixels are not one to one."""
    image = original.rows(step.outputs[0])
    return image is None or any(original.rows(t) != image for t in tensors if t in tables)


def _constant(original: Original, tensor: int) -> Int64s | None:
    """Return an int8 constant of equal values, repeated 256 times."""
    stored, scales = original.weights(tensor), original.scales(tensor)
    if stored is None or scales is None or len(scales) != 1 or len(np.unique(stored)) != 1:
        return None
    return np.full_like(VALUES, stored.flat[0])


def unite_types(original: Original) -> None:
    """Unite input and output of each QUANTIZE between int8 and uint8 that shifts every value by 128."""
    for step in original.steps:
        if step.name != "QUANTIZE" or len(step.outputs) != 1 or step.operand(0) < 0:
            continue
        tensors = step.inputs[0], step.outputs[0]
        if len({original.is_unsigned(t) for t in tensors}) == 1 or None in map(original.activation, tensors):
            continue
        answers = _quantize(original, step, VALUES)
        if answers is not None and np.array_equal(np.clip(answers, -128, 127), VALUES):
            original.unite(*tensors)


def _parameters(original: Original, step: Step, *positions: int) -> list[tuple[float, int]]:
    tensors = [step.inputs[position] for position in positions] + [step.outputs[0]]
    return [original.affine(t) or (1.0, 0) for t in tensors]


def _rescaled(values: Int64s, ratio: float) -> Int64s:
    multiplier, shift = split_scale([ratio])
    return scaled(values, multiplier, shift)


# ---- Clamps and straight lines ----


def _quantize(original: Original, step: Step, x: Int64s) -> Int64s | None:
    (scale, point), (out_scale, out_point) = _parameters(original, step, 0)
    return _rescaled(x - point, quotient_ratio(scale, out_scale)) + out_point


def _abs(original: Original, step: Step, x: Int64s) -> Int64s | None:
    """Return ABS; the ratio of its scales is a float32."""
    (scale, point), (out_scale, out_point) = _parameters(original, step, 0)
    distance = np.where(x < point, point - x, x - point)
    with np.errstate(all="ignore"):
        ratio = float(np.float32(scale) / np.float32(out_scale))
    return _rescaled(distance, ratio) + out_point if isfinite(ratio) else None


def _relu(original: Original, step: Step, x: Int64s) -> Int64s | None:
    bounds = activation_bounds(1, *_parameters(original, step)[0])
    line = _quantize(original, step, x)
    return None if bounds is None or line is None else np.maximum(line, bounds[0])


def _relu6(original: Original, step: Step, x: Int64s) -> Int64s | None:
    """Return RELU6, which clamps bytes by the input's quantization, not the output's."""
    bounds = activation_bounds(3, *_parameters(original, step, 0)[0])
    return None if bounds is None else np.clip(x, *bounds)


def _elu(original: Original, step: Step, x: Int64s) -> Int64s | None:
    """Return ELU in float32; exp is computed in double precision and rounded once, so the runtime's may differ in the
    last bit."""
    (scale, point), (out_scale, out_point) = _parameters(original, step, 0)
    real = np.array(scale, np.float32) * np.array(x - point, np.float32)
    curve = [np.float32(value if value >= 0 else np.float32(exp(value)) - np.float32(1)) for value in real]
    return _stepped(curve, out_scale, out_point)


def _stepped(curve: Sequence[np.float32], out_scale: float, out_point: int) -> Int64s | None:
    """Return float32 values as int8 ones, halves rounded away from zero; None if a runtime could not convert them."""
    steps = np.array(curve, np.float32) * (np.float32(1) / np.float32(out_scale))
    if not np.all(np.isfinite(steps)) or np.abs(steps).max() >= 2**30:
        return None
    away = [floor(abs(float(value)) + 0.5) * (-1 if value < 0 else 1) for value in steps]
    return np.array(away, np.int64) + out_point


def _gelu(original: Original, step: Step, x: Int64s) -> Int64s | None:
    """Return GELU in float32, x times the share of a normal distribution below x; ``approximate``, a tanh gives it."""
    (scale, point), (out_scale, out_point) = _parameters(original, step, 0)
    curve: list[np.float32] = []
    with np.errstate(all="ignore"):
        for value in np.array(scale, np.float32) * np.array(x - point, np.float32):
            if not step.options.get("approximate"):
                twice = np.float32(erfc(np.float32(-(0.5**0.5)) * value))
            elif abs(value) > 100:
                twice = np.float32(2 if value > 0 else 0)
            else:
                inner = np.float32((2 / pi) ** 0.5) * (value + np.float32(0.044715) * np.float32(float(value) ** 3))
                twice = np.float32(1) + np.float32(tanh(inner))
            curve.append(value / np.float32(2) * twice)
        return _stepped(curve, out_scale, out_point)


def _leaky_relu(original: Original, step: Step, x: Int64s) -> Int64s | None:
    (scale, point), (out_scale, out_point) = _parameters(original, step, 0)
    alpha, line = step.options.get("alpha", 0.0), _quantize(original, step, x)
    if not isinstance(alpha, float) or not isfinite(alpha) or line is None:
        return None
    below = _rescaled(x - point, scale * abs(alpha) / out_scale)
    return np.where(x >= point, line, (below if alpha >= 0 else -below) + out_point)


# ---- Two operands ----


def _add(original: Original, step: Step, x: Int64s, y: Int64s) -> Int64s | None:
    (scale_0, point_0), (scale_1, point_1), (out_scale, out_point) = _parameters(original, step, 0, 1)
    *before, scale_of_second, shift_of_second, multiplier, shift = addition_numbers(scale_0, scale_1, out_scale)
    signed = -scale_of_second if step.name == "SUB" else scale_of_second
    numbers = (*before, signed, shift_of_second, multiplier, shift)
    return _activated(original, step, added(numbers, (point_0, point_1, out_point), x, y))


def _prelu(original: Original, step: Step, x: Int64s, alpha: Int64s) -> Int64s | None:
    (scale, point), (alpha_scale, alpha_point), (out_scale, out_point) = _parameters(original, step, 0, 1)
    above = _rescaled(x - point, scale / out_scale)
    below = _rescaled((x - point) * (alpha - alpha_point), scale * alpha_scale / out_scale)
    return np.where(x >= point, above, below) + out_point


def _squared_difference(original: Original, step: Step, x: Int64s, y: Int64s) -> Int64s | None:
    (scale_0, point_0), (scale_1, point_1), (out_scale, out_point) = _parameters(original, step, 0, 1)
    left, *numbers = difference_numbers(scale_0, scale_1, out_scale)
    parts = [np.array([number]) for number in numbers]
    apart = scaled((x - point_0) << left, parts[0], parts[1]) - scaled((y - point_1) << left, parts[2], parts[3])
    return scaled(apart * apart, parts[4], parts[5]) + out_point


def _mul(original: Original, step: Step, x: Int64s, y: Int64s) -> Int64s | None:
    (scale_0, point_0), (scale_1, point_1), (out_scale, out_point) = _parameters(original, step, 0, 1)
    product = (x - point_0) * (y - point_1)
    return _activated(original, step, _rescaled(product, scale_0 * scale_1 / out_scale) + out_point)


def _activated(original: Original, step: Step, values: Int64s) -> Int64s | None:
    bounds = activation_bounds(step.number("fused_activation_function"), *_parameters(original, step)[0])
    return None if bounds is None else np.clip(values, *bounds)


# ---- LOGISTIC and TANH ----


def _times(a: Int64s, b: Int64s | int) -> Int64s:
    return (a * b + (1 << 30)) >> 31


def _half_away(values: Int64s, bits: int) -> Int64s:
    """Return values divided by a power of two, halves rounded away from zero."""
    size = (np.abs(values) + (1 << bits >> 1)) >> bits
    return np.where(values < 0, -size, size)


def _saturated(values: Int64s) -> Int64s:
    return np.clip(values, -(2**31), _ONE)


def exp_below(a: Int64s, bits: int) -> Int64s:
    """Return exp(a) of a <= 0 with ``bits`` integer bits; the result has none."""
    fraction = 31 - bits
    last = (a & ((1 << (fraction - 2)) - 1)) - (1 << (fraction - 2))
    x = _saturated(last << bits) + (1 << 28)
    square = _times(x, x)
    series = _times(_half_away(_times(square, square), 2) + _times(square, x), 715827883) + square
    result = 1895147668 + _times(x + _half_away(series, 1), 1895147668)
    before = last - a
    powers = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
    for exponent, power in zip(range(-2, bits), powers, strict=False):
        result = np.where(before & (1 << (fraction + exponent)), _times(result, power), result)
    return np.where(a == 0, _ONE, result)


def _newton(x: Int64s) -> Int64s:
    """Return 2 / (1 + x) of x in 0...1, with two integer bits."""
    half = (x + _ONE + 1) >> 1
    quotient = 1515870810 + _times(half, -1010580540)
    for _ in range(3):
        quotient = quotient + _saturated(_times(quotient, (1 << 29) - _times(half, quotient)) << 2)
    return quotient


def _logistic_curve(a: Int64s) -> Int64s:
    above = _saturated(_newton(exp_below(-np.abs(a), 4)) << 1)
    return np.where(a == 0, 1 << 30, np.where(a > 0, above, _ONE - above))


def _tanh_curve(a: Int64s) -> Int64s:
    size = _saturated((_newton(exp_below(-np.abs(a), 5)) - (1 << 29)) << 2)
    return np.where(a == 0, 0, np.where(a > 0, size, -size))


def _curve(curve: Callable[[Int64s], Int64s], bits: int, zero: int) -> Callable[..., Int64s | None]:
    """Return the rule of a curve whose input has four integer bits; outside their range it is constant."""

    def answers(original: Original, step: Step, x: Int64s) -> Int64s | None:
        (scale, point), (_, out_point) = _parameters(original, step, 0)
        fraction, shift = frexp(scale * 2.0**27)
        if shift < 0 or (zero and out_point != zero):
            return None
        radius = floor(15 * 2.0**27 / 2.0**shift)
        values = x - point
        inside = scaled(np.clip(values, -radius, radius), np.array([int(fraction * 2**31)]), np.array([min(shift, 30)]))
        bent = _half_away(curve(inside), bits) + zero
        return np.where(values <= -radius, -128, np.where(values >= radius, 127, bent))

    return answers


# ---- RSQRT ----


def _rsqrt(original: Original, step: Step, x: Int64s) -> Int64s | None:
    """Return RSQRT: 127 at the zero point, which must be -128 because the runtime refuses values below it.

    The root of n is that of m = n * 4^k in 2^27...2^29: 1 / sqrt(m / 2^29) by x = x (3 - x^2 m / 2^29) / 2 from 1.
    """
    (scale, point), (out_scale, out_point) = _parameters(original, step, 0)
    if point != -128 or min(scale, out_scale) <= 0:
        return None
    multiplier, shift = split_scale([1 / (float(np.sqrt(np.float32(scale))) * out_scale)])
    if shift < -11:
        return None
    n = np.maximum(x - point, 1)
    k = (31 - np.floor(np.log2(n)).astype(np.int64) - 1) // 2 - 1
    m, near = n << (2 * k - 1), np.full_like(n, 1 << 28)
    for _ in range(5):
        cube = _saturated(_times(_times(near, near), near) << 6)
        near = _saturated((_times(near, 3 << 27) - _times(_half_away(m, 1), cube)) << 3)
    right = (11 - k) * (n > 1)
    root: Int64s = np.left_shift(np.where(n == 1, _ONE, _times(near, 1518500250)), np.maximum(-right, 0))
    fine = scaled(np.ones_like(n), root, 20 - np.maximum(right, 0))
    return np.where(x == point, 127, scaled(fine, multiplier, shift - 20) + out_point)


# ---- HARD_SWISH ----


def _hard_swish(original: Original, step: Step, x: Int64s) -> Int64s | None:
    """Return x * relu6(x + 3) / 6 in 16 bits: relu6 is a ramp of x clipped to -1...1, moved to 0...1."""
    (scale, point), (out_scale, out_point) = _parameters(original, step, 0)
    fine = scale / 128
    (to_output, to_ramp), (output_shift, ramp_shift) = split_scale([fine / out_scale, fine / (3 / 32768)])
    if output_shift > 0 or min(output_shift, ramp_shift) < -15:
        return None
    narrow = [min((int(multiplier) + (1 << 15)) >> 16, 2**15 - 1) for multiplier in (to_output, to_ramp)]
    values = (x - point) << 7
    ramp = np.clip(values << max(int(ramp_shift) - 1, 0), -(2**15), 2**15 - 1)
    ramp = (ramp * narrow[1] + (1 << 14)) >> 15
    if ramp_shift > 0:
        ramp = np.clip(ramp << 1, -(2**15), 2**15 - 1)
    else:
        ramp = _half_away(ramp, -int(ramp_shift))
    product = ((ramp + (1 << 15)) >> 1) * ((values * narrow[0] + (1 << 14)) >> 15)
    high = np.sign(product) * (np.abs(product) >> 15)
    return _half_away(high, -int(output_shift)) + out_point


@dataclass(frozen=True)
class Rule:
    """How an operator computes an int8 value from one or two, for all 256 values at once.

    Attributes:
        answers: (original, step, operands' values) → results before the clamp to int8; None if the runtime refuses the
            operator.
        operands: number of operands.
        whole: whether all of its arithmetic is in integers.
    """

    answers: Callable[..., Int64s | None]
    operands: int = 1
    whole: bool = True


RULES: dict[str, Rule] = {
    "ABS": Rule(_abs),
    "ADD": Rule(_add, 2),
    "ELU": Rule(_elu, whole=False),
    "GELU": Rule(_gelu, whole=False),
    "HARD_SWISH": Rule(_hard_swish),
    "LEAKY_RELU": Rule(_leaky_relu),
    "LOGISTIC": Rule(_curve(_logistic_curve, 23, -128)),
    "MAXIMUM": Rule(lambda original, step, x, y: np.maximum(x, y), 2),
    "MINIMUM": Rule(lambda original, step, x, y: np.minimum(x, y), 2),
    "MUL": Rule(_mul, 2),
    "PRELU": Rule(_prelu, 2),
    "QUANTIZE": Rule(_quantize),
    "RELU": Rule(_relu),
    "RELU6": Rule(_relu6),
    "RSQRT": Rule(_rsqrt),
    "SQUARED_DIFFERENCE": Rule(_squared_difference, 2),
    "SUB": Rule(_add, 2),
    "TANH": Rule(_curve(_tanh_curve, 24, 0)),
}
"""Pointwise operators on int8; those on float32 are in ``reals.RULES``."""
