"""Float32: the numpy reference and TensorFlow Lite Micro's reference kernels, byte for byte, and rewritten models.

Inputs hold numbers of all sizes, infinities and what is no number; so do weights now and then. What is no number equals
any other that is none: which bits it has is a core's own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tflite_fuse
from scripts.zoo.float_twin import float_twin
from tests.builders import random_models
from tests.drawing import raw_elementwise, raw_larger, raw_moves
from tests.drawing import raw_models as raw
from tests.drawing.random_blocks import random_reals
from tests.drawing.steps import slices
from tests.drawing.steps.attention import matrix_products
from tests.drawing.witness import assert_same_bytes
from tests.runtime.fused_models import constants_of
from tests.runtime.reference.test_on_random_graphs import blocks
from tflite_fuse.errors import LimitError, ModelError
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Buffer
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.floats.elementwise import OPERATIONS
from tflite_fuse.ops.lowering.extract import extract, fusability
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.reference import run_block_reference

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

thorough = settings(max_examples=50, suppress_health_check=list(HealthCheck))


def twin(model: Model, seed: int) -> Model:
    """The float32 twin, in one of four with odd numbers among its weights."""
    found, rng = float_twin(model), np.random.default_rng(seed)
    if rng.random() < 0.75:
        return found
    weights = {tensor.buffer for tensor in found.main.tensors if tensor.type == TensorType.FLOAT32} - {0}
    buffers = [
        Buffer(random_reals(rng, (len(buffer.data or b"") // 4,)).tobytes()) if index in weights else buffer
        for index, buffer in enumerate(found.buffers)
    ]
    return replace(found, buffers=tuple(buffers))


def assert_same_floats(model: Model, seed: int, count: int = 3) -> None:
    """Run all operators of the twin as one block and in the runtime; compare every output."""
    model = twin(model, seed)
    rng = np.random.default_rng(seed)
    extraction = extract(model, range(len(model.main.operators)))
    shapes = [model.main.tensors[index].dims for index in model.main.inputs]
    batches = [[random_reals(rng, shape) for shape in shapes] for _ in range(count)]
    batches += [[rng.normal(0, 1, shape).astype(np.float32) for shape in shapes]]
    truth = tflm.run(serialize_model(model), batches).outputs
    for arrays, expected in zip(batches, truth, strict=True):
        by_tensor = constants_of(model) | dict(zip(model.main.inputs, arrays, strict=True))
        outputs = run_block_reference(extraction.block, [by_tensor[index] for index in extraction.inputs])
        results = dict(zip(extraction.outputs, outputs, strict=True))
        for index, want in zip(model.main.outputs, expected, strict=True):
            assert_same_bytes(results[index].ravel().view(want.dtype), want.ravel())


@thorough
@given(raw.convolutions() | raw.depthwise_convolutions(), raw.seeds)
def test_convolutions(model: Model, seed: int) -> None:
    assert_same_floats(model, seed)


@thorough
@given(raw.fully_connected(), raw.seeds)
def test_fully_connected(model: Model, seed: int) -> None:
    assert_same_floats(model, seed)


@thorough
@given(raw.pools("AVERAGE_POOL_2D") | raw.pools("MAX_POOL_2D"), raw.seeds)
def test_pools(model: Model, seed: int) -> None:
    assert_same_floats(model, seed)


def is_held(model: Model) -> bool:
    """Whether blocks hold the twin: SUM and REDUCE_MIN over rows or columns alone they do not."""
    return fusability(float_twin(model)) == (None,)


@thorough
@given(st.sampled_from(["MEAN", "REDUCE_MAX", "REDUCE_MIN", "SUM"]).flatmap(raw.reductions).filter(is_held), raw.seeds)
def test_reductions(model: Model, seed: int) -> None:
    assert_same_floats(model, seed)


@thorough
@given(raw_larger.transposed_convolutions(), raw.seeds)
def test_transposed_convolutions(model: Model, seed: int) -> None:
    assert_same_floats(model, seed)


@thorough
@given(st.sampled_from(sorted(raw_elementwise.PAIR_OPTIONS)).flatmap(raw_elementwise.pairs), raw.seeds)
def test_pairs(model: Model, seed: int) -> None:
    assert_same_floats(model, seed)


@thorough
@given(raw.first_largest(), raw.seeds)
def test_arg_max(model: Model, seed: int) -> None:
    assert_same_floats(model, seed)


@thorough
@given(matrix_products(), raw.seeds)
def test_matrix_products(model: Model, seed: int) -> None:
    assert_same_floats(model, seed)


@thorough
@given(raw.concatenations(), raw.seeds)
def test_concatenation(model: Model, seed: int) -> None:
    assert_same_floats(model, seed)


CURVES = {
    **dict.fromkeys(("ABS", "COS", "EXP", "LOG", "NEG", "RSQRT", "SIN", "SQRT", "SQUARE"), None),
    "ELU": None,
    "HARD_SWISH": None,
    "LEAKY_RELU": ("LeakyReluOptions", {"alpha": 0.3}),
    "LOGISTIC": None,
    "RELU": None,
    "RELU6": None,
    "SOFTMAX": ("SoftmaxOptions", {"beta": 0.7}),
    "TANH": None,
}
"""Operators of one tensor, their options' table and values."""


