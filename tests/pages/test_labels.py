"""Names and numbers in pictures: none covers another, none is cut off."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from tflite_fuse.pages.charts import front_chart, live_chart

matplotlib = pytest.importorskip("matplotlib")

CROWDED = {
    "a front at the left edge": (
        [(4_600, 3.3), (4_700, 1.6), (4_900, 1.0)],
        [("before", 22_772, 1.0), ("after", 5_140, 1.0)],
        [
            ("head-patches", 4_600, 5.7),
            ("stream-1d", 4_600, 3.3),
            ("h-cache", 4_600, 3.3),
            ("inverted-residual", 19_600, 2.1),
            ("stream-2d", 4_800, 1.0),
        ],
    ),
    "schemes that bring nothing": (
        [(1_480, 1.0)],
        [("before", 2_256, 1.0), ("after", 1_464, 1.0)],
        [(name, 2_240, 1.0) for name in ("stream-1d", "head-patches", "stream-2d")] + [("h-cache", 1_510, 1.0)],
    ),
    "all beside the result": (
        [(1_500, 1.0)],
        [("before", 9_316, 1.0), ("after", 1_524, 1.0)],
        [(name, 1_500, 1.0) for name in ("stream-1d", "head-patches", "h-cache", "stream-2d")]
        + [("inverted-residual", 8_100, 1.0)],
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


@pytest.mark.parametrize("points, marks, schemes", CROWDED.values(), ids=CROWDED)
def test_names_of_a_front_are_apart_and_inside(points: Any, marks: Any, schemes: Any) -> None:
    found, axes = extents(front_chart(points, marks, schemes=schemes))
    assert len(found) == len(marks) + len(schemes)
    for one, other in combinations(found, 2):
        assert not found[one].padded(-1).overlaps(found[other].padded(-1)), (one, other)
    for name, box in found.items():
        assert axes.x0 <= box.x0 and box.x1 <= axes.x1 and axes.y0 <= box.y0 and box.y1 <= axes.y1, name


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_operators_are_counted_in_whole_numbers(count: int) -> None:
    steps = [{"name": f"CONV_{at}", "working_set_bytes": 5, "bottleneck": at == 0} for at in range(count)]
    chart = live_chart(steps, "after")
    extents(chart)
    (axes,) = chart.figure.axes
    told = [each.get_text() for each in axes.get_xticklabels() if axes.get_xlim()[0] <= each.get_position()[0]]
    assert told and all(text.isdecimal() for text in told)
