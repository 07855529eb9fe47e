"""Operators without weights as the stages that compute their bytes; None for what none computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tflite_fuse.fusion.block.enums import StageKind
from tflite_fuse.proof.moves import gathered_channels
from tflite_fuse.proof.original import by_channel
from tflite_fuse.proof.original.meaning import Meaning, affine, fused_clamp, own_padding, sum_of_ones
from tflite_fuse.proof.original.scales import (
    activation_bounds,
    addition_numbers,
    difference_numbers,
    quotient_ratio,
    split_scale,
)
from tflite_fuse.proof.original.values import Image, Original, Step


def _images(original: Original, step: Step, count: int) -> tuple[tuple[Image, ...], Image] | None:
    """Images of inputs and output; two inputs go together value by value."""
    image = original.rows if count == 2 else original.image
    sources = [image(step.operand(position)) for position in range(count)]
    output = image(step.outputs[0])
    if output is None or any(source is None for source in sources):
        return None
    return tuple(source for source in sources if source is not None), output


def _go_together(sources: tuple[Image, ...], output: Image, thin: bool = False) -> bool:
    """Whether two images have the output's shape, or one does and the other is one pixel of as many channels.

    If ``thin``, the other may also have one channel.
    """
    others = [output, (1, 1, output[2]), *([(*output[:2], 1)] if thin else [])]
    return output in sources and all(source in others for source in sources)


def add(original: Original, step: Step) -> Meaning | None:
    """ADD of equal shapes, or with one pixel."""
    return _sum(original, step, 1)


def subtract(original: Original, step: Step) -> Meaning | None:
    """SUB of such shapes: an ADD that says by a negative multiplier what it subtracts."""
    return _sum(original, step, -1)


def _sum(original: Original, step: Step, sign: int) -> Meaning | None:
    clamp, constant = fused_clamp(original, step), by_channel.constant_operand(original, step)
    if constant is not None:
        return by_channel.add(original, step, constant, sign)
    if len(step.inputs) != 2 or any(original.activation(t) is None for t in step.inputs) or clamp is None:
        return None
    images = _images(original, step, 2)
    if images is None or not _go_together(*images):
        return None
    scales = [affine(original, tensor)[0] for tensor in (*step.inputs, step.outputs[0])]
    numbers = addition_numbers(*scales)
    numbers = (*numbers[:3], sign * numbers[3], *numbers[4:])
    return Meaning(step, StageKind.ADD, step.inputs, step.outputs[0], *images, clamp=clamp, addition=numbers)


def squared_difference(original: Original, step: Step) -> Meaning | None:
    """SQUARED_DIFFERENCE of equal shapes, or with one pixel."""
    if len(step.inputs) != 2 or original.activation(step.inputs[1]) is None:
        return None
    images = _images(original, step, 2)
    if images is None or not _go_together(*images):
        return None
    numbers = difference_numbers(*(affine(original, tensor)[0] for tensor in (*step.inputs, step.outputs[0])))
    return Meaning(step, StageKind.SQUARED_DIFFERENCE, step.inputs, step.outputs[0], *images, addition=numbers)


def extreme(kind: StageKind) -> Callable[[Original, Step], Meaning | None]:
    """MAXIMUM or MINIMUM of the bytes of two tensors, of equal shapes or one of one pixel."""

    def extreme(original: Original, step: Step) -> Meaning | None:
        if len(step.inputs) != 2 or any(original.activation(tensor) is None for tensor in step.inputs):
            return None
        images = _images(original, step, 2)
        if images is None or not _go_together(*images):
            return None
        return Meaning(step, kind, step.inputs, step.outputs[0], *images)

    return extreme


def multiply(original: Original, step: Step) -> Meaning | None:
    """MUL of equal shapes, with one pixel or one channel, or with a constant."""
    clamp, constant = fused_clamp(original, step), by_channel.constant_operand(original, step)
    if constant is not None:
        return by_channel.multiply(original, step, constant)
    if len(step.inputs) != 2 or original.activation(step.inputs[1]) is None or clamp is None:
        return None
    images = _images(original, step, 2)
    if images is None or not _go_together(*images, thin=True):
        return None
    first, second, output = (affine(original, tensor)[0] for tensor in (*step.inputs, step.outputs[0]))
    multiplier, shift = split_scale([quotient_ratio(first * second, output)])
    return Meaning(
        step, StageKind.MULTIPLY, step.inputs, step.outputs[0], *images, clamp=clamp, multiplier=multiplier, shift=shift
    )


def pad(original: Original, step: Step) -> Meaning | None:
    """PAD and PADV2 of rows and columns, or of channels alone."""
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
        return Meaning(step, StageKind.CHANNELS, (step.inputs[0],), step.outputs[0], *images, channels=taken, pad=value)
    return Meaning(
        step, StageKind.PAD, (step.inputs[0],), step.outputs[0], *images, padding=(rows[0], columns[0]), pad=value
    )


def pool(kind: StageKind) -> Callable[[Original, Step], Meaning | None]:
    """AVERAGE_POOL_2D or MAX_POOL_2D; an average over the whole image is a GLOBAL_AVERAGE."""

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
            return Meaning(step, StageKind.GLOBAL_AVERAGE, (step.inputs[0],), step.outputs[0], *images, clamp=clamp)
        return Meaning(
            step, kind, (step.inputs[0],), step.outputs[0], *images, kernel, stride, (1, 1), padding, clamp=clamp
        )

    return pool


def concatenation(original: Original, step: Step) -> Meaning | None:
    """CONCATENATION along channels."""
    images = _images(original, step, len(step.inputs))
    rank = len(original.tensors[step.outputs[0]].dims)
    same = {affine(original, tensor) for tensor in (*step.inputs, step.outputs[0])}
    if images is None or step.number("axis") not in (rank - 1, -1) or len(same) != 1:
        return None
    if step.number("fused_activation_function") or any(original.activation(t) is None for t in step.inputs):
        return None
    return Meaning(step, StageKind.CONCATENATION, step.inputs, step.outputs[0], *images)


def gather(original: Original, step: Step) -> Meaning | None:
    """GATHER of channels."""
    images, channels = _images(original, step, 1), gathered_channels(original, step)
    if images is None or channels is None or len(channels) != images[1][2]:
        return None
    return Meaning(step, StageKind.CHANNELS, (step.inputs[0],), step.outputs[0], *images, channels=channels, pad=0)


def relu(original: Original, step: Step) -> Meaning | None:
    """RELU as an operator of its own: a DEPTHWISE of ones."""
    images = _images(original, step, 1)
    (source, _), (scale, point) = affine(original, step.inputs[0]), affine(original, step.outputs[0])
    clamp = activation_bounds(1, scale, point)
    if images is None or clamp is None:
        return None
    table = split_scale([quotient_ratio(source, scale)])
    return replace(sum_of_ones(step, (1, 1), table, (images[0][0], images[1])), clamp=clamp)


def relu6(original: Original, step: Step) -> Meaning | None:
    """RELU6 as an operator of its own: a clamp by its input's quantization."""
    images, clamp = _images(original, step, 1), activation_bounds(3, *affine(original, step.inputs[0]))
    if images is None or clamp is None:
        return None
    return Meaning(step, StageKind.MAX_POOL, (step.inputs[0],), step.outputs[0], *images, clamp=clamp)


def quantize(original: Original, step: Step) -> Meaning | None:
    """QUANTIZE from int8 to int8: a DEPTHWISE of ones."""
    images = _images(original, step, 1)
    if images is None:
        return None
    scales = affine(original, step.inputs[0])[0], affine(original, step.outputs[0])[0]
    return sum_of_ones(step, (1, 1), split_scale([quotient_ratio(*scales)]), (images[0][0], images[1]))
