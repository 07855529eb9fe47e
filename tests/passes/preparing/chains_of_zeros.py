"""Random chains of convolutions with zero filters, saturating filters, and unread channels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tests.drawing.raw_models import SAME, VALID, RawModel
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Model

SIZE = 6
_SATURATING = 1 << 30


class Chain:
    """A model as it grows: the last tensor, and earlier ones of the same shape."""

    def __init__(self, randomness: np.random.Generator) -> None:
        self.raw, self.randomness = RawModel(), randomness
        self.dims = (1, SIZE, SIZE, 3)
        self.points: dict[int, int] = {}
        self.last = self.first = self.tensor(self.dims)
        self.earlier = [self.last]

    def tensor(self, dims: tuple[int, ...], point: int | None = None) -> int:
        """An activation with a zero point of its own, most often the lowest value."""
        point = int(self.randomness.choice([-128, -128, -128, 127, 5, -20])) if point is None else point
        tensor = self.raw.tensor(dims, 0.05, point)
        self.points[tensor] = point
        return tensor

    def grow(self, name: str, inputs: list[int], dims: tuple[int, ...], options: object, **fields: int | float) -> None:
        """Adds an operator that reads what was last, and constants; the output may keep the input's zero point."""
        same = self.points[self.last] if name in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "PAD", "RESHAPE") else None
        output = self.tensor(dims, same)
        table = None if options is None else make_options(str(options), **fields)
        self.raw.operator(name, [self.last, *inputs], [output], table)
        self.last, self.dims = output, dims
        self.earlier = [t for t in (*self.earlier, output) if self.raw.tensors[t].shape == dims]

    def weights(self, shape: tuple[int, ...], axis: int, bias: bool = True) -> list[int]:
        """Filters, most of which are zeros alone or read only some channels, and biases, some of which saturate."""
        channels = shape[axis]
        values = self.randomness.integers(-60, 61, shape).astype(np.int8)
        filters = np.moveaxis(values, axis, 0)
        filters[self.randomness.random(channels) < 0.6] = 0
        if axis == 0:
            values[..., self.randomness.random(shape[-1]) < 0.3] = 0
        scales = [float(np.float32(s)) for s in self.randomness.uniform(0.002, 0.02, channels)]
        found = [self.raw.constant(values, scales, axis)]
        return [
            *found,
            self.raw.constant(self._bias(channels), [float(np.float32(0.05 * s)) for s in scales]),
        ] * bias or [
            *found,
            -1,
        ]

    def _bias(self, channels: int) -> npt.NDArray[np.int32]:
        saturating = np.where(self.randomness.random(channels) < 0.5, _SATURATING, -_SATURATING)
        near = self.randomness.integers(-4000, 4001, channels)
        return np.where(self.randomness.random(channels) < 0.4, saturating, near).astype(np.int32)

    def convolve(self, kernel: int, padding: int, channels: int) -> None:
        operands = self.weights((channels, kernel, kernel, self.dims[3]), 0, bool(self.randomness.random() < 0.9))
        side = self.dims[1] if padding == SAME else self.dims[1] - kernel + 1
        if side < 1:
            return
        self.grow(
            "CONV_2D", operands, (1, side, side, channels), "Conv2DOptions", padding=padding, stride_w=1, stride_h=1,
            dilation_w_factor=1, dilation_h_factor=1, fused_activation_function=int(self.randomness.choice([0, 1, 3])),
        )  # fmt: skip

    def by_depth(self, padding: int, multiplier: int) -> None:
        channels = self.dims[3] * multiplier
        operands = self.weights((1, 3, 3, channels), 3)
        side = self.dims[1] if padding == SAME else self.dims[1] - 2
        if side < 1:
            return
        self.grow(
            "DEPTHWISE_CONV_2D", operands, (1, side, side, channels), "DepthwiseConv2DOptions", padding=padding,
            stride_w=1, stride_h=1, dilation_w_factor=1, dilation_h_factor=1, depth_multiplier=multiplier,
            fused_activation_function=1,
        )  # fmt: skip

    def add(self) -> None:
        other = int(self.randomness.choice(self.earlier))
        if self.raw.tensors[other].shape == self.dims:
            self.grow("ADD", [other], self.dims, "AddOptions", fused_activation_function=0)

    def pool(self, name: str) -> None:
        self.grow(
            name, [], self.dims, "Pool2DOptions", padding=SAME, stride_w=1, stride_h=1, filter_width=2, filter_height=2,
            fused_activation_function=0,
        )  # fmt: skip

    def pad(self, wide: int) -> None:
        amounts = self.raw.constant(np.array([[0, 0], [wide, 0], [wide, 0], [0, 0]], np.int32))
        side = self.dims[1] + wide
        self.grow("PAD", [amounts], (1, side, side, self.dims[3]), None)

    def relu(self) -> None:
        self.grow("RELU", [], self.dims, None)

    def head(self) -> None:
        """A MEAN or a pool, a RESHAPE, and FULLY_CONNECTED to three."""
        channels = self.dims[3]
        if self.randomness.random() < 0.5:
            axes = self.raw.constant(np.array([1, 2], np.int32))
            self.grow("MEAN", [axes], (1, channels), "ReducerOptions", keep_dims=False)
        elif self.randomness.random() < 0.7:
            side = self.dims[1]
            self.grow(
                "AVERAGE_POOL_2D", [], (1, 1, 1, channels), "Pool2DOptions", padding=VALID, stride_w=1, stride_h=1,
                filter_width=side, filter_height=side, fused_activation_function=0,
            )  # fmt: skip
            self.grow("RESHAPE", [self.raw.constant(np.array([1, channels], np.int32))], (1, channels), None)
        read = int(np.prod(self.dims))
        self.grow(
            "FULLY_CONNECTED", self.weights((3, read), 0), (1, 3), "FullyConnectedOptions", fused_activation_function=0,
            weights_format=0, keep_num_dims=False,
        )  # fmt: skip


def chain(seed: int, parts: list[str]) -> Model:
    """A model of these parts."""
    made = Chain(np.random.default_rng(seed))
    for part in parts:
        channels = int(made.randomness.integers(1, 14))
        match part:
            case "point":
                made.convolve(1, VALID, channels)
            case "same":
                made.convolve(3, SAME, channels)
            case "valid":
                made.convolve(3, VALID, channels)
            case "depth":
                made.by_depth(int(made.randomness.choice([SAME, VALID])), 1)
            case "deeper":
                made.by_depth(SAME, 2)
            case "residual":
                kept = made.dims[3]
                made.convolve(1, VALID, channels)
                made.convolve(3, SAME, kept)
                made.add()
            case "average" | "largest":
                made.pool({"average": "AVERAGE_POOL_2D", "largest": "MAX_POOL_2D"}[part])
            case "pad":
                made.pad(int(made.randomness.integers(0, 2)))
            case "relu":
                made.relu()
    if made.randomness.random() < 0.7:
        made.head()
    return made.raw.build([made.first], [made.last])


PARTS = ("point", "same", "valid", "depth", "deeper", "residual", "average", "largest", "pad", "relu")
chains = st.builds(chain, st.integers(0, 2**32 - 1), st.lists(st.sampled_from(PARTS), min_size=2, max_size=8))
