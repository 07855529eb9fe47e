"""Random models in the shapes that converters write: axes exchanged, dilation by batches, several heads, batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.drawing.raw_models import SAME, VALID, RawModel
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Model

Integers = Callable[[int, int], int]
"""A whole number from the first to the second, both among them: ``Random.randint`` or a hypothesis draw."""


def converter_model(integer: Integers) -> Model:
    """A model of int8 with one of the shapes below."""
    shapes = (_channels_first, _temporal, _squeezed, _several_heads, _batches, _two_shapes)
    return shapes[integer(0, len(shapes) - 1)](_Drawn(RawModel(), integer))


@dataclass(frozen=True)
class _Drawn:
    """A model under construction, and where numbers come from."""

    model: RawModel
    integer: Integers

    def choice(self, *of: int) -> int:
        return of[self.integer(0, len(of) - 1)]

    def dims(self, tensor: int) -> tuple[int, ...]:
        return self.model.tensors[tensor].dims

    def tensor(self, *shape: int) -> int:
        return self.model.tensor(shape, self.choice(1, 2, 3) / 16, self.integer(-20, 20))

    def like(self, tensor: int, *shape: int) -> int:
        quantization = self.model.tensors[tensor].quantization
        assert quantization is not None and quantization.scale and quantization.zero_point
        return self.model.tensor(shape, quantization.scale[0], quantization.zero_point[0])

    def int32(self, values: object) -> int:
        return self.model.constant(np.array(values, np.int32))

    def random(self, *shape: int) -> np.ndarray:
        return np.random.default_rng(self.integer(0, 1 << 30)).integers(-60, 61, shape)

    def weighted(self, source: int, shape: Sequence[int]) -> tuple[int, int]:
        """Weights and biases of random bytes."""
        weights = self.model.constant(self.random(*shape).astype(np.int8), (1 / 64,))
        return weights, self.model.constant(20 * self.random(shape[0]).astype(np.int32), (1 / 512,))

    # ---- Operators

    def reshape(self, source: int, *shape: int) -> int:
        output = self.like(source, *shape)
        options = make_options("ReshapeOptions", new_shape=shape)
        self.model.operator("RESHAPE", [source, self.int32(shape)], [output], options)
        return output

    def transpose(self, source: int, *order: int) -> int:
        output = self.like(source, *(self.dims(source)[axis] for axis in order))
        self.model.operator("TRANSPOSE", [source, self.int32(order)], [output], None)
        return output

    def pad(self, source: int, *amounts: tuple[int, int]) -> int:
        sizes = (size + sum(amount) for size, amount in zip(self.dims(source), amounts, strict=True))
        output = self.like(source, *sizes)
        self.model.operator("PAD", [source, self.int32(amounts)], [output], None)
        return output

    def convolution(
        self, source: int, channels: int, kernel: tuple[int, int], padding: int = SAME, dilation: int = 1
    ) -> int:
        batch, height, width, depth = self.dims(source)
        weights, bias = self.weighted(source, (channels, *kernel, depth))
        size = (height, width)
        if padding == VALID:
            size = height - kernel[0] + 1, width - (kernel[1] - 1) * dilation
        output = self.tensor(batch, *size, channels)
        options = make_options(
            "Conv2DOptions", padding=padding, stride_h=1, stride_w=1, dilation_h_factor=1, dilation_w_factor=dilation,
            fused_activation_function=self.choice(0, 1, 3),
        )  # fmt: skip
        self.model.operator("CONV_2D", [source, weights, bias], [output], options)
        return output

    def dense(self, source: int, outputs: int) -> int:
        batch, values = self.dims(source)
        output = self.tensor(batch, outputs)
        options = make_options("FullyConnectedOptions", fused_activation_function=self.choice(0, 1))
        self.model.operator("FULLY_CONNECTED", [source, *self.weighted(source, (outputs, values))], [output], options)
        return output

    def pair(self, name: str, a: int, b: int) -> int:
        output = self.tensor(*self.dims(a))
        options = make_options(f"{name.title()}Options", fused_activation_function=self.choice(0, 1))
        self.model.operator(name, [a, b], [output], options)
        return output

    def logistic(self, source: int) -> int:
        output = self.model.tensor(self.dims(source), 1 / 256, -128)
        self.model.operator("LOGISTIC", [source], [output], None)
        return output

    def mean(self, source: int, *axes: int, keep: bool = False) -> int:
        dims = self.dims(source)
        left = [1 if axis in axes else dim for axis, dim in enumerate(dims) if keep or axis not in axes]
        output = self.tensor(*left)
        self.model.operator(
            "MEAN", [source, self.int32(axes)], [output], make_options("ReducerOptions", keep_dims=keep)
        )
        return output

    def last(self, source: int) -> int:
        """The last step of [1, steps, channels], whose axis is dropped."""
        output = self.like(source, 1, self.dims(source)[2])
        operands = [source, self.int32([0, -1, 0]), self.int32([0, 0, 0]), self.int32([1, 1, 1])]
        options = make_options("StridedSliceOptions", begin_mask=5, end_mask=5, shrink_axis_mask=2)
        self.model.operator("STRIDED_SLICE", operands, [output], options)
        return output


def _channels_first(draw: _Drawn) -> Model:
    """Convolutions along time, each between TRANSPOSEs; one of single pixels may need none."""
    steps, channels = draw.integer(3, 12), draw.integer(2, 6)
    newest = source = draw.tensor(1, channels, steps)
    for _ in range(draw.integer(1, 3)):
        moved = draw.transpose(newest, 0, 2, 1)
        axis = draw.choice(1, 2)
        *_, rows, depth = draw.dims(moved)
        image = draw.reshape(moved, *((1, 1, rows, depth) if axis == 1 else (1, rows, 1, depth)))
        kernel = (1, draw.choice(1, 3)) if axis == 1 else (draw.choice(1, 3), 1)
        made = draw.convolution(image, draw.integer(2, 6), kernel)
        newest = draw.transpose(draw.reshape(made, 1, rows, draw.dims(made)[-1]), 0, 2, 1)
    if draw.integer(0, 1):
        newest = draw.mean(newest, 2)
    return draw.model.build([source], [newest])


def _dilated(draw: _Drawn, source: int, channels: int, apart: int) -> int:
    """A causal convolution of three taps: by its own option, or by SPACE_TO_BATCH_ND with padding before or in it."""
    _, steps, depth = draw.dims(source)
    spelling = draw.integer(0, 2)
    if spelling == 0:
        padded = draw.pad(source, (0, 0), (2 * apart, 0), (0, 0))
        image = draw.reshape(padded, 1, 1, steps + 2 * apart, depth)
        made = draw.convolution(image, channels, (1, 3), VALID, apart)
        return draw.reshape(made, 1, steps, channels)
    ahead = 2 * apart if spelling == 1 else 0
    padded = draw.pad(source, (0, 0), (ahead, 0), (0, 0)) if ahead else source
    before = 2 * apart - ahead
    behind = -(steps + 2 * apart) % apart
    length = (steps + 2 * apart + behind) // apart
    batches = draw.like(source, apart, length, depth)
    operands = [padded, draw.int32([apart]), draw.int32([[before, behind]])]
    draw.model.operator("SPACE_TO_BATCH_ND", operands, [batches], None)
    image = draw.reshape(batches, apart, 1, length, depth)
    made = draw.convolution(image, channels, (1, 3), VALID)
    rows = draw.reshape(made, apart, length - 2, channels)
    output = draw.like(made, 1, steps, channels)
    operands = [rows, draw.int32([apart]), draw.int32([[0, behind]])]
    draw.model.operator("BATCH_TO_SPACE_ND", operands, [output], None)
    return output


def _temporal(draw: _Drawn) -> Model:
    """A temporal convolutional network, of which the last step may be all that is read."""
    newest = source = draw.tensor(1, draw.integer(6, 16), draw.integer(1, 4))
    channels = draw.integer(2, 5)
    for level in range(draw.integer(1, 3)):
        made = _dilated(draw, newest, channels, 1 << level)
        if draw.integer(0, 1):
            made = draw.pair("ADD", made, draw.model.constant(draw.random(channels).astype(np.int8), (1 / 32,)))
        newest = draw.pair("ADD", newest, made) if draw.dims(newest) == draw.dims(made) else made
    if draw.integer(0, 1):
        newest = draw.dense(draw.last(newest), 3)
    return draw.model.build([source], [newest])


def _squeezed(draw: _Drawn) -> Model:
    """Squeeze and excite, the gate as an image or as rows that are reshaped."""
    channels = draw.choice(4, 8)
    source = draw.tensor(1, draw.integer(3, 9), draw.integer(3, 9), draw.integer(1, 4))
    newest = draw.convolution(source, channels, (3, 3))
    if draw.integer(0, 1):
        gate = draw.mean(newest, 1, 2, keep=True)
        gate = draw.convolution(draw.convolution(gate, 2, (1, 1)), channels, (1, 1))
    else:
        gate = draw.dense(draw.dense(draw.mean(newest, 1, 2), 2), channels)
        gate = draw.reshape(gate, 1, 1, 1, channels)
    newest = draw.pair("MUL", newest, draw.logistic(gate))
    return draw.model.build([source], [draw.convolution(newest, 3, (1, 1))])


def _several_heads(draw: _Drawn) -> Model:
    """Heads on maps of several sizes, flattened as detectors do, joined or each an output."""
    source = draw.tensor(1, draw.choice(6, 8), draw.choice(6, 8), 3)
    newest, heads = draw.convolution(source, 4, (3, 3)), list[int]()
    for _ in range(draw.integer(2, 3)):
        newest = draw.convolution(newest, 4, (draw.choice(1, 3), 3), VALID)
        head = draw.convolution(newest, 2, (1, 1))
        *_, height, width, channels = draw.dims(head)
        heads.append(draw.reshape(head, 1, height * width, channels))
    return draw.model.build([source], heads)


def _batches(draw: _Drawn) -> Model:
    """More than one image at a time; operators that go pixel by pixel may be in blocks."""
    batch = draw.integer(2, 3)
    source = draw.tensor(batch, draw.integer(2, 6), draw.integer(2, 6), draw.integer(2, 4))
    newest = draw.convolution(source, 4, (1, 1)) if draw.integer(0, 1) else source
    for _ in range(draw.integer(1, 3)):
        newest = draw.pair("ADD", newest, newest) if draw.integer(0, 1) else draw.logistic(newest)
    return draw.model.build([source], [newest])


def _two_shapes(draw: _Drawn) -> Model:
    """One input read flat and as an image."""
    batch, height, width, channels = draw.choice(1, 1, 3), draw.integer(2, 5), draw.integer(2, 5), draw.integer(2, 4)
    source = draw.tensor(batch, height, width, channels)
    flat = draw.reshape(source, batch, height * width * channels)
    factor = draw.model.constant(draw.random(channels).astype(np.int8), (1 / 64,))
    image = draw.pair("MUL", source, factor)
    if batch == 1 and draw.integer(0, 1):
        image = draw.convolution(image, 3, (3, 3))
    outputs = [draw.dense(flat, 4), image]
    return draw.model.build([source], outputs[:: draw.choice(1, -1)])
