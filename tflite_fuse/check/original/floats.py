"""Operators on float32 as the stages that compute their bytes; None if no stage does.

A stage computes in the order of TFLM's reference kernel, so the proof compares the numbers it computes with: weights,
biases, bounds and constants, byte by byte.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, inf, prod

import numpy as np
import numpy.typing as npt

from tflite_fuse.check.original import larger
from tflite_fuse.check.original.larger import PIXEL, window_of
from tflite_fuse.check.original.meaning import Meaning, of_first, own_padding
from tflite_fuse.check.original.operators import matrices, reduced
from tflite_fuse.check.original.values import Image, Original, Step
from tflite_fuse.ir.enums import StageKind
from tflite_fuse.model.types import TensorType

Floats = npt.NDArray[np.float32]
Bounds = tuple[float, float]

_LARGEST = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
_ACTIVATIONS: dict[int, Bounds] = {0: (-_LARGEST, _LARGEST), 1: (0.0, _LARGEST), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
"""Bounds of the results by the number of the fused activation."""

OPERATIONS = ("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "PRELU", "BITWISE_XOR")
"""Operators by their number in a stage's table."""

_ACTIVATED = OPERATIONS[:4]
"""Those with a fused activation."""


def computes(original: Original, step: Step) -> bool:
    """Return whether the operand a step computes with and its one output are float32."""
    tensors = (step.operand(2 if step.name == "TRANSPOSE_CONV" else 0), *step.outputs)
    return len(tensors) == 2 and all(t >= 0 and original.tensors[t].type == TensorType.FLOAT32 for t in tensors)


def _is_computed(original: Original, tensor: int) -> bool:
    """Return whether a tensor is float32 and written in every inference."""
    if tensor < 0 or original.content(tensor) or original.tensors[tensor].is_variable:
        return False
    return original.tensors[tensor].type == TensorType.FLOAT32


def _constant(original: Original, tensor: int) -> Floats | None:
    """Return a float32 constant in its own shape."""
    if tensor < 0 or original.tensors[tensor].type != TensorType.FLOAT32 or original.tensors[tensor].sparsity:
        return None
    content, dims = original.content(tensor), original.tensors[tensor].dims
    if not content or len(content) != 4 * prod(dims) or original.tensors[tensor].is_variable:
        return None
    return np.frombuffer(content, "<f4").reshape(dims)


def _bounds(step: Step) -> Bounds | None:
    return _ACTIVATIONS.get(step.number("fused_activation_function"))


def _images(original: Original, step: Step) -> tuple[Image, Image] | None:
    """Return the images of the first input, which must be computed, and of the output; both have four dimensions."""
    tensors = (step.operand(0), step.outputs[0])
    if not _is_computed(original, tensors[0]) or any(len(original.tensors[t].dims) != 4 for t in tensors):
        return None
    source, output = map(original.image, tensors)
    return None if source is None or output is None else (source, output)


# ---- Layers with weights ----


def _table(original: Original, step: Step, channels: int, place: int = 2) -> bytes | None:
    """Return the bytes of the bounds, then of a bias for each channel, 0 if the operator has none."""
    bounds = _bounds(step)
    bias = np.zeros(channels, "<f4") if step.operand(place) < 0 else _constant(original, step.operand(place))
    if bounds is None or bias is None or bias.size != channels:
        return None
    return struct.pack("<2f", *bounds) + bias.tobytes()


def _windowed(
    original: Original, step: Step, kind: StageKind, rows: Floats, kernel: tuple[int, int], depth: int
) -> Meaning | None:
    images, channels = _images(original, step), rows.shape[0 if kind is StageKind.FLOAT_CONV else -1]
    table = _table(original, step, channels)
    if images is None or table is None or images[1][2] != channels:
        return None
    stride = (step.number("stride_h"), step.number("stride_w"))
    dilation = (step.number("dilation_h_factor", 1), step.number("dilation_w_factor", 1))
    if min(*stride, *dilation) < 1:
        return None
    padding = own_padding(step, images[0], kernel, stride, dilation, images[1])
    if padding is None:
        return None
    return Meaning(
        step, kind, (step.inputs[0],), step.outputs[0], images[:1], images[1], kernel, stride, dilation, padding, depth,
        rows=rows.tobytes(), table=table, folds=bool(np.isfinite(rows).all()),
    )  # fmt: skip


