"""Places of the names in a picture, without overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LETTER = 4.1
"""Approximate width in points of a letter of 7 points."""

Area = tuple[float, float, float, float]
"""Left, bottom, right and top, in points of 1/72 inch of the figure."""


def around(axes: Axes, at: Any, sides: Area) -> Area:
    """Return the area between distances from a point given in pixels of the figure."""
    x, y = (value * 72 / axes.figure.dpi for value in at)
    return x + sides[0], y + sides[1], x + sides[2], y + sides[3]


def above(figure: Any, axes: Axes, named: Sequence[tuple[str, int]]) -> None:
    """Write names over lines, in as many rows as they need; the axes make room for them."""
    rows: list[list[float]] = []
    width, height = (72 * inches for inches in figure.get_size_inches())
    for name, value in named:
        x = axes.transData.transform((value, 1))[0] * 72 / figure.dpi
        left = min(max(x - _LETTER * len(name) / 2, 0), width - _LETTER * len(name))
        row = next((row for row in rows if row[-1] < left), None)
        if row is None:
            rows.append(row := [])
        row.append(left + _LETTER * (len(name) + 1))
        offset = (left - x, 2 + 9 * next(at for at, each in enumerate(rows) if each is row))
        axes.annotate(
            name, (value, 1), xycoords=axes.get_xaxis_transform(), xytext=offset, textcoords="offset points", fontsize=7
        )
    figure.subplots_adjust(top=1 - (9 * len(rows) + 6) / height)


def beside(
    axes: Axes, name: str, point: tuple[float, float], taken: list[Area], size: float = 7, crowded: bool = True
) -> None:
    """Write a name beside a point inside the axes, at the place with fewest overlaps, and add its area to ``taken``.

    Args:
        axes: with final scales.
        name: the text.
        point: in the units of the axes.
        taken: areas of other texts and points, in points of 1/72 inch.
        size: of the letters, in such points.
        crowded: whether to write it also farther away, or over others.
    """
    at, long = axes.transData.transform(point), _LETTER * len(name) * size / 7
    heights = (-2.0, -9.0, 5.0, -16.0, 12.0, -23.0, 19.0)
    offsets = [(x, y) for y in (heights if crowded else heights[:3]) for x in (5.0, -5.0)]
    areas = [
        around(axes, at, (x if x > 0 else x - long, y - 1, x + long if x > 0 else x, y + size)) for x, y in offsets
    ]
    (left, bottom), (right, top) = (around(axes, corner, (0, 0, 0, 0))[:2] for corner in (axes.bbox.min, axes.bbox.max))
    room = (left, bottom, right, top)
    crowds = [sum(_meet(area, other) for other in taken) + _OUTSIDE * (not _within(area, room)) for area in areas]
    best = crowds.index(min(crowds))
    if crowds[best] and not crowded:
        return
    side = "left" if offsets[best][0] > 0 else "right"
    axes.annotate(name, point, xytext=offsets[best], textcoords="offset points", ha=side, fontsize=size)
    taken.append(areas[best])


_OUTSIDE = 3
"""Penalty of a place outside the axes, in overlaps: numbers of the axes stand there, or the name is cut off."""


def _meet(one: Area, other: Area) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _within(one: Area, other: Area) -> bool:
    return one[0] >= other[0] and one[1] >= other[1] and one[2] <= other[2] and one[3] <= other[3]
