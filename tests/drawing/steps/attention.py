"""Models that multiply tensors with each other: BATCH_MATMUL alone, and attention with one head or several."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

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


@st.composite
def heads(draw: st.DrawFn) -> Model:
    """Attention of several heads, which TRANSPOSEs turn before tokens and back, in the spellings of exporters."""
    tokens, count, depth = draw(st.sampled_from([2, 3, 4, 6])), draw(st.integers(2, 4)), draw(st.integers(1, 5))
    return attention_of_heads(
        tokens, count, depth, draw(st.sampled_from(["by column", "turned", "both"])), draw(st.booleans()),
        draw(st.booleans()), draw(st.sampled_from([(), (1,)] if tokens % 2 else [(), (1,), (1, 2)])),
    )  # fmt: skip


def attention_of_heads(
    tokens: int,
    count: int,
    depth: int,
    keys: str = "by column",
    is_keras: bool = False,
    shares: bool = False,
    batch: tuple[int, ...] = (1,),
    layers: int = 1,
) -> Model:
    """Attention over tokens of ``count`` heads of ``depth`` channels, with the sum of its input behind each layer.

    Args:
        tokens, count, depth: sizes.
        keys: how the keys become columns: by an option, by a TRANSPOSE of the turned keys, by one TRANSPOSE.
        is_keras: whether keys are multiplied by queries and the scores transposed; biases and the factor of queries are
            operators then.
        shares: whether keys and values are the same channels.
        batch: leading dimensions of tokens; their product divides ``tokens`` into rows of an image.
        layers: number of layers.
    """
    model, rng, channels = RawModel(), np.random.default_rng(1), count * depth
    image = (*batch, tokens // prod(batch), channels)
    newest = source = model.tensor(image, 0.25, 3)

    def like(tensor: int, dims: Sequence[int]) -> int:
        quantization = model.tensors[tensor].quantization
        assert quantization is not None and quantization.scale and quantization.zero_point
        return model.tensor(dims, quantization.scale[0], quantization.zero_point[0])

    def reshaped(tensor: int, dims: Sequence[int]) -> int:
        output = like(tensor, dims)
        shape = model.constant(np.array(dims, np.int32))
        model.operator("RESHAPE", [tensor, shape], [output], make_options("ReshapeOptions", new_shape=tuple(dims)))
        return output

    def turned(tensor: int, *order: int) -> int:
        output = like(tensor, [model.tensors[tensor].dims[axis] for axis in order])
        orders = model.constant(np.array(order, np.int32))
        model.operator("TRANSPOSE", [tensor, orders], [output], make_options("TransposeOptions"))
        return output

    def projected() -> int:
        row = reshaped(dense(model, newest, channels, rng), (1, tokens, count, depth))
        if is_keras:
            biases = model.constant(rng.integers(-50, 50, (count, depth)).astype(np.int8), [0.125])
            output = like(row, (1, tokens, count, depth))
            model.operator("ADD", [row, biases], [output], make_options("AddOptions"))
            row = output
        return row

    for _ in range(layers):
        queries, rows = projected(), projected()
        if shares and not is_keras:  # keys and values are turned apart, without a layer of their own
            rows, values = (reshaped(newest, (1, tokens, count, depth)) for _ in range(2))
        else:
            values = rows if shares else projected()
        if is_keras:
            scaled, factor = (
                like(queries, (1, tokens, count, depth)),
                model.constant(np.array([64], np.int8), [2.0**-7]),
            )
            model.operator("MUL", [queries, factor], [scaled], make_options("MulOptions"))
            queries, rows = rows, scaled
        queries = turned(queries, 0, 2, 1, 3)
        scores = model.tensor((1, count, tokens, tokens), 0.25, 0)
        if keys == "by column":
            multiply(model, queries, turned(rows, 0, 2, 1, 3), scores, by_column=True)
        else:
            both = turned(rows, 0, 2, 3, 1) if keys == "both" else turned(turned(rows, 0, 2, 1, 3), 0, 1, 3, 2)
            multiply(model, queries, both, scores, by_column=False)
        scores = turned(scores, 0, 1, 3, 2) if is_keras else scores
        parts = model.tensor((1, count, tokens, tokens), 1 / 256, -128)
        model.operator("SOFTMAX", [scores], [parts], make_options("SoftmaxOptions", beta=0.125))
        mixed = model.tensor((1, count, tokens, depth), 0.25, 0)
        multiply(model, parts, turned(values, 0, 2, 1, 3), mixed, by_column=False)
        back = reshaped(turned(mixed, 0, 2, 1, 3), image)
        summed = model.tensor(image, 0.25, 0)
        model.operator("ADD", [newest, dense(model, back, channels, rng)], [summed], make_options("AddOptions"))
        newest = summed
    return model.build([source], [newest])
