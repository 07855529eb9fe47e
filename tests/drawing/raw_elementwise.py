"""Models of pointwise operators on one or two values, with arbitrary quantization."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.drawing.raw_models import (
    ACTIVATIONS,
    RawModel,
    activation_scales,
    add_convolution,
    edgy_int8,
    float32_between,
    seeds,
    zero_points,
)
from tests.drawing.table_rows import BYTE_ROWS, LITERT_ROWS
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Model, OptionsTable

PAIR_OPTIONS = {
    "ADD": "AddOptions",
    "MAXIMUM": "",
    "MINIMUM": "",
    "MUL": "MulOptions",
    "SQUARED_DIFFERENCE": "",
    "SUB": "SubOptions",
}


WITHOUT_THIN = ("MAXIMUM", "MINIMUM")
"""Operators whose operands have as many channels as the output, or are a single number."""


def pair_options(draw: st.DrawFn, name: str) -> OptionsTable | None:
    """Options with any fused activation, where there are options."""
    activation, table = draw(st.sampled_from(ACTIVATIONS)), PAIR_OPTIONS[name]
    return make_options(table, fused_activation_function=activation) if table else None


@st.composite
def pairs(draw: st.DrawFn, name: str) -> Model:
    """Two tensors, one with itself, with one pixel, or one channel, or a constant; scales up to 2¹⁸ apart."""
    model, shape = RawModel(), draw(st.sampled_from([(1, 3, 5, 4), (1, 9), (1, 6, 2), (40,)]))
    scales = activation_scales | float32_between(2**-14, 16.0)
    first = model.tensor(shape, draw(scales), draw(zero_points))
    thin = [(*shape[:-1], 1)] if name not in WITHOUT_THIN else []
    other = draw(st.sampled_from([shape, shape, (*[1] * (len(shape) - 1), shape[-1]), shape[-1:], *thin]))
    way, inputs = draw(st.sampled_from(["itself", "computed", "computed", "stored"])), [first]
    if way == "stored":
        second = model.constant(edgy_int8(rng_of(draw), other), [draw(scales)], zero_point=draw(zero_points))
    elif way == "computed":
        second = model.tensor(other, draw(scales), draw(zero_points))
        inputs.append(second)
    else:
        second = first
    output = model.tensor(shape, draw(scales), draw(zero_points))
    options = pair_options(draw, name)
    model.operator(name, draw(st.permutations([first, second])), [output], options)
    return model.build(inputs, [output])


_ROWS = BYTE_ROWS | LITERT_ROWS

ELEMENTWISE = tuple(BYTE_ROWS)
"""Operators that map value by value."""


def add_elementwise(model: RawModel, draw: st.DrawFn, name: str, source: int) -> int:
    """Append an operator of one value at a time, to any quantization that TFLM takes; its output tensor."""
    row, quantization = _ROWS[name], model.tensors[source].quantization
    assert quantization is not None and quantization.scale and quantization.zero_point
    if row.source_zero_point not in (None, quantization.zero_point[0]):
        moved = model.tensor(model.tensors[source].dims, draw(activation_scales), row.source_zero_point)
        model.operator("QUANTIZE", [source], [moved], None)
        return add_elementwise(model, draw, name, moved)
    scale, zero_point = draw(activation_scales), draw(zero_points)
    if row.near:
        scale = float(np.float32(quantization.scale[0] * draw(st.floats(2**-6, 2**6))))
    if row.zero_point is not None:
        zero_point = row.zero_point
    output = model.tensor(model.tensors[source].dims, scale, zero_point)
    model.operator(name, [source], [output], row.options(draw))
    return output


@st.composite
def elementwise(draw: st.DrawFn, name: str, shape: tuple[int, ...] | None = None) -> Model:
    """An operator of one value at a time, from any quantization to any other."""
    model, shape = RawModel(), shape or draw(st.sampled_from([(1, 3, 5, 4), (1, 19), (1, 6, 2), (7, 3)]))
    fixed = _ROWS[name].source_zero_point
    source = model.tensor(shape, draw(activation_scales), draw(zero_points) if fixed is None else fixed)
    return model.build([source], [add_elementwise(model, draw, name, source)])


def rng_of(draw: st.DrawFn) -> np.random.Generator:
    """A generator of a drawn seed."""
    return np.random.default_rng(draw(seeds))


def add_stored(model: RawModel, draw: st.DrawFn, shape: tuple[int, ...]) -> int:
    """Append a constant of an image's shape, or with one channel, one pixel, or without its first dimension."""
    height, width, channels = shape[1:]
    dims = draw(st.sampled_from([shape, shape[1:], (1, height, width, 1), (channels,), (1, 1, 1, channels)]))
    return model.constant(edgy_int8(rng_of(draw), dims), [draw(activation_scales)], zero_point=draw(zero_points))


def add_pair(model: RawModel, draw: st.DrawFn, first: int, second: int) -> int:
    """Append an operator of two tensors of one shape, with any fused activation; its output tensor."""
    alike = model.tensors[first].dims[-1:] == model.tensors[second].dims[-1:]
    name = draw(st.sampled_from([each for each in sorted(PAIR_OPTIONS) if alike or each not in WITHOUT_THIN]))
    output = model.tensor(model.tensors[first].dims, draw(activation_scales), draw(zero_points))
    options = pair_options(draw, name)
    model.operator(name, draw(st.permutations([first, second])), [output], options)
    return output


