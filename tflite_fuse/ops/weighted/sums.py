"""Common parts of kinds with weights: checks, tables, requantization; and sums of divided convolutions.

CONV_SUMS and ADD_SUMS are a convolution divided by input channels: the parts' sums are added before any rounding. A sum
is int32, little-endian, in four int8 channels. Parts have neither bias nor zero point. The last ADD_SUMS has the
convolution's table, with the input's zero point times all weights subtracted from the biases. The sum of the parts, in
any order, therefore equals the sum of the whole convolution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Int8Array, Requantization, Stage, StageKind, WeightForm
from tflite_fuse.ops import packing
from tflite_fuse.ops.arithmetic import Int64Array, multiply_by_quantized_multiplier, wrap_int32
from tflite_fuse.ops.entry import (
    NOWHERE,
    Coding,
    Kernels,
    Kind,
    Operand,
    Runs,
    StageCheck,
    StoredTables,
    Tables,
    Tensors,
    Values,
    Window,
    by_pixel,
    counted,
    decode_entries,
    encode_entries,
    int32_bytes,
    parameters_of,
    pixels_of,
    required,
)
from tflite_fuse.ops.floats.common import FLOAT_BYTES, FloatWeights
from tflite_fuse.ops.packing import WeightLayout

# ---- Checks ----


def check_weights(check: StageCheck, shape: tuple[int, ...]) -> None:
    """Require weights of this shape, and a bias and a table entry for each output channel; int8 can lack a bias."""
    bias, table, channels = check.stage.bias, check.stage.requantization, check.output.channels
    if check.output.is_real:
        real = parameters_of(check.stage, FloatWeights)
        check.require(len(real.weights) == FLOAT_BYTES * prod(shape), f"needs float32 weights of shape {list(shape)}")
        check.require(len(real.bias) == FLOAT_BYTES * channels, f"needs {channels} biases")
        return
    check_shape(check, shape)
    check.require(bias is None or bias.shape == (channels,), f"needs {channels} biases")
    check.require(
        table is not None and table.multiplier.shape == table.shift.shape == (channels,),
        f"needs {channels} multipliers and shifts",
    )
    check.requantization()


def check_shape(check: StageCheck, shape: tuple[int, ...]) -> None:
    """Require int8 weights of this shape."""
    weights = check.stage.weights
    sound = weights is not None and weights.shape == shape and weights.dtype == np.int8
    check.require(sound, f"needs int8 weights of shape {list(shape)}")


# ---- Tables ----


def decode_plain_weights(stored: StoredTables, shape: tuple[int, ...]) -> Int8Array:
    """Return weights stored in plain order.

    Raises:
        BlockError: the shape is empty, or they lie outside the constants.
    """
    if min(shape) < 1:
        raise BlockError(f"A stage of the fused block has weights of shape {list(shape)}.")
    return stored.weights(prod(shape)).reshape(shape)


def folded_bias(stage: Stage, source: BlockTensor) -> Int64Array:
    """Return the bias for sums over raw int8 values: the input's zero point times all weights is subtracted."""
    weights = required(stage.weights, stage, "weights").astype(np.int64)
    bias = np.int64(0) if stage.bias is None else stage.bias.astype(np.int64)
    axes = (0, 1) if stage.kind is StageKind.DEPTHWISE else tuple(range(1, weights.ndim))
    return np.asarray(bias - source.zero_point * weights.sum(axis=axes), np.int64)


def only_adds(stage: Stage) -> bool:
    """Return whether all weights are 1, as in a lowered MEAN, so that nothing is multiplied."""
    return stage.weights is not None and bool((stage.weights == 1).all())


def encode_weighted(stage: Stage, tensors: Tensors) -> Tables:
    """Return weights and table in the fastest layout that the stage permits."""
    source, table = tensors[stage.inputs[0]], required(stage.requantization, stage, "requantization table")
    bias = folded_bias(stage, source)
    is_summed = packing.packs_sums(stage.kind, source, tensors[stage.output])
    if not is_summed and not packing.can_pack(stage, source):
        weights = required(stage.weights, stage, "weights").tobytes()
        return Tables(WeightLayout.PLAIN, weights, encode_entries(bias, table))
    entries = np.stack([bias, table.multiplier, table.shift], axis=1)
    down = None if is_summed else packing.down_table(stage, bias)
    packed = packing.pack_weights(stage, source)
    layout, weights = WeightLayout.PACKED, packed.tobytes()
    if down is not None:
        layout, entries = WeightLayout.PACKED_DOWN, down
    if down is not None and packing.packs_as_conv(stage.kind, source):
        if stage.weight_form is WeightForm.SIXTEEN:
            layout, entries = WeightLayout.INT16_DOWN, packing.double_biases(down)
            weights = packing.to_int16(packed).astype("<i2").tobytes()
        few = packing.down_table(stage, bias, few_bits=True) if stage.weight_form is WeightForm.PAIRED else None
        if few is not None and packing.can_pair(stage, packed, few):
            layout, entries = WeightLayout.PAIRED_DOWN, packing.pair_biases(few)
            weights = packing.to_paired(packed).astype("<i2").tobytes()
    return Tables(
        layout,
        weights,
        int32_bytes(np.pad(entries, ((0, len(entries) % 2), (0, 0)))),
        looks_outside=not packing.packs_as_conv(stage.kind, source),
    )


