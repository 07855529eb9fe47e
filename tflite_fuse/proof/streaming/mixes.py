"""Depthwise convolutions of parts of a state's window, joined: one depthwise convolution with zeros between."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tflite_fuse.proof.moves import MOST_VALUES, origin
from tflite_fuse.proof.original.meaning import Meaning
from tflite_fuse.proof.original.values import Original, Step
from tflite_fuse.proof.original.with_weights import depthwise
from tflite_fuse.proof.streaming.states import MixStep


def mix_meaning(original: Original, step: Step) -> Meaning | None:
    """All taps of all parts, each in its rows and channels, zeros elsewhere."""
    if not isinstance(step, MixStep):
        return None
    window, result = step.inputs[0], step.outputs[0]
    image, output = original.image(window), original.image(result)
    if image is None or output is None or output[2] != image[2]:
        return None
    placed: list[tuple[int, Meaning]] = []
    for tensor in step.joined:
        if original.activation(tensor) != original.activation(result):
            return None
        found = depthwise(original, original.steps[original.in_file[tensor]])
        row = None if found is None else _first_row(original, found, image, sum(_depth(part) for _, part in placed))
        if found is None or row is None:
            return None
        placed.append((row, found))
    first = placed[0][1]
    alike = [(p.stride, p.dilation, p.clamp, p.kernel[1], p.padding, p.multiplier_of_depth) for _, p in placed]
    if set(alike) != {alike[0]} or first.padding != (0, 0) or first.multiplier_of_depth != 1:
        return None
    apart = first.dilation[0]
    if sum(_depth(part) for _, part in placed) != image[2] or any(row % apart for row, _ in placed):
        return None
    taps = max(row // apart + part.kernel[0] for row, part in placed)
    if (image[0] - (taps - 1) * apart - 1) // first.stride[0] + 1 != output[0]:
        return None
    weights, begin = np.zeros((image[2], taps, first.kernel[1], 1), np.int8), 0
    for row, part in placed:
        assert part.weights is not None
        weights[begin : begin + _depth(part), row // apart : row // apart + part.kernel[0]] = part.weights
        begin += _depth(part)
    bias, multiplier, shift = (
        np.concatenate([getattr(part, name) for _, part in placed]) for name in ("bias", "multiplier", "shift")
    )
    return replace(
        first, step=step, sources=(window,), result=result, images=(image,), output=output,
        kernel=(taps, first.kernel[1]), weights=weights, bias=bias, multiplier=multiplier, shift=shift, folds=False,
    )  # fmt: skip


def _depth(part: Meaning) -> int:
    return 0 if part.weights is None else len(part.weights)


def _first_row(original: Original, part: Meaning, image: tuple[int, int, int], channel: int) -> int | None:
    """The row of the window that a part's input begins with, None if it is not all from there on of its channels."""
    source, numbers = origin(original, part.sources[0])
    seen = original.image(part.sources[0])
    if seen is None or image_size(image) != numbers_of(original, source) or image_size(image) > MOST_VALUES:
        return None
    whole = np.arange(image_size(image)).reshape(image)
    row = image[0] - seen[0]
    expected = whole[row:, :, channel : channel + seen[2]]
    return row if row >= 0 and np.array_equal(expected.ravel(), numbers.ravel()) else None


def image_size(image: tuple[int, int, int]) -> int:
    """Values of an image."""
    return image[0] * image[1] * image[2]


def numbers_of(original: Original, tensor: int) -> int:
    """Values of a tensor, -1 if it is no image."""
    image = original.image(tensor)
    return -1 if image is None else image_size(image)
