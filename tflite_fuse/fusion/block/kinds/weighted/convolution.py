"""CONV: every output channel sums over all input channels under the window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil, prod

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.arithmetic import Int64Array
from tflite_fuse.fusion.block.entry import (
    Kind,
    Operand,
    Runs,
    StageCheck,
    StoredTables,
    Tensors,
    Window,
    pixels_of,
    required,
)
from tflite_fuse.fusion.block.kinds.weighted.common import (
    add_bias,
    check_weights,
    decode_weighted,
    encode_weighted,
    matmul,
    requantize,
    taps,
    window_stage,
)
from tflite_fuse.fusion.block.limits import MAX_PATCH_VALUES, STACK_POINTERS
from tflite_fuse.fusion.block.operators.operands import read_filter
from tflite_fuse.fusion.block.operators.requantization import convolution_requantization
from tflite_fuse.fusion.block.operators.view import Lowered, OperatorView
from tflite_fuse.fusion.block.packing import can_pack
from tflite_fuse.fusion.block.stages import BlockTensor, Stage, StageKind

PLAIN_COUNTS = ("plain macs", "plain outputs", "plain taps")
CONV_COUNTS = tuple(f"conv{way} {what}" for way in ("", " pair", " single", " part") for what in ("macs", "outputs"))


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
    return prod(stage.kernel_size) * tensors[stage.inputs[0]].channels * tensors[stage.output].channels


def _work(stage: Stage, tensors: Tensors, runs: Runs, at_once: int) -> dict[str, int]:
    if not can_pack(stage, tensors[stage.inputs[0]], STACK_POINTERS):
        return plain_work(stage, tensors, runs, _macs(stage, tensors))
    return packed_conv_work(stage, tensors, runs, at_once, _macs(stage, tensors))


def plain_work(stage: Stage, tensors: Tensors, runs: Runs, macs: int) -> dict[str, int]:
    """Of the kernels that take weights as they are."""
    pixels = pixels_of(runs)
    outputs = pixels * tensors[stage.output].channels
    return {"plain macs": pixels * macs, "plain outputs": outputs, "plain taps": pixels * prod(stage.kernel_size)}


def packed_conv_work(stage: Stage, tensors: Tensors, runs: Runs, at_once: int, macs: int) -> dict[str, int]:
    """Of the packed convolution, whose pixels cost by how many of them it computes together."""
    found = Counter[str]()
    row = stage.kernel_size[1] * tensors[stage.inputs[0]].channels
    values = stage.kernel_size[0] * ceil(row / 4) * 4
    for length, times in runs.items():
        rest = length % at_once
        found["conv"] += (length - rest) * times
        found["conv pair"] += (rest - rest % 2) * times
        found["conv single"] += rest % 2 * times
    if at_once == 2 and values > MAX_PATCH_VALUES:
        found["conv part"] = found.pop("conv")
    return by_way(found, macs, tensors[stage.output].channels) | {
        "conv taps": pixels_of(runs) * prod(stage.kernel_size)
    }


def by_way(pixels: Counter[str], macs: int, channels: int) -> dict[str, int]:
    """Multiply-accumulates and outputs of pixels, counted by the way in which they are computed."""
    counts = {f"{way} macs": number * macs for way, number in pixels.items()}
    return counts | {f"{way} outputs": number * channels for way, number in pixels.items()}


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


CONV = Kind(
    StageKind.CONV,
    window=Window.SLIDING,
    check=_check,
    reference=_reference,
    encode_table=encode_weighted,
    decode_table=_decode,
    macs=_macs,
    work=_work,
    counts=(*CONV_COUNTS, "conv taps", *PLAIN_COUNTS),
    lowerings={"CONV_2D": _lower},
    layers=("conv", "pw"),
)
