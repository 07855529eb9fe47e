"""Layers with weights: every output channel is a scaled sum of products of weights and values.

CONV sums over all input channels under the window, DEPTHWISE over one, FULLY_CONNECTED over all values of the input to
one pixel, TRANSPOSE_CONV over the spread pixels under its window. TFLite's FULLY_CONNECTED of several rows of values is
a 1x1 CONV.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tflite_fuse.ir.block import BlockTensor, Requantization, Stage, StageKind
from tflite_fuse.ir.limits import MAX_AVERAGED, MAX_PATCH_VALUES
from tflite_fuse.ops.arithmetic import Int64Array
from tflite_fuse.ops.entry import (
    Coding,
    Kernels,
    Kind,
    Operand,
    Runs,
    StageCheck,
    StoredTables,
    Tables,
    Tensors,
    Window,
    counted,
    decode_entries,
    encode_entries,
    pixels_of,
    required,
)
from tflite_fuse.ops.packing import can_pack, packs_sums, sums_pixels
from tflite_fuse.ops.weighted.lowering import lower_conv, lower_dense, lower_depthwise, lower_transposed
from tflite_fuse.ops.weighted.sums import (
    add_bias,
    check_weights,
    conv_sums,
    decode_plain_weights,
    decode_weighted,
    encode_weighted,
    matmul,
    only_adds,
    requantize,
    taps,
)
from tflite_fuse.ops.weighted.work import CONV_COUNTS, DEPTHWISE_COUNTS, PLAIN_COUNTS, weighted_work
from tflite_fuse.units import round_up

Shape = Callable[[Stage, BlockTensor, BlockTensor], tuple[int, ...]]
"""Function from a stage, its input and its output to the shape of its weights."""


def _decoded(shape: Shape) -> Callable[[Stage, Tensors, StoredTables], Stage]:
    return lambda stage, tensors, stored: decode_weighted(
        stage, tensors, stored, shape(stage, tensors[stage.inputs[0]], tensors[stage.output])
    )


def _products(stage: Stage, tensors: Tensors) -> int:
    """Return the products of an output pixel."""
    depth = 1 if stage.kind in (StageKind.DEPTHWISE, StageKind.FLOAT_DEPTHWISE) else tensors[stage.inputs[0]].channels
    return prod(stage.kernel_size) * depth * tensors[stage.output].channels


def _macs(stage: Stage, tensors: Tensors) -> int:
    return 0 if only_adds(stage) else _products(stage, tensors)


def _window_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    return weighted_work(stage, tensors, runs, kernels, _products(stage, tensors))


# ---- CONV ----


def conv_shape(stage: Stage, source: BlockTensor, output: BlockTensor) -> tuple[int, ...]:
    """Return the shape of the weights, [Cout, kh, kw, Cin]."""
    return output.channels, *stage.kernel_size, source.channels


def _conv(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((tensor, values),) = operands
    return requantize(stage, add_bias(stage, conv_sums(stage, values - tensor.zero_point, output)), output)


def reads_own_pixel(stage: Stage) -> bool:
    """Return whether a stage reads no pixel but the one at its output's place."""
    return (stage.kernel_size, stage.stride, stage.padding) == ((1, 1), (1, 1), (0, 0))


def _holds_pixel(stage: Stage, source: BlockTensor) -> bool:
    """Return whether a stage reads one pixel, and its kernels copy it on every core before they write the result."""
    return reads_own_pixel(stage) and source.channels <= MAX_PATCH_VALUES and can_pack(stage, source)


def sum_of_channels(channels: int, table: Requantization) -> Stage:
    """Return a stage that sums each pixel's values without their zero point, rescaled by a table of one entry."""
    return Stage(StageKind.CONV, weights=np.ones((1, 1, 1, channels), np.int8), requantization=table)


CONV = Kind(
    StageKind.CONV,
    window=Window.SLIDING,
    cuts=True,
    writes_over=_holds_pixel,
    check=lambda check: check_weights(check, conv_shape(check.stage, check.sources[0], check.output)),
    reference=_conv,
    constants=Coding(encode_weighted, _decoded(conv_shape)),
    macs=_macs,
    work=counted(*CONV_COUNTS, *PLAIN_COUNTS)(_window_work),
    lowerings={"CONV_2D": lower_conv},
)

# ---- DEPTHWISE ----


def depthwise_shape(stage: Stage, source: BlockTensor, output: BlockTensor) -> tuple[int, ...]:
    """Return the shape of the weights, [kh, kw, Cout]."""
    return *stage.kernel_size, output.channels


def _check_depthwise(check: StageCheck) -> None:
    channels, multiplier = check.sources[0].channels, check.stage.depth_multiplier
    check.require(
        multiplier >= 1 and channels * multiplier == check.output.channels,
        f"makes {check.output.channels} channels of {channels} with multiplier {multiplier}",
    )
    check_weights(check, depthwise_shape(check.stage, check.sources[0], check.output))


