"""Models of one operator with any quantization at all, and hypothesis strategies over them.

The zoo's builder calibrates; here scales and zero points are arbitrary, so that clamps, saturation and flushed
multipliers all happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Buffer, Model, Operator, OperatorCode, OptionsTable, Quantization, SubGraph, Tensor
from tflite_fuse.model.types import BUILTIN_CODES, TensorType

ACTIVATIONS = (0, 1, 2, 3)
SAME, VALID = 0, 1


class RawModel:
    """Tensors and operators appended one by one; every number goes into the file as it is given."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.buffers: list[Buffer] = [Buffer()]
        self.operators: list[Operator] = []
        self.codes: list[str] = []

    def tensor(
        self,
        shape: Sequence[int],
        scale: float | Sequence[float] = 0.5,
        zero_point: int = 0,
        type_: int = TensorType.INT8,
        **fields: Any,
    ) -> int:
        """An activation; its index."""
        scales = (scale,) if isinstance(scale, (int, float)) else tuple(scale)
        quantization = Quantization(scale=scales, zero_point=(zero_point,) * len(scales))
        name = f"t{len(self.tensors)}"
        self.tensors.append(Tensor(tuple(shape), type_, name=name, **{"quantization": quantization, **fields}))
        return len(self.tensors) - 1

    def constant(self, values: npt.ArrayLike, scales: Sequence[float] = (), axis: int = 0, zero_point: int = 0) -> int:
        """A constant of int8, int32 or any numpy type of the schema; its index."""
        array = np.asarray(values)
        types = {name: TensorType[name.upper()] for name in ("int8", "int32", "int64", "float32", "float16")}
        self.buffers.append(Buffer(array.tobytes()))
        quantization = None
        if scales:
            quantization = Quantization(
                scale=tuple(scales), zero_point=(zero_point,) * len(scales), quantized_dimension=axis
            )
        tensor = Tensor(array.shape, types[array.dtype.name], len(self.buffers) - 1, f"c{len(self.tensors)}")
        self.tensors.append(Tensor(**{**vars(tensor), "quantization": quantization}))
        return len(self.tensors) - 1

    def operator(self, name: str, inputs: Sequence[int], outputs: Sequence[int], options: OptionsTable | None) -> int:
        """An operator; its index."""
        if name not in self.codes:
            self.codes.append(name)
        self.operators.append(Operator(self.codes.index(name), tuple(inputs), tuple(outputs), options))
        return len(self.operators) - 1

    def build(self, inputs: Sequence[int], outputs: Sequence[int], has_rank: bool = False) -> Model:
        """The model; TensorFlow's converter writes of tensors that they have a rank, others do not."""
        codes = tuple(OperatorCode(min(BUILTIN_CODES[n], 127), None, 1, BUILTIN_CODES[n]) for n in self.codes)
        tensors = tuple(replace(tensor, has_rank=has_rank) for tensor in self.tensors)
        graph = SubGraph(tensors, tuple(inputs), tuple(outputs), tuple(self.operators), "main")
        return Model(3, codes, (graph,), "", tuple(self.buffers))


def float32_between(low: float, high: float) -> st.SearchStrategy[float]:
    exponents = st.floats(float(np.log2(low)), float(np.log2(high)), allow_nan=False)
    return exponents.map(lambda exponent: float(np.float32(2.0**exponent)))


activation_scales = st.sampled_from([1.0, 0.5, 1 / 256]).map(lambda s: float(np.float32(s))) | float32_between(
    2**-9, 4.0
)
zero_points = st.sampled_from([-128, 127, 0]) | st.integers(-128, 127)
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 8)


@st.composite
def filter_scales(draw: st.DrawFn, channels: int) -> list[float]:
    """One scale, or one per channel; now and then 0, negative, vanishing or large."""
    count = draw(st.sampled_from([1, channels]))
    usual = float32_between(2**-12, 2**-2)
    odd = st.sampled_from([0.0, 1e-12, -(2.0**-7), -0.25, 8.0]).map(lambda s: float(np.float32(s)))
    return draw(st.lists(usual | usual | odd, min_size=count, max_size=count))


def edgy_int8(rng: np.random.Generator, shape: Sequence[int]) -> npt.NDArray[np.int8]:
    """Random bytes, a quarter of them −128, 127 or 0."""
    values = rng.integers(-128, 128, shape)
    edges = rng.choice([-128, 127, 0], shape)
    return np.where(rng.random(shape) < 0.25, edges, values).astype(np.int8)


