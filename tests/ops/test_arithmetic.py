"""The fixed point arithmetic against exact rational arithmetic and hand-computed values."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tflite_fuse.ops.arithmetic import (
    INT32_MAX,
    INT32_MIN,
    multiply_by_quantized_multiplier,
    rounding_divide,
    rounding_divide_by_power_of_two,
    saturating_rounding_doubling_high_mul,
    truncating_divide,
    wrap_int32,
)

int32 = st.integers(INT32_MIN, INT32_MAX)


def i64(value: int) -> np.ndarray:
    return np.asarray(value, np.int64)


def half_up(value: Fraction) -> int:
    return floor(value + Fraction(1, 2))


def half_away(value: Fraction) -> int:
    return half_up(value) if value >= 0 else -half_up(-value)


@given(int32, int32)
def test_wrap_keeps_the_low_32_bits(a: int, b: int) -> None:
    wrapped = int(wrap_int32(i64(a + b)))
    assert (wrapped - (a + b)) % 2**32 == 0
    assert INT32_MIN <= wrapped <= INT32_MAX


@given(int32, st.integers(1, INT32_MAX))
def test_truncating_divide_rounds_towards_zero(a: int, b: int) -> None:
    exact = Fraction(a, b)
    assert int(truncating_divide(i64(a), b)) == (floor(exact) if exact >= 0 else -floor(-exact))


@given(int32, int32)
def test_high_mul_is_the_product_rounded_half_up(a: int, b: int) -> None:
    exact = min(half_up(Fraction(a * b, 2**31)), INT32_MAX)
    assert int(saturating_rounding_doubling_high_mul(i64(a), i64(b))) == exact


def test_high_mul_saturates_its_one_overflow() -> None:
    assert int(saturating_rounding_doubling_high_mul(i64(INT32_MIN), i64(INT32_MIN))) == INT32_MAX


@given(int32, st.integers(0, 31))
def test_divide_by_power_of_two_rounds_half_away_from_zero(value: int, exponent: int) -> None:
    expected = half_away(Fraction(value, 2**exponent))
    assert int(rounding_divide_by_power_of_two(i64(value), i64(exponent))) == expected


@given(int32, st.integers(1, 10_000))
def test_rounding_divide_rounds_half_away_from_zero(value: int, count: int) -> None:
    assert int(rounding_divide(i64(value), count)) == half_away(Fraction(value, count))


@given(st.integers(-(2**24), 2**24 - 1), st.integers(2**30, INT32_MAX), st.integers(-31, 7))
def test_multiply_rounds_twice(value: int, multiplier: int, shift: int) -> None:
    once = half_up(Fraction((value << max(shift, 0)) * multiplier, 2**31))
    twice = half_away(Fraction(once, 2 ** max(-shift, 0)))
    assert int(multiply_by_quantized_multiplier(i64(value), i64(multiplier), i64(shift))) == twice


def test_multiply_differs_from_single_rounding() -> None:
    # 3 * 0.5 = 1.5 rounds to 2; 2 / 4 = 0.5 rounds to 1. The exact 0.375 would round to 0.
    assert int(multiply_by_quantized_multiplier(i64(3), i64(2**30), i64(-2))) == 1


def test_multiply_broadcasts_one_entry_per_channel() -> None:
    values = np.array([[100, 100], [-100, 7]], np.int64)
    multiplier, shift = np.array([2**30, 2**30], np.int64), np.array([0, 1], np.int64)
    assert multiply_by_quantized_multiplier(values, multiplier, shift).tolist() == [[50, 100], [-50, 7]]


def test_multiply_wraps_in_the_left_shift() -> None:
    assert int(multiply_by_quantized_multiplier(i64(2**30), i64(2**30), i64(1))) == -(2**30)
