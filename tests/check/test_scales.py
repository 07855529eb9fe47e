"""Integers from scales, against exact fractions and against the arithmetic of whole numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tflite_fuse.check.original.scales import activation_bounds, mean_multiplier, scaled, split_scale


def exactly(ratio: float) -> tuple[int, int]:
    """Multiplier and shift by fractions alone."""
    if ratio == 0:
        return 0, 0
    value, shift = abs(Fraction(ratio)), 0
    while value >= 1:
        value, shift = value / 2, shift + 1
    while value < Fraction(1, 2):
        value, shift = value * 2, shift - 1
    doubled = 2 * value * 2**31 + 1
    multiplier = doubled.numerator // doubled.denominator // 2
    if multiplier == 2**31 and ratio > 0:
        multiplier, shift = 2**30, shift + 1
    if shift < -31:
        return 0, 0
    return (multiplier if ratio > 0 else -multiplier), shift


@given(st.floats(min_value=2.0**-40, max_value=2.0**20) | st.sampled_from([0.0, 0.5, 1 - 2.0**-40, 1 - 2.0**-33]))
def test_a_scale_is_split_as_in_exact_fractions(ratio: float) -> None:
    for value in (ratio, -ratio if ratio < 1 - 2.0**-32 else ratio):
        multiplier, shift = split_scale([value])
        assert (int(multiplier[0]), int(shift[0])) == exactly(value)


@given(st.integers(-(2**30), 2**30), st.integers(2**30, 2**31 - 1), st.integers(-31, 0))
def test_sums_are_rounded_twice(value: int, multiplier: int, shift: int) -> None:
    once = (value * multiplier + 2**30) // 2**31
    magnitude = (abs(once) + (2**-shift >> 1)) >> -shift
    found = scaled(np.array([value]), np.array([multiplier]), np.array([shift]))
    assert int(found[0]) == (magnitude if once >= 0 else -magnitude)


@given(st.floats(0.001, 10), st.floats(0.001, 10), st.integers(1, 5000))
def test_the_multiplier_of_a_mean_is_its_scales_over_the_count(source: float, output: float, count: int) -> None:
    multiplier, shift = mean_multiplier(source, output, count)
    expected = Fraction(source / output) / count
    # A multiplier of 31 bits is rounded; divided by the count it has 30 bits and is truncated.
    most = Fraction(1, 2**31) + Fraction(1, 2**29)
    assert abs(Fraction(multiplier) * Fraction(2) ** (shift - 31) / expected - 1) <= most


def test_activations_leave_the_values_their_bounds_round_to() -> None:
    assert activation_bounds(0, 0.1, 3) == (-128, 127)
    assert activation_bounds(1, 0.1, -128) == (-128, 127)
    assert activation_bounds(1, 0.1, 5) == (5, 127)
    assert activation_bounds(3, 0.5, -10) == (-10, 2)
    assert activation_bounds(2, 0.4, 0) == (-3, 3)
    assert activation_bounds(4, 0.4, 0) is None


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_is_none_leaves_no_values(scale: float) -> None:
    assert activation_bounds(3, scale, 0) is None
