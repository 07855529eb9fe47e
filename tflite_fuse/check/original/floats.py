"""Operators on float32 as the stages that compute their bytes; None if no stage does.

A stage computes in the order of TFLM's reference kernel, so the proof compares the numbers it computes with, bounds
and constants, byte by byte. Layers are in ``layers``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, inf

import numpy as np

from tflite_fuse.check.original import larger, layers
from tflite_fuse.check.original.larger import PIXEL, window_of
from tflite_fuse.check.original.layers import Floats, float_bounds, float_constant, images_of, is_computed
from tflite_fuse.check.original.meaning import Meaning, of_first
from tflite_fuse.check.original.operators import reduced
from tflite_fuse.check.original.values import Original, Step
from tflite_fuse.ir.enums import StageKind

OPERATIONS = ("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "PRELU", "BITWISE_XOR")
"""Operators by their number in a stage's table."""

_ACTIVATED = OPERATIONS[:4]
"""Those with a fused activation."""


REDUCTIONS = ("SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN")
"""By their numbers in a stage's table."""

_POOLS = {"MEAN": StageKind.FLOAT_AVERAGE_POOL, "REDUCE_MAX": StageKind.FLOAT_MAX_POOL}
"""Of rows or columns alone."""


def _reduction(original: Original, step: Step) -> Meaning | None:
    reduction = reduced(original, step)
    if reduction is None or not is_computed(original, step, step.operand(0)):
        return None
    number, bounds = struct.pack("<i", REDUCTIONS.index(step.name)), struct.pack("<2f", -inf, inf)
    if reduction.window is None:
        return of_first(step, StageKind.FLOAT_CHANNEL_REDUCE, (reduction.image,), reduction.output, table=number)
    if reduction.output[:2] != (1, 1):
        if step.name not in _POOLS:
            return None
        return of_first(
            step, _POOLS[step.name], (reduction.image,), reduction.output, table=bounds, kernel=reduction.window
        )
    if step.name == "MEAN":
        return of_first(step, StageKind.FLOAT_GLOBAL_AVERAGE, (reduction.image,), reduction.output, table=bounds)
    return of_first(step, StageKind.FLOAT_GLOBAL_REDUCE, (reduction.image,), reduction.output, table=number)


# ---- Value by value ----


def _operation(original: Original, step: Step) -> Meaning | None:
    output = original.rows(step.outputs[0])
    bounds = float_bounds(step) if step.name in _ACTIVATED else (-inf, inf)
    if len(step.inputs) != 2 or bounds is None or output is None:
        return None
    constants = [float_constant(original, tensor) for tensor in step.inputs]
    computed = [tensor for tensor in step.inputs if is_computed(original, step, tensor)]
    images = tuple(image for tensor in step.inputs if (image := original.rows(tensor)) is not None)
    number, constant = OPERATIONS.index(step.name), next((each for each in constants if each is not None), None)
    if len(images) != 2 or not computed or len(computed) + (constant is not None) != 2:
        return None
    if step.name == "PRELU" and (constant is None or constants[0] is not None):
        return None
    values = None if constant is None else _by_channel(constant, output[2])
    if constant is None or values is None:
        wide = (output, (1, 1, output[2]), *([(*output[:2], 1)] if step.name != "PRELU" else []))
        if output not in images or any(image not in wide for image in images):
            return None
        table = struct.pack("<2i2f", number, 0, *bounds)
        return Meaning(step, StageKind.FLOAT_PAIR, step.inputs, step.outputs[0], images, output, table=table)
    images = tuple(original.rows(tensor) or output for tensor in computed)
    is_repeated = step.name != "PRELU" and constant.size == output[2] and images[0] == (*output[:2], 1)
    if images[0] != output and not is_repeated:
        return None
    table = struct.pack("<2i2f", number, int(constants[0] is not None), *bounds) + values.astype("<f4").tobytes()
    return Meaning(
        step, StageKind.FLOAT_BY_CHANNEL, (computed[0],), step.outputs[0], images, output, table=table
    )  # fmt: skip


def _by_channel(constant: Floats, channels: int) -> Floats | None:
    """Return a constant's number for each channel if it is the same for all pixels."""
    if constant.size == 1:
        return np.repeat(constant.ravel(), channels)
    return constant.ravel() if constant.size == channels and constant.shape[-1:] == (channels,) else None


