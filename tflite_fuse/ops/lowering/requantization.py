"""Integer multipliers and shifts from the scales in a model file, exactly as TFLM's Prepare functions compute them.

Scales are stored as float32. Single or double precision in TFLM's products and quotients affects the last bit, so every
function states its precision. It differs between versions; the oracle's counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Requantization
from tflite_fuse.model.types import half_away

NO_ACTIVATION, RELU, RELU_N1_TO_1, RELU6 = 0, 1, 2, 3
"""Numbers of ``ActivationFunctionType`` in the TensorFlow Lite schema."""

MAX_LEFT_SHIFT = 30
"""Largest left shift of a requantization: with one more, 32-bit accumulators retain only their lowest bit."""

_MIN_SHIFT = -31
_INT32_LIMIT = float(2**31)
_FULLY_CONNECTED_BIAS_TOLERANCE = 0.02


def quantize_multiplier(scale: float) -> tuple[int, int]:
    """Return (multiplier, shift) of a scale: ``scale ≈ multiplier · 2^(shift − 31)``, |multiplier| in 2³⁰…2³¹−1.

    The multiplier has the sign of the scale. Scales below 2⁻³² become (0, 0), as in TFLM. This is
    ``QuantizeMultiplier`` in its double precision form.

    Raises:
        BlockError: the scale is not finite, 2³⁰ or more, or a negative one that TFLM rounds to −2³¹.
    """
    entry = _table([scale])
    return int(entry.multiplier[0]), int(entry.shift[0])


def quantize_multiplier_below_one(scale: float) -> tuple[int, int]:
    """Return (multiplier, shift) where TFLM aborts unless 0 < scale < 1 and shift ≤ 0.

    Raises:
        BlockError: the scale, or its rounded value, is outside that range.
    """
    multiplier, shift = quantize_multiplier(scale)
    if not 0 < scale < 1 or shift > 0:
        raise BlockError(f"a scale ratio of {scale:g} is outside 0…1, where the reference kernel stops")
    return multiplier, shift


def convolution_requantization(
    input_scale: float, filter_scales: Sequence[float], output_scale: float, channels: int
) -> Requantization:
    """Return the table of CONV_2D, DEPTHWISE_CONV_2D and per-channel FULLY_CONNECTED, one entry per output channel.

    Products and quotients are in double precision; a single filter scale applies to all channels.
    """
    scales = list(filter_scales) * channels if len(filter_scales) == 1 else list(filter_scales)
    if len(scales) != channels:
        raise BlockError(f"its filter has {len(scales)} scales for {channels} output channels")
    return _table([float(input_scale) * float(scale) / float(output_scale) for scale in scales])


def fully_connected_requantization(
    input_scale: float, filter_scale: float, bias_scale: float | None, output_scale: float, channels: int
) -> Requantization:
    """Return the table of a per-tensor FULLY_CONNECTED, all in double precision.

    ``bias_scale`` is None without a bias, 0 for a bias without a scale.

    Raises:
        BlockError: the bias scale is not the product of the others, or the product is negative; TFLM rejects both.
    """
    if bias_scale is not None:
        difference = abs(float(input_scale) * float(filter_scale) - float(bias_scale))
        if difference / float(output_scale) > _FULLY_CONNECTED_BIAS_TOLERANCE:
            raise BlockError("its bias scale is not the product of its input and filter scales, which TFLM refuses")
    if filter_scale < 0:
        raise BlockError(f"its weights have the negative scale {filter_scale:g}, which TFLM refuses")
    return _table([float(input_scale) * float(filter_scale) / float(output_scale)] * channels)


def mean_requantization(input_scale: float, output_scale: float, count: int) -> Requantization:
    """Return one entry for MEAN over ``count`` values: the sum's multiplier divided by ``count``, truncated.

    The quotient of the scales is in double precision.
    """
    multiplier, shift = quantize_multiplier(float(input_scale) / float(output_scale))
    up = min(count.bit_length() - 1, 32, shift - _MIN_SHIFT)
    return Requantization(np.array([(multiplier << up) // count], np.int32), np.array([shift - up], np.int32))


def rescale_requantization(input_scale: float, output_scale: float, channels: int) -> Requantization:
    """Return the table of QUANTIZE from int8 to int8: the quotient in double precision."""
    return _table([float(input_scale) / float(output_scale)] * channels)


def activation_range(activation: int, scale: float, zero_point: int) -> tuple[int, int]:
    """Return the int8 range (lowest, highest) of a fused activation, rounded from single precision quotients.

    Raises:
        BlockError: the activation is none of NONE, RELU, RELU_N1_TO_1, RELU6, or a bound exceeds 32 bits.
    """
    real = {NO_ACTIVATION: (None, None), RELU: (0.0, None), RELU_N1_TO_1: (-1.0, 1.0), RELU6: (0.0, 6.0)}
    if activation not in real:
        raise BlockError(f"its fused activation (number {activation}) is none of RELU, RELU_N1_TO_1, RELU6")
    low, high = real[activation]
    return (
        -128 if low is None else max(-128, _quantize(low, scale, zero_point)),
        127 if high is None else min(127, _quantize(high, scale, zero_point)),
    )


def _quantize(value: float, scale: float, zero_point: int) -> int:
    with np.errstate(over="ignore"):
        quotient = float(np.float32(value) / np.float32(scale))
    if abs(quotient) >= _INT32_LIMIT:
        raise BlockError(f"its output scale {scale:g} is too small for its activation's range")
    return zero_point + int(half_away(quotient))


def _table(scales: Sequence[float]) -> Requantization:
    """Return the entries of some scales, each as ``quantize_multiplier`` documents."""
    values = np.array(scales, dtype=np.float64)
    for scale in values[~np.isfinite(values)].tolist():
        raise BlockError(f"a scale ratio of {scale} cannot be expressed as a multiplier")
    fractions, shifts = np.frexp(values)
    multipliers = half_away(fractions * 2.0**31)
    carries = multipliers == 2.0**31
    multipliers, shifts = np.where(carries, multipliers / 2, multipliers), shifts + carries
    vanishing = (values == 0) | (shifts < _MIN_SHIFT)
    multipliers, shifts = np.where(vanishing, 0, multipliers), np.where(vanishing, 0, shifts)
    for scale in values[multipliers == -(2.0**31)].tolist():
        # TFLM halves only +2³¹, and a product with −2³¹ may saturate, which the executor does not do.
        raise BlockError(f"a scale ratio of {scale!r} rounds to a multiplier outside 32-bit arithmetic")
    for scale in values[shifts > MAX_LEFT_SHIFT].tolist():
        raise BlockError(f"a scale ratio of {scale:g} is too large for 32-bit arithmetic")
    return Requantization(multipliers.astype(np.int32), shifts.astype(np.int32))
