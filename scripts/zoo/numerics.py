"""Float forward functions over a batch of calibration images, and the geometry of sliding windows.

All activations are float32 NHWC with the calibration images along N. Convolution weights are [cout, kh, kw, cin],
depthwise weights [kh, kw, cin, multiplier]: output channel = input channel · multiplier + j, as TensorFlow Lite has it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

FloatArray = npt.NDArray[np.float32]
Pair = tuple[int, int]
Pads = tuple[int, int, int, int]
"""Rows above, rows below, columns left, columns right."""

NO_PADS: Pads = (0, 0, 0, 0)


@dataclass(frozen=True)
class Window:
    """A sliding window: kernel, stride and dilation as (rows, columns), and explicit padding in pixels."""

    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pads: Pads = NO_PADS

    @property
    def extent(self) -> Pair:
        """Return rows and columns of input that one output pixel spans."""
        return (self.kernel[0] - 1) * self.dilation[0] + 1, (self.kernel[1] - 1) * self.dilation[1] + 1

    def output_size(self, height: int, width: int) -> Pair:
        """Return rows and columns of the output; less than 1 where the window does not fit into the padded input."""
        top, bottom, left, right = self.pads
        rows = (height + top + bottom - self.extent[0]) // self.stride[0] + 1
        columns = (width + left + right - self.extent[1]) // self.stride[1] + 1
        return rows, columns


def same_padding(size: int, extent: int, stride: int) -> Pair:
    """Return the padding of one axis under TensorFlow's SAME rule: output = ceil(size / stride), odd rest after."""
    output = -(-size // stride)
    total = max((output - 1) * stride + extent - size, 0)
    return total // 2, total - total // 2


def same_pads(height: int, width: int, window: Window) -> Pads:
    """Return the four paddings of SAME for a window (its own ``pads`` are ignored)."""
    top, bottom = same_padding(height, window.extent[0], window.stride[0])
    left, right = same_padding(width, window.extent[1], window.stride[1])
    return top, bottom, left, right


def pad(x: FloatArray, pads: Pads, value: float = 0.0) -> FloatArray:
    """Add rows and columns of ``value`` around every image."""
    if pads == NO_PADS:
        return x
    top, bottom, left, right = pads
    return np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=value)


def _windows(x: FloatArray, window: Window, fill: float) -> FloatArray:
    """Return a view of shape [n, rows, columns, channels, kh, kw]: every input pixel under every window."""
    views = sliding_window_view(pad(x, window.pads, fill), window.extent, axis=(1, 2))
    return views[:, :: window.stride[0], :: window.stride[1], :, :: window.dilation[0], :: window.dilation[1]]


def conv2d(x: FloatArray, weights: FloatArray, window: Window) -> FloatArray:
    """Return the cross-correlation as one matrix product per image."""
    matrix = weights.reshape(weights.shape[0], -1).T
    if window == Window((1, 1)):
        result: FloatArray = x @ matrix
        return result
    return np.stack([_columns(image[None], window) @ matrix for image in x])


def _columns(image: FloatArray, window: Window) -> FloatArray:
    """Return the values under the window at each of its positions: [rows, columns, kh · kw · channels]."""
    view = _windows(image, window, 0.0)[0]
    return np.ascontiguousarray(view.transpose(0, 1, 3, 4, 2)).reshape(*view.shape[:2], -1)


def transpose_conv2d(x: FloatArray, weights: FloatArray, stride: Pair) -> FloatArray:
    """Add every input pixel to the output pixels its filter reaches, [n, h · stride, w · stride, channels]; SAME."""
    count, height, width, _ = x.shape
    channels, tall, wide, _ = weights.shape
    down, across = stride
    sums = np.zeros((count, height * down + tall, width * across + wide, channels), np.float32)
    for ky in range(tall):
        for kx in range(wide):
            sums[:, ky : ky + height * down : down, kx : kx + width * across : across] += x @ weights[:, ky, kx, :].T
    top, left = max(0, tall - down) // 2, max(0, wide - across) // 2
    return sums[:, top : top + height * down, left : left + width * across]