@st.composite
def elementwise_chains(draw: st.DrawFn) -> Model:
    """Operators of one value, or of two, in every position: first, between convolutions, behind a residual, last.

    One of two may be a constant.
    """
    model, shape = RawModel(), (1, draw(st.integers(3, 9)), draw(st.integers(3, 9)), draw(st.integers(1, 5)))
    source = newest = model.tensor(shape, draw(activation_scales), draw(zero_points))
    alike = [source]
    steps = st.sampled_from(["convolution", "value", "value", "pair", "stored"])
    for step in draw(st.lists(steps, min_size=2, max_size=7)):
        if step == "convolution":
            newest = add_convolution(model, newest, shape, kernel=draw(st.sampled_from([1, 3])))
        elif step == "value":
            newest = add_elementwise(model, draw, draw(st.sampled_from(ELEMENTWISE)), newest)
        elif step == "stored":
            newest = add_pair(model, draw, newest, add_stored(model, draw, shape))
        else:
            newest = add_pair(model, draw, newest, draw(st.sampled_from(alike)))
        alike.append(newest)
    return model.build([source], [newest])


@st.composite
def softmaxes(draw: st.DrawFn) -> Model:
    """SOFTMAX of any scale and width, perhaps behind a function of one value and before another one."""
    model, shape = (
        RawModel(),
        draw(st.sampled_from([(1, 3, 5, 4), (1, 19), (1, 6, 2), (1, 1), (1, 511), (1, 2, 300), (6, 3)])),
    )
    source = newest = model.tensor(shape, draw(activation_scales | float32_between(2**-20, 64.0)), draw(zero_points))
    if draw(st.booleans()):
        newest = add_elementwise(model, draw, draw(st.sampled_from(ELEMENTWISE)), newest)
    output = model.tensor(shape, 1 / 256, -128)
    beta = draw(st.sampled_from([1.0, 1.0, 0.5, 10.0, 1e6]))
    model.operator("SOFTMAX", [newest], [output], make_options("SoftmaxOptions", beta=float(np.float32(beta))))
    if draw(st.booleans()):
        output = add_elementwise(model, draw, draw(st.sampled_from(ELEMENTWISE)), output)
    return model.build([source], [output])


@st.composite
def gated(draw: st.DrawFn) -> Model:
    """A tensor times a function of it, as SiLU is, or added to it; then perhaps another function of that."""
    model, shape = RawModel(), draw(st.sampled_from([(1, 3, 5, 4), (1, 19), (1, 6, 2), (7, 3)]))
    source = model.tensor(shape, draw(activation_scales), draw(zero_points))
    gate = add_elementwise(model, draw, draw(st.sampled_from(ELEMENTWISE)), source)
    output = add_pair(model, draw, source, gate)
    if draw(st.booleans()):
        output = add_elementwise(model, draw, draw(st.sampled_from(ELEMENTWISE)), output)
    return model.build([source], [output])


BY_CHANNEL = ("ADD", "MUL", "PRELU", "SUB")
"""Operators that take a constant number for every channel."""


def add_by_channel(
    model: RawModel, draw: st.DrawFn, name: str, source: int, equal: bool = False, channels: int | None = None
) -> int:
    """Append an operator of a tensor and a constant number for every channel, all ``equal`` or not; its output.

    A source of one channel may give other ``channels``.
    """
    shape, rng = model.tensors[source].dims, np.random.default_rng(draw(seeds))
    shape = (*shape[:-1], channels or shape[-1])
    dims = draw(st.sampled_from([(1,) * (len(shape) - 1), ()] if name != "PRELU" else [(1,) * (len(shape) - 2)]))
    values = np.full(shape[-1], draw(st.integers(-128, 127)), np.int8) if equal else edgy_int8(rng, shape[-1:])
    constant = model.constant(values.reshape(*dims, -1), [draw(activation_scales)], zero_point=draw(zero_points))
    output = model.tensor(shape, draw(activation_scales), draw(zero_points))
    options = None if name == "PRELU" else pair_options(draw, name)
    operands = [source, constant] if name == "PRELU" else draw(st.permutations([source, constant]))
    model.operator(name, operands, [output], options)
    return output


@st.composite
def by_channel(draw: st.DrawFn, name: str) -> Model:
    """An operator of a tensor, perhaps of one channel for all, and a constant number for every channel."""
    batches = [] if name == "PRELU" else [(7, 3)]  # which stays outside of blocks
    model, shape = RawModel(), draw(st.sampled_from([(1, 3, 5, 4), (1, 19), (1, 6, 2), *batches]))
    thin = (*shape[:-1], 1) if name != "PRELU" and draw(st.integers(0, 2)) == 0 else shape
    source = model.tensor(thin, draw(activation_scales), draw(zero_points))
    equal = draw(st.integers(0, 4)) == 0
    return model.build([source], [add_by_channel(model, draw, name, source, equal, shape[-1])])


@st.composite
def by_channel_in_every_position(draw: st.DrawFn) -> Model:
    """Batch normalization left unfolded, PRELU and convolutions in any order."""
    shape = (1, draw(st.integers(3, 9)), draw(st.integers(3, 9)), draw(st.integers(1, 9)))
    model = RawModel()
    source = newest = model.tensor(shape, draw(activation_scales), draw(zero_points))
    for step in draw(st.lists(st.sampled_from(["convolution", *BY_CHANNEL]), min_size=2, max_size=6)):
        if step == "convolution":
            newest = add_convolution(model, newest, shape, kernel=draw(st.sampled_from([1, 3])))
        else:
            newest = add_by_channel(model, draw, step, newest)
    return model.build([source], [newest])
