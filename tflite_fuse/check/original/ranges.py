"""Range of each channel of the original's tensors over all inputs, derived independently of the passes.

Bounds of sums follow from the signs of weights and are scaled as the runtime does, which keeps their order. A tensor
without an entry may hold any value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tflite_fuse.check.original.functions import table_of
from tflite_fuse.check.original.meaning import Int64s, Meaning, affine
from tflite_fuse.check.original.scales import scaled
from tflite_fuse.check.original.values import RENAMING, Original, Step
from tflite_fuse.ir.enums import StageKind

_LARGEST = 2**31 - 1
_POOLS = (StageKind.AVERAGE_POOL, StageKind.GLOBAL_AVERAGE, StageKind.MAX_POOL)


@dataclass(frozen=True)
class Extent:
    """The least and the greatest value of each channel."""

    least: Int64s
    greatest: Int64s


def whole(channels: int, clamp: tuple[int, int] = (-128, 127)) -> Extent:
    """Return the range that a clamp allows, for each channel."""
    return Extent(*(np.full(channels, end, np.int64) for end in clamp))


def extents(original: Original, meanings: Sequence[Meaning | None]) -> dict[int, Extent]:
    """Return tensor → range for the tensors that the file's operators write; ``meanings`` are the operators' stages."""
    ranges: dict[int, Extent] = {}
    for step, meaning in zip(original.steps, meanings, strict=False):
        if len(step.outputs) == 1 and original.activation(step.outputs[0]) is not None:
            extent = _of_step(original, step, meaning, ranges)
            if extent is not None:
                ranges[step.outputs[0]] = extent
    return ranges


def _of_step(original: Original, step: Step, meaning: Meaning | None, ranges: Mapping[int, Extent]) -> Extent | None:
    dims = original.tensors[step.outputs[0]].dims
    if keeps_bytes(original, step):
        return _regrouped(ranges.get(step.inputs[0]), dims[-1] if dims else 1)
    answers = table_of(original, step)
    if answers is not None:
        return _looked_up(answers, ranges.get(step.inputs[0]) or whole(dims[-1] if dims else 1))
    if meaning is None or not dims:
        return None
    read = [ranges.get(tensor) or whole((1, *original.tensors[tensor].dims)[-1]) for tensor in meaning.sources]
    extent = _unclamped(original, meaning, read)
    if extent is None or len(extent.least) != dims[-1]:
        return whole(dims[-1], meaning.clamp)
    return Extent(*(np.clip(end, *meaning.clamp) for end in (extent.least, extent.greatest)))


def keeps_bytes(original: Original, step: Step) -> bool:
    """Return whether a step writes the bytes it reads with the same zero point: RESHAPE, or a PAD that adds nothing."""
    if step.name not in (*RENAMING, "PAD", "PADV2") or len(step.outputs) != 1 or step.operand(0) < 0:
        return False
    ends = original.activation(step.inputs[0]), original.activation(step.outputs[0])
    alike = ends[0] is not None and ends[1] is not None and ends[0][1] == ends[1][1]
    return alike and original.value(step.inputs[0]) == original.value(step.outputs[0])


def _regrouped(extent: Extent | None, channels: int) -> Extent | None:
    if extent is None or channels % len(extent.least):
        return extent if extent is None else None
    return Extent(*(np.tile(end, channels // len(end)) for end in (extent.least, extent.greatest)))


def _looked_up(answers: Int64s, read: Extent) -> Extent:
    ends = [
        answers[low + 128 : high + 129] for low, high in zip(read.least.tolist(), read.greatest.tolist(), strict=True)
    ]
    return Extent(np.array([each.min() for each in ends]), np.array([each.max() for each in ends]))


def _unclamped(original: Original, meaning: Meaning, read: list[Extent]) -> Extent | None:
    """Return the range before the clamp."""
    kind, first = meaning.kind, read[0]
    if kind in (StageKind.CONV, StageKind.DEPTHWISE, StageKind.FULLY_CONNECTED):
        return _scaled(original, meaning, sums(original, meaning, first))
    if kind in _POOLS and meaning.multiplier is None:
        return first
    if kind is StageKind.GLOBAL_AVERAGE and meaning.images is not None:
        count, point = prod(meaning.images[0][:2]), affine(original, meaning.sources[0])[1]
        return _scaled(original, meaning, Extent((first.least - point) * count, (first.greatest - point) * count))
    if kind is StageKind.PAD and meaning.pad is not None:
        return Extent(np.minimum(first.least, meaning.pad), np.maximum(first.greatest, meaning.pad))
    if kind is StageKind.ADD and len(read) == 2 and len(first.least) == len(read[1].least):
        return _added(original, meaning, read)
    return None


def leaves_image(meaning: Meaning) -> bool:
    """Return whether a window reads pixels outside the input."""
    if meaning.images is None or meaning.output is None or meaning.pointwise:
        return False
    ends = [
        (meaning.output[axis] - 1) * meaning.stride[axis]
        + (meaning.kernel[axis] - 1) * meaning.dilation[axis]
        + 1
        - meaning.padding[axis]
        for axis in (0, 1)
    ]
    return max(meaning.padding) > 0 or any(end > meaning.images[0][axis] for axis, end in enumerate(ends))


def sums(original: Original, meaning: Meaning, read: Extent) -> Extent | None:
    """Return the range of the sums with their biases; None if a partial sum may exceed 32 bits."""
    if meaning.weights is None or meaning.bias is None:
        return None
    rows = meaning.weights.reshape(len(meaning.weights), -1).astype(np.int64)
    low, high = (end - affine(original, meaning.sources[0])[1] for end in (read.least, read.greatest))
    if leaves_image(meaning):
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    more, less = np.maximum(rows, 0), np.minimum(rows, 0)
    share: Callable[[Int64s, Int64s], Int64s] = np.matmul
    if meaning.kind is StageKind.DEPTHWISE:
        low, high = (np.repeat(end, meaning.multiplier_of_depth) for end in (low, high))
        more, less, share = more.sum(1), less.sum(1), np.multiply
    else:
        low, high = (np.tile(end, rows.shape[1] // len(end)) for end in (low, high))
    if (np.abs(meaning.bias) + share(more - less, np.maximum(np.abs(low), np.abs(high))) > _LARGEST).any():
        return None
    return Extent(
        share(more, low) + share(less, high) + meaning.bias, share(more, high) + share(less, low) + meaning.bias
    )


def _scaled(original: Original, meaning: Meaning, sums: Extent | None) -> Extent | None:
    """Return the range after scaling; unbounded where a shift to the left might wrap."""
    if sums is None or meaning.multiplier is None or meaning.shift is None:
        return None
    point = affine(original, meaning.result)[1]
    ends = [scaled(end, meaning.multiplier, meaning.shift) + point for end in (sums.least, sums.greatest)]
    largest = np.maximum(np.abs(sums.least), np.abs(sums.greatest)) << np.maximum(meaning.shift, 0)
    sure = largest <= _LARGEST - 255
    return Extent(np.where(sure, np.minimum(*ends), -_LARGEST), np.where(sure, np.maximum(*ends), _LARGEST))


def _added(original: Original, meaning: Meaning, read: list[Extent]) -> Extent:
    """Return the range of an ADD; of an operand that is subtracted, the greatest value gives the least sum."""
    left, *numbers = meaning.addition
    table = [np.array([number], np.int64) for number in numbers]
    least = greatest = np.zeros(len(read[0].least), np.int64)
    for place, extent in enumerate(read):
        point = affine(original, meaning.sources[place])[1]
        shares = [
            scaled((end - point) << left, table[2 * place], table[2 * place + 1])
            for end in (extent.least, extent.greatest)
        ]
        least, greatest = least + np.minimum(*shares), greatest + np.maximum(*shares)
    point = affine(original, meaning.result)[1]
    return Extent(*(scaled(each, table[4], table[5]) + point for each in (least, greatest)))
