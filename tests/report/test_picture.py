"""A notebook shows the arena of a rewritten model, to scale and without a library."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as Xml

import pytest

import tflite_fuse
from scripts.zoo.networks import inverted_residual_network
from tflite_fuse.model import load_model, serialize_model
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


def test_every_part_says_its_name_and_bytes_and_a_name_is_no_markup() -> None:
    titles = [each.findtext("title") for each in rectangles(arena_picture(MAP))]
    assert titles == ["x: 50 bytes", "<i>&: 50 bytes"]


def test_nothing_is_drawn_of_nothing_or_of_too_much() -> None:
    assert arena_picture(replace(MAP, head_bytes=0)) == arena_picture(replace(MAP, boxes=())) == ""
    assert arena_picture(replace(MAP, boxes=MAP.boxes * 4000)) == ""


def test_a_notebook_shows_table_and_picture_of_a_rewrite() -> None:
    result = tflite_fuse.rewrite(serialize_model(inverted_residual_network(size=24, blocks=2)), verify=False)
    shown, head = result._repr_html_(), arena_map(load_model(result.model)).head_bytes
    assert shown.startswith(result.report._repr_html_())
    picture = shown[shown.index("<figure") :]
    assert f"{head:,} bytes" in picture and len(rectangles(picture)) == len(arena_map(load_model(result.model)).boxes)
    assert replace(result, model=b"")._repr_html_() == result.report._repr_html_()
