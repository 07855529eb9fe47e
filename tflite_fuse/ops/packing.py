"""Weights and tables in the layouts of the fast kernels.

The kernels load four weights at a time, have no left shifts, and add half of the divisor and the zero point in one
step. Encoding decides whether a stage fits: one that does not keeps the plain layout and runs on the plain kernels,
with the same bytes as result.

    PLAIN         weights as in ``Stage``; table: bias, multiplier, shift
    PACKED_DOWN   packed weights; the table's third number is −1 − shift; every sum is scaled down (see ``down_table``)
    PACKED        packed weights; table as in PLAIN
    INT16_DOWN    as PACKED_DOWN with 16-bit weights, for stages run by the convolution kernel: twice the 8-bit weights
    PAIRED_DOWN   as PACKED_DOWN, for the same stages, with 16 bits for the weights a and b of two channels: 256 a + b

Packed weights of CONV, FULLY_CONNECTED, and DEPTHWISE of one input channel: the values of a window in their order, each
row of taps with zeros up to a multiple of 4, as [output channels / 2][values / 4][2 channels][4 values]; an odd number
of channels is extended by a channel of zeros and a table entry of zeros. The window of a FULLY_CONNECTED is its whole
input; of several pixels, which are summed as they arrive, the layout is PACKED. Packed weights of all other DEPTHWISE:
per channel, for each pair of rows, words of four: columns 0 and 1 of the upper row, then of the lower row, and so on;
then the columns of the last row; each part with zeros up to whole words.

In 16 bits the four values of a word have the order in which DSP instructions pair them. Sums are twice as large, or 256
a + b and b for two channels, so tables have other biases.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Int8Array, Stage, StageKind
from tflite_fuse.ir.enums import WeightLayout as WeightLayout
from tflite_fuse.ir.limits import (
    DEPTHWISE_PIXELS,
    MAX_DOWN_SHIFT,
    MAX_LISTED_TAPS,
    MAX_PATCH_VALUES,
    MAX_ROW_VALUES,
    STACK_POINTERS,
)
from tflite_fuse.units import round_up

Int64Array = npt.NDArray[np.int64]
Entries = npt.NDArray[np.int32]
Halfwords = npt.NDArray[np.int16]

_WORD = (0, 2, 1, 3)
"""Order of a word's four weights, in which DSP instructions pair the pixels of a word."""

_PAIRED_SUM = 2**23
"""Bound at which 256 times a sum of the first channel of a pair is an int32."""


# ---- 16 bits a weight ----


def to_int16(packed: Int8Array) -> Halfwords:
    """Return packed 8-bit weights, four by four, as 16-bit weights of twice the value."""
    return (2 * packed.reshape(-1, 4)[:, _WORD].astype(np.int16)).ravel()


def from_int16(stored: Halfwords) -> Int8Array:
    """Return 8-bit weights from 16-bit ones. Raises BlockError if they are not twice an int8."""
    halves = stored.astype(np.int16) // 2
    if np.any(stored % 2) or np.any(halves != halves.astype(np.int8)):
        raise BlockError("The fused block has weights of 16 bits that are not twice those of 8.")
    return halves.astype(np.int8).reshape(-1, 4)[:, np.argsort(_WORD)].ravel()


def double_biases(entries: Int64Array) -> Int64Array:
    """Return a PACKED_DOWN table, [channel, 3], for sums with twice the weights."""
    return np.asarray(entries * np.array([2, 1, 1]), np.int64)


def halve_biases(entries: Entries) -> Entries:
    """Return the table for plain weights. Raises BlockError if a bias is odd."""
    if np.any(entries[:, 0] % 2):
        raise BlockError("The fused block has a bias that is not twice another one.")
    return entries // np.array([2, 1, 1], np.int32)


# ---- Two weights in 16 bits ----


def can_pair(stage: Stage, packed: Int8Array, table: Int64Array) -> bool:
    """Return whether weights and sums fit pairs: no -128 before a negative weight, sums of the first in 24 bits.

    Args:
        packed: the stage's weights.
        table: its PACKED_DOWN table.
    """
    assert stage.weights is not None
    weights = np.abs(stage.weights.astype(np.int64))
    axes = (0, 1) if stage.kind is StageKind.DEPTHWISE else tuple(range(1, weights.ndim))
    largest = np.abs(table[:, 0]) + 128 * weights.sum(axis=axes)
    first, second = np.moveaxis(packed.reshape(-1, 2, 4), 1, 0)
    return bool(np.all(largest[::2] < _PAIRED_SUM) and not np.any((first == -128) & (second < 0)))


def to_paired(packed: Int8Array) -> Halfwords:
    """Return packed 8-bit weights as halfwords of two channels."""
    first, second = np.moveaxis(packed.reshape(-1, 2, 4)[:, :, _WORD].astype(np.int16), 1, 0)
    return np.asarray(256 * first + second, np.int16).ravel()


