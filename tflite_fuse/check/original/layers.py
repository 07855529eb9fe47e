"""Layers with weights, pools and moves of whole pixels or channels as the stages that compute their bytes.

The rules are those of int8 and of float32, which differ in the constants of a stage. A stage on float32 computes in the
order of TFLM's reference kernel, so its constants are the numbers of the file: weights, biases and bounds.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_fuse.check.original.meaning import Int64s, Meaning, Pair, affine, fused_clamp, of_first, own_padding
from tflite_fuse.check.original.scales import product_ratio, quotient_ratio, split_scale
from tflite_fuse.check.original.values import Image, Original, Step
from tflite_fuse.ir.enums import StageKind
from tflite_fuse.model.types import TensorType

Floats = npt.NDArray[np.float32]
Bounds = tuple[float, float]
Weights = npt.NDArray[Any]

_LARGEST = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
_ACTIVATIONS: dict[int, Bounds] = {0: (-_LARGEST, _LARGEST), 1: (0.0, _LARGEST), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
"""Bounds of the results by the number of the fused activation."""


def in_floats(original: Original, step: Step) -> bool:
    """Return whether the operand a step computes with and its one output are float32."""
    tensors = (step.operand(2 if step.name == "TRANSPOSE_CONV" else 0), *step.outputs)
    return len(tensors) == 2 and all(t >= 0 and original.tensors[t].type == TensorType.FLOAT32 for t in tensors)


def is_computed(original: Original, step: Step, tensor: int) -> bool:
    """Return whether a tensor is of the type that a step computes with and written in every inference."""
    if in_floats(original, step):
        return original.encoding(tensor) == TensorType.FLOAT32
    return original.activation(tensor) is not None


def float_constant(original: Original, tensor: int) -> Floats | None:
    """Return a float32 constant in its own shape."""
    if tensor < 0 or original.tensors[tensor].type != TensorType.FLOAT32 or original.tensors[tensor].sparsity:
        return None
    content, dims = original.content(tensor), original.tensors[tensor].dims
    if not content or len(content) != 4 * prod(dims) or original.tensors[tensor].is_variable:
        return None
    return np.frombuffer(content, "<f4").reshape(dims)


def float_bounds(step: Step) -> Bounds | None:
    """Return the bounds of a fused activation on float32; None for an unknown one."""
    return _ACTIVATIONS.get(step.number("fused_activation_function"))


def images_of(original: Original, step: Step, place: int = 0) -> tuple[Image, Image] | None:
    """Return the images of the input at a position, which is computed, and of the output; both have four dimensions."""
    tensors = step.operand(place), step.outputs[0]
    if not is_computed(original, step, tensors[0]) or any(len(original.tensors[t].dims) != 4 for t in tensors):
        return None
    source, output = map(original.image, tensors)
    return None if source is None or output is None else (source, output)


def _kind(original: Original, step: Step, kind: StageKind) -> StageKind:
    """Return the kind, or the same on float32."""
    return StageKind[f"FLOAT_{kind.name}"] if in_floats(original, step) else kind


def _stored(original: Original, step: Step, tensor: int) -> Weights | None:
    """Return a constant of the type that a step computes with."""
    return float_constant(original, tensor) if in_floats(original, step) else original.weights(tensor)


# ---- Layers with weights ----


def _sums(
    original: Original, step: Step, kind: StageKind, weights: Weights, bias: int = 2, source: int = 0
) -> dict[str, Any] | None:
    """Return the constants of a stage with weights [channel, row, column, depth]; None if they do not fit each other.

    ``bias`` and ``source`` are positions of operands. On float32 the constants are the weights in the order of the
    kernel, and the bounds followed by a bias for each channel, 0 if the operator has none.
    """
    if in_floats(original, step):
        bounds, biases = float_bounds(step), float_constant(original, step.operand(bias))
        biases = np.zeros(len(weights), np.float32) if step.operand(bias) < 0 else biases
        if bounds is None or biases is None or biases.size != len(weights):
            return None
        rows = np.moveaxis(weights[..., 0], 0, -1) if kind is StageKind.DEPTHWISE else weights
        return {"rows": rows.tobytes(), "table": struct.pack("<2f", *bounds) + biases.astype("<f4").tobytes()}
    clamp, sums = fused_clamp(original, step), bias_of(original, step, len(weights), bias)
    ratios = _filter_ratios(original, step, len(weights), source)
    if clamp is None or sums is None or ratios is None:
        return None
    multiplier, shift = split_scale(ratios)
    return {"clamp": clamp, "weights": weights, "bias": sums, "multiplier": multiplier, "shift": shift}


def _filter_ratios(original: Original, step: Step, channels: int, place: int) -> npt.NDArray[np.float64] | None:
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


def _windowed(
    original: Original, step: Step, kind: StageKind, weights: Weights, depth: int, images: tuple[Image, Image]
) -> Meaning | None:
    (source, output), constants = images, _sums(original, step, kind, weights)
    kernel = (int(weights.shape[1]), int(weights.shape[2]))
    stride = (step.number("stride_h"), step.number("stride_w"))
    dilation = (step.number("dilation_h_factor", 1), step.number("dilation_w_factor", 1))
    sound = min(*stride, *dilation) > 0 and output[2] == len(weights)
    padding = own_padding(step, source, kernel, stride, dilation, output) if sound else None
    if padding is None or constants is None:
        return None
    return of_first(
        step, _kind(original, step, kind), (source,), output, kernel=kernel, stride=stride, dilation=dilation,
        padding=padding, multiplier_of_depth=depth, folds=bool(np.isfinite(weights).all()), **constants,
    )  # fmt: skip


def convolution(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a CONV_2D; with one input channel per group it is a DEPTHWISE."""
    weights, images = _stored(original, step, step.operand(1)), images_of(original, step)
    if weights is None or images is None or weights.ndim != 4:
        return None
    channels = images[0][2]
    if weights.shape[3] == channels:
        return _windowed(original, step, StageKind.CONV, weights, 1, images)
    if weights.shape[3] == 1 and len(weights) % channels == 0:
        return _windowed(original, step, StageKind.DEPTHWISE, weights, len(weights) // channels, images)
    return None


def depthwise(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a DEPTHWISE_CONV_2D."""
    weights, images = _stored(original, step, step.operand(1)), images_of(original, step)
    if weights is None or images is None or weights.ndim != 4 or weights.shape[0] != 1:
        return None
    multiplier = step.number("depth_multiplier")
    if images[0][2] * multiplier != weights.shape[3]:
        return None
    by_channel = np.ascontiguousarray(weights.transpose(3, 1, 2, 0))
    return _windowed(original, step, StageKind.DEPTHWISE, by_channel, multiplier, images)


def fully_connected(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a FULLY_CONNECTED: of the whole input, or of each pixel as a convolution."""
    weights = _stored(original, step, step.operand(1))
    if weights is None or weights.ndim != 2 or step.number("weights_format"):
        return None
    (channels, depth), image = weights.shape, original.rows(step.inputs[0])
    dims = original.tensors[step.outputs[0]].dims
    whole = prod(original.tensors[step.inputs[0]].dims) == depth and prod(dims) == channels
    kind = StageKind.FULLY_CONNECTED if whole else StageKind.CONV
    constants = _sums(original, step, kind, weights.reshape(channels, 1, 1, depth))
    if constants is None or image is None or not is_computed(original, step, step.inputs[0]):
        return None
    result = (1, 1, channels) if whole else (*image[:2], channels)
    if not whole and (image[2] != depth or dims[-1:] != (channels,) or prod(dims) != prod(result)):
        return None
    images = None if whole else (image,)
    return Meaning(
        step, _kind(original, step, kind), (step.inputs[0],), step.outputs[0], images, result, **constants
    )  # fmt: skip


def transposed_convolution(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a TRANSPOSE_CONV; operands are output shape, filter, input and an optional bias."""
    weights, images = _stored(original, step, step.operand(1)), images_of(original, step, 2)
    if weights is None or images is None or weights.ndim != 4:
        return None
    if (weights.shape[3], len(weights)) != (images[0][2], images[1][2]):
        return None
    kernel = (int(weights.shape[1]), int(weights.shape[2]))
    around = _spread_window(step, kernel, *images)
    constants = _sums(original, step, StageKind.TRANSPOSE_CONV, weights, 3, 2)
    if around is None or constants is None:
        return None
    return Meaning(
        step, _kind(original, step, StageKind.TRANSPOSE_CONV), (step.inputs[2],), step.outputs[0], images[:1],
        images[1], kernel, (1, 1), *around, **constants,
    )  # fmt: skip


def _spread_window(step: Step, kernel: Pair, source: Image, output: Image) -> tuple[Pair, Pair] | None:
    """Return how far apart a TRANSPOSE_CONV's input pixels lie, and the padding of its windows on them.

    None if its options do not lead from the input's shape to the output's.
    """
    stride, padding = (step.number("stride_h"), step.number("stride_w")), []
    if min(stride) < 1:
        return None
    for axis in (0, 1):
        missing = 0
        if step.number("padding") == 0:
            size = -(-output[axis] // stride[axis])
            missing = max(0, (size - 1) * stride[axis] + kernel[axis] - output[axis])
        elif step.number("padding") == 1:
            size = (output[axis] - kernel[axis]) // stride[axis] + 1
        else:
            return None
        if size != source[axis]:
            return None
        padding.append(kernel[axis] - 1 - missing // 2)
    return stride, (padding[0], padding[1])


def matrix_product(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a BATCH_MATMUL of two computed tensors."""
    if len(step.inputs) != 2 or not all(is_computed(original, step, tensor) for tensor in step.inputs):
        return None
    by_column = bool(step.number("adj_y"))
    first, second, output = (original.tensors[tensor].dims for tensor in (*step.inputs, step.outputs[0]))
    images = [original.rows(tensor) for tensor in (*step.inputs, step.outputs[0])]
    if step.number("adj_x") or not 2 <= min(len(first), len(second)) <= max(len(first), len(second)) <= 5:
        return None
    deep, columns = reversed(second[-2:]) if by_column else second[-2:]
    alike = prod(second[:-2]) == 1 or first[:-2] == second[:-2]
    one, other, result = images
    if not alike or (first[-1], output) != (deep, (*first[:-1], columns)) or one is None or other is None:
        return None
    numbers = [int(by_column)]
    if not in_floats(original, step):
        scales = [affine(original, tensor)[0] for tensor in (*step.inputs, step.outputs[0])]
        (multiplier,), (shift,) = split_scale([quotient_ratio(scales[0] * scales[1], scales[2])])
        numbers = [0, int(multiplier), int(shift), *numbers]
    kind, table = _kind(original, step, StageKind.MATRIX_PRODUCT), np.array(numbers, np.int64).astype("<i4").tobytes()
    return Meaning(step, kind, step.inputs, step.outputs[0], (one, other), result, table=table)


# ---- Pools and moves ----


def pool(kind: StageKind) -> Callable[[Original, Step], Meaning | None]:
    """Return the rule of AVERAGE_POOL_2D or MAX_POOL_2D; an average over the whole image is a GLOBAL_AVERAGE."""

    def pool(original: Original, step: Step) -> Meaning | None:
        images, constants = images_of(original, step), _limits(original, step)
        kernel = (step.number("filter_height"), step.number("filter_width"))
        stride = (step.number("stride_h"), step.number("stride_w"))
        if images is None or constants is None or min(*kernel, *stride) < 1:
            return None
        source, output = images
        padding = own_padding(step, source, kernel, stride, (1, 1), output)
        if padding is None or source[2] != output[2]:
            return None
        whole = output[:2] == (1, 1) and all(kernel[axis] - padding[axis] >= source[axis] for axis in (0, 1))
        if kind is StageKind.AVERAGE_POOL and whole:
            return of_first(
                step, _kind(original, step, StageKind.GLOBAL_AVERAGE), images[:1], output, **constants
            )  # fmt: skip
        return of_first(
            step, _kind(original, step, kind), images[:1], output, kernel=kernel, stride=stride, padding=padding,
            **constants,
        )  # fmt: skip

    return pool


def _limits(original: Original, step: Step) -> dict[str, Any] | None:
    """Return the constants of a pool; None if its zero point changes."""
    if in_floats(original, step):
        bounds = float_bounds(step)
        return None if bounds is None else {"table": struct.pack("<2f", *bounds)}
    clamp, points = fused_clamp(original, step), {affine(original, t)[1] for t in (step.inputs[0], step.outputs[0])}
    return None if clamp is None or len(points) > 1 else {"clamp": clamp}


def pad(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a PAD or PADV2 of rows and columns, or of channels alone; float32 with 0."""
    source, output = original.image(step.operand(0)), original.image(step.outputs[0])
    amounts = original.numbers(step.operand(1))
    if source is None or output is None or not is_computed(original, step, step.inputs[0]):
        return None
    if len(amounts) != 2 * len(original.tensors[step.inputs[0]].dims) or min(amounts) < 0:
        return None
    value = 0 if in_floats(original, step) else affine(original, step.outputs[0])[1]
    if step.operand(2) >= 0:
        stored = _stored(original, step, step.operand(2))
        if stored is None or stored.size != 1 or (in_floats(original, step) and any(stored.tobytes())):
            return None
        value = int(stored.ravel()[0])
    pairs = [amounts[at : at + 2] for at in range(0, len(amounts), 2)]
    rows, columns, channels = ([0, 0], [0, 0], *(pairs[1:] or pairs))[-3:]
    grown = (source[0] + sum(rows), source[1] + sum(columns), source[2] + sum(channels))
    if (len(pairs) > 1 and any(pairs[0])) or grown != output or (any(channels) and any((*rows, *columns))):
        return None
    if any(channels):
        taken = (*[-1] * channels[0], *range(source[2]), *[-1] * channels[1])
        return of_first(step, StageKind.CHANNELS, (source,), output, channels=taken, pad=value)
    return of_first(step, StageKind.PAD, (source,), output, padding=(rows[0], columns[0]), pad=value)


def concatenation(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a CONCATENATION along channels."""
    rank = len(original.tensors[step.outputs[0]].dims)
    if step.number("axis") not in (rank - 1, -1) or step.number("fused_activation_function"):
        return None
    if any(len(original.tensors[t].dims) != rank for t in step.inputs):
        return None
    images, output = [original.image(tensor) for tensor in step.inputs], original.image(step.outputs[0])
    sources = tuple(image for image in images if image is not None)
    if in_floats(original, step):
        alike = all(is_computed(original, step, t) or float_constant(original, t) is not None for t in step.inputs)
    else:
        scales = {original.affine(tensor) for tensor in (*step.inputs, step.outputs[0])}
        alike = len(scales) == 1 and all(map(original.is_operand, (*step.inputs, step.outputs[0])))
    if output is None or len(sources) != len(images) or not alike:
        return None
    return Meaning(step, StageKind.CONCATENATION, step.inputs, step.outputs[0], sources, output)


RULES: dict[str, Callable[[Original, Step], Meaning | None]] = {
    "AVERAGE_POOL_2D": pool(StageKind.AVERAGE_POOL),
    "BATCH_MATMUL": matrix_product,
    "CONCATENATION": concatenation,
    "CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": depthwise,
    "FULLY_CONNECTED": fully_connected,
    "MAX_POOL_2D": pool(StageKind.MAX_POOL),
    "PAD": pad,
    "PADV2": pad,
    "TRANSPOSE_CONV": transposed_convolution,
}
"""Operators on int8 and on float32."""