def decode_weighted(stage: Stage, tensors: Tensors, stored: StoredTables, shape: tuple[int, ...]) -> Stage:
    """Return the stage with weights of this shape, its table, and its bias without the input's zero point."""
    source, channels = tensors[stage.inputs[0]], tensors[stage.output].channels
    if min(shape) < 1:
        raise BlockError(f"A stage of the fused block has weights of shape {list(shape)}.")
    size, entries = packing.packed_size(stage.kind, shape, source), stored.table(3 * channels).reshape(-1, 3)
    if stored.layout is WeightLayout.PLAIN:
        weights = decode_plain_weights(stored, shape)
    elif stored.layout in (WeightLayout.INT16_DOWN, WeightLayout.PAIRED_DOWN):
        if not packing.packs_as_conv(stage.kind, source):
            raise BlockError(f"A {stage.kind.name} stage of the fused block has weights in halfwords.")
        if stored.layout is WeightLayout.INT16_DOWN:
            packed, entries = packing.from_int16(stored.weights(2 * size).view("<i2")), packing.halve_biases(entries)
            stage = replace(stage, weight_form=WeightForm.SIXTEEN)
        else:
            packed, entries = packing.from_paired(stored.weights(size).view("<i2")), packing.split_biases(entries)
            stage = replace(stage, weight_form=WeightForm.PAIRED)
        weights = packing.unpack_weights(packed, stage.kind, shape, source)
    else:
        weights = packing.unpack_weights(stored.weights(size), stage.kind, shape, source)
    if stored.layout not in (WeightLayout.PLAIN, WeightLayout.PACKED):
        entries = packing.undo_down_table(entries)
    stage = replace(stage, weights=weights, requantization=Requantization(entries[:, 1].copy(), entries[:, 2].copy()))
    bias = entries[:, 0].astype(np.int64) - folded_bias(stage, source)
    return replace(stage, bias=bias.astype(np.uint32).astype(np.int32))


# ---- Reference ----


def taps(stage: Stage, source: Values, output: BlockTensor, fill: float) -> Iterator[tuple[int, int, Values]]:
    """Yield each tap (ky, kx) of a window stage and its values: [Hout, Wout, Cin], ``fill`` outside the input."""
    (stride_y, stride_x), (cut_y, cut_x) = stage.stride, (max(-before, 0) for before in stage.padding)
    source, (top, left) = source[cut_y:, cut_x:], (max(before, 0) for before in stage.padding)
    last_row, last_column = (output.height - 1) * stride_y, (output.width - 1) * stride_x
    bottom = max(0, last_row + stage.extent[0] - top - source.shape[0])
    right = max(0, last_column + stage.extent[1] - left - source.shape[1])
    padded = np.pad(source, ((top, bottom), (left, right), (0, 0)), constant_values=fill)
    for ky in range(stage.kernel_size[0]):
        for kx in range(stage.kernel_size[1]):
            y, x = ky * stage.dilation[0], kx * stage.dilation[1]
            yield ky, kx, padded[y : y + last_row + 1 : stride_y, x : x + last_column + 1 : stride_x]


def matmul(values: Int64Array, weights: Int8Array) -> Int64Array:
    """Return the sum over the last axis of both: [..., K] with [Cout, K] to [..., Cout].

    It is exact in doubles, a fast library call, because every partial sum is an integer below 2⁵³.
    """
    return (values.astype(np.float64) @ weights.T.astype(np.float64)).astype(np.int64)


def conv_sums(stage: Stage, values: Int64Array, output: BlockTensor, fill: int = 0) -> Int64Array:
    """Return the sums of products over each window, int64; values outside the input are ``fill``."""
    weights = required(stage.weights, stage, "weights")
    sums = np.zeros((output.height, output.width, weights.shape[0]), np.int64)
    for ky, kx, seen in taps(stage, values, output, fill=fill):
        sums += matmul(seen, weights[:, ky, kx, :])
    return sums


def add_bias(stage: Stage, sums: Int64Array) -> Int64Array:
    """Return the sums, [..., Cout], plus the stage's bias if it has one."""
    return sums if stage.bias is None else sums + stage.bias.astype(np.int64)


