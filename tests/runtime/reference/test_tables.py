"""Several operators as one table, byte for byte as TensorFlow Lite Micro runs them one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tests.drawing import table_models
from tests.drawing.raw_models import RawModel, edgy_int8, seeds
from tests.runtime.reference.test_against_tflm import assert_same_bytes
from tflite_fuse import api
from tflite_fuse.check import validate
from tflite_fuse.ir.block import StageKind
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.lowering.extract import extract
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.compare import compare

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


@settings(max_examples=120, suppress_health_check=list(HealthCheck))
@given(table_models.graphs_of_one_value(), seeds)
def test_a_graph_of_one_value_is_one_table(model: Model, seed: int) -> None:
    (stage,) = extract(model, range(len(model.main.operators))).block.stages
    assert stage.kind is StageKind.LOOKUP
    assert_same_bytes(model, seed)


@pytest.mark.parametrize("after", ["MUL", "MINIMUM"])
def test_results_too_large_for_float32_are_its_largest_number_or_infinite(after: str) -> None:
    raw = RawModel()
    x = raw.tensor((1, 256), 0.05, 3)
    real = [raw.tensor((1, 256), type_=TensorType.FLOAT32, quantization=None) for _ in range(5)]
    raw.operator("DEQUANTIZE", [x], [real[0]], None)
    raw.operator("DIV", [real[0], raw.constant(np.array(1e-38, np.float32))], [real[1]], make_options("DivOptions"))
    options = make_options("MulOptions") if after == "MUL" else None
    raw.operator(after, [real[1], raw.constant(np.array(1e-38, np.float32))], [real[2]], options)
    raw.operator("TANH", [real[2]], [real[3]], None)
    output = raw.tensor((1, 256), 1 / 128)
    raw.operator("QUANTIZE", [real[3]], [output], None)
    assert_same_bytes(raw.build([x], [output]), 0, count=8)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(table_models.graphs_between_convolutions(), seeds)
def test_graphs_of_one_value_in_every_position(model: Model, seed: int) -> None:
    assert_same_bytes(model, seed)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(table_models.graphs_between_convolutions())
def test_rewritten_models_with_tables_are_proven_and_compute_the_same(model: Model) -> None:
    data = serialize_model(model)
    rewritten = api.rewrite(data, verify=False, time_limit=3).model
    found = validate(load_model(data), load_model(rewritten))
    assert found.proven, [str(finding) for finding in found.findings[:3]]
    inputs = [
        [edgy_int8(np.random.default_rng(seed), model.main.tensors[model.main.inputs[0]].dims)] for seed in (0, 1)
    ]
    assert compare(data, rewritten, inputs).bit_exact