def weights_and_bias(
    model: RawModel, draw: st.DrawFn, rng: np.random.Generator, shape: Sequence[int], axis: int
) -> tuple[list[int], list[float]]:
    """Operands 1 and (perhaps) 2 of a convolution."""
    scales = draw(filter_scales(shape[axis]))
    operands = [model.constant(edgy_int8(rng, shape), scales, axis if len(scales) > 1 else 0)]
    if draw(st.booleans()):
        limit = draw(st.sampled_from([100, 20_000, 2**24]))
        operands.append(model.constant(rng.integers(-limit, limit, shape[axis]).astype(np.int32), scales))
    return operands, scales


def _window(draw: st.DrawFn, dilated: bool) -> dict[str, tuple[int, int]]:
    def pair(high: int) -> tuple[int, int]:
        return draw(st.integers(1, high)), draw(st.integers(1, high))

    return {"kernel": pair(5), "stride": pair(3), "dilation": pair(2) if dilated else (1, 1)}


def _output_size(padding: int, size: int, kernel: int, stride: int, dilation: int) -> int:
    extent = (kernel - 1) * dilation + 1
    return -(-size // stride) if padding == SAME else max(1, -(-(size - extent + 1) // stride))


@st.composite
def windows(draw: st.DrawFn, dilated: bool = True) -> dict[str, Any]:
    """Geometry of a window operator: input and output (height, width), kernel, stride, dilation, padding."""
    window, padding = _window(draw, dilated), draw(st.sampled_from([SAME, VALID]))
    extent = [(k - 1) * d + 1 for k, d in zip(window["kernel"], window["dilation"], strict=True)]
    size = [draw(sizes) if padding == SAME else draw(st.integers(e, e + 6)) for e in extent]
    out = [
        _output_size(padding, *args)
        for args in zip(size, window["kernel"], window["stride"], window["dilation"], strict=True)
    ]
    return {**window, "padding": padding, "size": size, "out": out}


def convolution_options(kind: str, geometry: dict[str, Any], activation: int, **more: int) -> OptionsTable:
    return make_options(
        kind,
        padding=geometry["padding"],
        stride_h=geometry["stride"][0],
        stride_w=geometry["stride"][1],
        dilation_h_factor=geometry["dilation"][0],
        dilation_w_factor=geometry["dilation"][1],
        fused_activation_function=activation,
        **more,
    )


@st.composite
def convolutions(draw: st.DrawFn) -> Model:
    """CONV_2D, now and then with one input channel per group."""
    geometry, rng, model = draw(windows()), np.random.default_rng(draw(seeds)), RawModel()
    channels, grouped = draw(st.integers(1, 5)), draw(st.sampled_from([False, False, False, True]))
    filters = channels * draw(st.integers(1, 3)) if grouped else draw(st.integers(1, 6))
    source = model.tensor((1, *geometry["size"], channels), draw(activation_scales), draw(zero_points))
    shape = (filters, *geometry["kernel"], 1 if grouped else channels)
    operands, _ = weights_and_bias(model, draw, rng, shape, 0)
    output = model.tensor((1, *geometry["out"], filters), draw(activation_scales), draw(zero_points))
    options = convolution_options("Conv2DOptions", geometry, draw(st.sampled_from(ACTIVATIONS)))
    model.operator("CONV_2D", [source, *operands], [output], options)
    return model.build([source], [output])


@st.composite
def depthwise_convolutions(draw: st.DrawFn) -> Model:
    """DEPTHWISE_CONV_2D of any multiplier."""
    geometry, rng, model = draw(windows()), np.random.default_rng(draw(seeds)), RawModel()
    channels, multiplier = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    source = model.tensor((1, *geometry["size"], channels), draw(activation_scales), draw(zero_points))
    shape = (1, *geometry["kernel"], channels * multiplier)
    operands, _ = weights_and_bias(model, draw, rng, shape, 3)
    output = model.tensor((1, *geometry["out"], shape[3]), draw(activation_scales), draw(zero_points))
    activation = draw(st.sampled_from(ACTIVATIONS))
    options = convolution_options("DepthwiseConv2DOptions", geometry, activation, depth_multiplier=multiplier)
    model.operator("DEPTHWISE_CONV_2D", [source, *operands], [output], options)
    return model.build([source], [output])


@st.composite
def fully_connected(draw: st.DrawFn) -> Model:
    """FULLY_CONNECTED of a vector, an image or each of its pixels, per tensor or per channel."""
    rng, model = np.random.default_rng(draw(seeds)), RawModel()
    shape = draw(st.sampled_from([(1, 7), (1, 2, 3, 4), (1, 1, 1, 33), (1, 5, 2), (6, 3), (2, 3, 4), (2, 1, 2, 5)]))
    by_pixel = draw(st.booleans())
    units, depth = draw(st.integers(1, 9)), shape[-1] if by_pixel else int(np.prod(shape))
    source = model.tensor(shape, draw(activation_scales), draw(zero_points))
    output_scale = draw(activation_scales)
    scales = draw(filter_scales(units))
    if len(scales) == 1:
        scales = [abs(scales[0])]
    weights = model.constant(edgy_int8(rng, (units, depth)), scales)
    operands = [source, weights]
    if draw(st.booleans()):
        products = [float(np.float32(model.tensors[source].quantization.scale[0]) * np.float32(s)) for s in scales]  # type: ignore[union-attr, index]
        limit = draw(st.sampled_from([100, 20_000, 2**24]))
        operands.append(model.constant(rng.integers(-limit, limit, units).astype(np.int32), products))
    elif draw(st.booleans()):
        operands.append(-1)
    keeps = draw(st.booleans())
    flat = (int(np.prod(shape)) // depth, units)
    kept = (*shape[:-1], units) if by_pixel else (1, 1, 1, units)
    output = model.tensor(kept if keeps else flat, output_scale, draw(zero_points))
    activation = draw(st.sampled_from(ACTIVATIONS))
    options = make_options("FullyConnectedOptions", fused_activation_function=activation, keep_num_dims=keeps)
    model.operator("FULLY_CONNECTED", operands, [output], options)
    return model.build([source], [output])


@st.composite
def pads(draw: st.DrawFn) -> Model:
    """PAD, or PADV2 with a value, of rows and columns."""
    model, rank = RawModel(), draw(st.sampled_from([4, 4, 3]))
    shape = [1, *(draw(sizes) for _ in range(rank - 1))]
    amounts = [[0, 0], *([draw(st.integers(0, 3)), draw(st.integers(0, 3))] for _ in range(rank - 2)), [0, 0]]
    amounts[1][0] += not np.any(amounts)  # a PAD of nothing is no stage
    source = model.tensor(shape, draw(activation_scales), draw(zero_points))
    paddings = model.constant(np.array(amounts, np.int32))
    scale, zero_point = draw(activation_scales), draw(zero_points)
    output = model.tensor([d + sum(a) for d, a in zip(shape, amounts, strict=True)], scale, zero_point)
    if draw(st.booleans()):
        value = model.constant(np.array([draw(zero_points)], np.int8), [scale], zero_point=zero_point)
        model.operator("PADV2", [source, paddings, value], [output], None)
    else:
        model.operator("PAD", [source, paddings], [output], make_options("PadOptions"))
    return model.build([source], [output])


@st.composite
def pools(draw: st.DrawFn, name: str) -> Model:
    """AVERAGE_POOL_2D or MAX_POOL_2D, now and then over the whole map."""
    model, geometry = RawModel(), draw(windows(dilated=False))
    if draw(st.integers(0, 3)) == 0:
        geometry = {**geometry, "kernel": tuple(geometry["size"]), "out": [1, 1], "padding": VALID}
    channels, scale, zero_point = draw(st.integers(1, 5)), draw(activation_scales), draw(zero_points)
    source = model.tensor((1, *geometry["size"], channels), scale, zero_point)
    output = model.tensor((1, *geometry["out"], channels), scale, zero_point)
    options = make_options(
        "Pool2DOptions",
        padding=geometry["padding"],
        stride_h=geometry["stride"][0],
        stride_w=geometry["stride"][1],
        filter_height=geometry["kernel"][0],
        filter_width=geometry["kernel"][1],
        fused_activation_function=draw(st.sampled_from(ACTIVATIONS)),
    )
    model.operator(name, [source], [output], options)
    return model.build([source], [output])


@st.composite
def reductions(draw: st.DrawFn, name: str) -> Model:
    """MEAN, SUM, REDUCE_MAX or REDUCE_MIN over the map, rows, columns or channels, with and without kept dimensions."""
    model = RawModel()
    shape, axes = draw(
        st.sampled_from(
            [
                ((1, 5, 7, 3), (1, 2)),
                ((1, 5, 7, 3), (2, 1)),
                ((1, 16, 12, 4), (-3, -2)),
                ((1, 6, 5, 4), (1,)),
                ((1, 6, 5, 4), (2,)),
                ((1, 4, 4, 1), (1, 2, 3)),
                ((1, 9, 4), (1,)),
                ((1, 3, 3, 8), (0, 1, 2)),
                ((1, 1, 6, 2), (2, 2)),
                ((1, 3, 1, 2), (2,)),
                ((1, 12), (0,)),
                ((1, 40, 50, 2), (1, 2)),
                ((1, 6, 5, 7), (3,)),
                ((1, 9, 5), (-1,)),
                ((1, 13), (1,)),
            ]
        )
    )
    keeps = draw(st.booleans())
    reduced = {axis % len(shape) for axis in axes}
    out = [1 if a in reduced else d for a, d in enumerate(shape) if keeps or a not in reduced] or [1]
    source = model.tensor(shape, draw(activation_scales), draw(zero_points))
    output = model.tensor(out, draw(activation_scales), draw(zero_points))
    if name in ("REDUCE_MAX", "REDUCE_MIN"):
        model.tensors[output] = replace(model.tensors[output], quantization=model.tensors[source].quantization)
    axis = model.constant(np.array(axes, np.int32))
    model.operator(name, [source, axis], [output], make_options("ReducerOptions", keep_dims=keeps))
    return model.build([source], [output])


@st.composite
def first_largest(draw: st.DrawFn) -> Model:
    """ARG_MAX along channels."""
    model = RawModel()
    shape = draw(st.sampled_from([(1, 5, 7, 3), (1, 4, 4, 1), (1, 9, 4), (1, 300), (3, 5), (2, 3, 4, 6)]))
    source = model.tensor(shape, draw(activation_scales), draw(zero_points))
    model.tensors.append(Tensor(shape[:-1], TensorType.INT32, 0, "numbers"))
    output, axis = len(model.tensors) - 1, draw(st.sampled_from([-1, len(shape) - 1]))
    model.operator("ARG_MAX", [source, model.constant(np.array(axis, np.int32))], [output], None)
    return model.build([source], [output])


@st.composite
def concatenations(draw: st.DrawFn) -> Model:
    """CONCATENATION along channels of two to four tensors, perhaps one of them twice, perhaps one a constant."""
    model, scale, zero_point = RawModel(), draw(activation_scales), draw(zero_points)
    prefix = draw(st.sampled_from([(1, 3, 4), (1, 5), (1,)]))
    channels = draw(st.lists(st.integers(1, 5), min_size=2, max_size=4))
    parts = [model.tensor((*prefix, c), scale, zero_point) for c in channels]
    if draw(st.booleans()):
        parts[-1], channels[-1] = parts[0], channels[0]
    inputs = sorted(set(parts))
    if draw(st.booleans()):
        width = draw(st.integers(1, 5))
        values = edgy_int8(np.random.default_rng(draw(seeds)), (*prefix, width))
        place = draw(st.integers(0, len(parts)))
        parts.insert(place, model.constant(values, [scale], zero_point=zero_point))
        channels.insert(place, width)
    output = model.tensor((*prefix, sum(channels)), scale, zero_point)
    axis = draw(st.sampled_from([-1, len(prefix)]))
    model.operator("CONCATENATION", parts, [output], make_options("ConcatenationOptions", axis=axis))
    return model.build(inputs, [output])


def add_convolution(
    model: RawModel, source: int, shape: Sequence[int], kernel: int = 1, stride: int = 1, padding: int = SAME
) -> int:
    """Append a CONV_2D with random weights; its output tensor."""
    depth = (model.tensors[source].shape or (1,))[-1]
    weights = model.constant(
        edgy_int8(np.random.default_rng(len(model.tensors)), (shape[-1], kernel, kernel, depth)), [0.01]
    )
    output = model.tensor(shape, 0.3, -7)
    options = make_options("Conv2DOptions", padding=padding, stride_h=stride, stride_w=stride)
    model.operator("CONV_2D", [source, weights], [output], options)
    return output
