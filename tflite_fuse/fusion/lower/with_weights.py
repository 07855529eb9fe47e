"""Operators with weights as stages: CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.operators.operands import read_bias, read_filter
from tflite_fuse.fusion.block.operators.requantization import convolution_requantization, fully_connected_requantization
from tflite_fuse.fusion.block.operators.view import Fit, Lowered, OperatorView, window_fit, window_padding
from tflite_fuse.fusion.block.stages import Int8Array, Requantization, Stage, StageKind


def convolution(view: OperatorView) -> Lowered:
    """CONV_2D: any kernel, stride, dilation and padding; one group, or one input channel per group."""
    source, output = view.image()
    weights, scales = read_filter(view.model, view.operand(1), channel_axis=0, rank=4)
    filters, height, width, depth = weights.shape
    table = convolution_requantization(source.scale, scales, output.scale, filters)
    channels = source.shape[2]
    if depth == channels:
        return _window_stage(view, StageKind.CONV, weights, table, (height, width))
    if depth == 1 and filters % channels == 0:
        by_tap = weights[..., 0].transpose(1, 2, 0)
        return _window_stage(view, StageKind.DEPTHWISE, by_tap, table, (height, width), filters // channels)
    raise BlockError(f"its filters read {depth} of {channels} channels each (a grouped convolution)")


def depthwise(view: OperatorView) -> Lowered:
    """DEPTHWISE_CONV_2D: any kernel, stride, dilation, padding and depth multiplier."""
    source, output = view.image()
    weights, scales = read_filter(view.model, view.operand(1), channel_axis=3, rank=4)
    batch, height, width, channels = weights.shape
    multiplier = view.option("depth_multiplier")
    if batch != 1 or channels != source.shape[2] * multiplier:
        raise BlockError(
            f"its weights of shape {list(weights.shape)} do not fit {source.shape[2]} input channels and depth "
            f"multiplier {multiplier}"
        )
    table = convolution_requantization(source.scale, scales, output.scale, channels)
    return _window_stage(view, StageKind.DEPTHWISE, weights[0], table, (height, width), multiplier)


def _window_stage(
    view: OperatorView,
    kind: StageKind,
    weights: Int8Array,
    table: Requantization,
    kernel: tuple[int, int],
    multiplier: int = 1,
) -> Lowered:
    source, output = view.image()
    channels = len(table.multiplier)
    if output.shape[2] != channels:
        raise BlockError(f"its output {output.name} has {output.shape[2]} channels for {channels} filters")
    low, high = view.clamp(output)
    stage = Stage(
        kind,
        (),
        -1,
        kernel_size=kernel,
        stride=view.positive("stride_h", "stride_w"),
        dilation=view.positive("dilation_h_factor", "dilation_w_factor"),
        depth_multiplier=multiplier,
        activation_min=low,
        activation_max=high,
        weights=np.ascontiguousarray(weights),
        bias=read_bias(view.model, view.operand(2), channels),
        requantization=table,
    )
    stage = replace(stage, padding=window_padding(view, source, output, stage))
    return Lowered(stage, (source,), output, output.shape, window_fit(stage), folds_padding=True)


def fully_connected(view: OperatorView) -> Lowered:
    """FULLY_CONNECTED of one image: all values of the input, rows then columns then channels, to one pixel."""
    source, output = view.read(), view.write()
    weights, scales = read_filter(view.model, view.operand(1), channel_axis=0, rank=2)
    channels, depth = weights.shape
    if view.option("weights_format", default=0) != 0:
        raise BlockError("its weights are stored shuffled")
    if source.elements != depth or output.elements != channels:
        raise BlockError(f"it maps {source.elements} to {output.elements} values with weights of {depth} to {channels}")
    if len(scales) > 1:
        table = convolution_requantization(source.scale, scales, output.scale, channels)
    else:
        bias_scale = _bias_scale(view)
        table = fully_connected_requantization(source.scale, scales[0], bias_scale, output.scale, channels)
    low, high = view.clamp(output)
    stage = Stage(
        StageKind.FULLY_CONNECTED,
        (),
        -1,
        activation_min=low,
        activation_max=high,
        weights=weights,
        bias=read_bias(view.model, view.operand(2), channels),
        requantization=table,
    )
    return Lowered(stage, (source,), output, (1, 1, channels), Fit.BYTES)


def _bias_scale(view: OperatorView) -> float | None:
    """What TFLM reads as the scale of a bias: None without a bias, 0 where the file gives none."""
    if view.operand(2) < 0:
        return None
    quantization = view.model.main.tensors[view.operand(2)].quantization
    if quantization is None or not quantization.scale or not quantization.zero_point:
        return 0.0
    return float(np.float32(quantization.scale[0]))
