"""Packed weights in halfwords, as DSP instructions multiply them: twice as large, or those of two channels in one.

Both are made of the 8-bit weights of ``packing``, [output channels / 2][values / 4][2 channels][4 values], with the
four values of a word in the order in which these instructions make pairs of them. Sums follow suit: twice as large, or
of two channels 256 a + b and b; so tables have other biases.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.stages import Int8Array, Stage, StageKind

Int64Array = npt.NDArray[np.int64]
Entries = npt.NDArray[np.int32]
Halfwords = npt.NDArray[np.int16]

_WORD = (0, 2, 1, 3)
"""The order of a word's four weights: DSP instructions make pairs of a word of pixels so."""

_PAIRED_SUM = 2**23
"""256 times a sum of the first channel of two is an int32."""


# ---- 16 bits a weight ----


def to_int16(packed: Int8Array) -> Halfwords:
    """Packed weights of 8 bits, four by four, as those of 16 bits: twice as large."""
    return (2 * packed.reshape(-1, 4)[:, _WORD].astype(np.int16)).ravel()


def from_int16(stored: Halfwords) -> Int8Array:
    """Back. Raises BlockError: they are not twice some int8."""
    halves = stored.astype(np.int16) // 2
    if np.any(stored % 2) or np.any(halves != halves.astype(np.int8)):
        raise BlockError("The fused block has weights of 16 bits that are not twice those of 8.")
    return halves.astype(np.int8).reshape(-1, 4)[:, np.argsort(_WORD)].ravel()


def double_biases(entries: Int64Array) -> Int64Array:
    """A PACKED_DOWN table, [channel, 3], as sums with twice the weights need it."""
    return np.asarray(entries * np.array([2, 1, 1]), np.int64)


def halve_biases(entries: Entries) -> Entries:
    """Back. Raises BlockError: a bias is odd."""
    if np.any(entries[:, 0] % 2):
        raise BlockError("The fused block has a bias that is not twice another one.")
    return entries // np.array([2, 1, 1], np.int32)


# ---- Two weights in 16 bits ----


def can_pair(stage: Stage, packed: Int8Array, table: Int64Array) -> bool:
    """Whether weights and sums of two channels fit: no -128 before a negative weight, and sums of the first in 24 bits.

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
    """Packed weights of 8 bits as halfwords of two channels."""
    first, second = np.moveaxis(packed.reshape(-1, 2, 4)[:, :, _WORD].astype(np.int16), 1, 0)
    return np.asarray(256 * first + second, np.int16).ravel()


def from_paired(stored: Halfwords) -> Int8Array:
    """Back. Raises BlockError: a first weight is 128."""
    both = stored.astype(np.int32).reshape(-1, 4)[:, np.argsort(_WORD)]
    first = (both + 128) >> 8
    if np.any(first > 127):
        raise BlockError("The fused block has a pair of weights of which one is 128.")
    return np.stack([first, both - 256 * first], axis=1).astype(np.int8).ravel()


def pair_biases(entries: Int64Array) -> Int64Array:
    """A PACKED_DOWN table, [channel, 3], as sums of two channels need it; of the bits above 32 nothing is said."""
    paired = entries.copy()
    paired[::2, 0] *= 256
    paired[: len(entries) // 2 * 2 : 2, 0] += entries[1::2, 0]
    return paired


def split_biases(entries: Entries) -> Entries:
    """Back. Raises BlockError: a first bias is no multiple of 256 but for the second."""
    split = entries.astype(np.int64)
    split[: len(entries) // 2 * 2 : 2, 0] -= split[1::2, 0]
    if np.any(split[::2, 0] % 256):
        raise BlockError("The fused block has a bias that does not belong to the next one.")
    split[::2, 0] = split[::2, 0].astype(np.uint32).astype(np.int32) >> 8
    return split.astype(np.int32)
