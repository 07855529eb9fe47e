"""Flat inputs as rows of pixels: which inputs, and that the bytes stay."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tflite_fuse
from scripts.zoo import ModelBuilder
from scripts.zoo.borders import with_borders
from scripts.zoo.float_twin import float_twin
from tests.check.mutants import mutants, outcome
from tests.drawing.raw_models import (
    ACTIVATIONS,
    RawModel,
    activation_scales,
    edgy_int8,
    filter_scales,
    seeds,
    zero_points,
)
from tflite_fuse import Goal
from tflite_fuse.check import validate
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.operators import make_options
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.lowering.in_pieces import as_maps, in_pieces
from tflite_fuse.ops.lowering.lower import lower_model
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs

in_tflm = pytest.mark.skipif(not tflm.available(), reason="the tflite-micro wheel is not installed")

BORDERS: dict[str, Callable[[Model], Model]] = {
    "int8": lambda model: model,
    "float32": float_twin,
    "int8 from float32": lambda model: with_borders(model, TensorType.FLOAT32, TensorType.FLOAT32),
    "int8 from uint8": lambda model: with_borders(model, TensorType.UINT8),
    "int8 from coarser uint8": lambda model: with_borders(model, TensorType.UINT8, None, 1.5),
}


def layers(values: int, *units: int, shape: tuple[int, ...] = ()) -> Model:
    """Fully connected layers over a flat input, or over one of another shape behind a RESHAPE."""
    b = ModelBuilder(values)
    x = b.reshape(b.input(shape), (1, values)) if shape else b.input((1, values))
    for count in units:
        x = b.fully_connected(x, count, activation="RELU")
    return b.build([x])


def residual() -> Model:
    """The input is added to what is computed from it."""
    b = ModelBuilder(3)
    x = b.input((1, 96))
    return b.build([b.fully_connected(b.add(b.fully_connected(x, 96), x), 3)])


def rewritten(model: Model, mode: str = "streamed") -> tflite_fuse.Result:
    return tflite_fuse.rewrite(serialize_model(model), goal=Goal(least_ram=True), input_mode=mode, inputs=4)


def image(model: Model) -> tuple[int, ...]:
    """The first operator's input."""
    first = in_pieces(model, lower_model(model))[0]
    assert not isinstance(first, str)
    return first.seen(first.inputs[0])


# ---- Which inputs ----


@pytest.mark.parametrize(
    ("values", "expected"),
    [(1960, (1, 70, 28)), (512, (1, 16, 32)), (99, (1, 9, 11)), (127, (1, 127, 1))],
)
def test_a_pixel_has_the_largest_divisor_of_the_values_up_to_32(values: int, expected: tuple[int, ...]) -> None:
    assert image(layers(values, 3)) == expected


@pytest.mark.parametrize("values", [30, 65537])
def test_an_input_of_one_pixel_or_too_many_stays_whole(values: int) -> None:
    assert image(layers(values, 1)) == (1, 1, values)


@pytest.mark.parametrize("shape", [(1, 96), (1, 1, 1, 96), (1, 1, 96)])
def test_a_flat_input_may_have_other_dimensions(shape: tuple[int, ...]) -> None:
    assert image(layers(96, 3, shape=shape)) == (1, 3, 32)


@pytest.mark.parametrize("model", [residual(), layers(96, 3, shape=(1, 12, 8, 1))], ids=["residual", "map"])
def test_inputs_with_other_readers_and_maps_stay_as_they_are(model: Model) -> None:
    lowered = lower_model(model)
    assert in_pieces(model, lowered) is lowered


def test_a_map_of_too_many_columns_stays_outside_of_blocks() -> None:
    b = ModelBuilder(1)
    model = b.build([b.max_pool(b.conv(b.input((1, 1, 70_000, 1)), 1, 1), (1, 2))])
    report = tflite_fuse.rewrite(serialize_model(model), verify=False).report
    assert not report.blocks
    assert any("it reads or writes a map of 70,000 rows or columns" in each for each in report.notes)


def test_a_flat_input_of_too_many_columns_stays_whole() -> None:
    b = ModelBuilder(1)
    model = with_borders(b.build([b.reshape(b.input((1, 70_000)), (1, 1, 70_000, 1))]), TensorType.FLOAT32)
    lowered = lower_model(model)
    assert as_maps(model, lowered) == lowered


# ---- The same bytes in less RAM ----


@in_tflm
@pytest.mark.parametrize("mode", ["resident", "streamed"])
@pytest.mark.parametrize("border", BORDERS)
def test_a_reshape_to_a_map_is_in_one_block_with_its_quantize(border: str, mode: str) -> None:
    b = ModelBuilder(1)
    x = b.conv(b.reshape(b.input((1, 600)), (1, 30, 20, 1)), 4, 3)
    report = rewritten(BORDERS[border](b.build([b.fully_connected(b.mean(x), 2)])), mode).report
    assert report.verified is not None and report.verified.bit_exact
    assert len(report.blocks) == 1 and report.blocks[0].scratch_bytes < 1000
    assert [(each.rows, each.columns) for each in report.outside] == ([(30, 20)] if mode == "streamed" else [])


