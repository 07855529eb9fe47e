"""Logistic, tanh, exp, division and inverse roots in gemmlowp's fixed point, bit-exact to TFLM's kernels.

A number with b integer bits is an int32 with the value ``raw / 2**(31 − b)``. A product has the integer bits of both
factors; ``_rescale`` reduces them and saturates. All functions take and return int64 arrays of raw values.
"""

from __future__ import annotations

import numpy as np

from tflite_fuse.ops.arithmetic import INT32_MAX, INT32_MIN, Int64Array, truncating_divide
from tflite_fuse.ops.arithmetic import rounding_divide_by_power_of_two as halve
from tflite_fuse.ops.arithmetic import saturating_rounding_doubling_high_mul as multiply

_EXP_MINUS_EIGHTH, _THIRD = 1895147668, 715827883
_EXP_STEPS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""exp(−2ⁿ) for n = −2 … 4, without integer bits."""
_48_OVER_17, _MINUS_32_OVER_17 = 1515870810, -1010580540
"""Initial value of Newton's division; two integer bits."""
_HALF_ROOT_OF_2 = 1518500250


def _rescale(values: Int64Array, fewer_bits: int) -> Int64Array:
    return np.asarray(np.clip(values << fewer_bits, INT32_MIN, INT32_MAX))


def _exp_from_minus_quarter(a: Int64Array) -> Int64Array:
    """Return exp(a) for −1/4 ≤ a < 0 without integer bits: the Taylor series around −1/8."""
    x = a + (1 << 28)
    square = multiply(x, x)
    cube, fourth = multiply(square, x), multiply(square, square)
    series = halve(multiply(halve(fourth, 2) + cube, _THIRD) + square, 1)
    return _EXP_MINUS_EIGHTH + multiply(x + series, _EXP_MINUS_EIGHTH)


def exp(a: Int64Array, integer_bits: int) -> Int64Array:
    """Return exp(a) without integer bits, for a ≤ 0 with ``integer_bits``, at most 5."""
    quarter = 1 << (29 - integer_bits)
    within = (a & (quarter - 1)) - quarter
    result = _exp_from_minus_quarter(_rescale(within, integer_bits))
    steps = (within - a) >> (29 - integer_bits)
    for bit, step in enumerate(_EXP_STEPS[: integer_bits + 2]):
        result = np.where(steps >> bit & 1, multiply(result, step), result)
    return np.where(a == 0, INT32_MAX, result)


def _twice_over_one_plus(x: Int64Array) -> Int64Array:
    """Return 2 / (1 + x) with two integer bits, for x in 0…1 without: Newton's division, three steps."""
    total = x + INT32_MAX
    half = truncating_divide(total + np.where(total >= 0, 1, -1), 2)
    guess = _48_OVER_17 + multiply(half, _MINUS_32_OVER_17)
    for _ in range(3):
        guess = guess + _rescale(multiply(guess, (1 << 29) - multiply(half, guess)), 2)
    return guess


def one_over_one_plus(x: Int64Array) -> Int64Array:
    """Return 1 / (1 + x), for x in 0…1; both without integer bits."""
    return _rescale(_twice_over_one_plus(x), 1)


def logistic(a: Int64Array) -> Int64Array:
    """Return 1 / (1 + exp(−a)) without integer bits, for a with four."""
    positive = one_over_one_plus(exp(-np.abs(a), 4))
    return np.where(a == 0, 1 << 30, np.where(a > 0, positive, INT32_MAX - positive))


def tanh(a: Int64Array) -> Int64Array:
    """Return tanh(a) without integer bits, for a with four."""
    size = _rescale(_twice_over_one_plus(exp(-np.abs(a), 5)) - (1 << 29), 2)
    return np.where(a == 0, 0, np.where(a < 0, -size, size))


def inverse_root(a: Int64Array) -> Int64Array:
    """Return 1 / √(2 a) without integer bits, for a with three: Newton's iteration on 1 / √a, five steps from 1."""
    half, x = halve(a, 1), np.full_like(a, 1 << 28)
    for _ in range(5):
        cube = _rescale(multiply(multiply(x, x), x), 6)
        x = _rescale(multiply(x, 3 << 27) - multiply(half, cube), 3)
    return multiply(x, _HALF_ROOT_OF_2)
