"""The stage that an operator of the original requires."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_fuse.check.original.scales import activation_bounds
from tflite_fuse.check.original.values import Image, Original, Step
from tflite_fuse.ir.enums import StageKind

Int64s = npt.NDArray[np.int64]
Pair = tuple[int, int]


_BY_PLACE = (
    StageKind.PAD,
    StageKind.STATE,
    StageKind.RESIZE,
    StageKind.FLOAT_RESIZE,
    StageKind.TRANSPOSE_CONV,
    StageKind.FLOAT_TRANSPOSE_CONV,
    StageKind.TRANSPOSE,
)
"""Kinds whose window of one pixel is not at the output's position."""


@dataclass(frozen=True)
class Meaning:
    """The stage that an operator of the original requires.

    Attributes:
        step: the operator.
        kind: of the stage.
        sources: tensors of the original it reads, in order.
        result: the tensor it writes.
        images: of the sources; None if only the bytes matter, not their arrangement.
        output: image of the result; None if it follows from the source's rows and columns.
        kernel, stride, dilation, padding: (rows, columns); padding is above and to the left. Dilation is that of the
            input for kinds that enlarge images.
        multiplier_of_depth: output channels per input channel of a DEPTHWISE.
        clamp: least and greatest output value.
        weights: int8 [output channels, tap rows, tap columns, input channels of the filter].
        bias: per output channel, without the input's zero point.
        multiplier, shift: one per output channel, or one for a GLOBAL_AVERAGE.
        addition: the numbers of an ADD or SQUARED_DIFFERENCE.
        table: bytes of the table of a SCALE, OFFSET, SOFTMAX, LSTM, or of a stage on float32.
        answers: the 256 results of a LOOKUP for -128 ... 127.
        channels: the input channel of each output channel of a CHANNELS, -1 for a filled one.
        places: input positions of the rows, then columns of a RESIZE, in 1024ths of a pixel.
        pad: value of pixels that a PAD adds, of channels that a CHANNELS fills, or of a STATE's earlier pixels after a
            reset.
        first: a STATE's earlier pixels in the very first run; empty if they are ``pad``.
        left: every earlier time step of a STATE after a reset; empty if its values are ``pad``.
        rows: weights of an LSTM, or of a layer on float32, as stored.
        folds: whether zeros around its input may become its own padding.
    """

    step: Step
    kind: StageKind
    sources: tuple[int, ...]
    result: int
    images: tuple[Image, ...] | None
    output: Image | None
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Pair = (0, 0)
    multiplier_of_depth: int = 1
    clamp: Pair = (-128, 127)
    weights: npt.NDArray[np.int8] | None = None
    bias: Int64s | None = None
    multiplier: Int64s | None = None
    shift: Int64s | None = None
    addition: tuple[int, ...] = ()
    table: bytes = b""
    answers: npt.NDArray[np.int64] | None = None
    channels: tuple[int, ...] = ()
    places: tuple[int, ...] = ()
    pad: int | None = None
    first: bytes = b""
    left: bytes = b""
    rows: bytes = b""
    folds: bool = False

    @property
    def pointwise(self) -> bool:
        """Return whether each output pixel depends on the input pixel at the same place alone."""
        if self.kind in _BY_PLACE:
            return False
        return self.kernel == self.stride == (1, 1) and self.padding == (0, 0)


def with_axes_exchanged(meaning: Meaning) -> Meaning:
    """Return a meaning with rows for columns where every image is one pixel wide: a row of pixels is the same bytes.

    Meanings that depend on rows, or have windows of several columns, are returned as they are.
    """
    by_row = meaning.kind in _BY_PLACE and meaning.kind is not StageKind.PAD
    if meaning.images is None or meaning.output is None or by_row:
        return meaning
    if any(image[1] != 1 for image in (*meaning.images, meaning.output)) or meaning.kernel[1] != 1:
        return meaning
    weights = meaning.weights
    return replace(
        meaning,
        images=tuple(map(_swapped, meaning.images)),
        output=_swapped(meaning.output),
        kernel=meaning.kernel[::-1],
        stride=meaning.stride[::-1],
        dilation=meaning.dilation[::-1],
        padding=meaning.padding[::-1],
        weights=weights if weights is None or weights.ndim != 4 else weights.swapaxes(1, 2),
    )


