"""Models that multiply tensors with each other: BATCH_MATMUL alone, and attention with one head or several."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.drawing.raw_models import RawModel, activation_scales, zero_points
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Model


def multiply(model: RawModel, first: int, second: int, output: int, by_column: bool) -> None:
    """Append a BATCH_MATMUL whose second operand is transposed if ``by_column``."""
    options = make_options("BatchMatMulOptions", adj_x=False, adj_y=by_column)
    model.operator("BATCH_MATMUL", [first, second], [output], options)


@st.composite
def matrix_products(draw: st.DrawFn) -> Model:
    """BATCH_MATMUL of tensors of two to five dimensions, with a matrix for each or one for all of a batch."""
    model, by_column = RawModel(), draw(st.booleans())
    batch = draw(st.sampled_from([(), (1,), (3,), (1, 2), (2, 1), (2, 1, 2)]))
    rows, depth, columns = (draw(st.integers(1, 9)) for _ in range(3))
    shared = (1,) * len(batch) if draw(st.booleans()) else batch
    matrix = (*shared, columns, depth) if by_column else (*shared, depth, columns)
    first = model.tensor((*batch, rows, depth), draw(activation_scales), draw(zero_points))
    second = model.tensor(matrix, draw(activation_scales), draw(zero_points))
    output = model.tensor((*batch, rows, columns), draw(activation_scales), draw(zero_points))
    multiply(model, first, second, output, by_column)
    return model.build([first, second], [output])


def dense(model: RawModel, source: int, units: int, rng: np.random.Generator) -> int:
    """Append a FULLY_CONNECTED of the last dimension; its output."""
    dims = model.tensors[source].dims
    weights = model.constant(rng.integers(-127, 128, (units, dims[-1])).astype(np.int8), [2.0**-6])
    output = model.tensor((*dims[:-1], units), 0.25, int(rng.integers(-20, 20)))
    model.operator(
        "FULLY_CONNECTED", [source, weights], [output], make_options("FullyConnectedOptions", keep_num_dims=True)
    )
    return output


def normalize(model: RawModel, source: int) -> int:
    """Append a layer normalization without factors: each token less its mean, times 1 / its deviation; its output."""
    dims = model.tensors[source].dims
    axis = model.constant(np.array([len(dims) - 1], np.int32))
    one = (*dims[:-1], 1)
    reducing = make_options("ReducerOptions", keep_dims=True)
    mean, squares, variance = model.tensor(one, 0.125, 5), model.tensor(dims, 2.0, -128), model.tensor(one, 0.5, -128)
    inverse, centred, output = (
        model.tensor(one, 2.0**-6, -128),
        model.tensor(dims, 0.25, 1),
        model.tensor(dims, 2.0**-5),
    )
    model.operator("MEAN", [source, axis], [mean], reducing)
    model.operator("SQUARED_DIFFERENCE", [source, mean], [squares], None)
    model.operator("MEAN", [squares, axis], [variance], reducing)
    model.operator("RSQRT", [variance], [inverse], None)
    model.operator("SUB", [source, mean], [centred], make_options("SubOptions"))
    model.operator("MUL", [centred, inverse], [output], make_options("MulOptions"))
    return output


def attention(tokens: int, channels: int, heads: int = 1, layers: int = 1, norms: bool = False) -> Model:
    """Attention over tokens, with the sum of its input behind each layer, and with ``norms`` a normalization before it.

    Several heads are a dimension before the tokens, as exporters that split channels by TRANSPOSE write them.
    """
    model, rng = RawModel(), np.random.default_rng(1)
    shape = (1, heads, tokens, channels) if heads > 1 else (1, tokens, channels)
    newest = source = model.tensor(shape, 0.25, 3)
    for _ in range(layers):
        read = normalize(model, newest) if norms else newest
        queries, keys, values = (dense(model, read, channels, rng) for _ in range(3))
        scores = model.tensor((*shape[:-1], tokens), 0.25, 0)
        multiply(model, queries, keys, scores, by_column=True)
        shares = model.tensor((*shape[:-1], tokens), 1 / 256, -128)
        model.operator("SOFTMAX", [scores], [shares], make_options("SoftmaxOptions", beta=0.125))
        mixed = model.tensor(shape, 0.25, 0)
        multiply(model, shares, values, mixed, by_column=False)
        summed = model.tensor(shape, 0.25, 0)
        model.operator("ADD", [newest, dense(model, mixed, channels, rng)], [summed], make_options("AddOptions"))
        newest = summed
    return model.build([source], [newest])