def requantize(stage: Stage, accumulator: Int64Array, output: BlockTensor) -> Int64Array:
    """Return output values before the clamp from int32 accumulators [..., Cout]."""
    table = required(stage.requantization, stage, "requantization table")
    scaled = multiply_by_quantized_multiplier(
        wrap_int32(accumulator), table.multiplier.astype(np.int64), table.shift.astype(np.int64)
    )
    return wrap_int32(scaled + output.zero_point)


SUM_BYTES = 4

OF_SUMS = (StageKind.CONV_SUMS, StageKind.ADD_SUMS)
"""Kinds whose kernels are linked only on request of a program."""


@dataclass(frozen=True)
class PartOf:
    """Part of an input that a network's CONV_SUMS sums; a block's stage reads a tensor that is this part.

    Attributes:
        channels: half-open range.
        image: whether the window is the whole input, as in a fully connected layer.
    """

    channels: tuple[int, int]
    image: bool = False


# ---- CONV_SUMS ----


def _check_part(check: StageCheck) -> None:
    stage, channels = check.stage, check.output.channels
    check.require(channels % SUM_BYTES == 0, "writes channels that are no whole sums")
    shape = (channels // SUM_BYTES, *stage.kernel_size, check.sources[0].channels)
    check_shape(check, shape)


def _sum_part(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((tensor, values),) = operands
    return _as_bytes(conv_sums(stage, values, output, tensor.zero_point))


def _encode_part(stage: Stage, tensors: Tensors) -> Tables:
    return Tables(weights=required(stage.weights, stage, "weights").tobytes())


def _decode_part(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    shape = (tensors[stage.output].channels // SUM_BYTES, *stage.kernel_size, tensors[stage.inputs[0]].channels)
    return replace(stage, weights=decode_plain_weights(stored, shape))


def _macs(stage: Stage, tensors: Tensors) -> int:
    channels = tensors[stage.inputs[0]].channels * tensors[stage.output].channels // SUM_BYTES
    return prod(stage.kernel_size) * channels


@by_pixel("dense macs", "other outputs")
def _part_work(stage: Stage, tensors: Tensors) -> tuple[int, ...]:
    """Return the counts: the inner loop of a FULLY_CONNECTED over several pixels, and one write per byte of a sum."""
    return _macs(stage, tensors), tensors[stage.output].channels


CONV_SUMS = Kind(
    StageKind.CONV_SUMS,
    window=Window.SLIDING,
    cuts=True,
    check=_check_part,
    reference=_sum_part,
    constants=Coding(_encode_part, _decode_part),
    macs=_macs,
    work=_part_work,
)


# ---- ADD_SUMS ----


def _is_last(stage: Stage) -> bool:
    return stage.requantization is not None


def _check_addition(check: StageCheck) -> None:
    table, channels = check.stage.requantization, check.output.channels
    count = channels * SUM_BYTES if table is not None else channels
    for source in check.sources:
        check.same_shape(source, channels=False)
        check.require(source.channels == count and count % SUM_BYTES == 0, f"reads {source.name}: no sums of its own")
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
    return Tables(table=encode_entries(0 if stage.bias is None else stage.bias, table))


def _decode_addition(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    if stored.table_offset == NOWHERE:
        return stage
    bias, table = decode_entries(stored, tensors[stage.output].channels)
    return replace(stage, requantization=table, bias=bias)


@counted("other values", "other outputs", "plain outputs")
def _addition_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    """Return the counts: bytes are read one by one, requantization costs as in a plain convolution."""
    pixels, channels = pixels_of(runs), tensors[stage.output].channels
    read = pixels * sum(tensors[source].channels for source in stage.inputs)
    return {"other values": read, "plain outputs" if _is_last(stage) else "other outputs": pixels * channels}


ADD_SUMS = Kind(
    StageKind.ADD_SUMS,
    inputs=(2, 2),
    check=_check_addition,
    reference=_add,
    constants=Coding(_encode_addition, _decode_addition),
    work=_addition_work,
)


def _as_bytes(sums: Int64Array) -> Int64Array:
    """Return wrapped int32 sums, [H, W, C], as int8 values, [H, W, 4 C]."""
    whole = np.ascontiguousarray(sums.astype(np.uint64).astype(np.uint32).astype("<u4"))
    return whole.view(np.int8).reshape(*sums.shape[:2], -1).astype(np.int64)


def _from_bytes(values: Int64Array) -> Int64Array:
    """Return the sums of int8 values, [H, W, 4 C], as int32 [H, W, C]."""
    whole = np.ascontiguousarray(values.astype(np.int8)).view("<i4")
    return np.asarray(whole.astype(np.int64))


KINDS = (CONV_SUMS, ADD_SUMS)
