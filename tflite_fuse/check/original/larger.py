"""Operators that move or enlarge rows and columns (resizes, slices, …) as stages.

Windows lie on the input's pixels spread out: output position p reads the input positions i with ``p * stride - padding
<= i * distance < p * stride - padding + kernel``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod

import numpy as np

from tflite_fuse.check.moves import is_followed, kept_parts, parts_of
from tflite_fuse.check.original.layers import images_of
from tflite_fuse.check.original.meaning import Meaning, of_first
from tflite_fuse.check.original.operators import gather
from tflite_fuse.check.original.values import Image, Original, Step
from tflite_fuse.ir.enums import StageKind

PIXEL = 1024
"""Resolution of positions for bilinear interpolation: parts of a pixel."""

Places = tuple[list[int], Fraction]
"""Input position of each output position, in parts of a pixel; and input positions per output position, above 0."""


def resize_nearest(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a RESIZE_NEAREST_NEIGHBOR; its kernel divides and multiplies in single precision."""
    return _resize(original, step, _nearest)


def resize_bilinear(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a RESIZE_BILINEAR; its int8 kernel counts in 1024ths of a pixel."""
    if step.options.get("align_corners") and step.options.get("half_pixel_centers"):
        return None
    return _resize(original, step, _bilinear)


def _nearest(before: int, after: int, corners: bool, centres: bool) -> Places:
    steps, parts = (after - 1, before - 1) if corners and after > 1 else (after, before)
    scale = np.float32(parts) / np.float32(steps)
    whole = []
    for position in range(after):
        at = (np.float32(position) + np.float32(0.5 if centres else 0.0)) * scale
        # float32 plus 0.5 is exact in float64.
        whole.append(min(int(np.floor(float(at) + (0.5 if corners else 0.0))), before - 1))
    return [PIXEL * position for position in whole], Fraction(max(parts, 1), steps)


def _bilinear(before: int, after: int, corners: bool, centres: bool) -> Places:
    parts, steps = (before - 1, after - 1) if corners and after > 1 else (before, after)
    scale = (PIXEL * parts + steps // 2) // steps
    places = [max(0, scale * position + (scale // 2 - PIXEL // 2 if centres else 0)) for position in range(after)]
    if max(places) // PIXEL >= before:
        return [], Fraction(1)
    return [min(place, PIXEL * (before - 1)) for place in places], Fraction(max(scale, 1), PIXEL)


def _resize(original: Original, step: Step, find: Callable[[int, int, bool, bool], Places]) -> Meaning | None:
    images = images_of(original, step)
    if images is None or original.numbers(step.operand(1)) != images[1][:2] or images[0][2] != images[1][2]:
        return None
    source, output = images
    corners, centres = (bool(step.options.get(name)) for name in ("align_corners", "half_pixel_centers"))
    axes = [find(source[axis], output[axis], corners, centres) for axis in (0, 1)]
    if not all(places for places, _ in axes):
        return None
    return _by_places(step, source, output, axes)


def _by_places(step: Step, source: Image, output: Image, axes: Sequence[Places]) -> Meaning:
    """Return the RESIZE that computes each output row and column at a position of the input."""
    stride, dilation, padding, kernel = zip(*(window_of(places, rate) for places, rate in axes), strict=True)
    return of_first(
        step, StageKind.RESIZE, (source,), output, kernel=kernel, stride=stride, dilation=dilation, padding=padding,
        places=(*axes[0][0], *axes[1][0]),
    )  # fmt: skip


def sliced(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a SLICE, STRIDED_SLICE or GATHER of evenly spaced rows and columns: a RESIZE.

    Adjacent rows and columns are a PAD with negative padding.
    """
    source, output = original.image(step.inputs[0]), original.image(step.outputs[0])
    dims = original.tensors[step.inputs[0]].dims
    same = original.encoding(step.inputs[0]) == original.encoding(step.outputs[0])
    cuts = list(kept_parts(original, step, dims))
    if source is None or output is None or not same or source[2] != output[2] or len(cuts) != len(dims):
        return None
    if None in cuts:
        return None
    # A dropped axis keeps one position.
    kept = [np.ravel(np.arange(size)[cut]).tolist() for cut, size in zip(cuts, dims, strict=True)]
    if len(kept[-1]) != source[2]:
        return None
    rows, columns = ([0], [0], *kept[1:-1])[-2:]
    if (len(rows), len(columns)) != output[:2] or len(dims) == 1:
        return None
    if rows == list(range(rows[0], rows[-1] + 1)) and columns == list(range(columns[0], columns[-1] + 1)):
        zero = original.activation(step.inputs[0])
        pad = 0 if zero is None else zero[1]
        return of_first(step, StageKind.PAD, (source,), output, padding=(-rows[0], -columns[0]), pad=pad)
    axes = []
    for places in (rows, columns):
        rate = Fraction(places[1] - places[0] if len(places) > 1 else 1)
        axes.append(([PIXEL * place for place in places], rate))
    return _by_places(step, source, output, axes)


def mirrored(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a MIRROR_PAD of rows and columns: a RESIZE whose positions reverse at the edges."""
    source, output = original.image(step.inputs[0]), original.image(step.outputs[0])
    rank, amounts = len(original.tensors[step.inputs[0]].dims), original.numbers(step.operand(1))
    same = original.encoding(step.inputs[0]) == original.encoding(step.outputs[0])
    if source is None or output is None or not same or source[2] != output[2] or len(amounts) != 2 * rank or rank < 2:
        return None
    pads = [amounts[at : at + 2] for at in range(0, 2 * rank, 2)]
    inside = ((0, 0), (0, 0), *pads[1:])[-3:]
    apart = {0: 1, 1: 0}.get(step.number("mode"))
    if any(pads[0]) or any(inside[2]) or apart is None:
        return None
    axes = []
    for length, size, (before, behind) in zip(source[:2], output[:2], inside[:2], strict=True):
        if min(before, behind) < 0 or max(before, behind) > length - apart or before + length + behind != size:
            return None
        turned = [before - 1 + apart - at for at in range(before)]
        back = [length - 1 - apart - at for at in range(behind)]
        axes.append(([PIXEL * place for place in (*turned, *range(length), *back)], Fraction(1)))
    return _by_places(step, source, output, axes)


def gathered(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a GATHER of channels, or of rows or columns."""
    return gather(original, step) or sliced(original, step)


def squares(kind: StageKind) -> Callable[[Original, Step], Meaning | None]:
    """Return the rule of SPACE_TO_DEPTH or DEPTH_TO_SPACE; both copy bytes of any quantization."""

    def squares(original: Original, step: Step) -> Meaning | None:
        tensors, size = (step.inputs[0], step.outputs[0]), step.number("block_size")
        images = [original.image(tensor) for tensor in tensors]
        ranks = {len(original.tensors[tensor].dims) for tensor in tensors}
        small, large = reversed(images) if kind is StageKind.SPACE_TO_DEPTH else images
        if small is None or large is None or size < 2 or ranks != {4}:
            return None
        if large != (small[0] * size, small[1] * size, small[2] // (size * size)) or small[2] % (size * size):
            return None
        one, square, before = (1, 1), (size, size), (size - 1, size - 1)
        apart = (square, one, (0, 0)) if kind is StageKind.SPACE_TO_DEPTH else (one, square, before)
        source, output = (large, small) if kind is StageKind.SPACE_TO_DEPTH else (small, large)
        return Meaning(step, kind, (step.inputs[0],), step.outputs[0], (source,), output, square, *apart)

    return squares


def transposed(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a TRANSPOSE of rows and columns, or of an image with leading channels.

    The latter are planes, one below the other, joined by pixel. Axes of length 1 may stand anywhere: the comparison is
    by where each value moves.
    """
    alike = original.encoding(step.inputs[0]) == original.encoding(step.outputs[0])
    dims, output = original.tensors[step.inputs[0]].dims, original.image(step.outputs[0])
    size = prod(dims)
    if not alike or output is None or prod(output) != size or not is_followed(dims):
        return None
    height, width, depth = output
    values = np.arange(size, dtype=np.int64)
    moved = parts_of(original, step, values.reshape(dims))
    image = (width, height, depth)
    if moved is not None and np.array_equal(moved[0].ravel(), values.reshape(image).swapaxes(0, 1).ravel()):
        return of_first(step, StageKind.TRANSPOSE, (image,), output)
    joined = np.moveaxis(values.reshape(depth, height, width), 0, 2)
    if moved is None or not np.array_equal(moved[0].ravel(), joined.ravel()):
        return None
    below = (height * depth, width, 1)
    return of_first(
        step, StageKind.SPACE_TO_DEPTH, (below,), output, kernel=(depth, 1), dilation=(height, 1)
    )  # fmt: skip


def window_of(places: Sequence[int], rate: Fraction) -> tuple[int, int, int, int]:
    """Return the least (stride, distance, padding, kernel) that hold the pixels on both sides of every position."""
    stride, apart = rate.numerator, rate.denominator
    padding = behind = 0
    for position, place in enumerate(places):
        padding = max(padding, position * stride - place // PIXEL * apart)
        behind = max(behind, -(-place // PIXEL) * apart - position * stride)
    return stride, apart, padding, max(1, behind + padding + 1)


RULES: dict[str, Callable[[Original, Step], Meaning | None]] = {
    "DEPTH_TO_SPACE": squares(StageKind.DEPTH_TO_SPACE),
    "GATHER": gathered,
    "MIRROR_PAD": mirrored,
    "RESIZE_NEAREST_NEIGHBOR": resize_nearest,
    "SLICE": sliced,
    "SPACE_TO_DEPTH": squares(StageKind.SPACE_TO_DEPTH),
    "STRIDED_SLICE": sliced,
    "TRANSPOSE": transposed,
}
"""Operators that move values; on float32 they are the same stages, except FLOAT_RESIZE."""