@in_tflm
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("values", [500, 509])
def test_a_streamed_flat_input_is_never_whole(values: int, border: str) -> None:
    model = BORDERS[border](layers(values, 8, 4))
    result = rewritten(model)
    verified, (entry,) = result.report.verified, result.report.outside
    assert verified is not None and verified.bit_exact and validate(serialize_model(model), result.model).proven
    assert entry.image == ((1, 25, 20) if values == 500 else (1, 509, 1)) and entry.shape == (1, values)
    resident = tflite_fuse.rewrite(serialize_model(model), verify=False).report
    assert result.report.after.head_bytes < resident.after.head_bytes - values // 2
    inputs, asked = generate_inputs(model, 3)[-1], list[int]()

    def read(y: int, x: int, count: int) -> np.ndarray:
        asked.extend(range(x, x + count))
        return inputs[0].reshape(entry.image)[y, x : x + count]

    (expected,), (found,) = tflite_fuse.run(serialize_model(model), inputs), tflite_fuse.run(result.model, [read])
    assert found.tobytes() == expected.tobytes() and asked == list(range(entry.columns))


@in_tflm
def test_a_flat_input_that_no_block_reads_is_copied_in_pieces() -> None:
    b = ModelBuilder(500)
    model = b.build([b.fully_connected(b.log_softmax(b.input((1, 500))), 3)])
    report = rewritten(model).report
    assert report.verified is not None and report.verified.bit_exact
    assert report.outside[0].image == (1, 25, 20)
    assert report.after.head_bytes == report.before.head_bytes  # the input beside LOG_SOFTMAX's output


@in_tflm
def test_a_quantize_never_writes_all_values_of_an_input_outside() -> None:
    report = rewritten(BORDERS["int8 from float32"](layers(500, 8, 4)), "external").report
    assert report.verified is not None and report.verified.bit_exact
    assert report.after.head_bytes < 300


@in_tflm
def test_a_claim_of_the_least_arena_covers_inputs_in_pieces() -> None:
    """By default the faster layer over the whole input is selected, in a little more RAM."""
    model = serialize_model(layers(202, 50, 3))
    default = tflite_fuse.rewrite(model, input_mode="streamed", verify=False).report
    least = rewritten(load_model(model)).report
    assert default.outside[0].image == (1, 1, 202) and default.after.arena_bytes > least.after.arena_bytes
    assert default.optimal["fusion"].bound_bytes <= least.after.arena_bytes


@in_tflm
def test_an_input_with_a_second_reader_is_one_pixel() -> None:
    result = rewritten(residual())
    assert result.report.verified is not None and result.report.verified.bit_exact
    assert result.report.outside[0].image == (1, 1, 96)


@st.composite
def networks(draw: st.DrawFn) -> Model:
    """One or two layers of any quantization over a flat input, perhaps behind a RESHAPE and a QUANTIZE."""
    rng, model = np.random.default_rng(draw(seeds)), RawModel()
    values = draw(st.integers(2, 40) | st.integers(33, 400))
    source = tensor = model.tensor((1, values), draw(activation_scales), draw(zero_points))
    if draw(st.booleans()):
        tensor = model.tensor((1, values), draw(activation_scales), draw(zero_points))
        model.operator("QUANTIZE", [source], [tensor], None)
    if draw(st.booleans()):
        shaped = model.tensor((1, 1, 1, values), quantization=model.tensors[tensor].quantization)
        model.operator("RESHAPE", [tensor, model.constant(np.array([1, 1, 1, values], np.int32))], [shaped], None)
        tensor = shaped
    for _ in range(draw(st.integers(1, 2))):
        units = draw(st.integers(1, 9))
        weights = model.constant(edgy_int8(rng, (units, values)), [abs(draw(filter_scales(1))[0])])
        output = model.tensor((1, units), draw(activation_scales), draw(zero_points))
        options = make_options("FullyConnectedOptions", fused_activation_function=draw(st.sampled_from(ACTIVATIONS)))
        model.operator("FULLY_CONNECTED", [tensor, weights, -1], [output], options)
        tensor, values = output, units
    return model.build([source], [tensor])


@pytest.mark.slow
@in_tflm
@given(networks(), st.sampled_from([*BORDERS]), st.sampled_from(["resident", "streamed", "external"]))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_drawn_networks_compute_the_same(model: Model, border: str, mode: str) -> None:
    model = BORDERS[border](model)
    result = rewritten(model, mode)
    assert result.report.verified is not None and result.report.verified.bit_exact
    assert validate(serialize_model(model), result.model).proven


@in_tflm
def test_the_proof_notices_every_change_of_a_block_in_pieces() -> None:
    before = BORDERS["int8 from float32"](layers(96, 5))
    after = load_model(rewritten(before).model)
    whole = validate(before, after)
    missed = [each for each in mutants(after, random.Random(7), 150) if outcome(before, whole, each) == "missed"]
    assert whole.proven and not missed
