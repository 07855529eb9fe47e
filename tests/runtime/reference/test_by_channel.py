"""Constants that differ by channel, byte for byte as in TensorFlow Lite Micro."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.drawing import raw_elementwise as raw
from tests.drawing.raw_models import edgy_int8, seeds
from tests.runtime.reference.test_against_tflm import assert_same_bytes
from tflite_fuse import api
from tflite_fuse.check import validate
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.compare import compare

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


@settings(max_examples=120, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(raw.BY_CHANNEL).flatmap(raw.by_channel), seeds)
def test_an_operator_with_a_number_for_every_channel(model: Model, seed: int) -> None:
    assert_same_bytes(model, seed)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(raw.by_channel_in_every_position())
def test_in_every_position_rewritten_models_are_proven_and_compute_the_same(model: Model) -> None:
    data = serialize_model(model)
    rewritten = api.rewrite(data, verify=False, time_limit=3).model
    found = validate(load_model(data), load_model(rewritten))
    assert found.proven, [str(finding) for finding in found.findings[:3]]
    rng = np.random.default_rng(0)
    inputs = [[edgy_int8(rng, model.main.tensors[model.main.inputs[0]].dims)] for _ in range(2)]
    assert compare(data, rewritten, inputs).bit_exact
