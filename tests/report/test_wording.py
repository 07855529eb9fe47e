"""Every note has a sentence, and notes of one reason share one."""

from __future__ import annotations

import ast
from pathlib import Path
from string import Formatter

import tflite_fuse
from tflite_fuse.notes import Note, Reason, note, tensor_of
from tflite_fuse.report.wording import WORDING, grouped, sentence

PACKAGE = Path(tflite_fuse.__file__).parent


def unfused(*labels: str, tensor: str) -> Note:
    return note("not fused", "operator", *labels, why=f"tensor {tensor} is uint8", tensor=tensor)


def test_notes_of_one_reason_are_one() -> None:
    prelu = {"why": "PRELU is not a fusable operator", "tensor": ""}
    order = {"peak_before_bytes": 9, "peak_bytes": 9, "proven": True, "bound_bytes": 9}
    notes = (
        note("kept", "order of operators", **order),
        note("not fused", "operator", "PRELU_4", **prelu),
        unfused("CONV_2D_5", tensor="a b"),
        note("not fused", "operator", "PRELU_6", **prelu),
        unfused("ADD_7", "MUL_8", "CONV_2D_9", tensor="c"),
        note("not fused", "does not pay", "SOFTMAX_10"),
        note("kept", "order of operators", **{**order, "peak_bytes": 8}),
    )
    assert grouped(notes) == (
        "2 PRELU not fused: PRELU is not a fusable operator",
        "3 operators in a row, 1 CONV_2D not fused: a tensor is uint8",
        sentence(notes[5]),
        sentence(notes[6]),
    )
    assert grouped(notes[1:2]) == (sentence(notes[1]),)


def test_a_site_of_two_operators_is_no_range_and_names_each_once() -> None:
    """Their indices in the file need not be neighbours, and a pass may have made several of one."""
    why = {"why": "w", "tensor": ""}
    assert sentence(note("not fused", "operator", "ADD_3", "MUL_9", **why)) == "ADD_3 and MUL_9 not fused: w"
    assert sentence(note("not fused", "operator", "SPLIT_3", "SPLIT_3", **why)) == "SPLIT_3 not fused: w"
    added = [note("not fused", "operator", f"PAD behind ADD_{index}", **why) for index in range(2)]
    assert grouped(added) == ("2 PAD not fused: w",)


def test_a_reason_names_its_tensor_beside_its_text() -> None:
    assert tensor_of(Reason("tensor x is uint8", "x")) == "x"
    assert tensor_of("no reason of an operator") == ""


def test_every_note_of_the_package_has_a_sentence_of_its_details() -> None:
    """Notes are made by ``note(fate, reason, ...)``; where both are literals, so are the names of their details."""
    used: set[tuple[str, str]] = set()
    for path in PACKAGE.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "note"):
                continue
            key = tuple(each.value for each in call.args[:2] if isinstance(each, ast.Constant))
            given = {each.arg for each in call.keywords}
            if len(key) < 2 or None in given:
                continue
            assert key in WORDING, f"{path.name}: {key} has no sentence"
            used.add((str(key[0]), str(key[1])))
            template = WORDING[key[0], key[1]]
            if isinstance(template, str):
                fields = {name.split(".")[0] for _, name, _, _ in Formatter().parse(template) if name}
                assert fields <= given | {"site", "operators"}, f"{path.name}: {key} lacks {fields - given}"
    assert len(used) > len(WORDING) // 2
