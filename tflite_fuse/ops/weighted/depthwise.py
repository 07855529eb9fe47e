"""DEPTHWISE: every output channel sums over one input channel under the window."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Requantization, Stage, StageKind
from tflite_fuse.ops.arithmetic import Int64Array
from tflite_fuse.ops.entry import Kernels, Kind, Operand, Runs, StageCheck, StoredTables, Tensors, Window, required
from tflite_fuse.ops.lowering.operands import read_filter
from tflite_fuse.ops.lowering.requantization import convolution_requantization
from tflite_fuse.ops.lowering.view import Lowered, OperatorView
from tflite_fuse.ops.weighted.sums import (
    add_bias,
    check_weights,
    decode_weighted,
    encode_weighted,
    only_adds,
    requantize,
    taps,
    window_stage,
)
from tflite_fuse.ops.weighted.work import DEPTHWISE_COUNTS, PLAIN_COUNTS, weighted_work


def _check(check: StageCheck) -> None:
    channels, multiplier = check.sources[0].channels, check.stage.depth_multiplier
    check.require(
        multiplier >= 1 and channels * multiplier == check.output.channels,
        f"makes {check.output.channels} channels of {channels} with multiplier {multiplier}",
    )
    check_weights(check, (*check.stage.kernel_size, check.output.channels))


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((tensor, values),) = operands
    weights = required(stage.weights, stage, "weights")
    sums = np.zeros((output.height, output.width, weights.shape[2]), np.int64)
    for ky, kx, seen in taps(stage, values - tensor.zero_point, output, fill=0):
        sums += np.repeat(seen, stage.depth_multiplier, axis=2) * weights[ky, kx]
    return requantize(stage, add_bias(stage, sums), output)


def _decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    return decode_weighted(stage, tensors, stored, (*stage.kernel_size, tensors[stage.output].channels))


def _products(stage: Stage, tensors: Tensors) -> int:
    return prod(stage.kernel_size) * tensors[stage.output].channels


def _macs(stage: Stage, tensors: Tensors) -> int:
    return 0 if only_adds(stage) else _products(stage, tensors)


def _work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    return weighted_work(stage, tensors, runs, kernels, _products(stage, tensors))


def _lower(view: OperatorView) -> Lowered:
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
    return window_stage(view, StageKind.DEPTHWISE, weights[0], table, (height, width), multiplier)


def sum_stage(window: tuple[int, int], channels: int, table: Requantization) -> Stage:
    """The sum of each window's values without their zero point, rescaled by a table of one entry."""
    return Stage(
        StageKind.DEPTHWISE,
        (),
        -1,
        kernel_size=window,
        weights=np.ones((*window, channels), np.int8),
        requantization=Requantization(np.repeat(table.multiplier, channels), np.repeat(table.shift, channels)),
    )


DEPTHWISE = Kind(
    StageKind.DEPTHWISE,
    window=Window.SLIDING,
    cuts=True,
    check=_check,
    reference=_reference,
    encode_table=encode_weighted,
    decode_table=_decode,
    macs=_macs,
    work=_work,
    counts=(*DEPTHWISE_COUNTS, *PLAIN_COUNTS),
    lowerings={"DEPTHWISE_CONV_2D": _lower},
    layers=("dw",),
)
