"""Models walked by columns: the same bytes, proven, in less memory where maps are wider than high."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from scripts.zoo.builder import ModelBuilder
from scripts.zoo.float_twin import float_twin
from scripts.zoo.recording import Ref
from tests.drawing.raw_models import RawModel, add_convolution
from tests.uint8_models import with_uint8_borders
from tflite_fuse.api import Result, rewrite, run
from tflite_fuse.check import validate
from tflite_fuse.cli import app
from tflite_fuse.model import Model, load_model, save_model, serialize_model
from tflite_fuse.model.edit import add_tensor, replace_main
from tflite_fuse.model.outside import InputMode, outside_inputs, set_outside_inputs
from tflite_fuse.model.schema import Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.model.witness import Witness, set_witness
from tflite_fuse.passes.base import PassResult
from tflite_fuse.passes.preparing.by_columns import by_columns
from tflite_fuse.passes.preparing.spell_out import pool_by_axes
from tflite_fuse.runtime import tflm
from tflite_fuse.runtime.inputs import generate_inputs


def spotter(height: int = 10, width: int = 49, type: TensorType = TensorType.INT8) -> Model:
    """A keyword spotter on bands by time."""
    builder = ModelBuilder(seed=3)
    x = builder.input((1, height, width, 1), type=type)
    y = builder.quantize(x) if type is TensorType.FLOAT32 else x
    y = builder.conv(y, 24, kernel=(4, 10), stride=(1, 2), activation="RELU")
    for _ in range(3):
        y = builder.conv(builder.depthwise(y, 3, activation="RELU"), 24, kernel=1, activation="RELU")
    return builder.build([builder.softmax(builder.fully_connected(builder.mean(y), 6))])


def random_network(rng: Random) -> Model:
    """A network of all operators that turn, and some that do not, on a map that is mostly wider than high."""
    builder = ModelBuilder(seed=rng.randrange(1000))
    height, width = rng.randint(2, 9), rng.randint(8, 36)
    newest = builder.input((1, height, width, rng.choice([1, 3, 4])))
    for _ in range(rng.randint(2, 7)):
        newest = _step(builder, rng, newest)
    ends = {
        "mean": lambda: builder.fully_connected(builder.mean(newest), 5),
        "flat": lambda: builder.fully_connected(newest, 5),
        "map": lambda: newest,
        "shares": lambda: builder.softmax(newest),
    }
    return builder.build([ends[rng.choice(sorted(ends))]()])


def _step(builder: ModelBuilder, rng: Random, x: Ref) -> Ref:
    _, height, width, channels = x.shape
    kernel = min(rng.choice([1, 2, 3]), height), min(rng.choice([1, 2, 3, 5]), width)
    stride = rng.choice([1, 1, 2]), rng.choice([1, 1, 2])
    padding = rng.choice(["SAME", "SAME", (1, 0, 0, 2)])
    name = rng.choice(["conv", "conv", "depthwise", "pool", "residual", "join", "gate", "resize", "pad", "table"])
    if name == "conv":
        return builder.conv(x, rng.choice([3, 4, 8]), kernel=kernel, stride=stride, padding=padding)
    if name == "depthwise":
        return builder.depthwise(x, kernel, stride=stride, padding=padding, activation="RELU6")
    if name == "pool" and min(height, width) > 3:
        pool = rng.choice([builder.average_pool, builder.max_pool])
        return pool(x, (2, rng.choice([2, 3])), stride=(2, rng.choice([1, 2])), padding=rng.choice(["SAME", "VALID"]))
    if name == "residual":
        return builder.add(builder.conv(x, channels, kernel=kernel, padding="SAME"), x)
    if name == "join":
        other = builder.conv(x, channels, kernel=kernel, padding="SAME")
        return builder.concat([x, other], axis=rng.choice([1, 2, 3]))
    if name == "gate":
        return builder.mul(x, builder.logistic(builder.conv(builder.mean(x, keep_dims=True), channels, kernel=1)))
    if name == "resize" and height * width < 200:
        return builder.resize(x, (2 * height, 2 * width), bilinear=rng.random() < 0.5)
    if name == "pad":
        return builder.pad(x, (rng.randint(0, 2), 1, 0, rng.randint(0, 2)))
    return builder.hard_swish(x)


def walked(result: Result) -> bool:
    return any((each.fate, each.reason) == ("changed", "by columns") for each in result.report.records)


def test_a_keyword_spotter_takes_less_ram(monkeypatch: pytest.MonkeyPatch) -> None:
    tall, wide = (rewrite(serialize_model(spotter(*extents)), verify=False) for extents in ((49, 10), (10, 49)))
    assert walked(wide) and not walked(tall)
    monkeypatch.setattr("tflite_fuse.passes.fusing.fuse.by_columns", lambda model: PassResult(model, False))
    by_rows = rewrite(serialize_model(spotter(10, 49)), verify=False)
    assert not walked(by_rows) and wide.report.after.head_bytes < 0.7 * by_rows.report.after.head_bytes


@pytest.mark.skipif(not tflm.available(), reason="TensorFlow Lite Micro is missing")
@pytest.mark.parametrize("mode", ["resident", "streamed", "columns", "external"])
@pytest.mark.parametrize("border", ["int8", "uint8", "float32"])
def test_every_border_and_input_gives_the_same_bytes(border: str, mode: str) -> None:
    model = spotter(type=TensorType.FLOAT32 if border == "float32" else TensorType.INT8)
    data = serialize_model(model)
    if border == "uint8":
        data = serialize_model(with_uint8_borders(load_model(data)))
    result = rewrite(data, verify=True, inputs=4, input_mode=mode)
    assert mode == "columns" or walked(result)
    assert result.report.verified is not None and result.report.verified.bit_exact


@pytest.mark.skipif(not tflm.available(), reason="TensorFlow Lite Micro is missing")
def test_a_source_delivers_column_after_column() -> None:
    data = serialize_model(spotter())
    result = rewrite(data, input_mode="columns", verify=False)
    (entry,), ((values,), *_) = result.report.outside, generate_inputs(load_model(data), 1)
    assert (entry.shape, entry.image) == ((1, 10, 49, 1), (49, 10, 1))
    seen: list[tuple[int, int]] = []

    def read(column: int, row: int, count: int) -> np.ndarray:
        seen.extend((column, row + i) for i in range(count))
        return values[0, row : row + count, column]

    expected, arrays = run(data, [values]), run(result.model, [values])
    for a, b, c in zip(expected, run(result.model, [read]), arrays, strict=True):
        assert a.tobytes() == b.tobytes() == c.tobytes()
    assert seen == sorted(set(seen)) and len(seen) == 490


def test_an_input_without_columns_is_refused(tmp_path: Path) -> None:
    builder = ModelBuilder(seed=1)
    save_model(builder.build([builder.fully_connected(builder.input((1, 30)), 4)]), tmp_path / "in.tflite")
    arguments = ["rewrite", str(tmp_path / "in.tflite"), str(tmp_path / "out.tflite"), "--input", "columns"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1 and "no input can arrive by columns" in done.stderr
    assert not (tmp_path / "out.tflite").exists()


@pytest.mark.skipif(not tflm.available(), reason="TensorFlow Lite Micro is missing")
@pytest.mark.parametrize("shape", [(1, 24), (1, 4, 5), (2, 6, 9, 2), (1, 1, 9, 2)])
def test_inputs_that_are_no_maps_stay_in_the_arena(shape: tuple[int, ...]) -> None:
    raw = RawModel()
    image, other = raw.tensor((1, 6, 9, 2), 0.1), raw.tensor(shape, 0.1)
    results = [add_convolution(raw, image, (1, 6, 9, 3)), raw.tensor(shape, 0.2)]
    raw.operator("RELU", [other], results[1:], None)
    report = rewrite(serialize_model(raw.build([image, other], results)), verify=True, input_mode="columns").report
    assert [(each.name, each.image) for each in report.outside] == [("t0", (9, 6, 2))]


@pytest.mark.parametrize("mode", ["resident", "columns"])
def test_an_input_that_nothing_reads_stays_as_it_is(mode: str) -> None:
    model, unread = add_tensor(spotter(), Tensor((1, 4, 9, 2), TensorType.FLOAT32, name="unread"))
    model = replace_main(model, replace(model.main, inputs=(*model.main.inputs, unread)))
    result = rewrite(serialize_model(model), verify=False, input_mode=mode)
    assert mode == "columns" or walked(result)
    assert result.report.proven is not None and result.report.proven.blocks
    after = load_model(result.model).main
    assert after.tensors[after.inputs[-1]].dims == (1, 4, 9, 2)


@pytest.mark.skipif(not tflm.available(), reason="TensorFlow Lite Micro is missing")
def test_maps_that_do_not_turn_are_turned_back_at_the_input() -> None:
    """A window of float32 over rows and columns: its sum has an order."""
    model = float_twin(load_model(serialize_model(spotter(12, 20))))
    resident, columns = (
        rewrite(serialize_model(model), verify=True, inputs=2, input_mode=mode).report
        for mode in ("resident", "columns")
    )
    assert columns.verified is not None and columns.verified.bit_exact
    assert columns.after.arena_bytes <= 1.1 * resident.after.arena_bytes


def test_a_map_of_open_batch_is_turned_back() -> None:
    builder = ModelBuilder(seed=3)
    model = builder.build([builder.logistic(builder.conv(builder.input((1, 6, 60, 1)), 8, kernel=(3, 5)))])
    opened = [replace(each, shape_signature=(-1, *each.dims[1:])) for each in model.main.tensors]
    model = replace_main(model, replace(model.main, tensors=tuple(opened)))
    turned = by_columns(model)
    assert turned.changed and validate(model, turned.witnessed).proven


def test_a_file_that_claims_other_columns_is_not_proven() -> None:
    model = load_model(serialize_model(spotter()))
    after = load_model(rewrite(serialize_model(model), input_mode="columns", verify=False).model)
    assert validate(model, after).proven
    assert not validate(model, set_witness(after, Witness())).proven
    entries = [replace(entry, mode=InputMode.STREAMED) for entry in outside_inputs(after)]
    assert not validate(model, set_outside_inputs(after, entries)).proven


@st.composite
def turned_networks(draw: st.DrawFn) -> tuple[Model, PassResult]:
    """A network, and the same by columns; half of them pool over each axis alone."""
    model = random_network(Random(draw(st.integers(0, 2**32 - 1))))
    model = load_model(serialize_model(float_twin(model) if draw(st.booleans()) else model))
    turned = by_columns(model)
    assume(turned.changed)
    return model, replace(turned, model=pool_by_axes(turned.model).model) if draw(st.booleans()) else turned


@pytest.mark.skipif(not tflm.available(), reason="TensorFlow Lite Micro is missing")
@settings(max_examples=25, suppress_health_check=[HealthCheck.filter_too_much])
@given(turned_networks(), st.integers(0, 1000))
def test_turned_operators_compute_the_same_in_the_runtime(drawn: tuple[Model, PassResult], seed: int) -> None:
    model, turned = drawn
    found = validate(model, turned.witnessed)
    assert found.proven, [str(finding) for finding in found.findings]
    given_values = generate_inputs(model, 2, seed)
    before, after = (tflm.run(serialize_model(each), given_values).outputs for each in (model, turned.model))
    for a, b in zip(chain.from_iterable(before), chain.from_iterable(after), strict=True):
        np.testing.assert_array_equal(a, b)
