"""Metadata of inputs outside the arena: round trips, beside other inputs, and false metadata."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.rich_model import rich_model
from tflite_fuse.errors import ModelError
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model import schema as s
from tflite_fuse.model.edit import get_metadata, replace_main, set_metadata
from tflite_fuse.model.outside import (
    OUTSIDE_METADATA,
    InputMode,
    OutsideInput,
    outside_inputs,
    outside_numbers,
    set_outside_inputs,
    take_inputs_out,
    with_inputs_inside,
)
from tflite_fuse.model.types import TensorType


def model_with(count: int, signatures: bool = True) -> Model:
    """Inputs 0 … count − 1 that nothing reads yet, of different shapes, and one output."""
    tensors = tuple(
        s.Tensor((1, 2, 3, 1 + i), TensorType.INT8, 0, f"in{i}", s.Quantization(scale=(0.1 + i,), zero_point=(-i,)))
        for i in range(count)
    )
    out = s.Tensor((1, 4), TensorType.INT8, 0, "out", s.Quantization(scale=(1.0,), zero_point=(0,)))
    graph = s.SubGraph((*tensors, out), tuple(range(count)), (count,), (), "main")
    names = tuple(s.TensorMap(f"x{i}", i) for i in range(count))
    signature = s.SignatureDef(names, (s.TensorMap("y", count),), "serving", None, 0)
    other = s.SubGraph((s.Tensor((1,), 0, 0, "a"),), (0,), (0,), (), "second")
    foreign = s.SignatureDef((s.TensorMap("x", 0),), (s.TensorMap("y", 0),), "second", None, 1)
    return s.Model(
        3, (), (graph, other), "", (s.Buffer(),), signature_defs=(signature, foreign) if signatures else None
    )


def image(index: int) -> tuple[int, int, int]:
    return 2, 3, 1 + index


def names(model: Model) -> list[str | None]:
    return [model.main.tensors[index].name for index in model.main.inputs]


@pytest.mark.parametrize("mode", [InputMode.STREAMED, InputMode.EXTERNAL])
@pytest.mark.parametrize("moved", [[0], [1], [2], [0, 2], [2, 0], [0, 1, 2]])
def test_inputs_that_leave_are_remembered_in_their_places(moved: list[int], mode: InputMode) -> None:
    model = model_with(3)
    numbers = outside_numbers(model, moved)
    assert numbers == {tensor: number for number, tensor in enumerate(moved)}
    result = load_model(serialize_model(take_inputs_out(model, {tensor: image(tensor) for tensor in moved}, mode)))
    assert names(result) == [f"in{i}" for i in range(3) if i not in moved]
    entries = outside_inputs(result)
    assert [entry.position for entry in entries] == sorted(moved)
    for entry in entries:
        tensor = model.main.tensors[entry.position]
        assert (entry.name, entry.shape, entry.mode) == (tensor.name, tensor.dims, mode)
        assert entry.number == numbers[entry.position] and entry.image == image(entry.position)
        assert tensor.quantization is not None
        same = (entry.scale,), (entry.zero_point,)
        assert same == (pytest.approx(tensor.quantization.scale), tensor.quantization.zero_point)
    assert names(with_inputs_inside(result)) == ["in0", "in1", "in2"]


def test_signatures_forget_them() -> None:
    result = take_inputs_out(model_with(3), {1: image(1)}, InputMode.STREAMED)
    assert result.signature_defs is not None
    first, second = result.signature_defs
    assert [entry.name for entry in first.inputs or ()] == ["x0", "x2"]
    assert [entry.name for entry in second.inputs or ()] == ["x"]
    assert take_inputs_out(model_with(1, signatures=False), {0: image(0)}, InputMode.STREAMED).signature_defs is None


def test_inputs_may_leave_one_after_another() -> None:
    model = take_inputs_out(model_with(4), {2: image(2)}, InputMode.STREAMED)
    assert outside_numbers(model, [0, 3]) == {0: 1, 3: 2}
    model = take_inputs_out(model, {0: image(0), 3: image(3)}, InputMode.EXTERNAL)
    found = [(entry.position, entry.number, entry.mode) for entry in outside_inputs(model)]
    streamed, external = InputMode.STREAMED, InputMode.EXTERNAL
    assert found == [(0, 1, external), (2, 0, streamed), (3, 2, external)]
    assert names(with_inputs_inside(model)) == ["in0", "in1", "in2", "in3"]
    assert outside_inputs(load_model(serialize_model(model))) == outside_inputs(model)


def test_an_input_with_readers_stays() -> None:
    model = model_with(2)
    reads = replace(model, operator_codes=(s.OperatorCode(22, None, 1, 22),))
    reads = replace_main(reads, replace(reads.main, operators=(s.Operator(0, (1,), (2,)),)))
    take_inputs_out(reads, {0: image(0)}, InputMode.EXTERNAL)
    with pytest.raises(ModelError, match="RESHAPE_0 reads input in1"):
        take_inputs_out(reads, {1: image(1)}, InputMode.EXTERNAL)


def test_other_metadata_and_other_parts_of_the_file_stay() -> None:
    model = rich_model()
    entry = OutsideInput(1, "b\udcff", (1, 4), 0.5, 3, InputMode.EXTERNAL, 0, 1, 1, 4)
    result = load_model(serialize_model(set_outside_inputs(model, [entry])))
    assert outside_inputs(result) == (entry,)
    assert get_metadata(result, "note") == b"meta" and result.trailing == model.trailing
    assert set_outside_inputs(result, []) == model
    assert outside_inputs(model) == () and with_inputs_inside(model) is model


def test_metadata_is_plain_json() -> None:
    model = take_inputs_out(model_with(1), {0: image(0)}, InputMode.STREAMED)
    found = json.loads(get_metadata(model, OUTSIDE_METADATA) or b"")
    assert found["version"] == 1
    assert found["inputs"] == [
        {
            "position": 0,
            "name": "in0",
            "shape": [1, 2, 3, 1],
            "type": "int8",
            "scale": pytest.approx(0.1),
            "zero_point": 0,
            "mode": "streamed",
            "number": 0,
            "rows": 2,
            "columns": 3,
            "channels": 1,
        }
    ]


# ---- Lies ----


def with_json(document: Any) -> Model:
    return set_metadata(model_with(1), OUTSIDE_METADATA, json.dumps(document).encode())


GOOD = {
    "position": 1,
    "name": "image",
    "shape": [1, 4, 4, 3],
    "type": "int8",
    "scale": 0.5,
    "zero_point": -1,
    "mode": "streamed",
    "number": 0,
    "rows": 4,
    "columns": 4,
    "channels": 3,
}


def test_the_good_entry_is_good() -> None:
    (entry,) = outside_inputs(with_json({"version": 1, "inputs": [GOOD]}))
    assert entry.to_json() == GOOD


BAD_FIELDS: list[dict[str, Any]] = [
    {"position": -1},
    {"position": 2},
    {"position": True},
    {"position": "0"},
    {"name": None},
    {"name": 3},
    {"shape": [1, 4, 4, 4]},
    {"shape": [1, -4, -4, 3]},
    {"shape": 48},
    {"shape": "1443"},
    {"shape": {"1": 4}},
    {"shape": [1, 4, 4.0, 3]},
    {"type": "float32"},
    {"scale": 0},
    {"scale": -1.0},
    {"scale": "1"},
    {"scale": 10**400},
    {"scale": True},
    {"zero_point": 128},
    {"zero_point": -129},
    {"zero_point": 0.5},
    {"mode": "resident"},
    {"mode": "telepathy"},
    {"mode": None},
    {"number": 1},
    {"number": -1},
    {"number": 300},
    {"rows": 0},
    {"rows": 2**31},
    {"columns": [4]},
    {"channels": 4},
    {"shape": [2**30, 2**30], "rows": 2**30, "columns": 2**30, "channels": 1},
]


@pytest.mark.parametrize("changes", BAD_FIELDS, ids=str)
def test_an_entry_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=f"the metadata {OUTSIDE_METADATA}.* is damaged"):
        outside_inputs(with_json({"version": 1, "inputs": [{**GOOD, **changes}]}))


@pytest.mark.parametrize("field", GOOD)
def test_no_field_may_be_missing(field: str) -> None:
    entry = {key: value for key, value in GOOD.items() if key != field}
    with pytest.raises(ModelError, match="damaged"):
        outside_inputs(with_json({"version": 1, "inputs": [entry]}))


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        "text",
        7,
        {"version": 2, "inputs": []},
        {"version": 1},
        {"version": 1, "inputs": 3},
        {"version": 1, "inputs": {"a": 1}},
        {"version": 1, "inputs": [None]},
        {"version": 1, "inputs": [GOOD, GOOD]},
        {"version": 1, "inputs": [GOOD, {**GOOD, "position": 0}]},
        {"version": 1, "inputs": [GOOD] * 300},
        {"version": 1, "inputs": [{**GOOD, "scale": float("nan")}]},
        {"version": 1, "inputs": [{**GOOD, "scale": float("inf")}]},
    ],
    ids=str,
)
def test_a_document_that_cannot_be_is_refused(document: Any) -> None:
    for function in (outside_inputs, with_inputs_inside):
        with pytest.raises(ModelError, match="rewrite the original model again"):
            function(with_json(document))  # type: ignore[operator]


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"{", b"[" * 100_000, b"9" * 10_000])
def test_bytes_that_are_no_json_are_refused(data: bytes) -> None:
    with pytest.raises(ModelError, match="damaged"):
        outside_inputs(set_metadata(model_with(1), OUTSIDE_METADATA, data))


@settings(max_examples=60)
@given(st.data())
def test_damaged_bytes_give_entries_or_an_error(data: st.DataObject) -> None:
    good = bytearray(json.dumps({"version": 1, "inputs": [GOOD]}).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    model = set_metadata(model_with(1), OUTSIDE_METADATA, bytes(good))
    try:
        whole = with_inputs_inside(model)
    except ModelError:
        return
    assert len(whole.main.inputs) == 1 + len(outside_inputs(model))