def _swapped(image: Image) -> Image:
    return image[1], image[0], image[2]


def with_padding(original: Original, meaning: Meaning, pad: Meaning) -> Meaning | None:
    """Return a convolution with the padding of the PAD in front of it; None if the result would differ.

    The pixels that the PAD adds must be the zero point of the convolution's input, as those of its own padding are.
    """
    points = [original.zero_point(tensor) for tensor in (pad.sources[0], pad.result)]
    if not meaning.folds or points != [pad.pad, pad.pad]:
        return None
    if pad.images is None or pad.output is None:
        return None
    for axis in (0, 1):
        cut = pad.padding[axis] < 0 or pad.output[axis] < pad.images[0][axis] + pad.padding[axis]
        if cut and meaning.output is None:
            return None
        if not cut or meaning.output is None:
            continue
        reach = (meaning.kernel[axis] - 1) * meaning.dilation[axis] + 1 - meaning.padding[axis]
        end = (meaning.output[axis] - 1) * meaning.stride[axis] + reach
        if meaning.padding[axis] > 0 or end > pad.output[axis]:
            return None  # a window reads zeros in place of the pixels that the PAD cuts off
    padding = (meaning.padding[0] + pad.padding[0], meaning.padding[1] + pad.padding[1])
    return replace(meaning, sources=pad.sources, images=pad.images, padding=padding)


# ---- Parts of several operators ----


def of_first(step: Step, kind: StageKind, images: tuple[Image, ...], output: Image, **fields: Any) -> Meaning:
    """Return a stage that reads only the first operand."""
    return Meaning(step, kind, (step.inputs[0],), step.outputs[0], images, output, **fields)


def affine(original: Original, tensor: int) -> tuple[float, int]:
    """Return scale and zero point of an operand; (1.0, 0) if it has none."""
    quantization = original.affine(tensor)
    return quantization if quantization is not None else (1.0, 0)


def fused_clamp(original: Original, step: Step) -> Pair | None:
    """Return the range of int8 values after an operator's fused activation."""
    return activation_bounds(step.number("fused_activation_function"), *affine(original, step.outputs[0]))


def own_padding(step: Step, source: Image, kernel: Pair, stride: Pair, dilation: Pair, output: Image) -> Pair | None:
    """Return (rows above, columns left) of the image; None if the options do not give the output's size.

    SAME (0) centres the windows and puts the odd pixel at the end; VALID (1) has no padding.
    """
    before = []
    for axis in (0, 1):
        extent = (kernel[axis] - 1) * dilation[axis] + 1
        if step.number("padding") == 0:
            size = -(-source[axis] // stride[axis])
            missing = (size - 1) * stride[axis] + extent - source[axis]
            before.append(max(missing, 0) // 2)
        else:
            size = (source[axis] - extent) // stride[axis] + 1
            before.append(0)
        if size != output[axis]:
            return None
    return before[0], before[1]


def sum_of_ones(step: Step, window: Pair, table: tuple[Int64s, Int64s], images: tuple[Image, Image]) -> Meaning:
    """Return a DEPTHWISE of ones: the values of each channel's window, less their zero points, summed and scaled."""
    channels = images[0][2]
    ones = np.ones((channels, *window, 1), np.int8)
    multiplier, shift = (np.repeat(part, channels) for part in table)
    sums = of_first(step, StageKind.DEPTHWISE, images[:1], images[1], kernel=window, weights=ones)
    return replace(sums, bias=np.zeros(channels, np.int64), multiplier=multiplier, shift=shift)
