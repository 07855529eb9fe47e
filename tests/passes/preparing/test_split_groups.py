"""Grouped convolutions in blocks: the runtime's bytes, proven, and less RAM; refused models stay unchanged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.zoo.float_twin import float_twin
from tests.drawing.raw_models import ACTIVATIONS, SAME, VALID, RawModel, add_convolution, edgy_int8, seeds
from tflite_fuse.api import pareto, rewrite
from tflite_fuse.check import validate
from tflite_fuse.errors import LimitError
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.options import make_options
from tflite_fuse.notes import note
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.preparing.spell_out import spell_out
from tflite_fuse.runtime import tflm

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def names(model: Model) -> list[str]:
    return [operator_name(model, operator) for operator in model.main.operators]


def add_grouped(
    raw: RawModel,
    source: int,
    groups: int,
    made: int,
    kernel: int,
    stride: int,
    padding: int,
    activation: int,
    bias: bool,
) -> int:
    """Append a CONV_2D of groups with random filters, a scale for each; its output."""
    rng = np.random.default_rng(len(raw.tensors))
    _, height, width, channels = raw.tensors[source].dims
    scales = [float(scale) for scale in rng.uniform(0.002, 0.05, made).astype(np.float32)]
    operands = [source, raw.constant(edgy_int8(rng, (made, kernel, kernel, channels // groups)), scales)]
    if bias:
        operands.append(raw.constant(rng.integers(-2000, 2000, made, np.int32), [0.3 * scale for scale in scales]))
    extent = [-(-size // stride) if padding == SAME else (size - kernel) // stride + 1 for size in (height, width)]
    output = raw.tensor((1, *extent, made), 0.3, -7)
    options = make_options(
        "Conv2DOptions", padding=padding, stride_h=stride, stride_w=stride, fused_activation_function=activation
    )
    raw.operator("CONV_2D", operands, [output], options)
    return output


@st.composite
def grouped(draw: st.DrawFn) -> Model:
    """One or two convolutions of groups: first, inside or last."""
    raw, groups = RawModel(), draw(st.integers(2, 4))
    depth = groups * draw(st.integers(2, 3))
    shape = (1, draw(st.integers(3, 9)), draw(st.integers(3, 9)), depth)
    image = newest = raw.tensor(shape, 0.3, -7)
    if draw(st.booleans()):
        newest = add_convolution(raw, newest, shape, kernel=3)
    for _ in range(draw(st.integers(1, 2))):
        kernel, stride = draw(st.sampled_from([1, 3])), draw(st.integers(1, 2))
        small = min(raw.tensors[newest].dims[1:3]) < kernel
        padding = SAME if small else draw(st.sampled_from([SAME, VALID]))
        activation, bias = draw(st.sampled_from(ACTIVATIONS)), draw(st.booleans())
        newest = add_grouped(raw, newest, groups, depth, kernel, stride, padding, activation, bias)
    if draw(st.booleans()):
        newest = add_convolution(raw, newest, (*raw.tensors[newest].dims[:3], 3), kernel=3)
    return raw.build([image], [newest], has_rank=draw(st.booleans()))


@needs_tflm
@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(grouped(), seeds)
def test_a_convolution_of_groups_is_one_for_each(model: Model, seed: int) -> None:
    spelled = spell_out(model).model
    assert names(spelled).count("CONCATENATION") >= 1 and validate(model, spelled).proven
    images = [[edgy_int8(np.random.default_rng(seed), model.main.tensors[index].dims) for index in model.main.inputs]]
    before, after = (tflm.run(serialize_model(each), images).outputs[0] for each in (model, spelled))
    for ours, theirs in zip(after, before, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@needs_tflm
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(grouped(), st.sampled_from(["resident", "streamed", "external"]), st.booleans())
def test_rewritten_models_compute_the_same_bytes(model: Model, mode: str, real: bool) -> None:
    model = float_twin(model) if real else model
    try:
        result = rewrite(serialize_model(model), input_mode=mode, inputs=3, verify=True)
    except LimitError:
        assert mode != "resident"
        return
    verified = result.report.verified
    assert result.report.unchanged if verified is None else verified.bit_exact
    assert not {"SLICE", "CONCATENATION"} & set(names(load_model(result.model)))


def shuffled(groups: int = 3) -> Model:
    raw = RawModel()
    image = raw.tensor((1, 24, 24, 12), 0.3, -7)
    x = add_convolution(raw, image, (1, 24, 24, 24), kernel=3)
    x = add_grouped(raw, x, groups, 24, 1, 1, SAME, 0, True)
    return raw.build([image], [add_grouped(raw, x, groups, 24, 3, 4, SAME, 1, True)])


@needs_tflm
def test_a_block_goes_through_groups() -> None:
    result = rewrite(serialize_model(shuffled()), inputs=3, verify=True)
    assert set(names(load_model(result.model))) == {"CUSTOM:TFLITE_FUSE"}
    assert result.report.after.arena_bytes < 0.6 * result.report.before.arena_bytes
    assert note("changed", "groups", "CONV_2D_1", groups=3) in result.report.records


@pytest.mark.parametrize("mode", ["resident", "streamed"])
def test_a_front_begins_at_the_least_arena_of_a_rewrite_and_ends_at_the_file(mode: str) -> None:
    raw = RawModel()
    image = raw.tensor((1, 24, 24, 12), 0.3, -7)
    data = serialize_model(raw.build([image], [add_grouped(raw, image, 3, 24, 3, 2, SAME, 1, True)]))
    least = rewrite(data, input_mode=mode, goal=Goal(least_ram=True), verify=False).report
    front = pareto(data, input_mode=mode)
    assert front.rows[0].ram_bytes == least.after.arena_bytes
    assert front.unfused_ram_bytes == least.before.arena_bytes


def test_more_groups_than_one_concatenation_joins_stay() -> None:
    model = shuffled(groups=12)
    assert spell_out(model).model is model


def test_filters_of_another_group_are_no_proof() -> None:
    model = shuffled()
    spelled = spell_out(model).model
    filters = [op.inputs[1] for op in spelled.main.operators if operator_name(spelled, op) == "CONV_2D" and op.inputs]
    buffers = list(spelled.buffers)
    first, second = (spelled.main.tensors[index].buffer for index in filters[1:3])
    buffers[first], buffers[second] = buffers[second], buffers[first]
    assert not validate(model, replace(spelled, buffers=tuple(buffers))).proven
