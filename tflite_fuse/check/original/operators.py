"""Operators on int8 as the stages that compute their bytes; None if no stage does.

Reductions come first, then layers with weights, then operators without.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from tflite_fuse.check.moves import gathered_channels
from tflite_fuse.check.original import by_channel
from tflite_fuse.check.original.meaning import Int64s, Meaning, affine, fused_clamp, of_first, own_padding, sum_of_ones
from tflite_fuse.check.original.scales import (
    activation_bounds,
    addition_numbers,
    difference_numbers,
    mean_multiplier,
    product_ratio,
    quotient_ratio,
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
    found = reduced(original, step)
    if found is None:
        return None
    count = found.image[2] if found.window is None else prod(found.window)
    source, output = affine(original, step.inputs[0])[0], affine(original, step.outputs[0])[0]
    multiplier, shift = (np.array([number], np.int64) for number in mean_multiplier(source, output, count))
    if found.window is not None and found.output[:2] != (1, 1):
        return sum_of_ones(step, found.window, (multiplier, shift), (found.image, found.output))
    kind = StageKind.CONV if found.window is None else StageKind.GLOBAL_AVERAGE
    meaning = of_first(step, kind, (found.image,), found.output, multiplier=multiplier, shift=shift)
    ones = np.ones((1, 1, 1, count), np.int8)
    return replace(meaning, weights=ones, bias=np.zeros(1, np.int64)) if found.window is None else meaning


def largest(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a REDUCE_MAX over channels or the whole image; over rows or columns alone a MAX_POOL."""
    found = reduced(original, step)
    if found is None or affine(original, step.inputs[0]) != affine(original, step.outputs[0]):
        return None
    kind = StageKind.CHANNEL_MAX if found.window is None else StageKind.GLOBAL_MAX
    meaning = of_first(step, kind, (found.image,), found.output)
    if found.window is None or found.output[:2] == (1, 1):
        return meaning
    return replace(meaning, kind=StageKind.MAX_POOL, kernel=found.window)


def first_largest(original: Original, step: Step) -> Meaning | None:
    """Return the stage of an ARG_MAX along the last dimension, whose result is four bytes for each pixel."""
    source, output = (original.tensors[tensor] for tensor in (step.inputs[0], step.outputs[0]))
    image, last = original.rows(step.inputs[0]), len(source.dims) - 1
    kinds: dict[int, StageKind] = {TensorType.INT8: StageKind.ARG_MAX, TensorType.FLOAT32: StageKind.FLOAT_ARG_MAX}
    kind = kinds.get(source.type) if original.stands_for(step.inputs[0]) is not None else None
    along = original.numbers(step.operand(1)) in ((-1,), (last,)) and output.dims == source.dims[:-1]
    if image is None or kind is None or last < 1 or not along or output.type != TensorType.INT32:
        return None
    return of_first(step, kind, (image,), (*image[:2], 4))


def _windowed(
    original: Original, step: Step, kind: StageKind, weights: npt.NDArray[np.int8], depth: int
) -> Meaning | None:
    source, output = original.image(step.inputs[0]), original.image(step.outputs[0])
    clamp, bias = fused_clamp(original, step), bias_of(original, step, len(weights))
    ratios = filter_ratios(original, step, len(weights))
    if source is None or output is None or clamp is None or bias is None or ratios is None:
        return None
    kernel = (int(weights.shape[1]), int(weights.shape[2]))
    stride = (step.number("stride_h"), step.number("stride_w"))
    dilation = (step.number("dilation_h_factor", 1), step.number("dilation_w_factor", 1))
    sound = min(*stride, *dilation) > 0 and output[2] == len(weights)
    padding = own_padding(step, source, kernel, stride, dilation, output) if sound else None
    if padding is None:
        return None
    multiplier, shift = split_scale(ratios)
    return Meaning(
        step, kind, (step.inputs[0],), step.outputs[0], (source,), output, kernel, stride, dilation, padding, depth,
        clamp, weights, bias, multiplier, shift, folds=True,
    )  # fmt: skip


def filter_ratios(original: Original, step: Step, channels: int, place: int = 0) -> npt.NDArray[np.float64] | None:
    """Return the scale of the sums of each output channel; ``place`` is the position of the input."""
    scales = original.scales(step.operand(1))
    if scales is None or len(scales) not in (1, channels):
        return None
    spread = np.repeat(scales, channels) if len(scales) == 1 else scales
    return product_ratio(affine(original, step.inputs[place])[0], spread, affine(original, step.outputs[0])[0])


def bias_of(original: Original, step: Step, channels: int, place: int = 2) -> Int64s | None:
    """Return the bias, zeros if it is left out; None if its length is wrong."""
    if step.operand(place) < 0:
        return np.zeros(channels, np.int64)
    values = np.array(original.numbers(step.operand(place)), np.int64)
    return values if len(values) == channels else None


