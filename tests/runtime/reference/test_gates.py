"""One pixel combined with all of a map, byte for byte as in TensorFlow Lite Micro."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from scripts.zoo.networks import efficient_network
from tests.drawing.raw_models import edgy_int8
from tests.drawing.steps.gates import gates_in_every_position
from tflite_fuse import api
from tflite_fuse.check import validate
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.passes.goal import Goal
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.comparing.compare import compare

pytestmark = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def assert_rewritten_is_proven_and_the_same(model: Model, goal: Goal | None = None) -> int:
    """Rewrites, proves and runs a model; how many blocks it has then."""
    data = serialize_model(model)
    result = api.rewrite(data, verify=False, time_limit=3, goal=goal)
    found = validate(load_model(data), load_model(result.model))
    assert found.proven, [str(finding) for finding in found.findings[:3]]
    rng = np.random.default_rng(0)
    inputs = [[edgy_int8(rng, model.main.tensors[t].dims) for t in model.main.inputs] for _ in range(2)]
    assert compare(data, result.model, inputs).bit_exact
    return len(result.report.blocks)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(gates_in_every_position())
def test_in_every_position_rewritten_models_are_proven_and_compute_the_same(model: Model) -> None:
    assert_rewritten_is_proven_and_the_same(model)


@pytest.mark.parametrize("goal", [None, Goal(least_ram=True)])
def test_squeeze_and_excite_is_fused_around_the_map_it_must_see_whole(goal: Goal | None) -> None:
    model = efficient_network(24, ((1, 4, 1, 1, 3), (3, 6, 2, 2, 3), (3, 8, 1, 2, 5)), stem=4)
    assert assert_rewritten_is_proven_and_the_same(model, goal) >= 4
