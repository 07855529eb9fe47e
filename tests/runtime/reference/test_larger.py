"""Enlarged images: the numpy reference and the runtime byte for byte, and rewrites of such models."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.drawing import raw_larger as larger
from tests.drawing import raw_models as raw
from tests.runtime.reference.test_against_tflm import assert_same_bytes
from tflite_fuse.api import rewrite
from tflite_fuse.errors import LimitError
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.passes.goal import Goal
from tflite_fuse.runtime import tflm

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

thorough = settings(max_examples=80, suppress_health_check=list(HealthCheck))
some = settings(max_examples=12, suppress_health_check=list(HealthCheck))


@thorough
@given(larger.resizes(), raw.seeds)
def test_resizes(model: Model, seed: int) -> None:
    assert_same_bytes(model, seed)


@thorough
@given(larger.mirrored(), raw.seeds)
def test_mirrored_edges(model: Model, seed: int) -> None:
    assert_same_bytes(model, seed)


@thorough
@given(larger.transposed_convolutions(), raw.seeds)
def test_transposed_convolutions(model: Model, seed: int) -> None:
    assert_same_bytes(model, seed)


@some
@given(larger.larger_everywhere(), st.sampled_from(["resident", "streamed"]), st.booleans())
def test_rewrites_are_proven_and_compute_the_same_bytes(model: Model, mode: str, least: bool) -> None:
    assume(model.main.operators)
    try:
        result = rewrite(
            serialize_model(model), input_mode=mode, goal=Goal(least_ram=True) if least else None, inputs=3, verify=True
        )
    except LimitError as error:
        assert ("read" in str(error) or "it would need an arena" in str(error)) and mode == "streamed"
        return
    assert result.report.verified is not None
