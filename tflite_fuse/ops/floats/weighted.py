"""Layers with float32 weights: FLOAT_CONV, FLOAT_TRANSPOSE_CONV, FLOAT_DEPTHWISE and FLOAT_FULLY_CONNECTED.

Each output is one sum of products over the window's rows, columns and input channels, in that order, and then of the
bias. Taps outside the image are skipped, because an infinite weight times zero would be NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ir.limits import MAX_AVERAGED
from tflite_fuse.ops.entry import (
    AS_BYTES,
    Kernels,
    Layout,
    Numbers,
    Operand,
    Runs,
    StageCheck,
    StoredTables,
    Tables,
    Tensors,
    Window,
    counted,
    parameters_of,
    pixels_of,
)
from tflite_fuse.ops.floats.common import (
    FLOAT_BYTES,
    Floats,
    bounded,
    float_bias,
    float_bounds,
    float_image,
    float_kind,
    float_weights,
)
from tflite_fuse.ops.lowering.operands import read_moved
from tflite_fuse.ops.lowering.view import (
    Fit,
    Lowered,
    OperatorView,
    by_value,
    four_dimensional,
    transposed_padding,
    window_fit,
    window_padding,
)
from tflite_fuse.ops.weighted.sums import taps
from tflite_fuse.units import round_up


@dataclass(frozen=True)
class FloatWeights:
    """Constants of a layer.

    Attributes:
        low, high: least and largest output.
        bias: float32 of each output channel, little-endian.
        weights: float32, little-endian, in the layout of the same kind on int8.
    """

    low: float
    high: float
    bias: bytes
    weights: bytes = b""


Shape = Callable[[Stage, BlockTensor, BlockTensor], tuple[int, ...]]
"""Function from a stage, its input and its output to the shape of its weights."""

_TABLE = Layout(
    FloatWeights,
    (
        Numbers("low", None, "<f4"),
        Numbers("high", None, "<f4"),
        Numbers("bias", lambda output: FLOAT_BYTES * output.channels, AS_BYTES),
    ),
)
_TOGETHER = 4
"""Output channels of a convolution computed together; an incomplete group costs as much as a complete one."""


def _encode(stage: Stage, tensors: Tensors) -> Tables:
    return replace(_TABLE.encode(stage, tensors), weights=parameters_of(stage, FloatWeights).weights)


def _decoded(shape: Shape) -> Callable[[Stage, Tensors, StoredTables], Stage]:
    def decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
        sizes = shape(stage, tensors[stage.inputs[0]], tensors[stage.output])
        if min(sizes) < 1:
            raise BlockError(f"A stage of the fused block has weights of shape {list(sizes)}.")
        stage = _TABLE.decode(stage, tensors, stored)
        weights = stored.weights(FLOAT_BYTES * prod(sizes)).tobytes()
        return replace(stage, parameters=replace(parameters_of(stage, FloatWeights), weights=weights))

    return decode


def _check(check: StageCheck, shape: Shape) -> None:
    found, output = parameters_of(check.stage, FloatWeights), check.output
    wanted = shape(check.stage, check.sources[0], output)
    check.require(len(found.weights) == FLOAT_BYTES * prod(wanted), f"needs float32 weights of shape {list(wanted)}")
    check.require(len(found.bias) == FLOAT_BYTES * output.channels, f"needs {output.channels} biases")


def _weights(stage: Stage, shape: tuple[int, ...]) -> Floats:
    return np.frombuffer(parameters_of(stage, FloatWeights).weights, "<f4").reshape(shape)


def _finish(stage: Stage, sums: Floats) -> Floats:
    """Return sums, [..., Cout], plus the bias, within bounds."""
    found = parameters_of(stage, FloatWeights)
    return bounded(sums + np.frombuffer(found.bias, "<f4"), found.low, found.high)


def _window(
    view: OperatorView, kind: StageKind, weights: Floats, kernel: tuple[int, int], channels: int, multiplier: int = 1
) -> Lowered:
    """Return a convolution of either kind with its operator's options; ``weights`` in the stage's layout."""
    source, output = float_image(view)
    if output.shape[2] != channels:
        raise BlockError(f"its output {output.name} has {output.shape[2]} channels for {channels} filters")
    stage = Stage(
        kind,
        kernel_size=kernel,
        stride=view.positive("stride_h", "stride_w"),
        dilation=view.positive("dilation_h_factor", "dilation_w_factor"),
        depth_multiplier=multiplier,
        parameters=_constants(view, weights, channels),
    )
    stage = replace(stage, padding=window_padding(view, source, output, stage))
    folds = bool(np.isfinite(weights).all())  # infinite weights give NaN on padded zeros, but not on skipped taps
    return Lowered(stage, (source,), output, output.shape, window_fit(stage), folds_padding=folds)


def _constants(view: OperatorView, weights: Floats, channels: int, bias_at: int = 2) -> FloatWeights:
    bias = float_bias(view, channels, bias_at).astype("<f4").tobytes()
    return FloatWeights(*float_bounds(view), bias, np.ascontiguousarray(weights, "<f4").tobytes())


# ---- FLOAT_CONV ----


def _conv_shape(stage: Stage, source: BlockTensor, output: BlockTensor) -> tuple[int, ...]:
    return output.channels, *stage.kernel_size, source.channels


def _inside(stage: Stage, values: Floats, output: BlockTensor) -> list[np.ndarray]:
    """Return for each tap whether it lies in the image, [Hout, Wout, 1]."""
    everywhere = np.ones((*values.shape[:2], 1), np.int64)
    return [seen > 0 for _, _, seen in taps(stage, everywhere, output, fill=0)]


def _conv(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    ((tensor, values),) = operands
    weights = _weights(stage, _conv_shape(stage, tensor, output))
    return _convolved(stage, values, _inside(stage, values, output), weights, output)


def _convolved(stage: Stage, values: Floats, inside: list[np.ndarray], weights: Floats, output: BlockTensor) -> Floats:
    """Sums over taps, row by row, then input channels; of each tap where it lies on a pixel."""
    sums = _zeros(output)
    with np.errstate(all="ignore"):
        for (ky, kx, seen), there in zip(taps(stage, values, output, fill=0), inside, strict=True):
            for channel in range(values.shape[2]):
                products = seen[:, :, channel, None] * weights[:, ky, kx, channel]
                np.add(sums, products, out=sums, where=there)
        return _finish(stage, sums)


def _zeros(output: BlockTensor) -> Floats:
    return np.zeros((output.height, output.width, output.channels), np.float32)


def _products(stage: Stage, tensors: Tensors) -> int:
    return prod(stage.kernel_size) * tensors[stage.inputs[0]].channels * tensors[stage.output].channels


def _conv_counts(stage: Stage, tensors: Tensors, pixels: int, depth: int) -> dict[str, int]:
    """Return the counts, with the channels that complete the last group of four."""
    groups = round_up(tensors[stage.output].channels, _TOGETHER) // _TOGETHER
    taps_of_groups = pixels * groups * prod(stage.kernel_size)
    outputs = pixels * tensors[stage.output].channels
    return {"float macs": _TOGETHER * taps_of_groups * depth, "float taps": taps_of_groups, "float outputs": outputs}


@counted("float macs", "float taps", "float outputs")
def _conv_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    return _conv_counts(stage, tensors, pixels_of(runs), tensors[stage.inputs[0]].channels)


def _lower_conv(view: OperatorView) -> Lowered:
    """Lower CONV_2D of one group, or of one input channel per group."""
    source, _ = float_image(view)
    weights = float_weights(view, 4)
    filters, height, width, depth = weights.shape
    channels = source.shape[2]
    if depth == channels:
        return _window(view, StageKind.FLOAT_CONV, weights, (height, width), filters)
    if depth == 1 and filters % channels == 0:
        by_tap = weights[..., 0].transpose(1, 2, 0)
        return _window(view, StageKind.FLOAT_DEPTHWISE, by_tap, (height, width), filters, filters // channels)
    raise BlockError(f"its filters read {depth} of {channels} channels each (a grouped convolution)")


FLOAT_CONV = float_kind(
    StageKind.FLOAT_CONV,
    window=Window.SLIDING,
    cuts=True,
    check=lambda check: _check(check, _conv_shape),
    reference=_conv,
    encode_table=_encode,
    decode_table=_decoded(_conv_shape),
    macs=_products,
    work=_conv_work,
)

# ---- FLOAT_TRANSPOSE_CONV ----


def _check_transposed(check: StageCheck) -> None:
    _check(check, _conv_shape)
    check.require(check.stage.stride == (1, 1), "steps over its output")


def _transposed(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    """TFLM adds every input pixel into the outputs its filter reaches: a convolution of the pixels spread out."""
    ((tensor, values),) = operands
    (down, across), (height, width, channels) = stage.spread, values.shape
    spread = np.zeros(((height - 1) * down + 1, (width - 1) * across + 1, channels + 1), np.float32)
    spread[::down, ::across, :-1], spread[::down, ::across, -1] = values, 1
    there = [seen[:, :, -1:] > 0 for _, _, seen in taps(stage, spread, output, fill=0)]
    weights = _weights(stage, _conv_shape(stage, tensor, output))[:, ::-1, ::-1]
    return _convolved(stage, spread[:, :, :-1], there, weights, output)


def _mean_macs(stage: Stage, tensors: Tensors) -> int:
    """On average: the filter's taps are shared out among so many neighbouring output pixels."""
    return _products(stage, tensors) // prod(stage.spread)


