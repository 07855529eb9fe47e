"""Compares one stage of a block with the original's operator, number by number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

import numpy as np
import numpy.typing as npt

from tflite_fuse.check.block.constants import (
    Constants,
    MissingError,
    Places,
    in_int16,
    layout_of,
    may_be_halfwords,
    packed_by_quads,
    single_weights,
    weight_places,
)
from tflite_fuse.check.block.regions import FULLY_CONNECTED, PAIRS, SUMMED, needs_all, pixel_bytes, reach
from tflite_fuse.check.certificate import Finding
from tflite_fuse.check.original.meaning import Meaning
from tflite_fuse.check.original.scales import added, scaled
from tflite_fuse.check.original.values import Original
from tflite_fuse.ir.enums import StageKind, WeightLayout
from tflite_fuse.ir.structs import NONE, StageDesc, TensorDesc

Int64s = npt.NDArray[np.int64]

_PAIRED_SUM = 2**23
_ADD_BITS = 21
_ADDITION = (
    "left shift",
    *(f"{what} of {operand}" for operand in ("input 0", "input 1", "the sum") for what in ("multiplier", "shift")),
)
_OF_ALL_PIXELS = (*SUMMED, *FULLY_CONNECTED)

_OF_ONE_VALUE = (StageKind.LOOKUP, StageKind.QUANTIZE)
"""Kinds each of whose values depends on one value alone, so that any arrangement of as many values is the same."""

_OF_THE_LIBRARY = (StageKind.FLOAT_LIBRARY_CURVE, StageKind.FLOAT_SOFTMAX)
_LIBRARY_NOTE = (
    "exponentials and hyperbolic tangents are those of the C library that the runtime is linked with: bytes are equal "
    "on one machine, not on all"
)


def _difference(
    what: str,
    expected: object = None,
    actual: object = None,
    channel: int | None = None,
    element: tuple[int, ...] = (),
    count: int = 1,
) -> Finding:
    """Return a difference of a stage; ``trace`` adds the names of block and operator."""
    return Finding("", what, "", channel, element, expected, actual, count)


@dataclass
class StageView:
    """A stage of a block with its tensors.

    Attributes:
        kind, desc: the stage.
        inputs: tensors it reads.
        output: the tensor it writes.
        constants: of the block.
        counts: number of compared values, by name.
        notes: limits of the claim.
    """

    kind: StageKind
    desc: StageDesc
    inputs: tuple[TensorDesc, ...]
    output: TensorDesc
    constants: Constants
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def count(self, what: str, number: int) -> None:
        self.counts[what] = self.counts.get(what, 0) + number


def geometry_differences(view: StageView, meaning: Meaning, original: Original) -> Iterator[Finding]:
    """Compare everything outside the constants: window, clamp, images and zero points."""
    desc = view.desc
    if view.kind is not meaning.kind:
        yield _difference("stage kind", meaning.kind.name, view.kind.name)
        return
    pairs = {
        "kernel": (meaning.kernel, (desc.kernel_height, desc.kernel_width)),
        "stride": (meaning.stride, (desc.stride_height, desc.stride_width)),
        "dilation": (meaning.dilation, (desc.dilation_height, desc.dilation_width)),
        "padding above and left": (meaning.padding, (desc.pad_top, desc.pad_left)),
        "depth multiplier": (meaning.multiplier_of_depth, desc.depth_multiplier),
        "activation bounds": (meaning.clamp, (desc.activation_min, desc.activation_max)),
    }
    for what, (expected, actual) in pairs.items():
        if expected != actual:
            yield _difference(what, expected, actual)
    for tensor, read in zip(meaning.sources, view.inputs, strict=False):
        yield from _zero_point(original, tensor, read, "input zero point")
    yield from _zero_point(original, meaning.result, view.output, "output zero point")
    yield from _image_differences(view, meaning)


def _zero_point(original: Original, tensor: int, desc: TensorDesc, what: str) -> Iterator[Finding]:
    """Compare a zero point: 0 for a tensor without quantization, -128 if it was uint8."""
    quantization = original.affine(tensor)
    plain = -128 if original.is_unsigned(tensor) else 0
    expected = plain if quantization is None else quantization[1]
    if expected != desc.zero_point:
        yield _difference(what, expected, desc.zero_point)


def _image_differences(view: StageView, meaning: Meaning) -> Iterator[Finding]:
    """Compare rows, columns and channels; a pointwise operator may arrange its pixels in any rows."""
    images = [(tensor.height, tensor.width, tensor.channels) for tensor in view.inputs]
    output = (view.output.height, view.output.width, view.output.channels)
    if meaning.images is None:
        if prod(images[0]) != _depth(meaning):
            yield _difference("values of the input", _depth(meaning), prod(images[0]))
    elif view.kind in _OF_ONE_VALUE and images == [output]:
        if prod(meaning.images[0]) != prod(output):
            yield _difference("values of the input", prod(meaning.images[0]), prod(output))
        return
    elif meaning.pointwise:
        for expected, image in zip(meaning.images, images, strict=True):
            if (expected[0] * expected[1], expected[2]) != (image[0] * image[1], image[2]):
                yield _difference("image of an input", expected, image)
    elif tuple(images) != meaning.images:
        yield _difference("image of the input", meaning.images[0], images[0])
    wide = [
        image
        for number, (image, read) in enumerate(zip(images, view.inputs, strict=True))
        if not needs_all(view.kind, number, read, view.output)
    ]
    if not wide and meaning.pointwise:
        yield _difference("image of an input", output, images)
        return
    if meaning.output is not None:
        keeps = meaning.pointwise and meaning.kind not in _OF_ALL_PIXELS
        expected = (*wide[0][:2], meaning.output[2]) if keeps else meaning.output
        if output != expected:
            yield _difference("image of the output", expected, output)
    if any(image[:2] != wide[0][:2] for image in wide):
        yield _difference("image of an input", wide[0][:2], [image[:2] for image in wide])


def _depth(meaning: Meaning) -> int:
    """Return the values that a FULLY_CONNECTED reads; its float32 weights are stored as bytes."""
    if meaning.weights is None and meaning.output is not None:
        return len(meaning.rows) // 4 // meaning.output[2]
    return 0 if meaning.weights is None else prod(meaning.weights.shape[1:])


# ---- Constants ----


def constant_differences(view: StageView, meaning: Meaning) -> Iterator[Finding]:
    """Compare weights, tables and padding; offsets of absent sections must be NONE."""
    is_thin = any(source.channels != view.output.channels for source in view.inputs)
    try:
        if meaning.weights is not None:
            yield from _weighted(view, meaning)
        elif meaning.left:
            names = "value after a reset", "values after a reset"
            yield from _stored_differences(view, view.desc.weights_offset, names, np.frombuffer(meaning.left, np.int8))
        elif meaning.rows:
            yield from _weight_rows(view, meaning)
        elif meaning.kind is StageKind.ADD and view.desc.weights_offset != NONE and not is_thin:
            yield from _multiples(view, meaning)
        else:
            yield from _none("weights offset", view.desc.weights_offset)
        if meaning.weights is None:
            if view.desc.weight_layout != WeightLayout.PLAIN and not _has_float16(view):
                yield _difference("weight layout", int(WeightLayout.PLAIN), view.desc.weight_layout)
            yield from _unweighted(view, meaning)
        yield from _padding(view, meaning)
    except MissingError as error:
        yield _difference(f"constants: there is no {error}")


def _has_float16(view: StageView) -> bool:
    """Return whether a stage's weights are float16, as those of a float32 layer that is fully connected may be."""
    narrow = view.desc.weight_layout == WeightLayout.FLOAT16
    return view.kind is StageKind.FLOAT_FULLY_CONNECTED and narrow


