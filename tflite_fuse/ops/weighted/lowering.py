"""Lowering of layers with weights, on int8 or float32: the stages differ in their constants alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Requantization, Stage, StageKind
from tflite_fuse.ops.floats.common import FloatWeights, fits_float16, float_bias, float_weights
from tflite_fuse.ops.kinds.real import float_bounds
from tflite_fuse.ops.lowering.operands import Activation, read_bias, read_filter
from tflite_fuse.ops.lowering.requantization import convolution_requantization, fully_connected_requantization
from tflite_fuse.ops.lowering.view import (
    Fit,
    Lowered,
    OperatorView,
    by_value,
    transposed_padding,
    window_fit,
    window_padding,
)

Weights = npt.NDArray[Any]
Ends = tuple[Activation, Activation]


def _read_weights(view: OperatorView, source: Activation, axis: int, rank: int) -> tuple[Weights, tuple[float, ...]]:
    """Return constant weights in the model's layout, and their scales along an axis; none on float32."""
    if source.is_real:
        return float_weights(view, rank), ()
    return read_filter(view.model, view.operand(1), axis, rank)


def _layer(
    view: OperatorView,
    kind: StageKind,
    weights: Weights,
    scales: tuple[float, ...],
    ends: Ends,
    bias_at: int = 2,
    table: Requantization | None = None,
) -> Stage:
    """Return a stage of a kind, or of the same on float32, with its constants.

    Args:
        view: the operator.
        kind: the kind on int8.
        weights: in the layout of the kind.
        scales: of the weights; none on float32.
        ends: input and output.
        bias_at: position of the bias.
        table: its multipliers and shifts; by default those of a convolution.
    """
    source, output = ends
    channels = weights.shape[-1 if kind is StageKind.DEPTHWISE else 0]
    if source.is_real:
        bias = float_bias(view, channels, bias_at).astype("<f4").tobytes()
        # Each weight is read once per inference; other kinds would widen it once per pixel.
        narrow = kind is StageKind.FULLY_CONNECTED and fits_float16(weights)
        constants = FloatWeights(*float_bounds(view), bias, np.ascontiguousarray(weights, "<f4").tobytes(), narrow)
        return Stage(StageKind[f"FLOAT_{kind.name}"], parameters=constants)
    low, high = view.clamp(output)
    return Stage(
        kind,
        activation_min=low,
        activation_max=high,
        weights=np.ascontiguousarray(weights),
        bias=read_bias(view.model, view.operand(bias_at), channels),
        requantization=table or convolution_requantization(source.scale, scales, output.scale, channels),
    )


def _windowed(
    view: OperatorView, kind: StageKind, weights: Weights, scales: tuple[float, ...], ends: Ends, multiplier: int = 1
) -> Lowered:
    """Return a convolution of either kind with its operator's options; ``weights`` as in ``Stage``."""
    source, output = ends
    channels, kernel = weights.shape[0], weights.shape[1:3]
    if kind is StageKind.DEPTHWISE:
        channels, kernel = weights.shape[2], weights.shape[:2]
    if output.shape[2] != channels:
        raise BlockError(f"its output {output.name} has {output.shape[2]} channels for {channels} filters")
    stage = replace(
        _layer(view, kind, weights, scales, ends),
        kernel_size=(kernel[0], kernel[1]),
        stride=view.positive("stride_h", "stride_w"),
        dilation=view.positive("dilation_h_factor", "dilation_w_factor"),
        depth_multiplier=multiplier,
    )
    stage = replace(stage, padding=window_padding(view, source, output, stage))
    folds = bool(np.isfinite(weights).all())  # infinite weights give NaN on padded zeros, but not on skipped taps
    return Lowered(stage, (source,), output, output.shape, window_fit(stage), folds_padding=folds)


