"""CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED as the stages that compute their bytes; None where none does."""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt

from tflite_fuse.fusion.block.enums import StageKind
from tflite_fuse.proof.original.meaning import Int64s, Meaning, affine, fused_clamp, own_padding
from tflite_fuse.proof.original.scales import product_ratio, split_scale
from tflite_fuse.proof.original.values import Original, Step


def _windowed(
    original: Original, step: Step, kind: StageKind, weights: npt.NDArray[np.int8], depth: int
) -> Meaning | None:
    source, output = original.image(step.inputs[0]), original.image(step.outputs[0])
    clamp, bias = fused_clamp(original, step), bias_of(original, step, len(weights))
    ratios = filter_ratios(original, step, len(weights))
    if source is None or output is None or clamp is None or bias is None or ratios is None:
        return None
    kernel = (int(weights.shape[1]), int(weights.shape[2]))
    stride = (step.number("stride_h"), step.number("stride_w"))
    dilation = (step.number("dilation_h_factor", 1), step.number("dilation_w_factor", 1))
    if min(*stride, *dilation) < 1 or output[2] != len(weights):
        return None
    padding = own_padding(step, source, kernel, stride, dilation, output)
    if padding is None:
        return None
    multiplier, shift = split_scale(ratios)
    return Meaning(
        step, kind, (step.inputs[0],), step.outputs[0], (source,), output, kernel, stride, dilation, padding, depth,
        clamp, weights, bias, multiplier, shift, folds=True,
    )  # fmt: skip


def filter_ratios(original: Original, step: Step, channels: int, place: int = 0) -> npt.NDArray[np.float64] | None:
    """What a sum of products is scaled by, for each output channel; ``place`` is that of the input."""
    scales = original.scales(step.operand(1))
    if scales is None or len(scales) not in (1, channels):
        return None
    spread = np.repeat(scales, channels) if len(scales) == 1 else scales
    return product_ratio(affine(original, step.inputs[place])[0], spread, affine(original, step.outputs[0])[0])


def bias_of(original: Original, step: Step, channels: int, place: int = 2) -> Int64s | None:
    """The bias, zeros where it is left out; None where it has another length."""
    if step.operand(place) < 0:
        return np.zeros(channels, np.int64)
    values = np.array(original.numbers(step.operand(place)), np.int64)
    return values if len(values) == channels else None


def convolution(original: Original, step: Step) -> Meaning | None:
    """CONV_2D; one input channel per group is a DEPTHWISE."""
    weights, source = original.weights(step.operand(1)), original.image(step.inputs[0])
    if weights is None or source is None or weights.ndim != 4:
        return None
    if weights.shape[3] == source[2]:
        return _windowed(original, step, StageKind.CONV, weights, 1)
    if weights.shape[3] == 1 and weights.shape[0] % source[2] == 0:
        return _windowed(original, step, StageKind.DEPTHWISE, weights, weights.shape[0] // source[2])
    return None


def depthwise(original: Original, step: Step) -> Meaning | None:
    """DEPTHWISE_CONV_2D."""
    weights, source = original.weights(step.operand(1)), original.image(step.inputs[0])
    if weights is None or source is None or weights.ndim != 4 or weights.shape[0] != 1:
        return None
    multiplier = step.number("depth_multiplier")
    if source[2] * multiplier != weights.shape[3]:
        return None
    by_channel = np.ascontiguousarray(np.moveaxis(weights, 3, 0).transpose(0, 2, 3, 1))
    return _windowed(original, step, StageKind.DEPTHWISE, by_channel, multiplier)


def fully_connected(original: Original, step: Step) -> Meaning | None:
    """FULLY_CONNECTED: all values of the input to one pixel, or each pixel's to one at its place, as a convolution."""
    weights, scales = original.weights(step.operand(1)), original.scales(step.operand(1))
    clamp = fused_clamp(original, step)
    if weights is None or scales is None or clamp is None or weights.ndim != 2 or step.number("weights_format"):
        return None
    channels, depth = weights.shape
    bias = bias_of(original, step, channels)
    elements = prod(original.tensors[step.inputs[0]].dims)
    whole = elements == depth and prod(original.tensors[step.outputs[0]].dims) == channels
    image = original.rows(step.inputs[0])
    if bias is None or image is None or (not whole and image[2] != depth):
        return None
    result = (1, 1, channels) if whole else (*image[:2], channels)
    dims = original.tensors[step.outputs[0]].dims
    if prod(dims) != prod(result) or not (whole or dims[-1:] == (channels,)):
        return None
    source, output = affine(original, step.inputs[0])[0], affine(original, step.outputs[0])[0]
    if len(scales) not in (1, channels):
        return None
    multiplier, shift = split_scale(product_ratio(source, np.broadcast_to(scales, channels), output))
    return Meaning(
        step, StageKind.FULLY_CONNECTED if whole else StageKind.CONV, (step.inputs[0],), step.outputs[0],
        None if whole else (image,), result, clamp=clamp,
        weights=weights.reshape(channels, 1, 1, depth), bias=bias, multiplier=multiplier, shift=shift,
    )  # fmt: skip
