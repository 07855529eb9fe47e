"""Operators on int8 as the stages that compute their bytes; None if no stage does. Layers are in ``layers``."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import frexp, isfinite, prod

import numpy as np
import numpy.typing as npt

from tflite_fuse.check.moves import gathered_channels
from tflite_fuse.check.original.functions import exp_below
from tflite_fuse.check.original.meaning import Meaning, affine, fused_clamp, of_first, sum_of_ones
from tflite_fuse.check.original.scales import (
    activation_bounds,
    addition_numbers,
    difference_numbers,
    mean_multiplier,
    quotient_ratio,
    scaled,
    split_scale,
)
from tflite_fuse.check.original.values import Image, Original, Step
from tflite_fuse.ir.enums import StageKind
from tflite_fuse.model.types import TensorType


@dataclass(frozen=True)
class Reduced:
    """A reduction: input image, output image, and the (rows, columns) that become one; None if it reduces channels."""

    image: Image
    output: Image
    window: tuple[int, int] | None


def reduced(original: Original, step: Step) -> Reduced | None:
    """Return the reduction of a step; None if its axes are unknown, or are channels and others at once."""
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
    return Reduced(image, output, None if over_channels else window)


def mean(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a MEAN: over rows or columns a DEPTHWISE of ones, over channels a CONV of ones."""
    reduction = reduced(original, step)
    if reduction is None:
        return None
    count = reduction.image[2] if reduction.window is None else prod(reduction.window)
    source, output = affine(original, step.inputs[0])[0], affine(original, step.outputs[0])[0]
    multiplier, shift = (np.array([number], np.int64) for number in mean_multiplier(source, output, count))
    if reduction.window is not None and reduction.output[:2] != (1, 1):
        return sum_of_ones(step, reduction.window, (multiplier, shift), (reduction.image, reduction.output))
    kind = StageKind.CONV if reduction.window is None else StageKind.GLOBAL_AVERAGE
    meaning = of_first(step, kind, (reduction.image,), reduction.output, multiplier=multiplier, shift=shift)
    ones = np.ones((1, 1, 1, count), np.int8)
    return replace(meaning, weights=ones, bias=np.zeros(1, np.int64)) if reduction.window is None else meaning


