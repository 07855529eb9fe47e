"""Names and numbers in pictures: none overlaps another or is cut off."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from tflite_fuse.pages.charts import Dot, front_chart, live_chart

matplotlib = pytest.importorskip("matplotlib")

CROWDED = {
    "a front at the left edge": (
        [Dot(4_600, 3.3, "least RAM"), Dot(4_700, 1.6), Dot(4_900, 1.0, "F <= 1")],
        [Dot(22_772, 1.0, "before"), Dot(5_140, 1.0, "after")],
    ),
    "all beside the result": ([Dot(1_500, 1.0, "least RAM")], [Dot(9_316, 1.0, "before"), Dot(1_524, 1.0, "after")]),
    "a dense front": (
        [Dot(11_000 + 40 * at, 2.0 - 0.03 * at, "F <= 1.3" if at % 9 == 4 else "") for at in range(30)],
        [Dot(11_900, 1.2, "after")],
    ),
}


def extents(chart: Any) -> tuple[dict[str, Any], Any]:
    """Where each annotation of a picture is, and where its axes are, in its pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with matplotlib.rc_context(chart.style):
        canvas = FigureCanvasAgg(chart.figure)
        canvas.draw()
        (axes,) = chart.figure.axes
        return {each.get_text(): each.get_window_extent() for each in axes.texts}, axes.bbox


@pytest.mark.parametrize("points, marks", CROWDED.values(), ids=CROWDED)
def test_names_of_a_front_are_apart_and_inside(points: Any, marks: Any) -> None:
    found, axes = extents(front_chart(points, marks))
    assert {f"{dot.name} {dot.ram:,}" for dot in (*points, *marks) if dot.name} <= set(found)
    for one, other in combinations(found, 2):
        assert not found[one].padded(-1).overlaps(found[other].padded(-1)), (one, other)
    for name, box in found.items():
        assert axes.x0 <= box.x0 and box.x1 <= axes.x1 and axes.y0 <= box.y0 and box.y1 <= axes.y1, name


def test_boards_have_their_limits_written_apart() -> None:
    limits = [("nucleo_f103rb", 15_360), ("zero", 24_576), ("nicla_sense_me", 48_216)]
    found, _ = extents(front_chart([Dot(11_000, 2.0)], [Dot(82_304, 1.0, "before")], limits))
    assert {"nucleo_f103rb 15.36k", "zero 24.58k", "nicla_sense_me 48.22k"} <= set(found)
    for one, other in combinations(found, 2):
        assert not found[one].overlaps(found[other]), (one, other)


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_operators_are_counted_in_whole_numbers(count: int) -> None:
    steps = [{"name": f"CONV_{at}", "working_set_bytes": 5, "bottleneck": at == 0} for at in range(count)]
    chart = live_chart(steps, "after")
    extents(chart)
    (axes,) = chart.figure.axes
    told = [each.get_text() for each in axes.get_xticklabels() if axes.get_xlim()[0] <= each.get_position()[0]]
    assert told and all(text.isdecimal() for text in told)
