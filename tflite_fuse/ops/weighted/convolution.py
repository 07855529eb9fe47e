"""CONV: every output channel sums over all input channels under the window."""

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
    matmul,
    only_adds,
    requantize,
    taps,
    window_stage,
)
from tflite_fuse.ops.weighted.work import CONV_COUNTS, PLAIN_COUNTS, weighted_work


def _check(check: StageCheck) -> None:
    check_weights(check, (check.output.channels, *check.stage.kernel_size, check.sources[0].channels))


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((tensor, values),) = operands
    weights = required(stage.weights, stage, "weights")
    sums = np.zeros((output.height, output.width, weights.shape[0]), np.int64)
    for ky, kx, seen in taps(stage, values - tensor.zero_point, output, fill=0):
        sums += matmul(seen, weights[:, ky, kx, :])
    return requantize(stage, add_bias(stage, sums), output)


def _decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    shape = (tensors[stage.output].channels, *stage.kernel_size, tensors[stage.inputs[0]].channels)
    return decode_weighted(stage, tensors, stored, shape)


def _macs(stage: Stage, tensors: Tensors) -> int:
    return 0 if only_adds(stage) else _products(stage, tensors)


def _products(stage: Stage, tensors: Tensors) -> int:
    return prod(stage.kernel_size) * tensors[stage.inputs[0]].channels * tensors[stage.output].channels


def _work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    return weighted_work(stage, tensors, runs, kernels, _products(stage, tensors))


def _lower(view: OperatorView) -> Lowered:
    """CONV_2D: any kernel, stride, dilation and padding; one group, or one input channel per group."""
    source, output = view.image()
    weights, scales = read_filter(view.model, view.operand(1), channel_axis=0, rank=4)
    filters, height, width, depth = weights.shape
    table = convolution_requantization(source.scale, scales, output.scale, filters)
    channels = source.shape[2]
    if depth == channels:
        return window_stage(view, StageKind.CONV, weights, table, (height, width))
    if depth == 1 and filters % channels == 0:
        by_tap = weights[..., 0].transpose(1, 2, 0)
        return window_stage(view, StageKind.DEPTHWISE, by_tap, table, (height, width), filters // channels)
    raise BlockError(f"its filters read {depth} of {channels} channels each (a grouped convolution)")


def sum_of_channels(channels: int, table: Requantization) -> Stage:
    """The sum of each pixel's values without their zero point, rescaled by a table of one entry."""
    return Stage(StageKind.CONV, (), -1, weights=np.ones((1, 1, 1, channels), np.int8), requantization=table)


CONV = Kind(
    StageKind.CONV,
    window=Window.SLIDING,
    cuts=True,
    check=_check,
    reference=_reference,
    encode_table=encode_weighted,
    decode_table=_decode,
    macs=_macs,
    work=_work,
    counts=(*CONV_COUNTS, *PLAIN_COUNTS),
    lowerings={"CONV_2D": _lower},
    layers=("conv", "pw"),
)
