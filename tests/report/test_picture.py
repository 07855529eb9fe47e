"""A notebook shows the arena of a rewritten model, to scale and without a library."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as Xml

import pytest

import tflite_fuse
from scripts.zoo.networks import inverted_residual_network
from tflite_fuse.memory.regions import memories_of
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model.memories import slow_bytes, slow_tensors
from tflite_fuse.report.arena_map import ArenaMap, Box, arena_map
from tflite_fuse.report.picture import arena_picture

MAP = ArenaMap(("A", "B"), 100, (Box("x", "tensor", -1, 0, 0, 50), Box("<i>&", "scratch", 1, 1, 50, 50)))


def rectangles(picture: str) -> list[Xml.Element]:
    return list(Xml.fromstring(picture).iter("rect"))


def places(picture: str) -> list[list[float]]:
    """x, y, width, height of every rectangle."""
    return [[float(each.attrib[name]) for name in ("x", "y", "width", "height")] for each in rectangles(picture)]


def test_steps_go_right_and_bytes_up_to_scale() -> None:
    first, second = places(arena_picture(MAP))
    assert first == pytest.approx([0, 110, 640 * 2 / 3, 110], abs=0.01)
    assert second == pytest.approx([640 * 2 / 3, 0, 640 / 3, 110], abs=0.01)


def test_every_part_has_its_name_and_bytes_and_a_name_is_no_markup() -> None:
    titles = [each.findtext("title") for each in rectangles(arena_picture(MAP))]
    assert titles == ["x: 50 bytes", "<i>&: 50 bytes"]


def test_empty_and_very_large_models_have_no_picture() -> None:
    assert arena_picture(replace(MAP, head_bytes=0)) == arena_picture(replace(MAP, boxes=())) == ""
    assert arena_picture(replace(MAP, boxes=MAP.boxes * 4000)) == ""


def in_two_memories() -> bytes:
    model = serialize_model(inverted_residual_network(size=48, blocks=3))
    memories = memories_of({"region": [{"name": "sram", "size": 3600}, {"name": "psram", "size": "64kB"}]})
    return tflite_fuse.rewrite(model, memory=memories, verify=False).model


def test_a_second_memory_has_its_tensors_while_blocks_need_them() -> None:
    model = load_model(in_two_memories())
    shown, slow = arena_map(model), slow_tensors(model)
    assert shown.second is not None and slow is not None and shown.second.steps == shown.steps
    assert (shown.name, shown.second.name, shown.second.head_bytes) == ("sram", "psram", slow_bytes(model))
    places = {box.name: box.offset for box in shown.second.boxes}
    assert places == {model.main.tensors[tensor].name: offset for tensor, offset in slow.offsets.items()}
    named = {model.main.tensors[tensor].name for tensor in slow.offsets}
    assert not any(box.name in named for box in shown.boxes)
    steps = [{*(each.inputs or ()), *(each.outputs or ())} for each in model.main.operators]
    operands = [{model.main.tensors[tensor].name for tensor in step} for step in steps]
    for box in shown.second.boxes:
        users = [step for step, names in enumerate(operands) if box.name in names]
        assert (-1 if box.name == "input_0" else users[0], users[-1]) == (box.first, box.last)
    assert max(shown.second.used_bytes()) <= shown.second.head_bytes


def test_two_memories_are_drawn_over_the_same_steps() -> None:
    """Equal steps lie at equal places of two pictures of one width, each to its own scale."""
    shown = arena_map(load_model(in_two_memories()))
    assert shown.second is not None
    figure = Xml.fromstring(arena_picture(shown))
    first, second = (list(each.iter("rect")) for each in figure.iter("svg"))
    assert (len(first), len(second)) == (len(shown.boxes), len(shown.second.boxes))
    for drawn, boxes in ((first, shown.boxes), (second, shown.second.boxes)):
        left = [float(each.attrib["x"]) for each in drawn]
        assert left == pytest.approx([(box.first + 1) * 640 / (len(shown.steps) + 1) for box in boxes], abs=0.01)
    assert "psram, 11,520 bytes" in (figure.findtext("figcaption") or "")


def test_a_page_draws_the_second_memory_below_the_arena() -> None:
    pytest.importorskip("matplotlib")
    from tflite_fuse.pages.charts import arena_chart

    shown = arena_map(load_model(in_two_memories()))
    assert shown.second is not None
    chart = arena_chart(shown, "after")
    above, below = chart.figure.axes
    assert above.get_xlim() == below.get_xlim() and below.get_position().y1 < above.get_position().y0
    root = Xml.fromstring(chart.inline("the arena after"))
    parts = {each.attrib["data-part"]: each for each in root.iter() if "data-part" in each.attrib}
    drawn = next(each for each in parts["second"].iter() if "d" in each.attrib).attrib["d"]
    assert drawn.count("M") == len(shown.second.boxes)
    assert all(box.name in "".join(parts["second"].itertext()) for box in shown.second.boxes)
    assert len(arena_chart(replace(shown, second=None), "after").figure.axes) == 1


def test_a_notebook_shows_table_and_picture_of_a_rewrite() -> None:
    result = tflite_fuse.rewrite(serialize_model(inverted_residual_network(size=24, blocks=2)), verify=False)
    shown, head = result._repr_html_(), arena_map(load_model(result.model)).head_bytes
    assert shown.startswith(result.report._repr_html_())
    picture = shown[shown.index("<figure") :]
    assert f"{head:,} bytes" in picture and len(rectangles(picture)) == len(arena_map(load_model(result.model)).boxes)
    assert replace(result, model=b"")._repr_html_() == result.report._repr_html_()
