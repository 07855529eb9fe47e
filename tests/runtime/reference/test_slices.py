"""Slices of rows and columns: the numpy reference and the runtime byte for byte, and rewrites of such models."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.drawing.raw_models import RawModel, seeds
from tests.drawing.steps.slices import add_slice, channels_first, slices, slices_everywhere, squares
from tests.runtime.reference.test_against_tflm import assert_same_bytes
from tflite_fuse.api import rewrite
from tflite_fuse.errors import LimitError
from tflite_fuse.ir.block import StageKind
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.ops.lowering.extract import extract, fusability
from tflite_fuse.runtime import tflm

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(slices(), seeds)
def test_one_slice(model: Model, seed: int) -> None:
    before, after = (model.main.tensors[tensors[0]].dims for tensors in (model.main.inputs, model.main.outputs))
    if before != after:
        (kind,) = (stage.kind for stage in extract(model, [0]).block.stages)
        assert kind in (StageKind.RESIZE, StageKind.PAD)
        assert_same_bytes(model, seed)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(squares(), seeds)
def test_squares_of_pixels_as_channels_and_back(model: Model, seed: int) -> None:
    if model.main.operators:
        assert_same_bytes(model, seed)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(channels_first(), seeds, st.sampled_from(["resident", "streamed", "external"]))
def test_an_input_with_its_channels_first(model: Model, seed: int, mode: str) -> None:
    assert_same_bytes(model, seed)
    try:
        result = rewrite(serialize_model(model), input_mode=mode, inputs=2, verify=True)
    except LimitError:
        assert mode != "resident"  # so small a model need not gain anything
        return
    assert result.report.proven.notes == ()


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(slices_everywhere(), st.sampled_from(["resident", "streamed"]))
def test_rewrites_are_proven_and_compute_the_same_bytes(model: Model, mode: str) -> None:
    result = rewrite(serialize_model(model), input_mode=mode, inputs=3, verify=True)
    assert result.report.proven.notes == ()
    assert result.report.verified is not None


def test_of_slices_that_start_far_down_those_of_neighbouring_rows_are_cut() -> None:
    model = RawModel()
    source = model.tensor((1, 9, 9, 2), 0.5)
    built = model.build([source], [add_slice(model, source, (4, 0), (1, 1), (5, 9))])
    (stage,) = extract(built, [0]).block.stages
    assert stage.kind is StageKind.PAD and stage.padding == (-4, 0)
    assert_same_bytes(built, 0)
    model = RawModel()
    source = model.tensor((1, 9, 9, 2), 0.5)
    built = model.build([source], [add_slice(model, source, (4, 0), (2, 1), (3, 9))])
    assert "every n'th row" in str(fusability(built)[0])
