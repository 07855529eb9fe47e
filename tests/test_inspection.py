"""Operators that ``inspect`` calls blocked are those that a rewrite leaves outside of blocks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tflite_fuse
from scripts.zoo import ModelBuilder
from tests.drawing.raw_streams import RawStream
from tflite_fuse.cli import app
from tflite_fuse.model.edit import Editor, replace_main
from tflite_fuse.model.file import load_model, serialize_model


def stream(cut: str) -> bytes:
    raw, rng = RawStream(), np.random.default_rng(0)
    source = raw.tensor((1, 1, 1, 40), 0.1, -5)
    mixed = raw.mixed(raw.window(source, 30, 30, cut, None), (31,), rng, "SPLIT")
    return serialize_model(raw.stream([source], [raw.convolution(mixed, 8, (1, 1), (1, 1), rng)]))


def blocked(data: bytes) -> list[str]:
    return [row.name.rpartition("_")[0] for row in tflite_fuse.inspect(data).operators if row.blocked is not None]


@pytest.mark.parametrize("cut", ["STRIDED_SLICE", "SPLIT_V"])
def test_variables_that_become_rings_are_not_blocked(cut: str) -> None:
    data = stream(cut)
    assert {"VAR_HANDLE", "ASSIGN_VARIABLE"} <= {
        row.name.rpartition("_")[0] for row in tflite_fuse.inspect(data).operators
    }
    left = load_model(tflite_fuse.rewrite(data, verify=False).model)
    assert [code.custom_code for code in left.operator_codes or ()] == ["TFLITE_FUSE"] and not blocked(data)


def test_marks_do_not_depend_on_names_of_tensors() -> None:
    model = load_model(stream("SPLIT_V"))
    (last,) = model.main.outputs
    editor = Editor(model)
    editor.operators += model.main.operators
    output = editor.add("LOG_SOFTMAX", [last], editor.like(last, editor.dims(last), None))
    editor.tensors[:] = [replace(tensor, name="map") for tensor in editor.tensors]
    model = editor.finish()
    assert blocked(serialize_model(replace_main(model, replace(model.main, outputs=(output,))))) == ["LOG_SOFTMAX"]


def test_a_foreign_operator_with_a_similar_name_has_a_reason() -> None:
    b = ModelBuilder(seed=0)
    model = b.build([b.conv(b.input((1, 4, 4, 2)), 4)])
    editor = Editor(model)
    editor.operators += model.main.operators
    editor.add("CUSTOM:TFLITE_FUSED", model.main.outputs, editor.like(model.main.outputs[0], (1, 4), "left"))
    assert blocked(serialize_model(editor.finish())) == ["TFLITE_FUSED"]


def test_operators_left_unchanged_by_a_rewrite_have_a_reason() -> None:
    b = ModelBuilder(seed=0)
    x = b.input((1, 4, 4, 2))
    state = b.variable((1, 4, 4, 2))
    y = b.add(x, b.read_variable(state))
    b.assign_variable(state, y)
    data = serialize_model(b.build([b.log_softmax(b.reshape(y, (1, 32)))]))
    assert blocked(data) == ["VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "LOG_SOFTMAX"]
    assert blocked(tflite_fuse.rewrite(data, verify=False).model) == blocked(data)


@pytest.mark.parametrize(("channels", "names_it"), [(1, False), (12, True)])
def test_the_next_step_names_the_option_for_an_input_that_fills_the_arena(
    channels: int, names_it: bool, tmp_path: Path
) -> None:
    b = ModelBuilder(seed=0)
    path, x = tmp_path / "model.tflite", b.input((1, 24, 24, channels))
    y = b.conv(b.conv(x, 8, 3, 2), 16, 3, 2)
    path.write_bytes(serialize_model(b.build([b.fully_connected(b.mean(y), 4)])))
    step = CliRunner().invoke(app, ["inspect", str(path)]).stdout.splitlines()[4]
    assert ("are the input: try --input streamed" in step) == names_it
    assert "try" not in CliRunner().invoke(app, ["inspect", str(path), "--quick"]).stdout
