"""Parts of a tensor as disjoint boxes: exact set algebra on rows, columns and channels.

    region = region_of(Box((0, 4), (0, 8), (0, 3)))
    missing = subtract(region, held)            # still to be transferred

A layer cut by rows or by channels is one box per worker. A range of outputs flattened channel first is at most seven
boxes: a part of a channel, whole channels, a part of a channel; each part is a part of a row, whole rows, a part of a
row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Range = tuple[int, int]
"""First, and end (exclusive)."""


@dataclass(frozen=True)
class Box:
    """Rows times columns times channels, each a half-open range."""

    rows: Range
    columns: Range
    channels: Range

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return height, width, channels."""
        return (self.rows[1] - self.rows[0], self.columns[1] - self.columns[0], self.channels[1] - self.channels[0])

    @property
    def volume(self) -> int:
        """Return the number of elements, 0 if a range is empty."""
        (top, bottom), (left, right), (first, last) = self.rows, self.columns, self.channels
        if top >= bottom or left >= right or first >= last:
            return 0
        return (bottom - top) * (right - left) * (last - first)

    def within(self, outer: Box) -> Box:
        """Return the box relative to the corner of a box that contains it."""
        ranges = zip(self.ranges, outer.ranges, strict=True)
        return Box(*((low - start, high - start) for (low, high), (start, _) in ranges))

    @property
    def ranges(self) -> tuple[Range, Range, Range]:
        """Return the ranges of rows, columns and channels."""
        return self.rows, self.columns, self.channels


Region = tuple[Box, ...]
"""Disjoint boxes, none empty."""

NOTHING: Region = ()


def whole(shape: Sequence[int]) -> Box:
    """Return the box of a whole tensor of height, width and channels."""
    height, width, channels = shape
    return Box((0, height), (0, width), (0, channels))


def meet(left: Box, right: Box) -> Box:
    """Return the intersection of two boxes; its volume is 0 if they are disjoint."""
    (a, b), (c, d), (e, f) = left.rows, left.columns, left.channels
    (g, h), (i, j), (k, m) = right.rows, right.columns, right.channels
    return Box(
        (a if a > g else g, b if b < h else h),
        (c if c > i else i, d if d < j else j),
        (e if e > k else k, f if f < m else m),
    )


def apart(left: Box, right: Box) -> bool:
    """Return whether two non-empty boxes are disjoint."""
    return (
        left.rows[0] >= right.rows[1]
        or right.rows[0] >= left.rows[1]
        or left.columns[0] >= right.columns[1]
        or right.columns[0] >= left.columns[1]
        or left.channels[0] >= right.channels[1]
        or right.channels[0] >= left.channels[1]
    )


def region_of(*boxes: Box) -> Region:
    """Return the union of boxes, which may overlap."""
    region: Region = NOTHING
    for box in boxes:
        region += subtract((box,), region)
    return region


def union(left: Region, right: Region) -> Region:
    """Return the union of two regions."""
    return left + subtract(right, left)


def intersect(left: Region, right: Region) -> Region:
    """Return the intersection of two regions."""
    return tuple(meet(a, b) for a in left for b in right if not apart(a, b))


def subtract(left: Region, right: Region) -> Region:
    """Return the elements of the first region that are not in the second."""
    rest = tuple(box for box in left if box.volume)
    for hole in right:
        rest = tuple(part for box in rest for part in _without(box, hole))
    return rest


def _without(box: Box, hole: Box) -> Iterator[Box]:
    if apart(box, hole):
        yield box
        return
    common = meet(box, hole)
    rows, columns = common.rows, common.columns
    parts = (
        Box((box.rows[0], rows[0]), box.columns, box.channels),
        Box((rows[1], box.rows[1]), box.columns, box.channels),
        Box(rows, (box.columns[0], columns[0]), box.channels),
        Box(rows, (columns[1], box.columns[1]), box.channels),
        Box(rows, columns, (box.channels[0], common.channels[0])),
        Box(rows, columns, (common.channels[1], box.channels[1])),
    )
    yield from (part for part in parts if part.volume)


def volume(region: Iterable[Box]) -> int:
    """Return the number of elements of a region; with int8 also its bytes."""
    return sum(box.volume for box in region)


def hull(boxes: Iterable[Box]) -> Box:
    """Return the smallest box that contains all given ones. Raises ValueError if there are none."""
    all_boxes = list(boxes)
    axes = zip(*(box.ranges for box in all_boxes), strict=True)
    return Box(*((min(low for low, _ in axis), max(high for _, high in axis)) for axis in axes))


def flat_range(shape: Sequence[int], start: int, end: int) -> Region:
    """Return positions ``start … end − 1`` of a tensor flattened channel first, then row, then column.

    Args:
        shape: height, width and channels.
        start, end: 0 ≤ start ≤ end ≤ height · width · channels.
    """
    height, width, _ = shape
    boxes = []
    for (first, last), (low, high) in _parts(start, end, height * width):
        for (top, bottom), (left, right) in _parts(low, high, width):
            boxes.append(Box((top, bottom), (left, right), (first, last)))
    return tuple(boxes)


def _parts(start: int, end: int, size: int) -> Iterator[tuple[Range, Range]]:
    """Yield a range cut at multiples of ``size``: (range of multiples, range of positions inside each of them)."""
    first, last = -(-start // size), end // size
    if first > last:  # inside one multiple
        yield (last, first), (start - last * size, end - last * size)
        return
    if start < first * size:
        yield (first - 1, first), (start - (first - 1) * size, size)
    if first < last:
        yield (first, last), (0, size)
    if last * size < end:
        yield (last, last + 1), (0, end - last * size)
