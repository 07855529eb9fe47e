"""Models over tensors of any rank, batch and order of dimensions: each rewrite is proven and gives the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tflite_fuse
from scripts.zoo.float_twin import float_twin
from tests.drawing.random_blocks import random_reals
from tests.drawing.raw_models import RawModel, edgy_int8, seeds
from tests.drawing.steps.ranks import chains
from tests.drawing.witness import assert_same_bytes
from tflite_fuse import Goal, LimitError
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.model.options import make_options
from tflite_fuse.runtime import tflm

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

GOALS: tuple[dict[str, Any], ...] = (
    {"goal": Goal(least_ram=True)},
    {},
    {"input_mode": "external"},
    {"input_mode": "streamed", "goal": Goal(max_compute=1.0)},
)
UNPROVEN = ("no proof", "no proof of blocks", "file, not proven")


@needs_tflm
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(chains(), st.booleans(), st.sampled_from(GOALS), seeds)
def test_chains_over_any_rank_are_proven_and_give_the_same_bytes(
    model: Model, real: bool, options: dict[str, Any], seed: int
) -> None:
    model, rng = float_twin(model) if real else model, np.random.default_rng(seed)
    data = serialize_model(model)
    dims = model.main.tensors[model.main.inputs[0]].dims
    inputs = [[random_reals(rng, dims) if real else edgy_int8(rng, dims)]]
    try:
        result = tflite_fuse.rewrite(data, verify=False, **options)
    except LimitError:
        return  # the input is read by operators that no block has
    assert not [each for each in result.report.records if each.reason in UNPROVEN]
    before, after = tflm.run(data, inputs).outputs[0], tflite_fuse.run(result.model, inputs[0])
    for ours, theirs in zip(after, before, strict=True):
        assert_same_bytes(ours, theirs)


def test_a_column_and_its_pixels_as_a_batch_are_added() -> None:
    """A batch of single pixels is a column of them, which no block lays down as a row."""
    raw = RawModel()
    source, batch = raw.tensor((1, 30, 1, 2)), raw.tensor((30, 1, 2))
    raw.operator("RESHAPE", [source, raw.constant(np.array([30, 1, 2], np.int32))], [batch], None)
    total, output = raw.tensor((1, 30, 1, 2), 0.7), raw.tensor((1, 30, 1, 2), 1 / 256, -128)
    raw.operator("ADD", [batch, source], [total], make_options("AddOptions"))
    raw.operator("LOGISTIC", [total], [output], None)
    model = raw.build([source], [output, batch])
    result = tflite_fuse.rewrite(serialize_model(model), verify=False, goal=Goal(least_ram=True))
    assert not [each for each in result.report.records if each.reason in UNPROVEN]


@needs_tflm
@pytest.mark.parametrize("input_mode", ["resident", "streamed", "external"])
def test_pixels_of_an_image_become_rows_of_a_matrix(input_mode: str) -> None:
    """A FULLY_CONNECTED of each pixel of [1, h, w, channels] writes [h * w, units]."""
    raw, rng = RawModel(), np.random.default_rng(1)
    source = newest = raw.tensor((1, 6, 5, 4), 0.25, 3)
    for units in (7, 3):
        depth = raw.tensors[newest].dims[-1]
        weights = raw.constant(rng.integers(-127, 128, (units, depth)).astype(np.int8), [2.0**-6])
        output = raw.tensor((30, units), 0.25, 2)
        raw.operator("FULLY_CONNECTED", [newest, weights], [output], make_options("FullyConnectedOptions"))
        newest = output
    data = serialize_model(raw.build([source], [newest]))
    result = tflite_fuse.rewrite(data, verify=True, inputs=3, input_mode=input_mode)
    assert result.report.verified is not None and result.report.verified.bit_exact
    assert result.report.after.arena_bytes < result.report.before.arena_bytes