def _weight_rows(view: StageView, meaning: Meaning) -> Iterator[Finding]:
    """Compare the bytes of float32 weights with those stored, or with the float32 that the stored float16 equal."""
    expected, at = np.frombuffer(meaning.rows, np.int8), view.desc.weights_offset
    if not _has_float16(view):
        yield from _stored_differences(view, at, ("weight", "weights"), expected)
        return
    stored = view.constants.take(at, len(expected) // 2, "weights").view("<f2").astype("<f4")
    if not np.isfinite(stored).all():
        yield _difference("weights in float16 are not all finite")
    yield from _listed_differences("weight", expected, stored.view(np.int8))
    view.count("weights", len(expected))


def _none(what: str, actual: int) -> Iterator[Finding]:
    if actual != NONE:
        yield _difference(what, NONE, actual)


def _sums(weights: npt.NDArray[np.int8], bias: Int64s, zero_point: int) -> tuple[Int64s, tuple[Int64s, Int64s], Int64s]:
    """Return biases that hold the input's zero point, the least and largest sums, and their largest change by weights.

    Each is int64 [channels].
    """
    by_channel = weights.astype(np.int64).reshape(len(weights), -1)
    positive, negative = (np.where(sign * by_channel > 0, sign * by_channel, 0).sum(axis=1) for sign in (1, -1))
    bias = bias - zero_point * (positive - negative)
    sums = bias - 128 * positive - 127 * negative, bias + 127 * positive + 128 * negative
    return bias, sums, 128 * (positive + negative)


def _weighted(view: StageView, meaning: Meaning) -> Iterator[Finding]:
    """Compare weights and their layout, and for each channel bias, multiplier and shift, in the form of that layout."""
    assert meaning.weights is not None and meaning.bias is not None
    weights, source = meaning.weights, view.inputs[0]
    bias, sums, spread = _sums(weights, meaning.bias, source.zero_point)
    is_paired = view.desc.weight_layout == WeightLayout.PAIRED_DOWN
    table, down = expected_table(view.notes, meaning, bias, sums, spread, few_bits=is_paired)
    layout = layout_of(view.kind, view.desc, source, down is not None)
    if view.kind is StageKind.TRANSPOSE_CONV:
        # The set of taps differs from pixel to pixel, so zero points are not folded into the biases.
        table[:, 0] = meaning.bias
    in_halfwords = may_be_halfwords(view.kind, layout, source)
    is_int16 = in_halfwords and view.desc.weight_layout == WeightLayout.INT16_DOWN
    is_paired &= in_halfwords
    if layout != view.desc.weight_layout and not is_int16 and not is_paired:
        yield _difference("weight layout", layout, view.desc.weight_layout)
        return
    places = weight_places(view.kind, layout, weights.shape, source)
    stored: npt.NDArray[np.generic] = view.constants.take(
        view.desc.weights_offset, places.size * (1 + is_int16), "weights"
    )
    if is_int16:
        # Weights and biases are stored doubled.
        stored, places = stored.view("<i2"), in_int16(places)
        down = None if down is None else down * np.array([2, 1, 1])
    if is_paired and down is not None:
        stored = single_weights(stored.view("<i2"))
        yield from _paired_sums(down[:, 0], spread)
        down[::2, 0] *= 256
        down[: len(weights) // 2 * 2 : 2, 0] += down[1::2, 0]
    yield from _weight_differences(weights.astype(np.int16) * (1 + is_int16), stored, places)
    yield from _table_differences(view, table if down is None or layout != WeightLayout.PACKED_DOWN else down, layout)
    view.count("weights", weights.size)
    view.count("biases, multipliers and shifts", 3 * len(weights))


def _weight_differences(
    weights: npt.NDArray[np.int16], stored: npt.NDArray[np.generic], places: Places
) -> Iterator[Finding]:
    """Compare stored weights with their true values; the filling between them must be zeros."""
    yield from _array_differences("weight", weights, stored[places.index])
    rest = np.ones(places.size, bool)
    rest[places.index.ravel()] = False
    filled = np.flatnonzero((stored != 0) & rest)
    if len(filled):
        yield _difference("filling between weights", 0, int(stored[filled[0]]), None, (int(filled[0]),))


def _paired_sums(bias: Int64s, spread: Int64s) -> Iterator[Finding]:
    """Check that the sum of the first of two paired channels fits the 24 bits above the second's byte."""
    largest = (np.abs(bias) + spread)[::2]
    for channel in np.flatnonzero(largest >= _PAIRED_SUM)[:1].tolist():
        yield _difference("largest sum", _PAIRED_SUM, int(largest[channel]), None, (2 * channel,))


def _table_differences(view: StageView, expected: Int64s, layout: int) -> Iterator[Finding]:
    """Compare a table; packed tables of an odd number of channels end with an entry of zeros."""
    entries = len(expected) + (len(expected) % 2 if layout != WeightLayout.PLAIN else 0)
    stored = view.constants.table(view.desc.table_offset, 3 * entries, "table").reshape(-1, 3)
    wrapped = (expected + 2**31) % 2**32 - 2**31
    for column, what in enumerate(("bias", "multiplier", "shift")):
        yield from _array_differences(what, wrapped[:, column], stored[: len(expected), column])
    if stored[len(expected) :].any():
        yield _difference("entry behind the last channel", (0, 0, 0), tuple(stored[-1].tolist()))


def _array_differences(
    what: str, expected: npt.NDArray[np.generic], actual: npt.NDArray[np.generic]
) -> Iterator[Finding]:
    """Yield the first element that differs, with the count of all; the first axis counts output channels."""
    if np.array_equal(expected, actual):
        return
    differing = np.argwhere(expected != actual)
    place = tuple(int(n) for n in differing[0])
    yield _difference(what, int(expected[place]), int(actual[place]), place[0], place[1:], len(differing))


def _multiples(view: StageView, meaning: Meaning) -> Iterator[Finding]:
    """Check an ADD by products for all pairs of int8 values, and that its start is the middle of all correct ones."""
    first, second, start = view.constants.table(view.desc.weights_offset, 3, "factors").tolist()
    values = np.arange(-128, 128, dtype=np.int64)
    points = view.inputs[0].zero_point, view.inputs[1].zero_point, view.output.zero_point
    expected = np.clip(added(meaning.addition, points, values[:, None], values), *meaning.clamp)
    products = first * values[:, None] + second * values
    actual = np.clip(((products + start + 2**31) % 2**32 - 2**31) >> _ADD_BITS, *meaning.clamp)
    differing = np.argwhere(expected != actual)
    for a, b in differing[:1].tolist():
        pair = values[a].item(), values[b].item()
        yield _difference("sum by multiples", int(expected[a, b]), int(actual[a, b]), None, pair, len(differing))
    least = ((expected << _ADD_BITS) - products).max(where=expected > meaning.clamp[0], initial=-(2**31))
    most = ((expected + 1 << _ADD_BITS) - products).min(where=expected < meaning.clamp[1], initial=2**31) - 1
    if not len(differing) and start != int(least + most) // 2:
        yield _difference("start of the sums by multiples", int(least + most) // 2, start)
    view.count("sums of two values", expected.size)


def _listed_differences(
    what: str, expected: npt.NDArray[np.generic], actual: npt.NDArray[np.generic], first: int = 0
) -> Iterator[Finding]:
    """Yield the first element of a list that differs, with the count of all; elements count from ``first``."""
    differing = np.flatnonzero(expected != actual)
    for at in differing[:1].tolist():
        yield _difference(what, int(expected[at]), int(actual[at]), None, (at + first,), len(differing))


def _stored_differences(
    view: StageView, offset: int, names: tuple[str, str], expected: npt.NDArray[np.generic], first: int = 0
) -> Iterator[Finding]:
    """Compare a section of bytes; ``names`` are of one element and of several."""
    stored = view.constants.take(offset, len(expected), names[1]).view(expected.dtype)
    yield from _listed_differences(names[0], expected, stored, first)
    view.count(names[1], len(expected))


def _unweighted(view: StageView, meaning: Meaning) -> Iterator[Finding]:
    """Compare the table of a stage without weights, which has one kind of contents."""
    if view.kind in _OF_THE_LIBRARY:
        view.notes.append(_LIBRARY_NOTE)
    constants, at = view.constants, view.desc.table_offset
    if meaning.addition:
        stored = constants.table(at, 7, "table")
        for name, expected, actual in zip(_ADDITION, meaning.addition, stored.tolist(), strict=True):
            if expected != actual:
                yield _difference(name, expected, actual)
        view.count("biases, multipliers and shifts", 7)
    elif meaning.table:
        names = "byte of the table", "bytes of tables"
        yield from _stored_differences(view, at, names, np.frombuffer(meaning.table, np.uint8))
    elif meaning.answers is not None:
        yield from _stored_differences(view, at, ("answer", "answers"), meaning.answers.astype(np.int8), -128)
    elif meaning.first:
        names = "value of the first state", "values of first states"
        yield from _stored_differences(view, at, names, np.frombuffer(meaning.first, np.int8))
    elif meaning.places:
        places = constants.table(at, len(meaning.places), "table")
        yield from _listed_differences("place of a row or column", np.array(meaning.places, np.int64), places)
        view.count("places", len(meaning.places))
    elif meaning.channels:
        channels = np.array([meaning.pad, *meaning.channels], np.int64)
        listed = constants.take(at, 2 * len(channels), "table").view("<i2").astype(np.int64)
        if -1 in meaning.channels and listed[0] != channels[0]:
            yield _difference("fill", int(channels[0]), int(listed[0]))
        yield from _array_differences("input channel", channels[1:], listed[1:])
        view.count("channels", len(meaning.channels))
    elif meaning.multiplier is not None and meaning.shift is not None:
        source = view.inputs[0]
        bias = -source.zero_point * source.height * source.width if view.kind is StageKind.GLOBAL_AVERAGE else 0
        table = np.array([[bias, int(meaning.multiplier[0]), int(meaning.shift[0])]], np.int64)
        yield from _table_differences(view, table, WeightLayout.PLAIN)
        view.count("biases, multipliers and shifts", 3)
    else:
        yield from _none("table offset", at)


# ---- Requantization ----

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


# ---- Padding ----


def _padding(view: StageView, meaning: Meaning) -> Iterator[Finding]:
    """Check the pixel that stands for those outside the image, if a window reads one."""
    if not sees_outside(view):
        yield from _none("padding offset", view.desc.pad_offset)
        return
    source = view.inputs[0]
    value = {
        StageKind.PAD: meaning.pad,
        StageKind.STATE: meaning.pad,
        StageKind.MAX_POOL: -128,
        StageKind.AVERAGE_POOL: 0,
    }.get(view.kind, source.zero_point)
    pixel = view.constants.pad(view.desc.pad_offset, pixel_bytes(source))
    wrong = np.flatnonzero(pixel != value)
    if len(wrong):
        yield _difference("padding value", value, int(pixel[wrong[0]]), None, (int(wrong[0]),), len(wrong))
    view.count("padding values", source.channels)


def sees_outside(view: StageView) -> bool:
    """Return whether a window leaves the image, or a packed kernel loads pixels beyond it."""
    desc, output = view.desc, view.output
    if view.kind in (StageKind.SOURCE, StageKind.TRANSPOSE, *_OF_ALL_PIXELS, *PAIRS):
        return False
    source = view.inputs[0]
    together = view.kind is StageKind.DEPTHWISE and desc.weight_layout != WeightLayout.PLAIN
    together = together and not packed_by_quads(view.kind, source)
    for axis, length, size in ((0, source.height, output.height), (1, source.width, output.width)):
        stride, pad, extent, apart = reach(desc, axis)
        # The first input pixel under the first window, and the last one under the last.
        first, last = -(pad // apart), ((size - 1) * stride - pad + extent - 1) // apart
        together |= first < 0 or last >= length
    return together