def _of_one(kind: StageKind, table: Callable[[Step], bytes]) -> Callable[[Original, Step], Meaning | None]:
    """Return the rule of a pointwise operator whose table follows from its options alone."""

    def of_one(original: Original, step: Step) -> Meaning | None:
        image, output = original.rows(step.operand(0)), original.rows(step.outputs[0])
        if not is_computed(original, step, step.operand(0)) or image is None or image != output:
            return None
        return of_first(step, kind, (image,), image, table=table(step))

    return of_one


def _curve(number: int, low: float, high: float) -> Callable[[Original, Step], Meaning | None]:
    return _of_one(StageKind.FLOAT_CURVE, lambda step: struct.pack("<i2f", number, low, high))


LIBRARY_CURVES = ("LOGISTIC", "TANH", "ELU", "EXP", "LOG", "SQRT", "RSQRT", "SIN", "COS")
"""By their numbers in a stage's table."""


def _library(number: int) -> Callable[[Original, Step], Meaning | None]:
    return _of_one(StageKind.FLOAT_LIBRARY_CURVE, lambda step: struct.pack("<i", number))


def _single(step: Step, name: str) -> float:
    value = step.options.get(name, 0.0)
    return value if isinstance(value, float) else 0.0


# ---- Other numbers of rows and columns ----


def _bilinear(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a RESIZE_BILINEAR; positions are computed in single precision."""
    images, sizes = images_of(original, step), original.numbers(step.operand(1))
    corners, centres = (bool(step.options.get(name)) for name in ("align_corners", "half_pixel_centers"))
    if images is None or sizes != images[1][:2] or images[0][2] != images[1][2] or (corners and centres):
        return None
    table, windows = struct.pack("<i", 1), []
    for length, size in zip(images[0][:2], images[1][:2], strict=True):
        rate = (length - 1, size - 1) if corners and size > 1 else (length, size)
        places = [_place(at, length, rate, centres) for at in range(size)]
        table += b"".join(struct.pack("<2if", *place) for place in places)
        lies = [PIXEL * place[0] + (place[1] > place[0]) for place in places]
        windows.append(window_of(lies, Fraction(max(rate[0], 1), rate[1])))
    stride, apart, padding, extent = zip(*windows, strict=True)
    return of_first(
        step, StageKind.FLOAT_RESIZE, images[:1], images[1], kernel=extent, stride=stride, dilation=apart,
        padding=padding, table=table,
    )  # fmt: skip


def _place(at: int, length: int, rate: tuple[int, int], centres: bool) -> tuple[int, int, float]:
    """Return the two input rows on both sides of an output row, and its distance from the first."""
    single = np.float32
    half = single(0.5) if centres else single(0)
    place = (single(at) + half) * (single(rate[0]) / single(rate[1])) - half
    first = max(floor(float(place)), 0)
    return first, min(ceil(float(place)), length - 1), float(place - single(first))


# ---- Moves ----


def _moved(rule: Callable[[Original, Step], Meaning | None]) -> Callable[[Original, Step], Meaning | None]:
    """Return a rule for operators that move values; a RESIZE of whole pixels is the FLOAT_RESIZE that copies them."""

    def moved(original: Original, step: Step) -> Meaning | None:
        meaning = rule(original, step) if is_computed(original, step, step.operand(0)) else None
        if meaning is None or meaning.kind is not StageKind.RESIZE:
            return meaning
        places = (struct.pack("<2if", place // PIXEL, place // PIXEL, 0.0) for place in meaning.places)
        return replace(
            meaning, kind=StageKind.FLOAT_RESIZE, places=(), table=struct.pack("<i", 0) + b"".join(places)
        )  # fmt: skip

    return moved


RULES: dict[str, Callable[[Original, Step], Meaning | None]] = {
    **dict.fromkeys(OPERATIONS, _operation),
    **dict.fromkeys(REDUCTIONS, _reduction),
    **layers.RULES,
    **{name: _moved(rule) for name, rule in larger.RULES.items()},
    **{name: _library(number) for number, name in enumerate(LIBRARY_CURVES)},
    "ABS": _curve(3, -inf, inf),
    "HARD_SWISH": _curve(2, -inf, inf),
    "LEAKY_RELU": _of_one(StageKind.FLOAT_CURVE, lambda step: struct.pack("<i2f", 1, _single(step, "alpha"), 0.0)),
    "NEG": _curve(4, -inf, inf),
    "RELU": _curve(0, 0.0, inf),
    "RELU6": _curve(0, 0.0, 6.0),
    "RESIZE_BILINEAR": _bilinear,
    "SOFTMAX": _of_one(StageKind.FLOAT_SOFTMAX, lambda step: struct.pack("<f", _single(step, "beta"))),
    "SQUARE": _curve(5, -inf, inf),
}
"""Operators on float32 that are stages of their own."""
