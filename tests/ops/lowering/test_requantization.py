"""Scales to integers: the definition as exact rationals, and the edges where TFLM behaves in its own way."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tflite_fuse.errors import BlockError
from tflite_fuse.ops.kinds.pairs import add_parameters
from tflite_fuse.ops.lowering.requantization import (
    NO_ACTIVATION,
    RELU,
    RELU6,
    RELU_N1_TO_1,
    activation_range,
    convolution_requantization,
    fully_connected_requantization,
    mean_requantization,
    quantize_multiplier,
    quantize_multiplier_below_one,
    rescale_requantization,
)

ratios = st.floats(2.0**-31, 2.0**29, allow_nan=False)
scales = st.floats(2.0**-10, 8.0, width=32)


@given(ratios, st.sampled_from([1, -1]))
def test_a_multiplier_is_the_nearest_31_bit_fraction(ratio: float, sign: int) -> None:
    assume(sign > 0 or math.frexp(ratio)[0] < 1 - 2.0**-32)  # else −2³¹, which is refused
    multiplier, shift = quantize_multiplier(sign * ratio)
    assert 2**30 <= abs(multiplier) < 2**31
    error = abs(Fraction(multiplier) * Fraction(2) ** (shift - 31) - sign * Fraction(ratio))
    assert error <= Fraction(2) ** (shift - 31) / 2
    assert -31 <= shift <= 30


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (0.0, (0, 0)),
        (1.0, (2**30, 1)),
        (0.5, (2**30, 0)),
        (0.75, (3 * 2**29, 0)),
        (-0.75, (-3 * 2**29, 0)),
        (2.0**-32, (2**30, -31)),
        (float(np.nextafter(2.0**-32, 0)), (2**30, -31)),  # rounds up to the next power of two
        (2.0**-33, (0, 0)),
        (1e-300, (0, 0)),
        (1 - 2.0**-40, (2**30, 1)),  # rounds to 2**31, which is halved
        ((2**31 - 1.5) / 2**31, (2**31 - 1, 0)),
    ],
)
def test_edges_of_the_multiplier(ratio: float, expected: tuple[int, int]) -> None:
    assert quantize_multiplier(ratio) == expected


@pytest.mark.parametrize("ratio", [float("nan"), float("inf"), 2.0**30, -(1 - 2.0**-40)])
def test_ratios_that_no_multiplier_expresses_are_refused(ratio: float) -> None:
    with pytest.raises(BlockError, match="scale ratio"):
        quantize_multiplier(ratio)


@pytest.mark.parametrize("ratio", [0.0, -0.25, 1.0, 1 - 2.0**-40, 5.0])
def test_ratios_at_which_tflm_stops_are_refused(ratio: float) -> None:
    with pytest.raises(BlockError, match="reference kernel stops"):
        quantize_multiplier_below_one(ratio)


@given(scales, st.lists(scales, min_size=1, max_size=4), scales)
def test_convolutions_compute_in_double_precision(input_scale: float, filters: list[float], output: float) -> None:
    table = convolution_requantization(input_scale, filters, output, len(filters))
    for filter_scale, multiplier, shift in zip(filters, table.multiplier, table.shift, strict=True):
        assert (multiplier, shift) == quantize_multiplier(input_scale * filter_scale / output)
    assert table.multiplier.dtype == table.shift.dtype == np.int32


def test_one_filter_scale_serves_all_channels_and_a_wrong_number_is_refused() -> None:
    assert len(convolution_requantization(0.5, [0.25], 1.0, 3).shift) == 3
    with pytest.raises(BlockError, match="2 scales for 3 output channels"):
        convolution_requantization(0.5, [0.25, 0.5], 1.0, 3)


@given(scales, scales, scales)
def test_fully_connected_multiplies_in_double_precision(input_scale: float, filter_scale: float, output: float) -> None:
    table = fully_connected_requantization(input_scale, filter_scale, None, output, 2)
    assert (table.multiplier[1], table.shift[1]) == quantize_multiplier(input_scale * filter_scale / output)


def test_fully_connected_needs_the_bias_scale_that_tflm_needs() -> None:
    fully_connected_requantization(0.5, 0.5, 0.25 + 0.019, 1.0, 1)
    with pytest.raises(BlockError, match="bias scale"):
        fully_connected_requantization(0.5, 0.5, 0.25 + 0.021, 1.0, 1)
    with pytest.raises(BlockError, match="negative scale"):
        fully_connected_requantization(0.5, -0.5, None, 1.0, 1)


@given(scales, scales, st.integers(1, 5000))
def test_mean_folds_the_division_into_a_truncated_multiplier(input_scale: float, output: float, count: int) -> None:
    table = mean_requantization(input_scale, output, count)
    exact = Fraction(input_scale) / Fraction(output) / count
    value = Fraction(int(table.multiplier[0])) * Fraction(2) ** (int(table.shift[0]) - 31)
    assert abs(value / exact - 1) < Fraction(1, 2**28)
    assert (table.multiplier[0] >= 2**29) and table.shift[0] >= -31


def test_mean_of_a_tiny_ratio_keeps_the_shift_in_range() -> None:
    table = mean_requantization(2.0**-30, 1.0, 1000)
    assert table.shift.tolist() == [-31]
    assert table.multiplier.tolist() == [(2**30 << 2) // 1000]


@given(scales, scales)
def test_rescaling_divides_in_double_precision(input_scale: float, output: float) -> None:
    rescaled = rescale_requantization(input_scale, output, 1)
    assert (rescaled.multiplier[0], rescaled.shift[0]) == quantize_multiplier(input_scale / output)


@given(scales, scales, scales)
def test_add_scales_both_inputs_below_one_half(first: float, second: float, output: float) -> None:
    twice = 2 * max(first, second)
    assume(twice / (2**20 * output) < 0.99)
    parameters = add_parameters(first, second, output)
    assert (parameters.multiplier_0, parameters.shift_0) == quantize_multiplier(first / twice)
    assert (parameters.multiplier_1, parameters.shift_1) == quantize_multiplier(second / twice)
    assert (parameters.output_multiplier, parameters.output_shift) == quantize_multiplier(twice / (2**20 * output))
    assert parameters.left_shift == 20
    assert max(parameters.shift_0, parameters.shift_1, parameters.output_shift) <= 0


def test_add_into_a_much_finer_scale_is_refused() -> None:
    with pytest.raises(BlockError, match="reference kernel stops"):
        add_parameters(1.0, 1.0, 2.0**-20)


@pytest.mark.parametrize(
    ("activation", "scale", "zero_point", "expected"),
    [
        (NO_ACTIVATION, 0.1, 5, (-128, 127)),
        (RELU, 0.1, 5, (5, 127)),
        (RELU6, 0.1, -128, (-128, -68)),
        (RELU6, 0.001, -128, (-128, 127)),
        (RELU6, 4.0, 0, (0, 2)),  # 1.5 rounds away from zero
        (RELU_N1_TO_1, 0.4, 0, (-3, 3)),  # 2.5 in single precision
        (RELU_N1_TO_1, 0.001, 0, (-128, 127)),
    ],
)
def test_activation_ranges(activation: int, scale: float, zero_point: int, expected: tuple[int, int]) -> None:
    assert activation_range(activation, scale, zero_point) == expected


def test_other_activations_and_bounds_beyond_32_bits_are_refused() -> None:
    with pytest.raises(BlockError, match="number 4"):
        activation_range(4, 0.1, 0)
    with pytest.raises(BlockError, match="too small"):
        activation_range(RELU6, 1e-9, 0)
    with pytest.raises(BlockError, match="too small"):
        activation_range(RELU6, 1e-45, 0)
