"""Ranges become parameters in which zero is exact and both ends are reached."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scripts.zoo.numerics import Window, same_pads
from scripts.zoo.quantization import activation_parameters, expected_range, spread_weights

REALS = st.floats(-1e3, 1e3, width=32)


@given(REALS, REALS)
def test_parameters_hold_the_range_and_zero(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    parameters = activation_parameters(low, high)
    assert -128 <= parameters.zero_point <= 127
    assert parameters.scale == np.float32(parameters.scale)
    # Rounding the zero point may cost half a step at one end, never more.
    slack = 0.51 * parameters.scale
    assert (-128 - parameters.zero_point) * parameters.scale <= min(low, 0.0) + slack
    assert (127 - parameters.zero_point) * parameters.scale >= max(high, 0.0) - slack


def test_relu_output_has_its_zero_at_the_lowest_value() -> None:
    assert activation_parameters(0.0, 6.0).zero_point == -128


@given(st.integers(1, 4000))
def test_few_samples_widen_the_range(count: int) -> None:
    samples = np.linspace(-1.0, 3.0, count + 1, dtype=np.float32)
    low, high = expected_range(samples)
    margin = -1.0 - low
    np.testing.assert_allclose(high - 3.0, margin)
    assert 0.0 < margin <= 2.0
    assert count < 2000 or margin < 0.2


@given(
    st.tuples(st.integers(1, 20), st.integers(1, 20)),
    st.tuples(st.integers(1, 7), st.integers(1, 7)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
def test_same_padding_gives_one_output_per_stride(
    size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]
) -> None:
    bare = Window(kernel, stride, dilation)
    pads = same_pads(*size, bare)
    padded = Window(kernel, stride, dilation, pads)
    assert padded.output_size(*size) == (-(-size[0] // stride[0]), -(-size[1] // stride[1]))
    for before, after in (pads[:2], pads[2:]):
        assert 0 <= after - before <= 1


def test_weights_leave_no_channel_dead_or_drowned() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, 10.0, (500, 20)).astype(np.float32)
    weights, outputs = spread_weights((12, 20), 0, True, True, lambda w: np.asarray(x @ w.T, np.float32), rng)
    assert np.abs(weights.values).max(axis=1).tolist() == [127] * 12
    assert weights.scales.shape == (12,)
    rounded = weights.values * weights.scales[:, None]
    np.testing.assert_allclose(outputs, x @ rounded.T + weights.bias, rtol=1e-4, atol=1e-4)
    assert 0.3 < outputs.std(axis=0).min() <= outputs.std(axis=0).max() < 2.0