def largest(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a REDUCE_MAX over channels or the whole image; over rows or columns alone a MAX_POOL."""
    reduction = reduced(original, step)
    if reduction is None or affine(original, step.inputs[0]) != affine(original, step.outputs[0]):
        return None
    kind = StageKind.CHANNEL_MAX if reduction.window is None else StageKind.GLOBAL_MAX
    meaning = of_first(step, kind, (reduction.image,), reduction.output)
    if reduction.window is None or reduction.output[:2] == (1, 1):
        return meaning
    return replace(meaning, kind=StageKind.MAX_POOL, kernel=reduction.window)


def first_largest(original: Original, step: Step) -> Meaning | None:
    """Return the stage of an ARG_MAX along the last dimension, whose result is four bytes for each pixel."""
    source, output = (original.tensors[tensor] for tensor in (step.inputs[0], step.outputs[0]))
    image, last = original.rows(step.inputs[0]), len(source.dims) - 1
    kinds: dict[int, StageKind] = {TensorType.INT8: StageKind.ARG_MAX, TensorType.FLOAT32: StageKind.FLOAT_ARG_MAX}
    kind = kinds.get(source.type) if original.encoding(step.inputs[0]) is not None else None
    along = original.numbers(step.operand(1)) in ((-1,), (last,)) and output.dims == source.dims[:-1]
    if image is None or kind is None or last < 1 or not along or output.type != TensorType.INT32:
        return None
    return of_first(step, kind, (image,), (*image[:2], 4))


def _images(original: Original, step: Step, count: int) -> tuple[tuple[Image, ...], Image] | None:
    """Return the images of inputs and output; with two inputs, batches count as rows."""
    image = original.rows if count == 2 else original.image
    sources = [image(step.operand(position)) for position in range(count)]
    output = image(step.outputs[0])
    if output is None or any(source is None for source in sources):
        return None
    return tuple(source for source in sources if source is not None), output


def _pair(
    original: Original, step: Step, kind: StageKind, *, clamps: bool = False, thin: bool = False
) -> Meaning | None:
    """Return a stage of two operands of one shape; one may be a constant, a single pixel or, if ``thin``, have a single
    channel."""
    clamp = fused_clamp(original, step) if clamps else (-128, 127)
    if len(step.inputs) != 2 or not all(map(original.is_operand, step.inputs)) or clamp is None:
        return None
    images = _images(original, step, 2)
    if images is None:
        return None
    sources, output = images
    shapes = [output, (1, 1, output[2]), *([(*output[:2], 1)] if thin else [])]
    if output not in sources or any(source not in shapes for source in sources):
        return None
    return Meaning(step, kind, step.inputs, step.outputs[0], sources, output, clamp=clamp)


def _scales(original: Original, step: Step) -> tuple[float, float, float]:
    """Return the scales of both operands and the output."""
    first, second, output = (affine(original, tensor)[0] for tensor in (*step.inputs, step.outputs[0]))
    return first, second, output


def sum_of(sign: int) -> Callable[[Original, Step], Meaning | None]:
    """Return the rule of ADD or SUB, which is an ADD with a negative multiplier. With a constant for each channel it
    is an OFFSET."""

    def add(original: Original, step: Step) -> Meaning | None:
        constant = _constant_operand(original, step)
        by_channel = None if constant is None else _offset_by_channel(original, step, constant, sign)
        if by_channel is not None:
            return by_channel
        meaning = _pair(original, step, StageKind.ADD, clamps=True, thin=True)
        if meaning is None:
            return None
        numbers = addition_numbers(*_scales(original, step))
        return replace(meaning, addition=(*numbers[:3], sign * numbers[3], *numbers[4:]))

    return add


def squared_difference(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a SQUARED_DIFFERENCE."""
    meaning = _pair(original, step, StageKind.SQUARED_DIFFERENCE, thin=True)
    return meaning and replace(meaning, addition=difference_numbers(*_scales(original, step)))


def extreme(kind: StageKind) -> Callable[[Original, Step], Meaning | None]:
    """Return the rule of MAXIMUM or MINIMUM of the bytes of two tensors."""
    return lambda original, step: _pair(original, step, kind)


def multiply(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a MUL; with a constant for each channel it is a SCALE."""
    constant = _constant_operand(original, step)
    by_channel = None if constant is None else _scale_by_channel(original, step, constant)
    if by_channel is not None:
        return by_channel
    meaning = _pair(original, step, StageKind.MULTIPLY, clamps=True, thin=True)
    if meaning is None:
        return None
    first, second, output = _scales(original, step)
    multiplier, shift = split_scale([quotient_ratio(first * second, output)])
    return replace(meaning, multiplier=multiplier, shift=shift)


def gather(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a GATHER of channels."""
    images, channels = _images(original, step, 1), gathered_channels(original, step)
    if images is None or channels is None or len(channels) != images[1][2]:
        return None
    return of_first(step, StageKind.CHANNELS, *images, channels=channels, pad=0)


def relu(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a separate RELU: a DEPTHWISE of ones."""
    images = _images(original, step, 1)
    (source, _), (scale, point) = affine(original, step.inputs[0]), affine(original, step.outputs[0])
    clamp = activation_bounds(1, scale, point)
    if images is None or clamp is None:
        return None
    table = split_scale([quotient_ratio(source, scale)])
    return replace(sum_of_ones(step, (1, 1), table, (images[0][0], images[1])), clamp=clamp)


def relu6(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a separate RELU6: a clamp by its input's quantization."""
    images, clamp = _images(original, step, 1), activation_bounds(3, *affine(original, step.inputs[0]))
    if images is None or clamp is None:
        return None
    return of_first(step, StageKind.MAX_POOL, *images, clamp=clamp)


def quantize(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a QUANTIZE from int8 to int8: a DEPTHWISE of ones."""
    images = _images(original, step, 1)
    if images is None:
        return None
    scales = affine(original, step.inputs[0])[0], affine(original, step.outputs[0])[0]
    return sum_of_ones(step, (1, 1), split_scale([quotient_ratio(*scales)]), (images[0][0], images[1]))


# ---- A constant number for every channel, and SOFTMAX ----


# A SCALE multiplies values above and below the zero point by different numbers, an OFFSET adds a number, a SOFTMAX
# looks up the exponentials of differences to the maximum. Their tables are computed here as bytes.

Int64s = npt.NDArray[np.int64]

_WIDEST = 511
"""Most channels of a SOFTMAX that the runtime computes for all values."""


def _constant_operand(original: Original, step: Step) -> int | None:
    """Return the position of the only constant among two operands."""
    constants = [position for position in (0, 1) if original.content(step.operand(position))]
    return constants[0] if len(step.inputs) == 2 and len(constants) == 1 else None


def _by_channel(original: Original, step: Step, position: int) -> tuple[Int64s, tuple[Image, Image]] | None:
    """Return the constant less its zero point, one number per channel, and the images of the input and the result.

    An input of one channel is added to, or multiplied by, the numbers of all channels.
    """
    constant, other = step.inputs[position], step.inputs[1 - position]
    stored, quantization = original.weights(constant), original.affine(constant)
    source, image = original.rows(other), original.rows(step.outputs[0])
    if stored is None or quantization is None or image is None or original.activation(other) is None:
        return None
    is_repeated = step.name != "PRELU" and source == (*image[:2], 1)
    if source is None or (source != image and not is_repeated):
        return None
    if stored.size != image[2] or stored.shape[-1:] != image[2:]:
        return None
    return stored.ravel().astype(np.int64) - quantization[1], (source, image)


def _tabled(
    step: Step, kind: StageKind, position: int, images: tuple[Image, Image], table: bytes, clamp: tuple[int, int]
) -> Meaning:
    source, result = step.inputs[1 - position], step.outputs[0]
    return Meaning(step, kind, (source,), result, images[:1], images[1], clamp=clamp, table=table)


def prelu(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a PRELU whose alpha is a constant."""
    numbers = _by_channel(original, step, 1) if _constant_operand(original, step) == 1 else None
    alpha, quantized = original.affine(step.operand(1)), affine(original, step.outputs[0])
    if numbers is None or alpha is None:
        return None
    source = affine(original, step.inputs[0])[0]
    multipliers, shifts = split_scale([source / quantized[0], source * alpha[0] / quantized[0]])
    sides = [(0, int(m), int(s)) for m, s in zip(multipliers, shifts, strict=True)]
    factors = [number for slope in numbers[0].tolist() for number in (1, slope)]
    return _tabled(step, StageKind.SCALE, 1, numbers[1], _scale_table(sides, factors), (-128, 127))


def _scale_by_channel(original: Original, step: Step, position: int) -> Meaning | None:
    """Return the stage of a MUL with a constant operand."""
    numbers, clamp = _by_channel(original, step, position), fused_clamp(original, step)
    constant = original.affine(step.inputs[position])
    if numbers is None or clamp is None or constant is None:
        return None
    scales = [affine(original, step.inputs[1 - position])[0], affine(original, step.outputs[0])[0]]
    multiplier, shift = split_scale([scales[0] * constant[0] / scales[1]])
    sides = [(0, int(multiplier[0]), int(shift[0]))] * 2
    factors = np.repeat(numbers[0], 2).tolist()
    return _tabled(step, StageKind.SCALE, position, numbers[1], _scale_table(sides, factors), clamp)


def _scale_table(sides: list[tuple[int, int, int]], factors: list[int]) -> bytes:
    return struct.pack("<6i", *sides[0], *sides[1]) + struct.pack(f"<{len(factors)}h", *factors)


def _offset_by_channel(original: Original, step: Step, position: int, sign: int) -> Meaning | None:
    """Return the stage of an ADD (sign 1) or SUB (sign −1) with a constant operand."""
    numbers, clamp = _by_channel(original, step, position), fused_clamp(original, step)
    quantized = [original.affine(tensor) for tensor in step.inputs]
    if numbers is None or clamp is None or quantized[0] is None or quantized[1] is None:
        return None
    left, *rest = addition_numbers(quantized[0][0], quantized[1][0], affine(original, step.outputs[0])[0])
    of_operand = [(rest[0], rest[1], 1), (rest[2], rest[3], sign)]
    multiplier, shift, its_sign = of_operand[position]
    offsets = its_sign * scaled(numbers[0] << left, np.array([multiplier]), np.array([shift]))
    activation = of_operand[1 - position]
    table = struct.pack(f"<{6 + len(offsets)}i", left, *activation[:2], *rest[4:], activation[2], *offsets.tolist())
    return _tabled(step, StageKind.OFFSET, position, numbers[1], table, clamp)


def softmax(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a SOFTMAX from int8 to int8 whose output scale is 1/256.

    Scaled differences have five integer bits. The runtime's kernel aborts if 512 or more channels are equal, so wider
    inputs have no meaning.
    """
    source, output = original.rows(step.inputs[0]), original.rows(step.outputs[0])
    beta = step.options.get("beta", 0.0)
    if (
        source is None
        or source != output
        or len(original.tensors[step.inputs[0]].dims) != len(original.tensors[step.outputs[0]].dims)
        or output[2] > _WIDEST
        or affine(original, step.outputs[0]) != (1 / 256, -128)
    ):
        return None
    if not isinstance(beta, float) or not isfinite(beta):
        return None
    factor = min(beta * affine(original, step.inputs[0])[0] * 2.0**26, 2.0**31 - 1)
    if not factor > 1:
        return None
    fraction, shift = frexp(factor)
    multiplier = int(fraction * 2.0**31 + 0.5)
    if multiplier == 1 << 31:
        multiplier, shift = 1 << 30, shift + 1
    near = np.array([distance for distance in range(256) if distance << shift <= 31 << 26]) << shift
    table = [*exp_below((-near * multiplier + (1 << 30)) >> 31, 5).tolist(), *[0] * (256 - len(near))]
    return Meaning(
        step, StageKind.SOFTMAX, step.inputs, step.outputs[0], (source,), output, table=struct.pack("<256i", *table)
    )
