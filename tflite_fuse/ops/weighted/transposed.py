"""TRANSPOSE_CONV: every output channel sums over the input channels of those pixels, spread out, its window meets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Requantization, Stage, StageKind
from tflite_fuse.ops.arithmetic import Int64Array
from tflite_fuse.ops.entry import (
    Kernels,
    Kind,
    Operand,
    Runs,
    StageCheck,
    StoredTables,
    Tables,
    Tensors,
    Window,
    int32_bytes,
    pixels_of,
    required,
)
from tflite_fuse.ops.lowering.operands import read_bias, read_filter
from tflite_fuse.ops.lowering.requantization import convolution_requantization
from tflite_fuse.ops.lowering.view import SAME, Lowered, OperatorView, same_padding
from tflite_fuse.ops.weighted.sums import add_bias, check_weights, matmul, requantize


def _check(check: StageCheck) -> None:
    check_weights(check, (check.output.channels, *check.stage.kernel_size, check.sources[0].channels))
    check.require(check.stage.stride == (1, 1), "steps over its output")


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    """As TFLM does it: every input pixel is added into the output pixels its filter reaches."""
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


def _encode(stage: Stage, tensors: Tensors) -> Tables:
    """Weights as they are. Which of them meet a pixel changes from pixel to pixel, so biases hold no zero points."""
    table, weights = (
        required(stage.requantization, stage, "requantization table"),
        required(stage.weights, stage, "weights"),
    )
    bias = np.zeros(len(table.multiplier), np.int64) if stage.bias is None else stage.bias.astype(np.int64)
    entries = np.stack([bias, table.multiplier, table.shift], axis=1)
    return Tables(weights=weights.tobytes(), table=int32_bytes(entries))


def _decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    channels = tensors[stage.output].channels
    shape = (channels, *stage.kernel_size, tensors[stage.inputs[0]].channels)
    if min(shape) < 1:
        raise BlockError(f"A stage of the fused block has weights of shape {list(shape)}.")
    entries = stored.table(3 * channels).reshape(-1, 3)
    return replace(
        stage,
        weights=stored.weights(prod(shape)).reshape(shape),
        bias=entries[:, 0].copy(),
        requantization=Requantization(entries[:, 1].copy(), entries[:, 2].copy()),
    )


def _macs(stage: Stage, tensors: Tensors) -> int:
    """On average: the filter's taps are shared out among so many neighbouring output pixels."""
    taps = prod(stage.kernel_size) * tensors[stage.inputs[0]].channels * tensors[stage.output].channels
    return taps // prod(stage.spread)


def _work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    pixels = pixels_of(runs)
    return {
        "plain macs": pixels * _macs(stage, tensors),
        "plain outputs": pixels * tensors[stage.output].channels,
        "plain taps": pixels * prod(stage.kernel_size) // prod(stage.spread),
    }


def _lower(view: OperatorView) -> Lowered:
    """TRANSPOSE_CONV: operands are the output's shape, the filter, the input, and perhaps a bias."""
    source, output = view.read(2), view.write()
    for activation in (source, output):
        if len(activation.dims) != 4:
            raise BlockError(f"tensor {activation.name} has {len(activation.dims)} dimensions, not 4", activation.name)
    weights, scales = read_filter(view.model, view.operand(1), channel_axis=0, rank=4)
    channels, tall, wide, depth = weights.shape
    strides = view.positive("stride_h", "stride_w")
    if depth != source.shape[2] or channels != output.shape[2]:
        raise BlockError(f"its filters map {depth} to {channels} channels, its tensors have others")
    padding = []
    for size, length, kernel, stride in zip(output.shape[:2], source.shape[:2], (tall, wide), strides, strict=True):
        same = view.option("padding") == SAME
        expected, before = same_padding(size, kernel, stride) if same else ((size - kernel) // stride + 1, 0)
        if expected != length:
            raise BlockError(f"its output {output.name} of {size} rows or columns does not come from {length}")
        padding.append(kernel - 1 - before)
    low, high = view.clamp(output)
    stage = Stage(
        StageKind.TRANSPOSE_CONV,
        (),
        -1,
        kernel_size=(tall, wide),
        spread=strides,
        padding=(padding[0], padding[1]),
        activation_min=low,
        activation_max=high,
        weights=np.ascontiguousarray(weights),
        bias=read_bias(view.model, view.operand(3), channels),
        requantization=convolution_requantization(source.scale, scales, output.scale, channels),
    )
    return Lowered(stage, (source,), output, output.shape)


TRANSPOSE_CONV = Kind(
    StageKind.TRANSPOSE_CONV,
    window=Window.SPREAD,
    check=_check,
    reference=_reference,
    encode_table=_encode,
    decode_table=_decode,
    macs=_macs,
    work=_work,
    counts=("plain macs", "plain outputs", "plain taps"),
    lowerings={"TRANSPOSE_CONV": _lower},
)