def lower_conv(view: OperatorView) -> Lowered:
    """Lower CONV_2D: any kernel, stride, dilation and padding; one group, or one input channel per group."""
    ends = view.image()
    weights, scales = _read_weights(view, ends[0], 0, 4)
    filters, channels, depth = len(weights), ends[0].shape[2], weights.shape[3]
    if depth == channels:
        return _windowed(view, StageKind.CONV, weights, scales, ends)
    if depth == 1 and filters % channels == 0:
        by_tap = weights[..., 0].transpose(1, 2, 0)
        return _windowed(view, StageKind.DEPTHWISE, by_tap, scales, ends, filters // channels)
    raise BlockError(f"its filters read {depth} of {channels} channels each (a grouped convolution)")


def lower_depthwise(view: OperatorView) -> Lowered:
    """Lower DEPTHWISE_CONV_2D: any kernel, stride, dilation, padding and depth multiplier."""
    ends = view.image()
    weights, scales = _read_weights(view, ends[0], 3, 4)
    channels, multiplier = ends[0].shape[2], view.option("depth_multiplier")
    if weights.shape[0] != 1 or weights.shape[3] != channels * multiplier:
        raise BlockError(
            f"its weights of shape {list(weights.shape)} do not fit {channels} input channels and depth "
            f"multiplier {multiplier}"
        )
    return _windowed(view, StageKind.DEPTHWISE, weights[0], scales, ends, multiplier)


def lower_dense(view: OperatorView) -> Lowered:
    """Lower FULLY_CONNECTED of all values of the input (rows, columns, channels) or of each pixel's values."""
    source, output = view.both()
    weights, scales = _read_weights(view, source, 0, 2)
    channels, depth = weights.shape
    if view.option("weights_format", default=0) != 0:
        raise BlockError("its weights are stored shuffled")
    whole = (source.elements, output.elements) == (depth, channels)
    if not whole:
        source, output = by_value(source, output)
        fits = source.shape[2] == depth and output.dims[-1:] == (channels,)
        if not fits or output.elements * depth != source.elements * channels:
            sizes = f"{list(source.dims)} to {list(output.dims)}"
            raise BlockError(f"it maps {sizes} with weights of {depth} to {channels}")
    table = None
    if len(scales) == 1:
        bias_scale = _bias_scale(view)
        table = fully_connected_requantization(source.scale, scales[0], bias_scale, output.scale, channels)
    kind, by_pixel = (StageKind.FULLY_CONNECTED, weights) if whole else (StageKind.CONV, weights[:, None, None, :])
    stage = _layer(view, kind, by_pixel, scales, (source, output), table=table)
    if whole:
        return Lowered(stage, (source,), output, (1, 1, channels), Fit.BYTES)
    return Lowered(stage, (source,), output, (*source.shape[:2], channels), Fit.PIXELS)


def _bias_scale(view: OperatorView) -> float | None:
    """Return the scale of a bias as TFLM reads it: None without a bias, 0 without a scale."""
    if view.operand(2) < 0:
        return None
    quantization = view.model.main.tensors[view.operand(2)].quantization
    if quantization is None or not quantization.scale or not quantization.zero_point:
        return 0.0
    return float(np.float32(quantization.scale[0]))


def lower_transposed(view: OperatorView) -> Lowered:
    """Lower TRANSPOSE_CONV: operands are the output's shape, the filter, the input, and optionally a bias."""
    source, output = ends = view.image(2)
    weights, scales = _read_weights(view, source, 0, 4)
    channels, tall, wide, depth = weights.shape
    if depth != source.shape[2] or channels != output.shape[2]:
        raise BlockError(f"its filters map {depth} to {channels} channels, its tensors have others")
    stage = replace(
        _layer(view, StageKind.TRANSPOSE_CONV, weights, scales, ends, bias_at=3),
        kernel_size=(tall, wide),
        spread=view.positive("stride_h", "stride_w"),
        padding=transposed_padding(view, source, output, (tall, wide)),
    )
    return Lowered(stage, (source,), output, output.shape)
