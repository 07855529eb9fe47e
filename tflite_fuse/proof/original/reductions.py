"""MEAN and REDUCE_MAX as the stages that compute their bytes; None for what none computes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from tflite_fuse.fusion.block.enums import StageKind
from tflite_fuse.proof.original.meaning import Meaning, affine, sum_of_ones
from tflite_fuse.proof.original.scales import mean_multiplier
from tflite_fuse.proof.original.values import Image, Original, Step


@dataclass(frozen=True)
class _Reduced:
    """An image, what it is reduced to, and rows and columns of it that become one; None where channels do."""

    image: Image
    output: Image
    window: tuple[int, int] | None


def _reduced(original: Original, step: Step) -> _Reduced | None:
    dims, listed = original.tensors[step.inputs[0]].dims, original.numbers(step.operand(1))
    image, rank = original.image(step.inputs[0]), len(dims)
    if image is None or not listed or not all(-rank <= axis < rank for axis in listed):
        return None
    axes = {axis % rank for axis in listed}
    height, width, channels = image
    window = (height if rank == 4 and 1 in axes else 1, width if rank >= 3 and rank - 2 in axes else 1)
    over_channels = rank - 1 in axes and channels > 1
    if over_channels and window != (1, 1):
        return None
    output = (height // window[0], width // window[1], 1 if over_channels else channels)
    if prod(original.tensors[step.outputs[0]].dims) != prod(output):
        return None
    return _Reduced(image, output, None if over_channels else window)


def mean(original: Original, step: Step) -> Meaning | None:
    """MEAN over the whole image; over its rows or columns alone a DEPTHWISE of ones, over channels a CONV of ones."""
    found = _reduced(original, step)
    if found is None:
        return None
    count = found.image[2] if found.window is None else prod(found.window)
    entry = mean_multiplier(affine(original, step.inputs[0])[0], affine(original, step.outputs[0])[0], count)
    table = np.array(entry[:1], np.int64), np.array(entry[1:], np.int64)
    if found.window is None:
        ones = np.ones((1, 1, 1, count), np.int8)
        return Meaning(
            step, StageKind.CONV, (step.inputs[0],), step.outputs[0], (found.image,), found.output, weights=ones,
            bias=np.zeros(1, np.int64), multiplier=table[0], shift=table[1],
        )  # fmt: skip
    if found.output[:2] == (1, 1):
        return Meaning(
            step, StageKind.GLOBAL_AVERAGE, (step.inputs[0],), step.outputs[0], (found.image,), found.output,
            multiplier=table[0], shift=table[1],
        )  # fmt: skip
    return sum_of_ones(step, found.window, table, (found.image, found.output))


def largest(original: Original, step: Step) -> Meaning | None:
    """REDUCE_MAX over channels or the whole image, or over its rows or columns alone: a MAX_POOL."""
    found = _reduced(original, step)
    if found is None or affine(original, step.inputs[0]) != affine(original, step.outputs[0]):
        return None
    kind = StageKind.CHANNEL_MAX if found.window is None else StageKind.GLOBAL_MAX
    meaning = Meaning(step, kind, (step.inputs[0],), step.outputs[0], (found.image,), found.output)
    if found.window is None or found.output[:2] == (1, 1):
        return meaning
    return replace(meaning, kind=StageKind.MAX_POOL, kernel=found.window)
