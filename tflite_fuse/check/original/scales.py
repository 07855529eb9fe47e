"""Integers of TFLM's kernels from the scales in a model, derived independently of ``ops``.

A multiplier is a float64 split by ``frexp`` into a fraction of [0.5, 1) and a power of two; the fraction times 2^31 is
rounded, halves away from zero. The fraction has 53 bits, so neither the product with 2^31 nor the added half is
rounded: the integers are exact. Scales are float32; the runtime multiplies and divides them in double precision. Some
of its older versions used single precision, which can change the last bit.
"""

from __future__ import annotations

from math import isfinite

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_NOTHING_LEFT = -31
"""Shifts below this flush the multiplier to zero."""


def split_scale(ratio: npt.ArrayLike) -> tuple[Int64s, Int64s]:
    """Return (multiplier, shift) of each ratio: ratio = multiplier * 2^(shift - 31), rounded.

    This is the runtime's ``QuantizeMultiplier`` in double precision. Zero and ratios that are shifted out become (0,
    0).
    """
    values = np.asarray(ratio, np.float64)
    fraction, exponent = np.frexp(values)
    magnitude = np.floor(np.abs(fraction) * 2.0**31 + 0.5).astype(np.int64)
    carried = (magnitude == 1 << 31) & (values > 0)
    magnitude = np.where(carried, 1 << 30, magnitude)
    shift = exponent.astype(np.int64) + carried
    gone = (values == 0) | (shift < _NOTHING_LEFT)
    return np.where(gone, 0, np.sign(values).astype(np.int64) * magnitude), np.where(gone, 0, shift)


def product_ratio(input_scale: float, filter_scales: Floats, output_scale: float) -> Floats:
    """Return input * filter / output, one per filter scale: convolutions, FULLY_CONNECTED."""
    with np.errstate(all="ignore"):  # A damaged file's scales give multipliers that match no block.
        product: Floats = np.float64(input_scale) * filter_scales.astype(np.float64)
        quotient: Floats = product / np.float64(output_scale)
    return quotient


def quotient_ratio(input_scale: float, output_scale: float) -> float:
    """Return input / output: QUANTIZE, MEAN, RELU."""
    with np.errstate(all="ignore"):
        return float(np.float64(input_scale) / np.float64(output_scale))


def mean_multiplier(input_scale: float, output_scale: float, count: int) -> tuple[int, int]:
    """Return (multiplier, shift) of a MEAN over ``count`` values; the multiplier is divided by the count, truncated.

    Before the division it is shifted to the left by the count's bit length minus 1, as far as 32 bits and the shift
    allow.
    """
    multipliers, shifts = split_scale([quotient_ratio(input_scale, output_scale)])
    multiplier, shift = int(multipliers[0]), int(shifts[0])
    room = min(count.bit_length() - 1, 32, 31 + shift)
    return (multiplier * 2**room) // count, shift - room


def addition_numbers(first: float, second: float, output: float) -> tuple[int, ...]:
    """Return the left shift, then multiplier and shift of both operands and of the sum."""
    left = 20
    doubled = 2.0 * max(np.float64(first), np.float64(second))
    ratios = [np.float64(first) / doubled, np.float64(second) / doubled, doubled / (2.0**left * np.float64(output))]
    multipliers, shifts = split_scale(ratios)
    return left, *(int(n) for pair in zip(multipliers, shifts, strict=True) for n in pair)


def difference_numbers(first: float, second: float, output: float) -> tuple[int, ...]:
    """Return the numbers of a SQUARED_DIFFERENCE in the same order; the last two are those of the square."""
    left = 7
    doubled = 2.0 * max(np.float64(first), np.float64(second))
    ratios = [np.float64(first) / doubled, np.float64(second) / doubled, doubled**2 / (4.0**left * np.float64(output))]
    multipliers, shifts = split_scale(ratios)
    return left, *(int(n) for pair in zip(multipliers, shifts, strict=True) for n in pair)


_BOUNDS: dict[int, tuple[float | None, float | None]] = {0: (None, None), 1: (0.0, None), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
"""Real bounds of NONE, RELU, RELU_N1_TO_1, RELU6 by their numbers in the schema."""


def activation_bounds(number: int, scale: float, zero_point: int) -> tuple[int, int] | None:
    """Return the range of int8 values after a fused activation; None if the activation or scale has no integer form.

    A bound is divided by the scale in single precision and rounded, halves away from zero.
    """
    if number not in _BOUNDS or not (isfinite(scale) and scale > 0):
        return None
    low, high = _BOUNDS[number]
    return (
        -128 if low is None else max(-128, _quantized(low, scale, zero_point)),
        127 if high is None else min(127, _quantized(high, scale, zero_point)),
    )


def _quantized(value: float, scale: float, zero_point: int) -> int:
    steps = float(np.float32(value) / np.float32(scale))
    return zero_point + (int(steps + 0.5) if steps >= 0 else -int(0.5 - steps))


def scaled(sums: Int64s, multiplier: Int64s, shift: Int64s) -> Int64s:
    """Return ``MultiplyByQuantizedMultiplier`` of sums within 32 bits: rounded twice, halves up, then away from zero.

    The product has 64 bits; sums shifted to the left wrap to 32.
    """
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    shifted = ((sums << left) + 2**31) % 2**32 - 2**31
    high = (shifted * multiplier + (1 << 30)) >> 31
    remainder_mask = (np.int64(1) << right) - 1
    remainder = high & remainder_mask
    threshold = (remainder_mask >> 1) + (high < 0)
    return (high >> right) + (remainder > threshold)


def added(numbers: tuple[int, ...], points: tuple[int, int, int], x: Int64s, y: Int64s) -> Int64s:
    """Return the sums of an ADD before the clamp; a negative fourth number subtracts. ``points``: zero points."""
    left, *rest = numbers
    parts = [np.array([abs(number) if place == 2 else number]) for place, number in enumerate(rest)]
    first = scaled((x - points[0]) << left, parts[0], parts[1])
    second = scaled((y - points[1]) << left, parts[2], parts[3])
    total = first - second if rest[2] < 0 else first + second
    return scaled(total, parts[4], parts[5]) + points[2]