def _depthwise(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((tensor, values),) = operands
    weights = required(stage.weights, stage, "weights")
    sums = np.zeros((output.height, output.width, weights.shape[2]), np.int64)
    for ky, kx, seen in taps(stage, values - tensor.zero_point, output, fill=0):
        sums += np.repeat(seen, stage.depth_multiplier, axis=2) * weights[ky, kx]
    return requantize(stage, add_bias(stage, sums), output)


def sum_stage(window: tuple[int, int], channels: int, table: Requantization) -> Stage:
    """Return a stage that sums each window's values without their zero point, rescaled by a table of one entry."""
    ones, entries = (
        np.ones((*window, channels), np.int8),
        (np.repeat(table.multiplier, channels), np.repeat(table.shift, channels)),
    )
    return Stage(StageKind.DEPTHWISE, kernel_size=window, weights=ones, requantization=Requantization(*entries))


DEPTHWISE = Kind(
    StageKind.DEPTHWISE,
    window=Window.SLIDING,
    cuts=True,
    check=_check_depthwise,
    reference=_depthwise,
    constants=Coding(encode_weighted, _decoded(depthwise_shape)),
    macs=_macs,
    work=counted(*DEPTHWISE_COUNTS, *PLAIN_COUNTS)(_window_work),
    lowerings={"DEPTHWISE_CONV_2D": lower_depthwise},
)

# ---- FULLY_CONNECTED ----


def dense_shape(stage: Stage, source: BlockTensor, output: BlockTensor) -> tuple[int, ...]:
    """Return the shape of the weights, [Cout, H*W*Cin]."""
    return output.channels, source.pixels * source.channels


def _check_dense(check: StageCheck) -> None:
    check.one_pixel()
    check.require(check.sources[0].pixels <= MAX_AVERAGED, f"reads more than {MAX_AVERAGED} pixels")
    check_weights(check, dense_shape(check.stage, check.sources[0], check.output))


def _dense(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((tensor, values),) = operands
    weights = required(stage.weights, stage, "weights")
    sums = matmul(values.reshape(1, 1, -1) - tensor.zero_point, weights)
    return requantize(stage, add_bias(stage, sums), output)


def _dense_macs(stage: Stage, tensors: Tensors) -> int:
    return prod(dense_shape(stage, tensors[stage.inputs[0]], tensors[stage.output]))


@counted("dense macs", *CONV_COUNTS, *PLAIN_COUNTS)
def _dense_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    """Return the work; a single pixel is a convolution, several pixels have a kernel of their own."""
    source, output, macs = tensors[stage.inputs[0]], tensors[stage.output], _dense_macs(stage, tensors)
    if not sums_pixels(stage.kind, source):
        return weighted_work(stage, tensors, runs, kernels, macs)
    if not packs_sums(stage.kind, source, output):
        return {"dense macs": macs}
    values = source.pixels * source.channels
    return {"conv single macs": values * round_up(output.channels, 2), "conv values": values}


FULLY_CONNECTED = Kind(
    StageKind.FULLY_CONNECTED,
    # With a single pixel it is a 1x1 convolution and keeps no sums.
    sum_bytes=lambda source: 4 if source.pixels > 1 else 0,
    writes_over=_holds_pixel,
    check=_check_dense,
    reference=_dense,
    constants=Coding(encode_weighted, _decoded(dense_shape)),
    macs=_dense_macs,
    work=_dense_work,
    lowerings={"FULLY_CONNECTED": lower_dense},
)

# ---- TRANSPOSE_CONV ----


def _check_transposed(check: StageCheck) -> None:
    check_weights(check, conv_shape(check.stage, check.sources[0], check.output))
    check.require(check.stage.stride == (1, 1), "steps over its output")


def _transposed(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    """Return the result as in TFLM: every input pixel is added to the output pixels that its filter reaches."""
    ((tensor, values),) = operands
    weights = required(stage.weights, stage, "weights")
    (tall, wide), (down, across) = stage.kernel_size, stage.spread
    top, left = tall - 1 - stage.padding[0], wide - 1 - stage.padding[1]
    height, width = values.shape[0] * down + tall, values.shape[1] * across + wide
    sums = np.zeros((max(height, top + output.height), max(width, left + output.width), weights.shape[0]), np.int64)
    for ky in range(tall):
        for kx in range(wide):
            reached = sums[ky : ky + values.shape[0] * down : down, kx : kx + values.shape[1] * across : across]
            reached += matmul(values - tensor.zero_point, weights[:, ky, kx, :])
    inside = sums[top : top + output.height, left : left + output.width]
    return requantize(stage, add_bias(stage, inside), output)


def _encode_transposed(stage: Stage, tensors: Tensors) -> Tables:
    """Return plain weights, and biases without zero points: the taps that meet a pixel differ between pixels."""
    weights, table = required(stage.weights, stage, "weights"), required(stage.requantization, stage, "requantization")
    return Tables(weights=weights.tobytes(), table=encode_entries(0 if stage.bias is None else stage.bias, table))


def _decode_transposed(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    source, output = tensors[stage.inputs[0]], tensors[stage.output]
    weights = decode_plain_weights(stored, conv_shape(stage, source, output))
    bias, table = decode_entries(stored, output.channels)
    return replace(stage, weights=weights, bias=bias, requantization=table)


def _mean_macs(stage: Stage, tensors: Tensors) -> int:
    """Return the mean MACs: the filter's taps are divided among as many neighbouring output pixels as the spread."""
    return _products(stage, tensors) // prod(stage.spread)


@counted(*PLAIN_COUNTS)
def _transposed_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    pixels = pixels_of(runs)
    macs, outputs = pixels * _mean_macs(stage, tensors), pixels * tensors[stage.output].channels
    return dict(zip(PLAIN_COUNTS, (macs, outputs, pixels * prod(stage.kernel_size) // prod(stage.spread)), strict=True))


TRANSPOSE_CONV = Kind(
    StageKind.TRANSPOSE_CONV,
    window=Window.SPREAD,
    check=_check_transposed,
    reference=_transposed,
    constants=Coding(_encode_transposed, _decode_transposed),
    macs=_mean_macs,
    work=_transposed_work,
    lowerings={"TRANSPOSE_CONV": lower_transposed},
)

KINDS = (CONV, DEPTHWISE, FULLY_CONNECTED, TRANSPOSE_CONV)
