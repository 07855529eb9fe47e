"""CONCATENATIONs along rows and columns in blocks: the runtime's bytes, proven, no larger; else unchanged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.zoo.float_twin import float_twin
from tests.drawing.random_blocks import random_reals
from tests.drawing.raw_models import RawModel, add_convolution, edgy_int8, seeds
from tests.drawing.steps.slices import add_slice
from tests.drawing.witness import assert_same_bytes
from tflite_fuse.api import pareto, rewrite
from tflite_fuse.check import validate
from tflite_fuse.errors import LimitError
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.options import make_options
from tflite_fuse.notes import note
from tflite_fuse.ops.lowering.extract import extract
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.preparing.spell_out import spell_out
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.reference import run_block_reference

needs_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")


def names(model: Model) -> list[str]:
    return [operator_name(model, operator) for operator in model.main.operators]


def add_join(raw: RawModel, parts: list[int], axis: int) -> int:
    dims = [raw.tensors[part].dims for part in parts]
    whole = [sum(each[axis] for each in dims) if at == axis else size for at, size in enumerate(dims[0])]
    output = raw.tensor(whole, 0.3, -7)
    raw.operator("CONCATENATION", parts, [output], make_options("ConcatenationOptions", axis=axis))
    return output


@st.composite
def joins(draw: st.DrawFn) -> Model:
    """Parts of an image, some of them convolved, put together along rows or columns: first, inside or last."""
    raw, axis = RawModel(), draw(st.integers(1, 2))
    shape = (1, draw(st.integers(2, 9)), draw(st.integers(2, 9)), draw(st.integers(1, 5)))
    image = raw.tensor(shape, 0.3, -7)
    source = draw(st.sampled_from([image, -1]))
    source = add_convolution(raw, image, shape, kernel=3) if source < 0 else image
    parts: list[int] = []
    for _ in range(draw(st.integers(2, 4))):
        part, length = source, shape[axis]
        if draw(st.booleans()):
            start = draw(st.integers(0, length - 1))
            size = draw(st.integers(1, length - start))
            starts, sizes = [0, 0], list(shape[1:3])
            starts[axis - 1], sizes[axis - 1] = start, size
            part = add_slice(raw, source, (starts[0], starts[1]), (1, 1), (sizes[0], sizes[1]))
        if draw(st.booleans()):
            part = add_convolution(raw, part, raw.tensors[part].dims, kernel=draw(st.sampled_from([1, 3])))
        parts.append(part)
    newest = add_join(raw, parts, axis)
    outputs = [newest] if draw(st.booleans()) else []
    for kernel in draw(st.lists(st.sampled_from([1, 3]), max_size=2)):
        newest = add_convolution(raw, newest, (*raw.tensors[newest].dims[:3], draw(st.integers(1, 4))), kernel)
    return raw.build([image], list(dict.fromkeys([*outputs, newest])), has_rank=draw(st.booleans()))


@needs_tflm
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(joins(), seeds)
def test_maxima_of_padded_parts_are_the_parts_joined(model: Model, seed: int) -> None:
    joined = spell_out(model).model
    assert "CONCATENATION" not in names(joined) and validate(model, joined).proven
    images = [[edgy_int8(np.random.default_rng(seed), model.main.tensors[index].dims) for index in model.main.inputs]]
    before, after = (tflm.run(serialize_model(each), images).outputs[0] for each in (model, joined))
    for ours, theirs in zip(after, before, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@needs_tflm
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(joins(), seeds)
def test_bits_of_padded_float32_parts_are_the_parts_joined(model: Model, seed: int) -> None:
    model, rng = float_twin(model), np.random.default_rng(seed)
    joined = spell_out(model).model
    found = extract(joined, range(len(joined.main.operators)))
    image = random_reals(rng, model.main.tensors[model.main.inputs[0]].dims)
    results = dict(zip(found.outputs, run_block_reference(found.block, [image]), strict=True))
    for index, want in zip(joined.main.outputs, tflm.run(serialize_model(model), [[image]]).outputs[0], strict=True):
        assert_same_bytes(results[index].ravel(), want.ravel())


@needs_tflm
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(joins(), st.sampled_from(["resident", "streamed", "external"]), st.booleans(), st.booleans())
def test_rewritten_models_compute_the_same_bytes(model: Model, mode: str, least: bool, real: bool) -> None:
    model = float_twin(model) if real else model
    try:
        result = rewrite(serialize_model(model), input_mode=mode, goal=Goal(least_ram=least), inputs=3, verify=True)
    except LimitError:
        assert mode != "resident"  # what a model reads may not be able to leave the arena; its RAM can stay
        return
    verified = result.report.verified
    assert result.report.unchanged if verified is None else verified.bit_exact
    assert result.report.after.arena_bytes <= result.report.before.arena_bytes or mode != "resident"
    assert not {"PAD", "PADV2", "MAXIMUM", "BITWISE_XOR"} & set(names(load_model(result.model)))


def halves() -> Model:
    """A map whose upper and lower half are convolved apart."""
    raw = RawModel()
    image = raw.tensor((1, 24, 24, 8), 0.3, -7)
    x = add_convolution(raw, image, (1, 24, 24, 8), kernel=3)
    parts = [add_slice(raw, x, (top, 0), (1, 1), (12, 24)) for top in (0, 12)]
    joined = add_join(raw, [add_convolution(raw, part, (1, 12, 24, 8), kernel=3) for part in parts], 1)
    return raw.build([image], [add_convolution(raw, joined, (1, 6, 6, 4), kernel=4, stride=4)])


@needs_tflm
@pytest.mark.parametrize("real", [False, True])
def test_a_block_goes_through_a_join_of_rows(real: bool) -> None:
    result = rewrite(serialize_model(float_twin(halves()) if real else halves()), inputs=3, verify=True)
    assert set(names(load_model(result.model))) == {"CUSTOM:TFLITE_FUSE"}
    assert result.report.after.arena_bytes < 0.75 * result.report.before.arena_bytes
    assert note("changed", "rows joined", "CONCATENATION_5") in result.report.records


@pytest.mark.parametrize("mode", ["resident", "streamed"])
def test_a_front_begins_at_the_least_arena_of_a_rewrite(mode: str) -> None:
    """The plain form needs four times as many bytes, which were called proven."""
    data = serialize_model(halves())
    least = rewrite(data, input_mode=mode, goal=Goal(least_ram=True), verify=False).report
    front = pareto(data, input_mode=mode)
    assert front.rows[0].ram_bytes == least.after.arena_bytes
    assert front.claim is not None and front.claim.bound_bytes <= least.after.arena_bytes


@pytest.mark.parametrize("axis", [0, 3, -1])
def test_other_axes_stay(axis: int) -> None:
    raw = RawModel()
    parts = [raw.tensor((1, 4, 5, 2), 0.3, -7) for _ in range(2)]
    whole = [size * (2 if at == axis % 4 else 1) for at, size in enumerate((1, 4, 5, 2))]
    output = raw.tensor(whole, 0.3, -7)
    raw.operator("CONCATENATION", parts, [output], make_options("ConcatenationOptions", axis=axis))
    model = raw.build(parts, [output])
    assert spell_out(model).model is model


def test_parts_of_another_quantization_stay() -> None:
    raw = RawModel()
    parts = [raw.tensor((1, 4, 5, 2), 0.3, zero) for zero in (-7, -6)]
    model = raw.build(parts, [add_join(raw, parts, 1)])
    assert spell_out(model).model is model


@pytest.mark.parametrize("real", [False, True])
def test_a_pad_in_a_wrong_place_is_no_join(real: bool) -> None:
    model = float_twin(halves()) if real else halves()
    joined = spell_out(model).model
    amounts = [index for index, tensor in enumerate(joined.main.tensors) if (tensor.name or "").endswith("/around")]
    buffers = list(joined.buffers)
    first, second = (joined.main.tensors[index].buffer for index in amounts)
    buffers[first], buffers[second] = buffers[second], buffers[first]
    assert not validate(model, type(joined)(**{**vars(joined), "buffers": tuple(buffers)})).proven
