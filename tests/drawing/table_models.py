"""Hypothesis strategies over graphs of operators by value that start from one int8 tensor: tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from tests.drawing.raw_elementwise import ELEMENTWISE, add_elementwise, add_pair
from tests.drawing.raw_models import ACTIVATIONS, RawModel, activation_scales, add_convolution, zero_points
from tflite_fuse.model import Model
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import TensorType

REAL_OF_ONE = (
    "ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "NEG", "RELU", "RELU6",
    "ROUND", "SIN", "SQUARE", "TANH",
)  # fmt: skip
"""Operators on float32 that TFLM runs and that are defined everywhere."""

REAL_OF_TWO = {"ADD": "AddOptions", "DIV": "DivOptions", "MAXIMUM": "", "MINIMUM": "", "MUL": "MulOptions"}
REAL_OF_TWO |= {"SQUARED_DIFFERENCE": "", "SUB": "SubOptions"}

CONSTANT_OF_TWO = {"ADD": "AddOptions", "MAXIMUM": "", "MINIMUM": "", "MUL": "MulOptions", "SQUARED_DIFFERENCE": ""}
CONSTANT_OF_TWO |= {"SUB": "SubOptions"}


def real(model: RawModel, like: int) -> int:
    """A float32 tensor of another one's shape."""
    return model.tensor(model.tensors[like].dims, type_=TensorType.FLOAT32, quantization=None)


def with_constant(model: RawModel, draw: st.DrawFn, name: str, source: int, value: int, dims: Sequence[int]) -> int:
    """Append an int8 operator of a tensor and a constant of equal values; its output."""
    scale = draw(activation_scales)
    constant = model.constant(np.full(dims, value, np.int8), [scale], zero_point=draw(zero_points))
    output = model.tensor(model.tensors[source].dims, draw(activation_scales), draw(zero_points))
    options = CONSTANT_OF_TWO[name]
    made = make_options(options, fused_activation_function=draw(st.sampled_from(ACTIVATIONS))) if options else None
    model.operator(name, draw(st.permutations([source, constant])), [output], made)
    return output


def add_constant(model: RawModel, draw: st.DrawFn, source: int) -> int:
    """As ``with_constant``, any of them: of no dimensions, one, or as many values as channels."""
    dims = draw(st.sampled_from([(), (1,), model.tensors[source].dims[-1:]]))
    name = draw(st.sampled_from(sorted(CONSTANT_OF_TWO)))
    return with_constant(model, draw, name, source, draw(st.integers(-128, 127)), dims)


def add_real_graph(model: RawModel, draw: st.DrawFn, source: int) -> int:
    """Append DEQUANTIZE, some operators on float32 of what came before, and QUANTIZE; the output."""
    known = [real(model, source)]
    model.operator("DEQUANTIZE", [source], known, None)
    for _ in range(draw(st.integers(1, 4))):
        newest, result = known[-1], real(model, source)
        if draw(st.booleans()):
            name = draw(st.sampled_from(REAL_OF_ONE))
            options = make_options("LeakyReluOptions", alpha=0.25) if name == "LEAKY_RELU" else None
            if name == "EXP":  # bounded, so that the result is finite
                bounded = real(model, source)
                model.operator("TANH", [newest], [bounded], None)
                newest = bounded
            model.operator(name, [newest], [result], options)
        else:
            name = draw(st.sampled_from(sorted(REAL_OF_TWO)))
            value = draw(st.sampled_from([0.1, 1 / 6, 3.0, -1.5, 128.0, 0.044715]))
            other = model.constant(np.full(draw(st.sampled_from([(), (1,)])), value, np.float32))
            operands = [newest, other]
            if name != "DIV":
                other = draw(st.sampled_from([other, *known]))
                operands = list(draw(st.permutations([newest, other])))
            number, table = draw(st.sampled_from(ACTIVATIONS)), REAL_OF_TWO[name]
            options = make_options(table, fused_activation_function=number) if table else None
            model.operator(name, operands, [result], options)
        known.append(result)
    output = model.tensor(model.tensors[source].dims, draw(activation_scales), draw(zero_points))
    model.operator("QUANTIZE", [known[-1]], [output], None)
    return output


@st.composite
def graphs_of_one_value(draw: st.DrawFn, shape: tuple[int, ...] | None = None) -> Model:
    """Operators by value, each of results of one tensor: chains, diamonds, squares; int8, or float32 in between."""
    model = RawModel()
    source = model.tensor(shape or draw(st.sampled_from([(1, 3, 5, 4), (1, 19), (1, 6, 2)])), 0.05, draw(zero_points))
    return model.build([source], [_graph(model, draw, source)])


def _graph(model: RawModel, draw: st.DrawFn, source: int) -> int:
    known = [source]
    for step in draw(st.lists(st.sampled_from(["value", "pair", "pair", "constant", "real"]), min_size=1, max_size=6)):
        newest, older = known[-1], draw(st.sampled_from(known))
        if step == "value":
            known.append(add_elementwise(model, draw, draw(st.sampled_from(ELEMENTWISE)), newest))
        elif step == "pair":
            known.append(add_pair(model, draw, newest, older))
        elif step == "constant":
            known.append(add_constant(model, draw, newest))
        else:
            known.append(add_real_graph(model, draw, newest))
    return known[-1]


@st.composite
def graphs_between_convolutions(draw: st.DrawFn) -> Model:
    """Graphs of one value at the input, between convolutions and at the output, some of their tensors read again."""
    shape = (1, draw(st.integers(3, 9)), draw(st.integers(3, 9)), draw(st.integers(1, 5)))
    model = RawModel()
    source = newest = model.tensor(shape, 0.05, draw(zero_points))
    outputs = []
    for step in draw(st.lists(st.sampled_from(["convolution", "graph", "graph"]), min_size=2, max_size=4)):
        if step == "convolution":
            newest = add_convolution(model, newest, shape, kernel=draw(st.sampled_from([1, 3])))
        else:
            newest = _graph(model, draw, newest)
        if draw(st.integers(0, 3)) == 0:
            outputs.append(newest)
    return model.build([source], list(dict.fromkeys([*outputs, newest])))
