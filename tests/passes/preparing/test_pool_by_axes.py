"""MAX_POOL_2Ds over columns, then over rows: the runtime's bytes, proven, chosen by the goal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.zoo.float_twin import float_twin
from tests.drawing.random_blocks import random_reals
from tests.drawing.raw_models import SAME, VALID, RawModel, add_convolution, edgy_int8, seeds
from tests.drawing.witness import assert_same_bytes
from tflite_fuse.api import rewrite
from tflite_fuse.check import validate
from tflite_fuse.errors import LimitError
from tflite_fuse.model import Model, serialize_model
from tflite_fuse.model.operators import get_options, make_options, operator_name
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.pipeline import tidied
from tflite_fuse.passes.preparing.spell_out import pool_by_axes
from tflite_fuse.runtime import tflm

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def add_pool(
    raw: RawModel, source: int, window: tuple[int, int], stride: tuple[int, int], same: bool, activation: int = 0
) -> int:
    batch, *extent, channels = raw.tensors[source].dims
    sizes = zip(extent, window, stride, strict=True)
    made = [-(-size // step) if same else (size - k) // step + 1 for size, k, step in sizes]
    output = raw.tensor((batch, *made, channels), 0.3, -7)
    options = make_options(
        "Pool2DOptions",
        padding=SAME if same else VALID,
        filter_height=window[0],
        filter_width=window[1],
        stride_h=stride[0],
        stride_w=stride[1],
        fused_activation_function=activation,
    )
    raw.operator("MAX_POOL_2D", [source], [output], options)
    return output


@st.composite
def pools(draw: st.DrawFn) -> Model:
    """A pool, of an image or between convolutions."""
    raw, sizes = RawModel(), st.integers(2, 4)
    window, stride = (draw(sizes), draw(sizes)), (draw(st.integers(1, 4)), draw(sizes))
    shape = (1, draw(st.integers(window[0], 12)), draw(st.integers(window[1], 12)), draw(st.integers(1, 5)))
    image = newest = raw.tensor(shape, 0.3, -7)
    between = draw(st.booleans())
    newest = add_convolution(raw, image, shape, kernel=3) if between else image
    newest = add_pool(raw, newest, window, stride, draw(st.booleans()), draw(st.sampled_from([0, 1, 3])))
    newest = add_convolution(raw, newest, (*raw.tensors[newest].dims[:3], 3), kernel=3) if between else newest
    return raw.build([image], [newest])


@needs_tflm
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(pools(), seeds, st.booleans())
def test_maxima_of_columns_then_of_rows_are_those_of_both(model: Model, seed: int, real: bool) -> None:
    model, rng = float_twin(model) if real else model, np.random.default_rng(seed)
    spelled = pool_by_axes(model).model
    assert len(spelled.main.operators) == len(model.main.operators) + 1 and validate(model, spelled).proven
    dims = model.main.tensors[model.main.inputs[0]].dims
    image = random_reals(rng, dims) if real else edgy_int8(rng, dims)
    before, after = (tflm.run(serialize_model(each), [[image]]).outputs[0] for each in (model, spelled))
    for ours, theirs in zip(after, before, strict=True):
        assert_same_bytes(ours.ravel(), theirs.ravel())


@needs_tflm
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(pools(), st.sampled_from(["resident", "streamed", "external"]), st.booleans(), st.booleans())
def test_rewritten_models_compute_the_same_bytes(model: Model, mode: str, least: bool, real: bool) -> None:
    model = float_twin(model) if real else model
    try:
        result = rewrite(serialize_model(model), input_mode=mode, goal=Goal(least_ram=least), inputs=3, verify=True)
    except LimitError as error:  # A block's own bytes exceed an image of a few values.
        assert mode != "resident" and "requested inputs and outputs are not possible" in str(error)
        assert np.prod(model.main.tensors[model.main.inputs[0]].dims) < 256
        return
    verified = result.report.verified
    assert result.report.unchanged if verified is None else verified.bit_exact
    assert result.report.after.arena_bytes <= result.report.before.arena_bytes or mode != "resident"


def network() -> Model:
    """Convolutions with a pool behind each, as most networks of beginners."""
    raw = RawModel()
    image = raw.tensor((1, 32, 32, 1), 0.3, -7)
    first = add_pool(raw, add_convolution(raw, image, (1, 32, 32, 8), kernel=3), (2, 2), (2, 2), False)
    second = add_pool(raw, add_convolution(raw, first, (1, 16, 16, 16), kernel=3), (2, 2), (2, 2), False)
    return raw.build([image], [add_convolution(raw, second, (1, 1, 1, 4), kernel=8, stride=8)])


@pytest.mark.parametrize("real", [False, True])
def test_the_goal_selects_the_form(real: bool) -> None:
    data = serialize_model(float_twin(network()) if real else network())
    least, fast = (
        rewrite(data, input_mode="streamed", goal=goal, verify=False) for goal in (Goal(), Goal(max_ram=100_000))
    )
    forms = [[record.reason for record in each.report.records] for each in (least, fast)]
    assert forms[0].count("pooled by axes") == 2 and "pooled by axes" not in forms[1]
    assert least.report.after.arena_bytes < 0.9 * fast.report.after.arena_bytes
    with pytest.raises(LimitError):
        rewrite(data, input_mode="streamed", goal=Goal(max_ram=100), verify=False)


@needs_tflm
@pytest.mark.parametrize("mode", ["resident", "streamed"])
@pytest.mark.parametrize("real", [False, True])
def test_pools_of_wide_maps_are_proven_in_every_form(real: bool, mode: str) -> None:
    raw = RawModel()
    newest = image = raw.tensor((1, 12, 48, 1), 0.3, -7)
    for channels in (4, 6):
        shape = (*raw.tensors[newest].dims[:3], channels)
        newest = add_pool(raw, add_convolution(raw, newest, shape, kernel=1 if real else 3), (2, 2), (2, 2), False)
    newest = add_convolution(raw, newest, (1, 3, 12, 2), kernel=1)
    model = raw.build([image], [newest])
    found = rewrite(serialize_model(float_twin(model) if real else model), input_mode=mode, verify=True)
    assert not [each for each in found.report.notes if "could not be proven" in each]
    assert found.report.verified is not None and found.report.verified.bit_exact


def test_devices_that_share_a_model_pool_in_one_step() -> None:
    model = network()
    assert tidied(model, lambda before, after: True)[0] is model


@pytest.mark.parametrize("stride", [(1, 1), (2, 1)])
def test_pools_of_as_many_columns_stay(stride: tuple[int, int]) -> None:
    raw = RawModel()
    image = raw.tensor((1, 8, 8, 2), 0.3, -7)
    model = raw.build([image], [add_pool(raw, image, (3, 3), stride, True)])
    assert pool_by_axes(model).model is model


def test_pools_beside_other_readers_stay() -> None:
    raw = RawModel()
    image = raw.tensor((1, 8, 8, 2), 0.3, -7)
    pool = add_pool(raw, image, (2, 2), (2, 2), True)
    model = raw.build([image], [pool, add_convolution(raw, image, (1, 4, 4, 2), kernel=3, stride=2)])
    assert pool_by_axes(model).model is model


@pytest.mark.parametrize("wrong", ["filter_height", "filter_width", "stride_h", "stride_w"])
def test_pools_of_other_windows_are_not_the_same(wrong: str) -> None:
    model = network()
    spelled = pool_by_axes(model).model
    pool = [i for i, each in enumerate(spelled.main.operators) if operator_name(spelled, each) == "MAX_POOL_2D"]
    operators = list(spelled.main.operators)
    options = get_options(operators[pool[0]])
    changed = make_options("Pool2DOptions", **{**options, wrong: 3 if options[wrong] == 1 else 1})
    operators[pool[0]] = replace(operators[pool[0]], builtin_options=changed)
    main = replace(spelled.main, operators=tuple(operators))
    assert not validate(model, replace(spelled, subgraphs=(main, *spelled.subgraphs[1:]))).proven