@thorough
@given(st.sampled_from(sorted(CURVES)), st.sampled_from([(1, 3, 5, 4), (1, 9), (1, 6, 2)]), raw.seeds)
def test_operators_of_one_tensor(name: str, shape: tuple[int, ...], seed: int) -> None:
    model, options = raw.RawModel(), CURVES[name]
    source, output = (model.tensor(shape, type_=TensorType.FLOAT32, quantization=None) for _ in range(2))
    model.operator(name, [source], [output], None if options is None else make_options(options[0], **options[1]))
    assert_same_floats(model.build([source], [output]), seed)


@thorough
@given(
    st.sampled_from(sorted({*OPERATIONS} - {"BITWISE_XOR"})),
    st.sampled_from(["one", "each channel", "each of one channel"]),
    st.booleans(),
    raw.seeds,
)
def test_operations_with_constants(name: str, constants: str, first: bool, seed: int) -> None:
    """A constant for all values or for each channel, on either side; the runtime divides by 0 as floats do."""
    model, rng, shape, one = raw.RawModel(), np.random.default_rng(seed), (1, 4, 3, 5), constants == "one"
    read = (1, 4, 3, 1) if constants == "each of one channel" and name != "PRELU" else shape
    source, output = (model.tensor(dims, type_=TensorType.FLOAT32, quantization=None) for dims in (read, shape))
    # PRELU's factors have the rank of a pixel's, as converters write them.
    constant = model.constant(random_reals(rng, (1, 1, 5) if name == "PRELU" else (1,) if one else (5,)))
    table = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions"}.get(name)
    operands = [constant, source] if first and name != "PRELU" else [source, constant]
    model.operator(name, operands, [output], make_options(table, fused_activation_function=1) if table else None)
    assert_same_floats(model.build([source], [output]), seed)


@thorough
@given(raw_larger.resizes(), raw.seeds)
def test_resizes(model: Model, seed: int) -> None:
    assert_same_floats(model, seed)


def moves_something(model: Model) -> bool:
    """Whether an operator moves values, as one that leaves all in their places does not, and fills with no others."""
    before, after = (model.main.tensors[tensors[0]].dims for tensors in (model.main.inputs, model.main.outputs))
    return before != after and operator_name(model, model.main.operators[0]) != "PADV2"


@thorough
@given(
    (raw_moves.channel_moves() | slices.slices() | slices.squares() | raw_larger.mirrored()).filter(moves_something),
    raw.seeds,
)
def test_operators_that_move_values(model: Model, seed: int) -> None:
    assert_same_floats(model, seed)


@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(
    raw_moves.moves_everywhere() | slices.slices_everywhere() | slices.channels_first(),
    st.sampled_from(["resident", "streamed"]),
    raw.seeds,
)
def test_moves_in_rewritten_models_are_proven_and_bit_exact(model: Model, mode: str, seed: int) -> None:
    try:
        result = tflite_fuse.rewrite(serialize_model(twin(model, seed)), input_mode=mode, inputs=3, verify=True)
    except LimitError:
        assert mode != "resident"  # so small a model need not gain anything
        return
    assert result.report.proven is not None and result.report.verified is not None
    assert result.report.proven.notes == ()


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(random_models(most_operators=10), raw.seeds)
def test_runs_of_operators_as_blocks(model: Model, seed: int) -> None:
    model = twin(model, seed)
    extractions = blocks(model)
    stored = constants_of(model)
    operands = dict.fromkeys(t for each in extractions for t in (*each.inputs, *each.outputs))
    watched = tuple(tensor for tensor in operands if tensor not in stored)
    if not watched:
        return
    exposed = replace_main(model, replace(model.main, outputs=watched))
    rng = np.random.default_rng(seed)
    images = [random_reals(rng, model.main.tensors[index].dims) for index in model.main.inputs]
    truth = stored | dict(zip(watched, tflm.run(serialize_model(exposed), [images]).outputs[0], strict=True))
    for extraction in extractions:
        results = run_block_reference(extraction.block, [truth[index] for index in extraction.inputs])
        for index, result in zip(extraction.outputs, results, strict=True):
            assert_same_bytes(result.ravel(), np.asarray(truth[index]).ravel())


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(random_models(most_operators=8), raw.seeds)
def test_rewritten_models_are_proven_and_bit_exact(model: Model, seed: int) -> None:
    try:
        result = tflite_fuse.rewrite(serialize_model(twin(model, seed)), inputs=3)
    except ModelError as error:
        assert "cannot load" in str(error)
        return
    assert result.report.verified is None or result.report.verified.bit_exact
    assert result.report.proven is not None
