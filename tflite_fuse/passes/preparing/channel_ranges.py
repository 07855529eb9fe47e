"""Which values each channel of each tensor can have at all, whatever the model reads.

A range [least, greatest] of every channel is followed through the operators: sums of a convolution lie between those of
the ends of what it reads, each end taken by the sign of its weight, and scaling them is monotone. Everything is a bound
on the safe side; where both ends meet, the channel is constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.arithmetic import Int64Array, multiply_by_quantized_multiplier
from tflite_fuse.fusion.block.entry import required
from tflite_fuse.fusion.block.kinds.elementwise.lookup import VALUES, answers_of
from tflite_fuse.fusion.block.kinds.table import KINDS
from tflite_fuse.fusion.block.operators.operands import Activation
from tflite_fuse.fusion.block.operators.view import Lowered
from tflite_fuse.fusion.block.stages import BlockTensor, Stage, StageKind
from tflite_fuse.fusion.lower.operators import Lowerings

_INT32 = 2**31
_ROOM = 2**8
"""For a zero point that is added to a scaled sum."""


@dataclass(frozen=True)
class Range:
    """Least and greatest int8 value of each channel, int64 [C] each."""

    low: Int64Array
    high: Int64Array

    @property
    def is_constant(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Of each channel whether it has one value, bool [C]."""
        constant: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = self.low == self.high
        return constant

    def arranged(self, channels: int) -> Range:
        """The same values with another number of them to a pixel, as RESHAPE leaves them."""
        have = len(self.low)
        if channels % have == 0:
            return Range(np.tile(self.low, channels // have), np.tile(self.high, channels // have))
        if have % channels == 0:
            return Range(self.low.reshape(-1, channels).min(0), self.high.reshape(-1, channels).max(0))
        return Range(np.full(channels, self.low.min()), np.full(channels, self.high.max()))


def anything(channels: int, low: int = -128, high: int = 127) -> Range:
    """All a tensor's type or clamp leaves."""
    return Range(np.full(channels, low, np.int64), np.full(channels, high, np.int64))


def find_ranges(lowerings: Lowerings) -> dict[int, Range]:
    """The range of every tensor that an operator of a model writes which a stage computes; others may hold anything.

    Args:
        lowerings: of the model's operators, in their order.
    """
    found: dict[int, Range] = {}
    for lowered in lowerings:
        if not isinstance(lowered, str) and not any(tensor.is_real for tensor in (*lowered.inputs, lowered.output)):
            found[lowered.output.index] = _range_of(lowered, found)
    return found


def _range_of(lowered: Lowered, known: Mapping[int, Range]) -> Range:
    channels = (1, *lowered.output.dims)[-1]
    sources = [known.get(source.index) or anything((1, *source.dims)[-1]) for source in lowered.inputs]
    if lowered.stage is None:
        return sources[0].arranged(channels)
    stage = lowered.stage
    try:
        ends = _ends(lowered, stage, sources)
    except BlockError:
        ends = None
    bounds = anything(channels, stage.activation_min, stage.activation_max)
    if ends is None or len(ends.low) != channels:
        return bounds
    return Range(*(np.clip(end, stage.activation_min, stage.activation_max) for end in (ends.low, ends.high)))


def _ends(lowered: Lowered, stage: Stage, sources: Sequence[Range]) -> Range | None:
    """Before the clamp."""
    kind, source = stage.kind, lowered.inputs[0]
    if kind in (StageKind.CONV, StageKind.DEPTHWISE, StageKind.FULLY_CONNECTED):
        return _scaled(stage, sums_of(stage, lowered, sources[0]), lowered.output.zero_point)
    if kind is StageKind.GLOBAL_AVERAGE and stage.requantization is not None:
        count = source.shape[0] * source.shape[1]
        sums = Range(*((end - source.zero_point) * count for end in (sources[0].low, sources[0].high)))
        return _scaled(stage, sums, lowered.output.zero_point)
    if kind in (StageKind.GLOBAL_AVERAGE, StageKind.AVERAGE_POOL, StageKind.MAX_POOL):
        return sources[0]
    if kind is StageKind.PAD:
        return Range(np.minimum(sources[0].low, stage.pad_value), np.maximum(sources[0].high, stage.pad_value))
    if kind is StageKind.LOOKUP:
        return _looked_up(answers_of(stage), sources[0])
    if kind is StageKind.ADD and len(sources[0].low) == len(sources[1].low):
        return _added(lowered, stage, sources)
    return None


def sees_padding(stage: Stage, lowered: Lowered) -> bool:
    """Whether a window leaves the input."""
    if KINDS[stage.kind].window.name == "PIXEL":
        return False
    shape, output = lowered.inputs[0].shape, lowered.output_shape
    reach = [(output[axis] - 1) * stage.stride[axis] + stage.extent[axis] - stage.padding[axis] for axis in (0, 1)]
    return max(stage.padding) > 0 or any(end > shape[axis] for axis, end in enumerate(reach))


def sums_of(stage: Stage, lowered: Lowered, source: Range) -> Range | None:
    """What a stage with weights adds up, bias included; None where sums may leave 32 bits."""
    weights = required(stage.weights, stage, "weights").astype(np.int64)
    point = lowered.inputs[0].zero_point
    low, high = source.low - point, source.high - point
    if sees_padding(stage, lowered):
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    up, down = np.maximum(weights, 0), np.minimum(weights, 0)
    times: Callable[[Int64Array, Int64Array], Int64Array] = np.matmul
    if stage.kind is StageKind.DEPTHWISE:
        low, high = (np.repeat(end, stage.depth_multiplier) for end in (low, high))
        up, down = (part.reshape(-1, part.shape[-1]).sum(0) for part in (up, down))
        times = np.multiply
    else:
        up, down = (part.reshape(len(part), -1) for part in (up, down))
        low, high = (np.tile(end, up.shape[1] // len(end)) for end in (low, high))
    bias = np.int64(0) if stage.bias is None else stage.bias.astype(np.int64)
    most = np.abs(bias) + times(up - down, np.maximum(np.abs(low), np.abs(high)))
    if (most >= _INT32).any():
        return None
    return Range(times(up, low) + times(down, high) + bias, times(up, high) + times(down, low) + bias)


def _scaled(stage: Stage, sums: Range | None, zero_point: int) -> Range | None:
    """Sums as values; of channels whose shift to the left might wrap, which is not monotone, all the clamp leaves."""
    table = stage.requantization
    if sums is None or table is None:
        return None
    multiplier, shift = table.multiplier.astype(np.int64), table.shift.astype(np.int64)
    most = np.maximum(np.abs(sums.low), np.abs(sums.high)) << np.maximum(shift, 0)
    ends = [multiply_by_quantized_multiplier(end, multiplier, shift) + zero_point for end in (sums.low, sums.high)]
    wraps = most >= _INT32 - _ROOM
    # A negative scale turns the ends round.
    return Range(np.where(wraps, -_INT32, np.minimum(*ends)), np.where(wraps, _INT32, np.maximum(*ends)))


def _looked_up(answers: Int64Array, source: Range) -> Range:
    """The least and the greatest answer to what is in the range."""
    inside = (source.low[:, None] <= VALUES) & (source.high[:, None] >= VALUES)
    return Range(np.where(inside, answers, _INT32).min(1), np.where(inside, answers, -_INT32).max(1))


def _added(lowered: Lowered, stage: Stage, sources: Sequence[Range]) -> Range:
    """The least and the greatest sum of the ends: one operand may be subtracted."""
    ends = []
    for values in product(*((source.low, source.high) for source in sources)):
        operands = [
            (_pixel(each, len(end)), end.reshape(1, 1, -1)) for each, end in zip(lowered.inputs, values, strict=True)
        ]
        ends.append(KINDS[stage.kind].reference(stage, operands, _pixel(lowered.output, len(values[0]))).reshape(-1))
    return Range(np.minimum.reduce(ends), np.maximum.reduce(ends))


def _pixel(activation: Activation, channels: int) -> BlockTensor:
    return BlockTensor(activation.name, 1, 1, channels, activation.zero_point)
