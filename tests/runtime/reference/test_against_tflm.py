"""The numpy reference and TensorFlow Lite Micro's reference kernels, byte for byte, operator by operator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.drawing import raw_elementwise
from tests.drawing import raw_models as raw
from tests.drawing.steps.attention import matrix_products
from tests.drawing.steps.recurrent import lstms
from tests.runtime.fused_models import constants_of
from tflite_fuse.ir.block import StageKind, Storage
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.model.options import make_options
from tflite_fuse.ops.lowering.extract import extract
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.reference import run_block_reference

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

thorough = settings(max_examples=60, suppress_health_check=list(HealthCheck))


def assert_same_bytes(model: Model, seed: int, count: int = 3) -> None:
    """Run all operators of ``model`` as one block and in the runtime; compare every output."""
    rng = np.random.default_rng(seed)
    extraction = extract(model, range(len(model.main.operators)))
    assert set(extraction.inputs) - constants_of(model).keys() == set(model.main.inputs)
    shapes = [model.main.tensors[index].dims for index in model.main.inputs]
    batches = [[raw.edgy_int8(rng, shape) for shape in shapes] for _ in range(count)]
    batches += [[np.full(shape, value, np.int8) for shape in shapes] for value in (-128, 127)]
    truth = tflm.run(serialize_model(model), batches).outputs
    for arrays, expected in zip(batches, truth, strict=True):
        by_tensor = constants_of(model) | dict(zip(model.main.inputs, arrays, strict=True))
        outputs = run_block_reference(extraction.block, [by_tensor[index] for index in extraction.inputs])
        results = dict(zip(extraction.outputs, outputs, strict=True))
        for index, want in zip(model.main.outputs, expected, strict=True):
            np.testing.assert_array_equal(results[index].ravel().view(want.dtype), want.ravel())


@thorough
@given(raw.convolutions(), raw.seeds)
def test_convolution(model: Model, seed: int) -> None:
    assert_same_bytes(model, seed)


@thorough
@given(raw.depthwise_convolutions(), raw.seeds)
def test_depthwise(model: Model, seed: int) -> None:
    assert_same_bytes(model, seed)


@thorough
@given(raw.fully_connected(), raw.seeds)
def test_fully_connected(model: Model, seed: int) -> None:
    assert_same_bytes(model, seed)


@thorough
@given(st.sampled_from(sorted(raw_elementwise.PAIR_OPTIONS)).flatmap(raw_elementwise.pairs), raw.seeds)
def test_pairs(model: Model, seed: int) -> None:
    assert_same_bytes(model, seed)


@thorough
@given(raw.pads(), raw.seeds)
def test_pad(model: Model, seed: int) -> None:
    assert_same_bytes(model, seed)


@thorough
@given(raw.pools("AVERAGE_POOL_2D") | raw.pools("MAX_POOL_2D"), raw.seeds)
def test_pools(model: Model, seed: int) -> None:
    assert_same_bytes(model, seed)


@thorough
@given(raw.reductions("MEAN") | raw.reductions("REDUCE_MAX"), raw.seeds)
def test_reductions(model: Model, seed: int) -> None:
    assert_same_bytes(model, seed)


@thorough
@given(raw.first_largest(), raw.seeds)
def test_arg_max(model: Model, seed: int) -> None:
    assert_same_bytes(model, seed)


@thorough
@given(matrix_products(), raw.seeds)
def test_matrix_products(model: Model, seed: int) -> None:
    assert_same_bytes(model, seed)


@thorough
@given(raw.concatenations(), raw.seeds)
def test_concatenation(model: Model, seed: int) -> None:
    assert_same_bytes(model, seed)


@thorough
@given(st.sampled_from(raw_elementwise.ELEMENTWISE).flatmap(raw_elementwise.elementwise), raw.seeds)
def test_elementwise(model: Model, seed: int) -> None:
    assert_same_bytes(model, seed)


@thorough
@given(raw_elementwise.softmaxes(), raw.seeds)
def test_softmax(model: Model, seed: int) -> None:
    assert_same_bytes(model, seed)


@thorough
@given(lstms(), raw.seeds)
def test_lstm(model: Model, seed: int) -> None:
    """Two runs of so many steps are one of twice as many: a run begins with what the one before has left."""
    extraction = extract(model, range(len(model.main.operators)))
    rng = np.random.default_rng(seed)
    runs = [raw.edgy_int8(rng, model.main.tensors[model.main.inputs[0]].dims) for _ in range(2)]
    found = tflm.run(serialize_model(model), [[run] for run in runs], reset=False)
    truth = [outputs[0].ravel() for outputs in found.outputs]
    once = [t if t.storage is Storage.PERSISTENT else replace(t, height=2 * t.height) for t in extraction.block.tensors]
    (both,) = run_block_reference(replace(extraction.block, tensors=tuple(once)), [np.concatenate(runs).ravel()])
    np.testing.assert_array_equal(both.ravel(), np.concatenate(truth))


@pytest.mark.parametrize("name", ["FULLY_CONNECTED", "QUANTIZE", "RELU"])
def test_scales_whose_quotient_single_precision_would_round_to_a_tie(name: str) -> None:
    """Many values are ties for quotients like 1.5; in double precision most of these are not quite that."""
    rng, model = np.random.default_rng(0), raw.RawModel()
    scale = float(np.float32(rng.uniform(0.1, 1)))
    source, outputs = model.tensor((1, 256), scale), []
    for quotient in (1.5, 0.75, 1.25, 2.5, 3.5, 0.875, 0.625, 1.75) * 2:
        factor = float(np.float32(rng.uniform(0.01, 0.1))) if name == "FULLY_CONNECTED" else 1.0
        outputs.append(model.tensor((1, 256), float(np.float32(scale * factor / quotient))))
        weights = [model.constant(np.eye(256, dtype=np.int8), [factor])] if name == "FULLY_CONNECTED" else []
        options = make_options("FullyConnectedOptions") if weights else None
        model.operator(name, [source, *weights], [outputs[-1]], options)
    values = np.arange(-128, 128).astype(np.int8).reshape(1, 256)
    (truth,) = tflm.run(serialize_model(model.build([source], outputs)), [[values]]).outputs
    for index, (output, expected) in enumerate(zip(outputs, truth, strict=True)):
        block = extract(model.build([source], [output]), [index]).block
        np.testing.assert_array_equal(run_block_reference(block, [values])[0].ravel(), expected.ravel())


@thorough
@given(raw_elementwise.gated(), raw.seeds)
def test_a_tensor_and_a_function_of_it_are_one_table(model: Model, seed: int) -> None:
    (stage,) = extract(model, range(len(model.main.operators))).block.stages
    assert stage.kind is StageKind.LOOKUP
    assert_same_bytes(model, seed)