@counted("float dense macs", "float outputs")
def _transposed_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    """One output after the other, as a layer that is fully connected sums."""
    pixels = pixels_of(runs)
    outputs = pixels * tensors[stage.output].channels
    return {"float dense macs": pixels * _mean_macs(stage, tensors), "float outputs": outputs}


def _lower_transposed(view: OperatorView) -> Lowered:
    """TRANSPOSE_CONV: operands are the output's shape, the filter, the input, and perhaps a bias."""
    source, output = four_dimensional(*(read_moved(view.model, index) for index in (view.operand(2), view.output)))
    weights = float_weights(view, 4)
    channels, tall, wide, depth = weights.shape
    if not (source.is_real and output.is_real and depth == source.shape[2] and channels == output.shape[2]):
        raise BlockError(f"its filters map {depth} to {channels} channels of float32, its tensors have others")
    stage = Stage(
        StageKind.FLOAT_TRANSPOSE_CONV,
        kernel_size=(tall, wide),
        spread=view.positive("stride_h", "stride_w"),
        padding=transposed_padding(view, source, output, (tall, wide)),
        parameters=_constants(view, weights, channels, 3),
    )
    return Lowered(stage, (source,), output, output.shape)


FLOAT_TRANSPOSE_CONV = float_kind(
    StageKind.FLOAT_TRANSPOSE_CONV,
    window=Window.SPREAD,
    check=_check_transposed,
    reference=_transposed,
    encode_table=_encode,
    decode_table=_decoded(_conv_shape),
    macs=_mean_macs,
    work=_transposed_work,
)

