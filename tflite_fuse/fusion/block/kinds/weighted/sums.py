"""CONV_SUMS and ADD_SUMS: a convolution cut by input channels, whose parts' sums are added before anything is rounded.

A sum is int32, little-endian, and lies in four int8 channels. Parts have neither bias nor zero point: the last ADD_SUMS
has the convolution's table, whose biases have the input's zero point times all weights taken off. So what the parts sum
is, added in any order, the one sum the whole convolution has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.arithmetic import Int64Array
from tflite_fuse.fusion.block.entry import (
    NOWHERE,
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
from tflite_fuse.fusion.block.kinds.weighted.common import add_bias, matmul, requantize, taps
from tflite_fuse.fusion.block.stages import BlockTensor, Requantization, Stage, StageKind

SUM_BYTES = 4

OF_SUMS = (StageKind.CONV_SUMS, StageKind.ADD_SUMS)
"""Kinds whose kernels are linked only where a program asks for them."""


@dataclass(frozen=True)
class PartOf:
    """Which part of an input a CONV_SUMS of a network sums over; a block's stage reads a tensor that is this part.

    Attributes:
        channels: half-open.
        image: whether the window is all of the input, as that of a fully connected layer.
    """

    channels: tuple[int, int]
    image: bool = False


# ---- CONV_SUMS ----


def _check_part(check: StageCheck) -> None:
    stage, channels = check.stage, check.output.channels
    check.require(channels % SUM_BYTES == 0, "writes channels that are no whole sums")
    shape = (channels // SUM_BYTES, *stage.kernel_size, check.sources[0].channels)
    sound = stage.weights is not None and stage.weights.shape == shape and stage.weights.dtype == np.int8
    check.require(sound, f"needs int8 weights of shape {list(shape)}")


def _sum_part(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((tensor, values),) = operands
    weights = required(stage.weights, stage, "weights")
    sums = np.zeros((output.height, output.width, weights.shape[0]), np.int64)
    for ky, kx, seen in taps(stage, values, output, fill=tensor.zero_point):
        sums += matmul(seen, weights[:, ky, kx, :])
    return _as_bytes(sums)


def _encode_part(stage: Stage, tensors: Tensors) -> Tables:
    return Tables(weights=required(stage.weights, stage, "weights").tobytes())


def _decode_part(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    shape = (tensors[stage.output].channels // SUM_BYTES, *stage.kernel_size, tensors[stage.inputs[0]].channels)
    if min(shape) < 1:
        raise BlockError(f"A stage of the fused block has weights of shape {list(shape)}.")
    return replace(stage, weights=stored.weights(prod(shape)).reshape(shape))


def _macs(stage: Stage, tensors: Tensors) -> int:
    channels = tensors[stage.inputs[0]].channels * tensors[stage.output].channels // SUM_BYTES
    return prod(stage.kernel_size) * channels


def _part_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    """The inner loop is that of a FULLY_CONNECTED over several pixels; each of a sum's bytes is written for itself."""
    pixels = pixels_of(runs)
    return {"dense macs": pixels * _macs(stage, tensors), "other outputs": pixels * tensors[stage.output].channels}


CONV_SUMS = Kind(
    StageKind.CONV_SUMS,
    window=Window.SLIDING,
    cuts=True,
    check=_check_part,
    reference=_sum_part,
    encode_table=_encode_part,
    decode_table=_decode_part,
    macs=_macs,
    work=_part_work,
    counts=("dense macs", "other outputs"),
)


# ---- ADD_SUMS ----


def _is_last(stage: Stage) -> bool:
    return stage.requantization is not None


def _check_addition(check: StageCheck) -> None:
    table, channels = check.stage.requantization, check.output.channels
    wanted = channels * SUM_BYTES if table is not None else channels
    for source in check.sources:
        check.same_shape(source, channels=False)
        check.require(source.channels == wanted and wanted % SUM_BYTES == 0, f"reads {source.name}: no sums of its own")
    if table is not None:
        whole = table.multiplier.shape == table.shift.shape == (channels,)
        check.require(whole, f"needs {channels} multipliers and shifts")
        check.requantization()


def _add(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    (_, first), (_, second) = operands
    sums = _from_bytes(first) + _from_bytes(second)
    return requantize(stage, add_bias(stage, sums), output) if _is_last(stage) else _as_bytes(sums)


def _encode_addition(stage: Stage, tensors: Tensors) -> Tables:
    table = stage.requantization
    if table is None:
        return Tables()
    bias = np.zeros(len(table.shift), np.int64) if stage.bias is None else stage.bias.astype(np.int64)
    return Tables(table=int32_bytes(np.stack([bias, table.multiplier, table.shift], axis=1)))


def _decode_addition(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    if stored.table_offset == NOWHERE:
        return stage
    entries = stored.table(3 * tensors[stage.output].channels).reshape(-1, 3)
    table = Requantization(entries[:, 1].copy(), entries[:, 2].copy())
    return replace(stage, requantization=table, bias=entries[:, 0].copy())


def _addition_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    """Bytes are read one by one; a requantization takes what that of a plain convolution does."""
    pixels, channels = pixels_of(runs), tensors[stage.output].channels
    read = pixels * sum(tensors[source].channels for source in stage.inputs)
    written = {"plain outputs": pixels * channels} if _is_last(stage) else {"other outputs": pixels * channels}
    return {"other values": read, **written}


ADD_SUMS = Kind(
    StageKind.ADD_SUMS,
    inputs=(2, 2),
    check=_check_addition,
    reference=_add,
    encode_table=_encode_addition,
    decode_table=_decode_addition,
    work=_addition_work,
    counts=("other values", "other outputs", "plain outputs"),
)


def _as_bytes(sums: Int64Array) -> Int64Array:
    """int32 that wraps, [H, W, C], as values of int8, [H, W, 4 C]."""
    whole = np.ascontiguousarray(sums.astype(np.uint64).astype(np.uint32).astype("<u4"))
    return whole.view(np.int8).reshape(*sums.shape[:2], -1).astype(np.int64)


def _from_bytes(values: Int64Array) -> Int64Array:
    """Back."""
    whole = np.ascontiguousarray(values.astype(np.int8)).view("<i4")
    return np.asarray(whole.astype(np.int64))