def from_paired(stored: Halfwords) -> Int8Array:
    """Return 8-bit weights from pairs. Raises BlockError if a first weight is 128."""
    both = stored.astype(np.int32).reshape(-1, 4)[:, np.argsort(_WORD)]
    first = (both + 128) >> 8
    if np.any(first > 127):
        raise BlockError("The fused block has a pair of weights of which one is 128.")
    return np.stack([first, both - 256 * first], axis=1).astype(np.int8).ravel()


def pair_biases(entries: Int64Array) -> Int64Array:
    """Return a PACKED_DOWN table, [channel, 3], for sums of two channels; only the low 32 bits count."""
    paired = entries.copy()
    paired[::2, 0] *= 256
    paired[: len(entries) // 2 * 2 : 2, 0] += entries[1::2, 0]
    return paired


def split_biases(entries: Entries) -> Entries:
    """Return the table for single channels. Raises BlockError if a bias is not that of a pair."""
    split = entries.astype(np.int64)
    split[: len(entries) // 2 * 2 : 2, 0] -= split[1::2, 0]
    if np.any(split[::2, 0] % 256):
        raise BlockError("The fused block has a bias that does not belong to the next one.")
    split[::2, 0] = split[::2, 0].astype(np.uint32).astype(np.int32) >> 8
    return split.astype(np.int32)


_CONSTANT_BITS = 20
"""Channels with the constant output v are stored as v · 2²¹ · 2³⁰/2³¹ / 2²⁰; weights must not sum to half a step."""

_DEPTHWISE_SIZES = (3, 5, 7)
_DEPTHWISE_STRIDES = (1, 2)


def packs_as_conv(kind: StageKind, source: BlockTensor) -> bool:
    """Return whether the convolution kernel runs a stage's packed weights."""
    return kind is not StageKind.DEPTHWISE or source.channels == 1


def sums_pixels(kind: StageKind, source: BlockTensor) -> bool:
    """Return whether a stage is a fully connected layer that sums several pixels as they arrive."""
    return kind is StageKind.FULLY_CONNECTED and source.pixels > 1


def packs_sums(kind: StageKind, source: BlockTensor, output: BlockTensor) -> bool:
    """Return whether such a layer has packed weights: a single channel would store a second one of zeros."""
    return sums_pixels(kind, source) and source.channels % 4 == 0 and output.channels > 1


def can_pack(stage: Stage, source: BlockTensor) -> bool:
    """Return whether the fast kernels can run a stage that computes pixel by pixel."""
    rows, columns = stage.kernel_size
    if stage.kind not in (StageKind.CONV, StageKind.DEPTHWISE, StageKind.FULLY_CONNECTED):
        return False
    if sums_pixels(stage.kind, source):
        return False
    if packs_as_conv(stage.kind, source):
        if source.channels % 4 == 0:
            return rows * columns <= MAX_LISTED_TAPS
        row = columns * source.channels
        return rows * round_up(row, 4) <= MAX_PATCH_VALUES and (columns == 1 or row <= MAX_ROW_VALUES)
    pointers = rows * ((DEPTHWISE_PIXELS - 1) * stage.stride[1] + columns) + 1 + DEPTHWISE_PIXELS
    return (
        stage.depth_multiplier == 1
        and rows == columns
        and columns in _DEPTHWISE_SIZES
        and stage.stride[1] in _DEPTHWISE_STRIDES
        and stage.dilation[1] == 1
        and pointers <= STACK_POINTERS
    )


def down_table(stage: Stage, bias: Int64Array, *, few_bits: bool = False) -> Int64Array | None:
    """Return the PACKED_DOWN table, or None if a channel cannot be scaled down by its formula.

    The formula is ``(2 * sum * multiplier / 2^32, rounded) / 2^n, rounded``; it requires a positive multiplier, 1 ≤ n ≤
    23, and twice the sum within 32 bits. Channels with the same output for every input, which training leaves with
    scales and biases of any size, get another bias, multiplier and n that yield this output.

    Args:
        bias: with the input's zero point folded in, before it wraps to 32 bits.
        few_bits: give such channels as few bits as their weights permit (which must not sum to a quarter of a step), so
            sums stay small: filters of zeros are frequent.
    """
    table = stage.requantization
    if table is None or stage.weights is None:
        return None
    multiplier, shift = table.multiplier.astype(np.int64), table.shift.astype(np.int64)
    weights = np.abs(stage.weights.astype(np.int64))
    axes = (0, 1) if stage.kind is StageKind.DEPTHWISE else tuple(range(1, weights.ndim))
    spread = 128 * weights.sum(axis=axes)
    largest = np.abs(bias) + spread
    fits = (multiplier > 0) & (shift <= -1) & (shift >= -1 - MAX_DOWN_SHIFT) & (largest < 2**30)
    low, high = (_scale_down(bias + sign * spread, multiplier, shift) for sign in (-1, 1))
    constant = (multiplier == 0) | ((low == high) & (shift <= -1) & (largest < 2**31) & (np.abs(low) < 2**8))
    constant &= spread < 2**_CONSTANT_BITS
    if not np.all(fits | constant):
        return None
    bits = np.full_like(bias, _CONSTANT_BITS)
    if few_bits:
        bits = np.minimum(np.ceil(np.log2(spread + 1)).astype(np.int64) + 2, bits)
    substitute = np.stack([low << (bits + 1), np.full_like(bias, 2**30), bits - 1])
    return np.where(fits, np.stack([bias, multiplier, -1 - shift]), substitute).T


def _scale_down(sums: Int64Array, multiplier: Int64Array, shift: Int64Array) -> Int64Array:
    """Return the runtime's two roundings where ``shift`` is negative; undefined elsewhere."""
    product = (sums * multiplier + 2**30) >> 31
    bits = np.clip(-shift, 1, 31)
    return (product - (product < 0) + (1 << (bits - 1))) >> bits


def undo_down_table(entries: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return bias, multiplier and shift of a PACKED_DOWN table."""
    return np.stack([entries[:, 0], entries[:, 1], -1 - entries[:, 2]], axis=1).astype(np.int32)


# ---- Weights ----


def pack_weights(stage: Stage, source: BlockTensor) -> Int8Array:
    """Return packed weights, flat."""
    assert stage.weights is not None
    if packs_as_conv(stage.kind, source):
        return _pack_quads(_by_rows(stage.weights, stage.kind))
    return _pack_rows(stage.weights)


def unpack_weights(packed: Int8Array, kind: StageKind, shape: tuple[int, ...], source: BlockTensor) -> Int8Array:
    """Return weights as in ``Stage`` of the given shape from ``packed_size`` packed ones."""
    if not packs_as_conv(kind, source):
        return _unpack_rows(packed, shape)
    rows = _by_rows(np.empty(shape, np.int8), kind).shape
    filters = _unpack_quads(packed, rows)
    if kind is StageKind.DEPTHWISE:
        return np.ascontiguousarray(np.moveaxis(filters.reshape(shape[-1], *shape[:-1]), 0, -1))
    return filters.reshape(shape)


def packed_size(kind: StageKind, shape: tuple[int, ...], source: BlockTensor) -> int:
    """Return the bytes of the packed weights of a stage whose weights have this shape."""
    if packs_as_conv(kind, source):
        depthwise, fully_connected = kind is StageKind.DEPTHWISE, kind is StageKind.FULLY_CONNECTED
        channels = shape[-1] if depthwise else shape[0]
        rows = 1 if fully_connected else shape[0] if depthwise else shape[1]
        return round_up(channels, 2) * rows * round_up(math.prod(shape) // channels // rows, 4)
    rows, columns, channels = shape
    return channels * (rows // 2 * 2 * round_up(columns, 2) + rows % 2 * round_up(columns, 4))


def _by_rows(weights: Int8Array, kind: StageKind) -> Int8Array:
    """Return weights as [output channels, rows of the window, values of a row]."""
    if kind is StageKind.DEPTHWISE:
        return np.ascontiguousarray(np.moveaxis(weights, -1, 0))
    rows = 1 if kind is StageKind.FULLY_CONNECTED else weights.shape[1]
    return weights.reshape(weights.shape[0], rows, -1)


def _pack_quads(filters: Int8Array) -> Int8Array:
    channels, rows, values = filters.shape
    padded = np.zeros((round_up(channels, 2), rows, round_up(values, 4)), np.int8)
    padded[:channels, :, :values] = filters
    return padded.reshape(len(padded) // 2, 2, -1, 4).transpose(0, 2, 1, 3).ravel()


def _unpack_quads(packed: Int8Array, shape: tuple[int, ...]) -> Int8Array:
    channels, rows, values = shape
    quads = packed.reshape(round_up(channels, 2) // 2, -1, 2, 4).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(quads.reshape(round_up(channels, 2), rows, -1)[:channels, :, :values])


def _pack_rows(weights: Int8Array) -> Int8Array:
    rows, columns, channels = weights.shape
    paired = np.zeros((channels, rows // 2, 2, round_up(columns, 2) // 2, 2), np.int8)
    by_channel = np.moveaxis(weights, -1, 0)
    even = np.zeros((channels, rows // 2 * 2, round_up(columns, 2)), np.int8)
    even[:, :, :columns] = by_channel[:, : rows // 2 * 2]
    paired[:] = even.reshape(paired.shape)
    odd = np.zeros((channels, rows % 2, round_up(columns, 4)), np.int8)
    odd[:, :, :columns] = by_channel[:, rows // 2 * 2 :]
    words = paired.transpose(0, 1, 3, 2, 4).reshape(channels, -1)
    return np.concatenate([words, odd.reshape(channels, -1)], axis=1).ravel()


def _unpack_rows(packed: Int8Array, shape: tuple[int, ...]) -> Int8Array:
    rows, columns, channels = shape
    each = packed.reshape(channels, -1)
    split = rows // 2 * 2 * round_up(columns, 2)
    paired = each[:, :split].reshape(channels, rows // 2, round_up(columns, 2) // 2, 2, 2).transpose(0, 1, 3, 2, 4)
    even = paired.reshape(channels, rows // 2 * 2, round_up(columns, 2))[:, :, :columns]
    odd = each[:, split:].reshape(channels, rows % 2, round_up(columns, 4))[:, :, :columns]
    return np.ascontiguousarray(np.moveaxis(np.concatenate([even, odd], axis=1), 0, -1))