def convolution(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a CONV_2D; with one input channel per group it is a DEPTHWISE."""
    weights, source = original.weights(step.operand(1)), original.image(step.inputs[0])
    if weights is None or source is None or weights.ndim != 4:
        return None
    if weights.shape[3] == source[2]:
        return _windowed(original, step, StageKind.CONV, weights, 1)
    if weights.shape[3] == 1 and weights.shape[0] % source[2] == 0:
        return _windowed(original, step, StageKind.DEPTHWISE, weights, weights.shape[0] // source[2])
    return None


def depthwise(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a DEPTHWISE_CONV_2D."""
    weights, source = original.weights(step.operand(1)), original.image(step.inputs[0])
    if weights is None or source is None or weights.ndim != 4 or weights.shape[0] != 1:
        return None
    multiplier = step.number("depth_multiplier")
    if source[2] * multiplier != weights.shape[3]:
        return None
    by_channel = np.ascontiguousarray(np.moveaxis(weights, 3, 0).transpose(0, 2, 3, 1))
    return _windowed(original, step, StageKind.DEPTHWISE, by_channel, multiplier)


def fully_connected(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a FULLY_CONNECTED: of the whole input, or of each pixel as a convolution."""
    weights, clamp = original.weights(step.operand(1)), fused_clamp(original, step)
    if weights is None or clamp is None or weights.ndim != 2 or step.number("weights_format"):
        return None
    channels, depth = weights.shape
    bias, ratios = bias_of(original, step, channels), filter_ratios(original, step, channels)
    image, dims = original.rows(step.inputs[0]), original.tensors[step.outputs[0]].dims
    whole = prod(original.tensors[step.inputs[0]].dims) == depth and prod(dims) == channels
    if bias is None or ratios is None or image is None or (not whole and image[2] != depth):
        return None
    result = (1, 1, channels) if whole else (*image[:2], channels)
    if prod(dims) != prod(result) or not (whole or dims[-1:] == (channels,)):
        return None
    multiplier, shift = split_scale(ratios)
    return Meaning(
        step, StageKind.FULLY_CONNECTED if whole else StageKind.CONV, (step.inputs[0],), step.outputs[0],
        None if whole else (image,), result, clamp=clamp,
        weights=weights.reshape(channels, 1, 1, depth), bias=bias, multiplier=multiplier, shift=shift,
    )  # fmt: skip


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
    """Return a stage of two activations of one shape; one may be a single pixel or, if ``thin``, have a single
    channel."""
    clamp = fused_clamp(original, step) if clamps else (-128, 127)
    if len(step.inputs) != 2 or any(original.activation(tensor) is None for tensor in step.inputs) or clamp is None:
        return None
    images = _images(original, step, 2)
    if images is None:
        return None
    sources, output = images
    others = [output, (1, 1, output[2]), *([(*output[:2], 1)] if thin else [])]
    if output not in sources or any(source not in others for source in sources):
        return None
    return Meaning(step, kind, step.inputs, step.outputs[0], sources, output, clamp=clamp)


def _scales(original: Original, step: Step) -> tuple[float, float, float]:
    """Return the scales of both operands and the output."""
    first, second, output = (affine(original, tensor)[0] for tensor in (*step.inputs, step.outputs[0]))
    return first, second, output


def sum_of(sign: int) -> Callable[[Original, Step], Meaning | None]:
    """Return the rule of ADD or SUB, which is an ADD with a negative multiplier. With a constant it is an OFFSET."""

    def add(original: Original, step: Step) -> Meaning | None:
        constant = by_channel.constant_operand(original, step)
        if constant is not None:
            return by_channel.add(original, step, constant, sign)
        found = _pair(original, step, StageKind.ADD, clamps=True, thin=True)
        if found is None:
            return None
        numbers = addition_numbers(*_scales(original, step))
        return replace(found, addition=(*numbers[:3], sign * numbers[3], *numbers[4:]))

    return add


def squared_difference(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a SQUARED_DIFFERENCE."""
    found = _pair(original, step, StageKind.SQUARED_DIFFERENCE, thin=True)
    return found and replace(found, addition=difference_numbers(*_scales(original, step)))


def extreme(kind: StageKind) -> Callable[[Original, Step], Meaning | None]:
    """Return the rule of MAXIMUM or MINIMUM of the bytes of two tensors."""
    return lambda original, step: _pair(original, step, kind)


def multiply(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a MUL; with a constant it is a SCALE."""
    constant = by_channel.constant_operand(original, step)
    if constant is not None:
        return by_channel.multiply(original, step, constant)
    found = _pair(original, step, StageKind.MULTIPLY, clamps=True, thin=True)
    if found is None:
        return None
    first, second, output = _scales(original, step)
    multiplier, shift = split_scale([quotient_ratio(first * second, output)])
    return replace(found, multiplier=multiplier, shift=shift)


def matrix_product(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a BATCH_MATMUL of two activations."""
    images = None
    if len(step.inputs) == 2 and all(original.activation(tensor) is not None for tensor in step.inputs):
        images = matrices(original, step)
    if images is None:
        return None
    one, other, result = _scales(original, step)
    (multiplier,), (shift,) = split_scale([quotient_ratio(one * other, result)])
    table = np.array([0, multiplier, shift, bool(step.number("adj_y"))], "<i4").tobytes()
    return Meaning(step, StageKind.MATRIX_PRODUCT, step.inputs, step.outputs[0], *images, table=table)


def matrices(original: Original, step: Step) -> tuple[tuple[Image, ...], Image] | None:
    """Return the images of a BATCH_MATMUL; None if its first input is transposed, or shapes do not fit each other."""
    by_column = step.number("adj_y")
    first, second, output = (original.tensors[tensor].dims for tensor in (*step.inputs, step.outputs[0]))
    images = _images(original, step, 2)
    if step.number("adj_x") or not 2 <= min(len(first), len(second)) <= max(len(first), len(second)) <= 5:
        return None
    deep, columns = reversed(second[-2:]) if by_column else second[-2:]
    alike = prod(second[:-2]) == 1 or first[:-2] == second[:-2]
    return images if alike and first[-1] == deep and output == (*first[:-1], columns) else None


def pad(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a PAD or PADV2 of rows and columns, or of channels alone."""
    images, amounts = _images(original, step, 1), original.numbers(step.operand(1))
    if images is None or len(amounts) != 2 * len(original.tensors[step.inputs[0]].dims) or min(amounts) < 0:
        return None
    value = affine(original, step.outputs[0])[1]
    if step.operand(2) >= 0:
        stored = original.weights(step.operand(2))
        if stored is None or stored.size != 1:
            return None
        value = int(stored.ravel()[0])
    pairs = [amounts[at : at + 2] for at in range(0, len(amounts), 2)]
    rows, columns, channels = ([0, 0], [0, 0], *(pairs[1:] or pairs))[-3:]
    (height, width, depth), output = images[0][0], images[1]
    grown = (height + sum(rows), width + sum(columns), depth + sum(channels))
    if (len(pairs) > 1 and any(pairs[0])) or grown != output or (any(channels) and any((*rows, *columns))):
        return None
    if any(channels):
        taken = (*[-1] * channels[0], *range(depth), *[-1] * channels[1])
        return of_first(step, StageKind.CHANNELS, *images, channels=taken, pad=value)
    return of_first(step, StageKind.PAD, *images, padding=(rows[0], columns[0]), pad=value)


def pool(kind: StageKind) -> Callable[[Original, Step], Meaning | None]:
    """Return the rule of AVERAGE_POOL_2D or MAX_POOL_2D; an average over the whole image is a GLOBAL_AVERAGE."""

    def pool(original: Original, step: Step) -> Meaning | None:
        images, clamp = _images(original, step, 1), fused_clamp(original, step)
        kernel = (step.number("filter_height"), step.number("filter_width"))
        stride = (step.number("stride_h"), step.number("stride_w"))
        same_point = affine(original, step.inputs[0])[1] == affine(original, step.outputs[0])[1]
        if images is None or clamp is None or min(*kernel, *stride) < 1 or not same_point:
            return None
        (source,), output = images
        padding = own_padding(step, source, kernel, stride, (1, 1), output)
        if padding is None or source[2] != output[2]:
            return None
        whole = output[:2] == (1, 1) and all(kernel[axis] - padding[axis] >= source[axis] for axis in (0, 1))
        if kind is StageKind.AVERAGE_POOL and whole:
            return of_first(step, StageKind.GLOBAL_AVERAGE, *images, clamp=clamp)
        return of_first(step, kind, *images, kernel=kernel, stride=stride, padding=padding, clamp=clamp)

    return pool


def concatenation(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a CONCATENATION along channels."""
    images = _images(original, step, len(step.inputs))
    rank = len(original.tensors[step.outputs[0]].dims)
    same = {affine(original, tensor) for tensor in (*step.inputs, step.outputs[0])}
    if images is None or step.number("axis") not in (rank - 1, -1) or len(same) != 1:
        return None
    if step.number("fused_activation_function") or any(original.activation(t) is None for t in step.inputs):
        return None
    return Meaning(step, StageKind.CONCATENATION, step.inputs, step.outputs[0], *images)


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
