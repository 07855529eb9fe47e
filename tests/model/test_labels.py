"""Messages name operators by their index in the user's file, whatever passes did before."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tflite_fuse
from scripts.zoo import ModelBuilder
from tflite_fuse.model import Model, load_model, serialize_model
from tflite_fuse.model.edit import Editor, replace_operators
from tflite_fuse.model.operators import labelled, operator_label, place_label
from tflite_fuse.passes.pipeline import prepared
from tflite_fuse.passes.preparing.spell_out import spell_out


def network() -> Model:
    """CONV, SPLIT in four, two of whose parts are convolved, joined along rows and read by a last CONV."""
    b = ModelBuilder(seed=5)
    first, _, third, _ = b.split(b.conv(b.input((1, 8, 8, 3)), 16, 3), 4)
    joined = b.concat([b.conv(first, 4, 1), b.conv(third, 4, 1)], axis=1)
    return load_model(serialize_model(b.build([b.conv(joined, 8, 3, 2)])))


def labels(model: Model) -> list[str]:
    return [operator_label(model, index) for index in range(len(model.main.operators))]


def places(model: Model) -> list[str]:
    return [place_label(model, index) for index in range(len(model.main.operators))]


def test_operators_keep_the_labels_of_the_file_when_others_are_added_or_removed() -> None:
    model = network()
    file = labels(model)
    assert file == places(model)
    last, changed = file[-1], spell_out(prepared(model)).model
    assert len(changed.main.operators) > len(file) and labels(changed)[-1] == last != places(changed)[-1]
    assert labels(labelled(changed)) == places(changed)
    assert labels(load_model(serialize_model(changed))) == places(changed)


def test_an_added_operator_is_named_by_the_one_that_it_replaces_or_comes_behind() -> None:
    model = network()
    found = labels(spell_out(prepared(model)).model)
    split, join = (next(each for each in labels(model) if each.startswith(kind)) for kind in ("SPLIT", "CONCAT"))
    assert found.count(split) == 2 and found.count(join) == 1
    assert {each.partition(" behind ")[0] for each in found if " behind " in each} == {"PADV2"}
    editor, (first, *others) = Editor(model), model.main.operators
    copy = editor.like(model.main.inputs[0], (1, 8, 8, 3), "copy")
    editor.reshape(model.main.inputs[0], copy, "shape")
    editor.operators += replace(first, inputs=(copy, *(first.inputs or ())[1:])), *others
    assert labels(editor.finish())[:2] == ["RESHAPE behind an input", "CONV_2D_0"]


def test_operators_that_no_file_had_are_named_by_their_places() -> None:
    model = network()
    bare = replace_operators(model, [replace(each, label="") for each in model.main.operators])
    assert labels(bare) == places(bare) == labels(model)


@pytest.mark.parametrize("options", [{}, {"least_ram": True}, {"input_mode": "streamed"}])
def test_notes_and_blocks_of_a_rewrite_have_labels_of_the_file(options: dict[str, object]) -> None:
    model = network()
    goal = tflite_fuse.Goal(least_ram=True) if options.pop("least_ram", None) else None
    report = tflite_fuse.rewrite(serialize_model(model), goal=goal, verify=False, **options).report  # type: ignore[arg-type]
    named = [label for note in report.records for label in note.operators]
    named += [label for block in report.blocks for label in block.operators]
    assert labels(model)[-1] in named
    assert {each for each in named if " behind " not in each} <= set(labels(model))