def resize(x: FloatArray, size: Pair, bilinear: bool) -> FloatArray:
    """Return the nearest pixel above and to the left, or values between four; corners and centres are left alone."""
    for axis, length in enumerate(size, 1):
        places = np.arange(length) * x.shape[axis] / length
        low = places.astype(np.intp)
        high = np.minimum(low + 1, x.shape[axis] - 1)
        share = (places - low if bilinear else np.zeros(length)).astype(np.float32)
        shape = [length if each == axis else 1 for each in range(4)]
        share = share.reshape(shape)
        x = np.take(x, low, axis) * (1 - share) + np.take(x, high, axis) * share
    return x


def depthwise_conv2d(x: FloatArray, weights: FloatArray, window: Window) -> FloatArray:
    """Return each input channel under its own ``multiplier`` filters, summed tap by tap."""
    rows, columns = window.output_size(x.shape[1], x.shape[2])
    padded = pad(x, window.pads)
    multiplier = weights.shape[3]
    result: FloatArray = np.zeros((x.shape[0], rows, columns, x.shape[3], multiplier), np.float32)
    for ky in range(window.kernel[0]):
        top = ky * window.dilation[0]
        for kx in range(window.kernel[1]):
            left = kx * window.dilation[1]
            taps = padded[
                :,
                top : top + (rows - 1) * window.stride[0] + 1 : window.stride[0],
                left : left + (columns - 1) * window.stride[1] + 1 : window.stride[1],
            ]
            result += taps[..., None] * weights[ky, kx]
    return result.reshape(x.shape[0], rows, columns, x.shape[3] * multiplier)


def average_pool(x: FloatArray, window: Window) -> FloatArray:
    """Return the mean of the pixels inside the image: padding does not count, as in TensorFlow Lite."""
    total = _windows(x, window, 0.0).sum(axis=(4, 5))
    count = _windows(np.ones((1, x.shape[1], x.shape[2], 1), np.float32), window, 0.0).sum(axis=(4, 5))
    result: FloatArray = (total / count).astype(np.float32)
    return result


def max_pool(x: FloatArray, window: Window) -> FloatArray:
    """Return the largest pixel inside the image."""
    result: FloatArray = _windows(x, window, -np.inf).max(axis=(4, 5))
    return result


def softmax(x: FloatArray, beta: float) -> FloatArray:
    """Return the softmax over the last axis."""
    powers = np.exp(beta * (x - x.max(axis=-1, keepdims=True)))
    result: FloatArray = (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)
    return result


def log_softmax(x: FloatArray) -> FloatArray:
    """Return the logarithm of the softmax over the last axis."""
    below = x - x.max(axis=-1, keepdims=True)
    result: FloatArray = (below - np.log(np.exp(below).sum(axis=-1, keepdims=True))).astype(np.float32)
    return result


def logistic(x: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(-x))."""
    result: FloatArray = (1.0 / (1.0 + np.exp(-x))).astype(np.float32)
    return result


def calibration_images(shape: tuple[int, ...], count: int, rng: np.random.Generator) -> FloatArray:
    """Return ``count`` inputs in [-1, 1]: half white noise, half the same noise made coarse, so that both the inputs a
    verifier draws and the smooth ones a camera gives lie inside the ranges chosen from them.

    Args:
        shape: of one input without its batch axis; any rank.
    """
    noise = rng.uniform(-1.0, 1.0, (count, *shape)).astype(np.float32)
    if len(shape) == 3:
        for index in range(count // 2):
            step = 2 ** (2 + index % 3)
            coarse = noise[index, ::step, ::step]
            enlarged = coarse.repeat(step, axis=0).repeat(step, axis=1)
            noise[index] = enlarged[: shape[0], : shape[1]]
    return noise
