"""Hypothesis strategies over graphs of pointwise operators that start from one int8 tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from tests.drawing.raw_elementwise import ELEMENTWISE, add_elementwise, add_pair
from tests.drawing.raw_models import ACTIVATIONS, RawModel, activation_scales, add_convolution, zero_points
from tests.drawing.table_rows import REAL_PAIR_ROWS, REAL_ROWS
from tflite_fuse.model import Model
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import TensorType

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


def add_real(model: RawModel, draw: st.DrawFn, name: str, source: int) -> int:
    """Append an operator of one float32 value, behind those that bring any value where it is defined; its output."""
    row = REAL_ROWS[name]
    for before in row.before:
        source = add_real(model, draw, before, source)
    output = real(model, source)
    model.operator(name, [source], [output], row.options(draw))
    return output


def add_real_pair(model: RawModel, draw: st.DrawFn, name: str, source: int, known: Sequence[int]) -> int:
    """Append an operator of a float32 tensor and a constant, or one of those known, in any order; its output."""
    row, output = REAL_PAIR_ROWS[name], real(model, source)
    value = draw(st.sampled_from([0.1, 1 / 6, 3.0, -1.5, 128.0, 0.044715]))
    other = model.constant(np.full(draw(st.sampled_from([(), (1,)])), value, np.float32))
    operands = [source, other]
    if not row.divides:
        operands = list(draw(st.permutations([source, draw(st.sampled_from([other, *known]))])))
    number = draw(st.sampled_from(ACTIVATIONS))
    options = make_options(row.table, fused_activation_function=number) if row.table else None
    model.operator(name, operands, [output], options)
    return output


def add_real_operator(model: RawModel, draw: st.DrawFn, name: str, known: Sequence[int]) -> int:
    """Append an operator on float32, of the newest tensor known and, if it is one of two, another one; its output."""
    if name in REAL_ROWS and (name not in REAL_PAIR_ROWS or draw(st.booleans())):
        return add_real(model, draw, name, known[-1])
    return add_real_pair(model, draw, name, known[-1], known)


def add_real_graph(model: RawModel, draw: st.DrawFn, source: int, names: Sequence[str] = ()) -> int:
    """Append DEQUANTIZE, some operators on float32 of what came before, and QUANTIZE; the output."""
    known = [real(model, source)]
    model.operator("DEQUANTIZE", [source], known, None)
    count = draw(st.integers(1, 4))
    for name in names or [draw(st.sampled_from(sorted({*REAL_ROWS, *REAL_PAIR_ROWS}))) for _ in range(count)]:
        known.append(add_real_operator(model, draw, name, known))
    output = model.tensor(model.tensors[source].dims, draw(activation_scales), draw(zero_points))
    model.operator("QUANTIZE", [known[-1]], [output], None)
    return output


@st.composite
def between_types(draw: st.DrawFn, name: str) -> Model:
    """One operator on float32 of all int8 values, between DEQUANTIZE and QUANTIZE."""
    model = RawModel()
    source = model.tensor((1, 256), draw(activation_scales), draw(zero_points))
    return model.build([source], [add_real_graph(model, draw, source, [name])])


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