def _convolution(original: Original, step: Step) -> Meaning | None:
    weights, source = _constant(original, step.operand(1)), original.image(step.inputs[0])
    if weights is None or source is None or weights.ndim != 4:
        return None
    kernel = (weights.shape[1], weights.shape[2])
    if weights.shape[3] == source[2]:
        return _windowed(original, step, StageKind.FLOAT_CONV, weights, kernel, 1)
    if weights.shape[3] == 1 and weights.shape[0] % source[2] == 0:
        by_tap = np.moveaxis(weights[..., 0], 0, -1)
        return _windowed(original, step, StageKind.FLOAT_DEPTHWISE, by_tap, kernel, len(weights) // source[2])
    return None


def _depthwise(original: Original, step: Step) -> Meaning | None:
    weights, source = _constant(original, step.operand(1)), original.image(step.inputs[0])
    if weights is None or source is None or weights.ndim != 4 or weights.shape[0] != 1:
        return None
    multiplier = step.number("depth_multiplier")
    if source[2] * multiplier != weights.shape[3]:
        return None
    return _windowed(original, step, StageKind.FLOAT_DEPTHWISE, weights[0], weights.shape[1:3], multiplier)


def _transposed(original: Original, step: Step) -> Meaning | None:
    weights, source, output = (
        _constant(original, step.operand(1)),
        *map(original.image, (step.inputs[2], step.outputs[0])),
    )
    dims = [original.tensors[tensor].dims for tensor in (step.inputs[2], step.outputs[0])]
    if weights is None or source is None or output is None or {len(each) for each in (*dims, weights.shape)} != {4}:
        return None
    if not _is_computed(original, step.inputs[2]) or (weights.shape[3], len(weights)) != (source[2], output[2]):
        return None
    kernel, table = (weights.shape[1], weights.shape[2]), _table(original, step, output[2], 3)
    around = larger.spread_window(step, kernel, source, output)
    if around is None or table is None:
        return None
    return Meaning(
        step, StageKind.FLOAT_TRANSPOSE_CONV, (step.inputs[2],), step.outputs[0], (source,), output, kernel, (1, 1),
        *around, rows=weights.tobytes(), table=table,
    )  # fmt: skip


def _fully_connected(original: Original, step: Step) -> Meaning | None:
    weights = _constant(original, step.operand(1))
    if weights is None or weights.ndim != 2 or step.number("weights_format"):
        return None
    if not _is_computed(original, step.operand(0)):
        return None
    channels, depth = weights.shape
    table, image = _table(original, step, channels), original.rows(step.inputs[0])
    dims = original.tensors[step.outputs[0]].dims
    whole = prod(original.tensors[step.inputs[0]].dims) == depth and prod(dims) == channels
    if table is None or image is None or (not whole and image[2] != depth):
        return None
    result = (1, 1, channels) if whole else (*image[:2], channels)
    if prod(dims) != prod(result) or not (whole or dims[-1:] == (channels,)):
        return None
    kind = StageKind.FLOAT_FULLY_CONNECTED if whole else StageKind.FLOAT_CONV
    return Meaning(
        step, kind, (step.inputs[0],), step.outputs[0], None if whole else (image,), result,
        rows=weights.tobytes(), table=table,
    )  # fmt: skip


def _matrix_product(original: Original, step: Step) -> Meaning | None:
    both = len(step.inputs) == 2 and all(_is_computed(original, tensor) for tensor in step.inputs)
    images, table = matrices(original, step) if both else None, struct.pack("<i", bool(step.number("adj_y")))
    if images is None:
        return None
    return Meaning(step, StageKind.FLOAT_MATRIX_PRODUCT, step.inputs, step.outputs[0], *images, table=table)


# ---- Pools ----


def _pool(kind: StageKind) -> Callable[[Original, Step], Meaning | None]:
    def pool(original: Original, step: Step) -> Meaning | None:
        images, bounds = _images(original, step), _bounds(step)
        kernel = (step.number("filter_height"), step.number("filter_width"))
        stride = (step.number("stride_h"), step.number("stride_w"))
        if images is None or bounds is None or min(*kernel, *stride) < 1 or images[0][2] != images[1][2]:
            return None
        source, output = images
        padding = own_padding(step, source, kernel, stride, (1, 1), output)
        if padding is None:
            return None
        table = struct.pack("<2f", *bounds)
        whole = output[:2] == (1, 1) and all(kernel[axis] - padding[axis] >= source[axis] for axis in (0, 1))
        if kind is StageKind.FLOAT_AVERAGE_POOL and whole:
            return of_first(step, StageKind.FLOAT_GLOBAL_AVERAGE, (source,), output, table=table)
        window = of_first(step, kind, (source,), output, table=table)
        return replace(window, kernel=kernel, stride=stride, padding=padding)

    return pool


REDUCTIONS = ("SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN")
"""By their numbers in a stage's table."""

_POOLS = {"MEAN": StageKind.FLOAT_AVERAGE_POOL, "REDUCE_MAX": StageKind.FLOAT_MAX_POOL}
"""Of rows or columns alone."""


def _reduction(original: Original, step: Step) -> Meaning | None:
    found = reduced(original, step)
    if found is None or not _is_computed(original, step.operand(0)):
        return None
    number, bounds = struct.pack("<i", REDUCTIONS.index(step.name)), struct.pack("<2f", -inf, inf)
    if found.window is None:
        return of_first(step, StageKind.FLOAT_CHANNEL_REDUCE, (found.image,), found.output, table=number)
    if found.output[:2] != (1, 1):
        if step.name not in _POOLS:
            return None
        return of_first(step, _POOLS[step.name], (found.image,), found.output, table=bounds, kernel=found.window)
    if step.name == "MEAN":
        return of_first(step, StageKind.FLOAT_GLOBAL_AVERAGE, (found.image,), found.output, table=bounds)
    return of_first(step, StageKind.FLOAT_GLOBAL_REDUCE, (found.image,), found.output, table=number)


# ---- Value by value ----


def _operation(original: Original, step: Step) -> Meaning | None:
    output = original.rows(step.outputs[0])
    bounds = _bounds(step) if step.name in _ACTIVATED else (-inf, inf)
    if len(step.inputs) != 2 or bounds is None or output is None:
        return None
    constants = [_constant(original, tensor) for tensor in step.inputs]
    computed = [tensor for tensor in step.inputs if _is_computed(original, tensor)]
    sources = [original.rows(tensor) for tensor in computed]
    number = OPERATIONS.index(step.name)
    images = tuple(source for source in sources if source is not None)
    if len(images) == 2:
        wide = (output, (1, 1, output[2]), (*output[:2], 1))
        if step.name == "PRELU" or output not in images or any(image not in wide for image in images):
            return None
        table = struct.pack("<2i2f", number, 0, *bounds)
        return Meaning(step, StageKind.FLOAT_PAIR, step.inputs, step.outputs[0], images, output, table=table)
    constant = next((each for each in constants if each is not None), None)
    if images != (output,) or constant is None or (step.name == "PRELU" and constants[0] is not None):
        return None
    values = _by_channel(constant, output[2])
    if values is None:
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
        if not _is_computed(original, step.operand(0)) or image is None or image != output:
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


def _resized(interpolates: bool) -> Callable[[Original, Step], Meaning | None]:
    """Return the rule of RESIZE_BILINEAR or RESIZE_NEAREST_NEIGHBOR; positions are computed in single precision."""

    def resized(original: Original, step: Step) -> Meaning | None:
        images, sizes = _images(original, step), original.numbers(step.operand(1))
        corners, centres = (bool(step.options.get(name)) for name in ("align_corners", "half_pixel_centers"))
        if images is None or sizes != images[1][:2] or images[0][2] != images[1][2]:
            return None
        if interpolates and corners and centres:
            return None
        table, windows = struct.pack("<i", interpolates), []
        for length, size in zip(images[0][:2], images[1][:2], strict=True):
            places = [_place(at, length, size, corners, centres, interpolates) for at in range(size)]
            meets = corners and size > 1
            rate = (length - 1, size - 1) if meets else (length, size)
            table += b"".join(struct.pack("<2if", *place) for place in places)
            lies = [PIXEL * place[0] + (place[1] > place[0]) for place in places]
            windows.append(window_of(lies, Fraction(max(rate[0], 1), rate[1])))
        stride, apart, padding, extent = zip(*windows, strict=True)
        return of_first(
            step, StageKind.FLOAT_RESIZE, images[:1], images[1], kernel=extent, stride=stride, dilation=apart,
            padding=padding, table=table,
        )  # fmt: skip

    return resized


def _place(at: int, length: int, size: int, corners: bool, centres: bool, between: bool) -> tuple[int, int, float]:
    """Return the two input rows on both sides of an output row, and its distance from the first."""
    single, meets = np.float32, corners and size > 1
    scale = single(length - 1) / single(size - 1) if meets else single(length) / single(size)
    half = single(0.5) if centres else single(0)
    if not between:
        scaled = float((single(at) + half) * scale)
        found = min(floor(scaled + 0.5) if corners else floor(scaled), length - 1)
        return found, found, 0.0
    place = (single(at) + half) * scale - half
    first = max(floor(float(place)), 0)
    return first, min(ceil(float(place)), length - 1), float(place - single(first))


# ---- Moves ----


def _pad(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a PAD or PADV2 with 0, of rows and columns or of channels alone."""
    source, output = original.image(step.operand(0)), original.image(step.outputs[0])
    rank, amounts = len(original.tensors[step.inputs[0]].dims), original.numbers(step.operand(1))
    if not _is_computed(original, step.operand(0)) or source is None or output is None:
        return None
    if len(amounts) != 2 * rank or min(amounts) < 0 or any(amounts[:2] if rank > 1 else ()):
        return None
    if step.operand(2) >= 0:
        value = _constant(original, step.operand(2))
        if value is None or value.size != 1 or any(value.tobytes()):
            return None
    pairs = [amounts[at : at + 2] for at in range(0, len(amounts), 2)]
    rows, columns, channels = ([0, 0], [0, 0], *(pairs[1:] or pairs))[-3:]
    if (source[0] + sum(rows), source[1] + sum(columns), source[2] + sum(channels)) != output:
        return None
    if any(channels):
        taken = (*[-1] * channels[0], *range(source[2]), *[-1] * channels[1])
        return None if any((*rows, *columns)) else of_first(
            step, StageKind.CHANNELS, (source,), output, channels=taken, pad=0
        )  # fmt: skip
    return of_first(step, StageKind.PAD, (source,), output, padding=(rows[0], columns[0]), pad=0)


def _concatenation(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a CONCATENATION along channels."""
    rank = len(original.tensors[step.outputs[0]].dims)
    images, output = [original.image(t) for t in step.inputs], original.image(step.outputs[0])
    if step.number("axis") not in (rank - 1, -1) or step.number("fused_activation_function") or output is None:
        return None
    if not all(_is_computed(original, t) and len(original.tensors[t].dims) == rank for t in step.inputs):
        return None
    found = tuple(image for image in images if image is not None)
    if len(found) != len(images):
        return None
    return Meaning(step, StageKind.CONCATENATION, step.inputs, step.outputs[0], found, output)


def _moved(rule: Callable[[Original, Step], Meaning | None]) -> Callable[[Original, Step], Meaning | None]:
    """Return a rule for operators that move values; a RESIZE of whole pixels is the FLOAT_RESIZE that copies them."""

    def moved(original: Original, step: Step) -> Meaning | None:
        meaning = rule(original, step) if _is_computed(original, step.operand(0)) else None
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
    **{name: _library(number) for number, name in enumerate(LIBRARY_CURVES)},
    "ABS": _curve(3, -inf, inf),
    "AVERAGE_POOL_2D": _pool(StageKind.FLOAT_AVERAGE_POOL),
    "BATCH_MATMUL": _matrix_product,
    "CONCATENATION": _concatenation,
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    "DEPTH_TO_SPACE": _moved(larger.squares(StageKind.DEPTH_TO_SPACE)),
    "FULLY_CONNECTED": _fully_connected,
    "GATHER": _moved(larger.gathered),
    "MAX_POOL_2D": _pool(StageKind.FLOAT_MAX_POOL),
    "MIRROR_PAD": _moved(larger.mirrored),
    "PAD": _pad,
    "PADV2": _pad,
    "HARD_SWISH": _curve(2, -inf, inf),
    "LEAKY_RELU": _of_one(StageKind.FLOAT_CURVE, lambda step: struct.pack("<i2f", 1, _single(step, "alpha"), 0.0)),
    "NEG": _curve(4, -inf, inf),
    "RELU": _curve(0, 0.0, inf),
    "RELU6": _curve(0, 0.0, 6.0),
    "RESIZE_BILINEAR": _resized(interpolates=True),
    "RESIZE_NEAREST_NEIGHBOR": _resized(interpolates=False),
    "SLICE": _moved(larger.sliced),
    "SOFTMAX": _of_one(StageKind.FLOAT_SOFTMAX, lambda step: struct.pack("<f", _single(step, "beta"))),
    "SPACE_TO_DEPTH": _moved(larger.squares(StageKind.SPACE_TO_DEPTH)),
    "SQUARE": _curve(5, -inf, inf),
    "STRIDED_SLICE": _moved(larger.sliced),
    "TRANSPOSE": _moved(larger.planes),
    "TRANSPOSE_CONV": _transposed,
}
"""Operators on float32 that are stages of their own."""
