"""Int8 parameters from float ranges, and weights with well spread outputs.

The rules are those of TensorFlow Lite's int8 scheme (tensorflow.org/lite/performance/quantization_spec): activations
asymmetric per tensor, weights symmetric in [-127, 127] per tensor or per output channel, biases int32 with scale
``input scale · weight scale``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from scripts.zoo.numerics import FloatArray


@dataclass(frozen=True)
class ActivationParameters:
    """``real = scale * (quantized - zero_point)`` for one tensor."""

    scale: float
    zero_point: int


SOFTMAX_PARAMETERS = ActivationParameters(1.0 / 256.0, -128)
"""What the runtime dictates for the outputs of SOFTMAX and LOGISTIC."""

LOG_SOFTMAX_PARAMETERS = ActivationParameters(1.0 / 16.0, 127)
"""The same of LOG_SOFTMAX."""


@dataclass(frozen=True)
class QuantizedWeights:
    """Weights on the int8 grid.

    Attributes:
        values: int8, the layout of the float weights they came from.
        scales: one, or one per output channel.
        bias: float, one per output channel; becomes int32 once the input's scale is known.
    """

    values: npt.NDArray[np.int8]
    scales: FloatArray
    bias: FloatArray


def activation_parameters(low: float, high: float) -> ActivationParameters:
    """Scale and zero point for reals in [low, high], widened to hold 0 and float32-exact, as the file stores it."""
    low, high = min(low, 0.0), max(high, 0.0)
    if high - low < 1e-6:
        high = low + 1.0
    scale = float(np.float32((high - low) / 255.0))
    zero_point = int(np.clip(np.round(-128.0 - low / scale), -128, 127))
    return ActivationParameters(scale, zero_point)


def expected_range(samples: FloatArray) -> tuple[float, float]:
    """Return the expected range of more values like these: their own, widened for few (a classifier's outputs)."""
    low, high = float(samples.min()), float(samples.max())
    margin = min(0.5, 2.0 / samples.size**0.5) * (high - low)
    return low - margin, high + margin


def quantize_bias(weights: QuantizedWeights, input_scale: float) -> npt.NDArray[np.int32]:
    """Return int32 biases with scale ``input_scale * weights.scales``."""
    scaled = weights.bias.astype(np.float64) / (input_scale * weights.scales.astype(np.float64))
    return np.clip(np.round(scaled), -(2**30), 2**30).astype(np.int32)


def _on_grid(weights: FloatArray, channel_axis: int | None) -> tuple[npt.NDArray[np.int8], FloatArray]:
    """Return weights rounded to [-127, 127], and the scale of the tensor (axis None) or of each channel."""
    axes = None if channel_axis is None else tuple(a for a in range(weights.ndim) if a != channel_axis)
    largest = np.abs(weights).max(axis=axes, keepdims=True)
    scales = np.maximum(largest / 127.0, 1e-9).astype(np.float32)
    values = np.clip(np.round(weights / scales), -127, 127).astype(np.int8)
    return values, scales.reshape(-1)


def spread_weights(
    shape: tuple[int, ...],
    channel_axis: int,
    per_channel: bool,
    with_bias: bool,
    forward: Callable[[FloatArray], FloatArray],
    rng: np.random.Generator,
) -> tuple[QuantizedWeights, FloatArray]:
    """Draw weights so that no channel is dead or saturated, and quantize them.

    He-scaled normal weights (He et al. 2015, section 2.2), then each output channel is scaled and shifted to a random
    mean and spread over the calibration images: what a folded batch normalisation leaves behind in trained networks.

    Args:
        shape: of the weights; ``channel_axis`` is the axis of output channels.
        forward: weights -> outputs without bias, channels last.

    Returns:
        the quantized weights, and the outputs (with bias) that the rounded weights give.
    """
    channels = shape[channel_axis]
    fan_in = prod(shape) // channels
    raw = rng.normal(0.0, np.sqrt(2.0 / fan_in), shape).astype(np.float32)
    outputs = forward(raw).reshape(-1, channels)
    mean, deviation = outputs.mean(axis=0), outputs.std(axis=0)
    # Late layers see a handful of pixels: their deviations are rough estimates, and dividing by a tiny one would turn
    # rounding noise into signal.
    floor = max(0.25 * float(deviation.mean()), 0.4 * float(np.abs(outputs).mean()), 1e-3)
    gain = rng.uniform(0.6, 1.4, channels) / np.maximum(deviation, floor)
    centre = rng.normal(0.25, 0.4, channels)
    along_channels = [1] * len(shape)
    along_channels[channel_axis] = channels
    values, scales = _on_grid(
        (raw * gain.reshape(along_channels)).astype(np.float32), channel_axis if per_channel else None
    )
    bias = (centre - gain * mean if with_bias else np.zeros(channels)).astype(np.float32)
    rounded = values.astype(np.float32) * (scales.reshape(along_channels) if per_channel else scales[0])
    return QuantizedWeights(values, scales, bias), forward(rounded) + bias
