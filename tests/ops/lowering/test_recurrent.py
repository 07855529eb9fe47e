"""LSTMs as stages of blocks, anywhere in a model, and reasons for refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tflite_fuse
from tests.drawing.raw_models import RawModel, add_convolution
from tests.drawing.steps.recurrent import add_lstm
from tflite_fuse.errors import BlockError
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.options import make_options
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.lowering.extract import extract
from tflite_fuse.runtime import tflm


def recurrent(**changes: Any) -> Model:
    raw = RawModel()
    source = raw.tensor(changes.pop("shape", (1, 4, 3)), 0.05, 3)
    output = add_lstm(raw, source, 5, np.random.default_rng(1), **changes)
    return raw.build([source], [output])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"shape": (2, 4, 3)}, "several sequences"),
        ({"shape": (4, 2, 3), "time_major": True}, "several sequences"),
        ({"activation": 0}, "its activation is not TANH"),
        ({"power": -11.5}, "no power of two"),
        ({"power": 1}, "no power of two"),
        ({"clip": 1e-9}, "clipped to"),
        ({"weight_scale": float("nan")}, "not a number"),
    ],
)
def test_layers_no_block_computes_have_a_reason(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(BlockError, match=reason):
        extract(recurrent(**changes), [0])


def test_an_lstm_of_float32_names_the_type_that_blocks_have() -> None:
    model = recurrent()
    tensors = tuple(replace(each, type=TensorType.FLOAT32, quantization=None) for each in model.main.tensors)
    graph = replace(model.main, tensors=tensors)
    with pytest.raises(BlockError, match="is float32, blocks have this operator in int8 alone"):
        extract(replace(model, subgraphs=(graph, *model.subgraphs[1:])), [0])


def test_a_state_that_others_see_stays_outside() -> None:
    model = recurrent()
    state = (model.main.operators[0].inputs or ())[18]
    graph = model.main.__class__(**{**vars(model.main), "outputs": (*model.main.outputs, state)})
    with pytest.raises(BlockError, match="used by others, too"):
        extract(model.__class__(**{**vars(model), "subgraphs": (graph,)}), [0])


def _first(raw: RawModel, rng: np.random.Generator) -> tuple[int, int]:
    source = raw.tensor((1, 12, 6), 0.05, 3)
    return source, _dense(raw, add_lstm(raw, source, 5, rng), rng)


def _inside(raw: RawModel, rng: np.random.Generator) -> tuple[int, int]:
    source = raw.tensor((1, 12, 1, 6), 0.05, 3)
    convolved = add_convolution(raw, source, (1, 6, 1, 5), kernel=3, stride=2)
    shape = raw.tensors[convolved].dims
    newest = _reshaped(raw, convolved, (1, shape[1] * shape[2], shape[3]))
    for channels in (4, 7):
        newest = add_lstm(raw, newest, channels, rng, hidden=(1 / 128, -4))
    return source, _dense(raw, newest, rng)


def _last(raw: RawModel, rng: np.random.Generator) -> tuple[int, int]:
    source, convolved = _inside(raw, rng)
    return source, add_lstm(raw, _reshaped(raw, convolved, (1, 1, raw.tensors[convolved].dims[-1])), 6, rng)


def _reshaped(raw: RawModel, source: int, shape: tuple[int, ...]) -> int:
    quantization = raw.tensors[source].quantization
    assert quantization is not None and quantization.scale and quantization.zero_point
    output = raw.tensor(shape, quantization.scale[0], quantization.zero_point[0])
    raw.operator("RESHAPE", [source, raw.constant(np.array(shape, np.int32))], [output], None)
    return output


def _dense(raw: RawModel, source: int, rng: np.random.Generator) -> int:
    """All steps to three values."""
    count = int(np.prod(raw.tensors[source].dims))
    flat = _reshaped(raw, source, (1, count))
    weights = raw.constant(rng.integers(-127, 128, (3, count)).astype(np.int8), [0.01])
    output = raw.tensor((1, 3), 0.2, 1)
    raw.operator("FULLY_CONNECTED", [flat, weights, -1], [output], make_options("FullyConnectedOptions"))
    return output


@pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")
@pytest.mark.parametrize("mode", ["resident", "streamed"])
@pytest.mark.parametrize("draw", [_first, _inside, _last])
def test_models_with_lstms_run_as_before_over_sequences_of_calls(
    draw: Callable[[RawModel, np.random.Generator], tuple[int, int]], mode: str
) -> None:
    raw = RawModel()
    source, output = draw(raw, np.random.default_rng(7))
    found = tflite_fuse.rewrite(serialize_model(raw.build([source], [output])), input_mode=mode, inputs=3)
    after = load_model(found.model)
    assert {operator_name(after, operator) for operator in after.main.operators} == {"CUSTOM:TFLITE_FUSE"}
    assert found.report.verified is not None and found.report.verified.bit_exact
    assert not found.report.proven.notes
