"""Integer arithmetic of TFLM's reference int8 kernels, on numpy arrays.

Every function takes and returns int64 arrays of int32 values: intermediate products are exact, and each place where
32-bit arithmetic wraps, saturates or rounds is explicit. The operations are those of gemmlowp's fixed point library as
TFLM calls them without ``TFLITE_SINGLE_ROUNDING``: the scaling of an accumulator rounds twice.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
Numbers = Int64Array | int
"""Values broadcast against an array."""

INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1


def wrap_int32(values: Int64Array) -> Int64Array:
    """Return the low 32 bits as a signed number, as a register holds an overflowed sum."""
    return ((values - INT32_MIN) & 0xFFFF_FFFF) + INT32_MIN


def truncating_divide(numerator: Int64Array, denominator: Numbers) -> Int64Array:
    """Return the quotient rounded towards zero, as in C. ``denominator`` > 0."""
    quotient = np.abs(numerator) // denominator
    return np.where(numerator < 0, -quotient, quotient)


def saturating_rounding_doubling_high_mul(a: Int64Array, b: Numbers) -> Int64Array:
    """Return the high 32 bits of ``2 * a * b``, rounded to the nearest integer, halves up.

    Of all int32 pairs only (−2³¹, −2³¹) overflows; it saturates.
    """
    product = a * b
    nudge = np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    return np.minimum(truncating_divide(product + nudge, 1 << 31), INT32_MAX)


def clip_int16(values: Int64Array) -> Int64Array:
    """Return values within int16; larger ones become its ends."""
    return np.clip(values, -(2**15), 2**15 - 1)


def rounding_divide_by_power_of_two(values: Int64Array, exponent: Numbers) -> Int64Array:
    """Return ``values / 2**exponent`` rounded to the nearest integer, halves away from zero. ``exponent`` is 0…31."""
    mask = (np.int64(1) << exponent) - 1
    remainder = values & mask
    threshold = (mask >> 1) + (values < 0)
    return (values >> exponent) + (remainder > threshold)


def multiply_by_quantized_multiplier(values: Int64Array, multiplier: Numbers, shift: Numbers) -> Int64Array:
    """Return ``values * multiplier * 2**(shift − 31)`` as ``MultiplyByQuantizedMultiplier`` does, rounding twice.

    Args:
        values: int32 accumulators, any shape.
        multiplier: int32, negative for negative scales, broadcast against ``values`` (per channel: the last axis).
        shift: −31…30; a positive one shifts left before the product and may wrap.

    Returns:
        int32 values, shaped like the broadcast of the arguments.
    """
    left = np.maximum(shift, 0)
    right = np.maximum(-shift, 0)
    shifted = wrap_int32(values << left)
    return rounding_divide_by_power_of_two(saturating_rounding_doubling_high_mul(shifted, multiplier), right)


def rounding_divide(values: Int64Array, count: Numbers) -> Int64Array:
    """Return ``values / count`` to the nearest integer, halves away from zero, as in average pooling. ``count`` > 0."""
    half = np.asarray(count, np.int64) // 2
    return truncating_divide(np.where(values > 0, values + half, values - half), count)