# ---- FLOAT_DEPTHWISE ----


def _depthwise_shape(stage: Stage, source: BlockTensor, output: BlockTensor) -> tuple[int, ...]:
    return *stage.kernel_size, output.channels


def _check_depthwise(check: StageCheck) -> None:
    channels, multiplier = check.sources[0].channels, check.stage.depth_multiplier
    fits = multiplier >= 1 and channels * multiplier == check.output.channels
    check.require(fits, f"makes {check.output.channels} channels of {channels} with multiplier {multiplier}")
    _check(check, _depthwise_shape)


def _depthwise(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    ((tensor, values),) = operands
    weights, sums = _weights(stage, _depthwise_shape(stage, tensor, output)), _zeros(output)
    with np.errstate(all="ignore"):
        seen_and_inside = zip(taps(stage, values, output, fill=0), _inside(stage, values, output), strict=True)
        for (ky, kx, seen), inside in seen_and_inside:
            products = np.repeat(seen, stage.depth_multiplier, axis=2) * weights[ky, kx]
            np.add(sums, products, out=sums, where=inside)
        return _finish(stage, sums)


def _depthwise_macs(stage: Stage, tensors: Tensors) -> int:
    return prod(stage.kernel_size) * tensors[stage.output].channels


@counted("float depthwise macs", "float outputs")
def _depthwise_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    pixels = pixels_of(runs)
    macs, outputs = pixels * _depthwise_macs(stage, tensors), pixels * tensors[stage.output].channels
    return {"float depthwise macs": macs, "float outputs": outputs}


def _lower_depthwise(view: OperatorView) -> Lowered:
    """Lower DEPTHWISE_CONV_2D: any kernel, stride, dilation, padding and depth multiplier."""
    source, _ = float_image(view)
    weights = float_weights(view, 4)
    batch, height, width, channels = weights.shape
    multiplier = view.option("depth_multiplier")
    if batch != 1 or channels != source.shape[2] * multiplier:
        raise BlockError(
            f"its weights of shape {list(weights.shape)} do not fit {source.shape[2]} input channels and depth "
            f"multiplier {multiplier}"
        )
    return _window(view, StageKind.FLOAT_DEPTHWISE, weights[0], (height, width), channels, multiplier)


FLOAT_DEPTHWISE = float_kind(
    StageKind.FLOAT_DEPTHWISE,
    window=Window.SLIDING,
    cuts=True,
    check=_check_depthwise,
    reference=_depthwise,
    encode_table=_encode,
    decode_table=_decoded(_depthwise_shape),
    macs=_depthwise_macs,
    work=_depthwise_work,
)

# ---- FLOAT_FULLY_CONNECTED ----


def _dense_shape(stage: Stage, source: BlockTensor, output: BlockTensor) -> tuple[int, ...]:
    return output.channels, source.pixels * source.channels


def _check_dense(check: StageCheck) -> None:
    check.one_pixel()
    check.require(check.sources[0].pixels <= MAX_AVERAGED, f"reads more than {MAX_AVERAGED} pixels")
    _check(check, _dense_shape)


def _dense(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    ((tensor, values),) = operands
    weights, sums = _weights(stage, _dense_shape(stage, tensor, output)), _zeros(output)
    with np.errstate(all="ignore"):
        for value, of_channels in zip(values.ravel(), weights.T, strict=True):
            sums += value * of_channels
        return _finish(stage, sums)


def _dense_macs(stage: Stage, tensors: Tensors) -> int:
    return prod(_dense_shape(stage, tensors[stage.inputs[0]], tensors[stage.output]))


@counted("float macs", "float taps", "float outputs")
def _dense_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    """Return the counts of a convolution whose taps are the input's pixels."""
    source, output = tensors[stage.inputs[0]], tensors[stage.output]
    counts = _conv_counts(stage, tensors, source.pixels, source.channels)
    return {**counts, "float outputs": output.channels}


def _lower_dense(view: OperatorView) -> Lowered:
    """Lower FULLY_CONNECTED of all values of the input, or of each pixel's values."""
    source, output = view.same()
    weights = float_weights(view, 2)
    channels, depth = weights.shape
    if view.option("weights_format", default=0) != 0:
        raise BlockError("its weights are stored shuffled")
    constants = _constants(view, weights, channels)
    if (source.elements, output.elements) == (depth, channels):
        stage = Stage(StageKind.FLOAT_FULLY_CONNECTED, parameters=constants)
        return Lowered(stage, (source,), output, (1, 1, channels), Fit.BYTES)
    source, output = by_value(source, output)
    fits = source.shape[2] == depth and output.dims[-1:] == (channels,)
    if not fits or output.elements * depth != source.elements * channels:
        sizes = f"{list(source.dims)} to {list(output.dims)}"
        raise BlockError(f"it maps {sizes} with weights of {depth} to {channels}")
    stage = Stage(StageKind.FLOAT_CONV, parameters=constants)
    return Lowered(stage, (source,), output, (*source.shape[:2], channels), Fit.PIXELS)


FLOAT_FULLY_CONNECTED = float_kind(
    StageKind.FLOAT_FULLY_CONNECTED,
    # With a single pixel it is a 1x1 convolution and keeps no sums.
    sum_bytes=lambda source: FLOAT_BYTES if source.pixels > 1 else 0,
    sums_in_order=True,
    check=_check_dense,
    reference=_dense,
    encode_table=_encode,
    decode_table=_decoded(_dense_shape),
    macs=_dense_macs,
    work=_dense_work,
)

KINDS = (FLOAT_CONV, FLOAT_TRANSPOSE_CONV, FLOAT_DEPTHWISE, FLOAT_FULLY_CONNECTED)

LOWERINGS: dict[str, Callable[[OperatorView], Lowered]] = {
    "CONV_2D": _lower_conv,
    "DEPTHWISE_CONV_2D": _lower_depthwise,
    "FULLY_CONNECTED": _lower_dense,
    "TRANSPOSE_CONV": _lower_transposed,
}
"""Operators of these kinds if they compute in float32."""
