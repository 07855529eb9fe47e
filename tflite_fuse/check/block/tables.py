"""A block's state and its requantization tables.

Rings that outlive a run hold all pixels of their tensor: when a run begins, a ring holds the earlier steps and room for
the new ones, which overwrite the oldest. Each ring must lie at its offset in the state.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tflite_fuse.check.block.options import Options
from tflite_fuse.check.block.regions import BlockProgram
from tflite_fuse.check.original.meaning import Meaning
from tflite_fuse.check.original.scales import scaled
from tflite_fuse.ir.enums import StageKind, Storage

_NUMBER = 4
"""Bytes of the number in front of a ring, and alignment of the ring's end."""


def state_size(options: Options) -> int:
    """Return the bytes of a block's state, 0 if it keeps none."""
    return sum(
        -(-(_NUMBER + tensor.height * tensor.width * tensor.channels) // _NUMBER) * _NUMBER
        for tensor in options.tensors
        if tensor.storage == Storage.PERSISTENT
    )


def is_memory(options: Options, t: int) -> bool:
    """Return whether a tensor is the memory of one LSTM: its last input, with no other reader and no writer."""
    tensor = options.tensors[t]
    readers = [
        (stage.kind, n) for stage in options.stages for n, read in
        enumerate(options.stage_inputs[stage.first_input :][: stage.input_count]) if read == t
    ]  # fmt: skip
    return tensor.storage == Storage.PERSISTENT and tensor.producer < 0 and readers == [(StageKind.LSTM, 1)]


def state_problems(program: BlockProgram) -> Iterator[str]:
    """Check a block's persistent tensors: each is a ring written by a STATE or the memory of an LSTM.

    They lie one behind the other. The memory is one pixel of twice three bytes for each channel of the LSTM's output.
    """
    end = 0
    for t, tensor in enumerate(program.tensors):
        kept = tensor.storage == Storage.PERSISTENT
        written = tensor.producer >= 0 and program.stages[tensor.producer].kind == StageKind.STATE
        reader = next((s for s, inputs in enumerate(program.inputs) if t in inputs[1:]), -1)
        memory = kept and tensor.producer < 0 and reader >= 0 and program.stages[reader].kind == StageKind.LSTM
        if memory:
            half = -(-3 * program.tensors[program.stages[reader].output].channels // 2) * 2
            wanted = (1, 1, 2 * half, 0)
            if (tensor.height, tensor.width, tensor.channels, tensor.zero_point) != wanted:
                yield f"tensor {t} is no memory of {wanted[2]} bytes"
        elif kept != written:
            yield f"tensor {t} has storage {tensor.storage} and is {'' if written else 'not '}the output of a STATE"
        if not kept:
            continue
        if not program.one_tile:
            yield f"tiles write tensor {t}, which outlives the run, again"
        if tensor.producer >= program.header.spatial_stages:
            yield f"tensor {t}, which outlives the run, is written by the tail"
        if tensor.offset != end:
            yield f"tensor {t} lies at byte {tensor.offset} of the state instead of {end}"
        end += -(-(_NUMBER + tensor.height * tensor.width * tensor.channels) // _NUMBER) * _NUMBER


Int64s = npt.NDArray[np.int64]

_INT32 = 2**31 - 1
_DOWN_SUM = 2**30
_DOWN_SHIFT = 23
_CONSTANT_SHIFT, _CONSTANT_SPREAD = 20, 2**20


def expected_table(
    notes: list[str], meaning: Meaning, bias: Int64s, sums: tuple[Int64s, Int64s], spread: Int64s, *, few_bits: bool
) -> tuple[Int64s, Int64s | None]:
    """Return (bias, multiplier, shift) of each channel; then the same for a shift to the right, or None.

    All channels must allow that shift: the multiplier is positive, it shifts right by 1 to 23 bits and sums lie within
    2^30, so twice a sum is an int32. A channel whose output is constant stores that value.

    Args:
        notes: receives sentences about sums that may overflow.
        bias: with the input's zero point folded in.
        sums: least and largest.
        spread: largest absolute change of a sum by weights.
        few_bits: store constant values with the fewest bits that keep the change by weights below a quarter of a step.
    """
    assert meaning.multiplier is not None and meaning.shift is not None
    (low, high), multiplier, shift = sums, meaning.multiplier, meaning.shift
    table = np.stack([bias, multiplier, shift], axis=1)
    largest = np.abs(bias) + spread
    for channel in np.flatnonzero((low < -_INT32 - 1) | (high > _INT32) | (largest > _INT32))[:1].tolist():
        notes.append(
            f"{meaning.step.label}, channel {channel}: sums may leave 32 bits ({low[channel]} to {high[channel]}), "
            "where the original's arithmetic is not defined; the rewritten one wraps"
        )
    left = np.flatnonzero((shift > 0) & ((np.maximum(-low, high) << np.maximum(shift, 0)) > _INT32))
    if len(left):
        channel = int(left[0])
        notes.append(f"{meaning.step.label}, channel {channel}: sums shifted to the left may leave 32 bits")
    fits = (multiplier > 0) & (shift <= -1) & (shift >= -_DOWN_SHIFT) & (largest < _DOWN_SUM)
    ends = [
        scaled(np.clip(bias + sign * spread, -_INT32, _INT32), multiplier, np.minimum(shift, 0)) for sign in (-1, 1)
    ]
    one_value = (multiplier == 0) | (
        (ends[0] == ends[1]) & (shift <= -1) & (largest <= _INT32) & (np.abs(ends[0]) < 2**8)
    )
    one_value &= spread < _CONSTANT_SPREAD
    if not np.all(fits | one_value):
        return table, None
    least = [min(int(most).bit_length() + 2, _CONSTANT_SHIFT) for most in spread]
    bits = np.array(least, np.int64) if few_bits else np.full_like(bias, _CONSTANT_SHIFT)
    stored = np.stack([ends[0] << (bits + 1), np.full_like(bias, 1 << 30), bits - 1], axis=1)
    return table, np.where(fits[:, None], np.stack([bias, multiplier, -1 - shift], axis=1), stored)
