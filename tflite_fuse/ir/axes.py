"""Ranges along one axis of a tensor, for many tilings at once.

Rows and columns of a block's regions are independent: the region of a tensor that a tile needs is a range of rows times
a range of columns, and each follows from the driven tensor's range by the windows in between. The sizes of all regions
of all tilings (tile heights times tile widths) therefore follow from two one-dimensional tables, computed with one
numpy operation per layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tflite_fuse.ir.block import BlockTensor, Stage
from tflite_fuse.units import Count

IntArray = npt.NDArray[np.int64]

NOWHERE = 1 << 40
"""Start of an empty range, whose end is −NOWHERE: beyond any position, so unions ignore it."""


@dataclass(frozen=True, eq=False)
class Tilings:
    """Several divisions of an axis into tiles, all tiles in one flat array.

    Attributes:
        sizes: tile extent of each option, [options].
        first: index of each option's first tile, [options].
        low, high: each tile's half-open range, [tiles].
    """

    sizes: IntArray
    first: IntArray
    low: IntArray
    high: IntArray

    @cached_property
    def ranges(self) -> Ranges:
        """The tiles themselves."""
        return _alike(self.low.tobytes(), self.high.tobytes(), False)

    @cached_property
    def in_one(self) -> npt.NDArray[np.bool_]:
        """Whether one tile covers the axis, [options]."""
        only: npt.NDArray[np.bool_] = np.diff(self.first, append=len(self.low)) == 1
        return only


@dataclass(frozen=True, eq=False)
class Ranges:
    """The part of one axis of one tensor that each tile needs.

    ``_alike`` makes equal ranges one object: blocks that end at different layers share most of them, and functions of
    them are computed once.

    Attributes:
        low, high: half-open ranges, [tiles].
        holes: whether some of them are empty (possible only behind a PAD); those have low > high.
    """

    low: IntArray
    high: IntArray
    holes: bool = False


class AxisWindow(NamedTuple):
    """Window of a stage on one axis of its input. All positions under windows are computed here.

    Positions before 0 and behind the input's last one are padding. If images are enlarged, the input's positions lie
    ``spread`` apart, and stride, padding and extent count in units between them: the window of output position p covers
    input position i if ``p * stride - padding <= i * spread < p * stride - padding + extent``.
    """

    stride: int
    padding: int
    extent: int
    spread: int = 1

    def first(self, position: Count) -> Count:
        """Return the first input position under the window of an output position."""
        if self.spread == 1:
            return position * self.stride - self.padding
        return -((self.padding - position * self.stride) // self.spread)

    def end(self, end: Count) -> Count:
        """Return the end of the input positions under the windows of output positions before ``end``."""
        behind = end * self.stride + (self.extent - self.stride - self.padding)
        return behind if self.spread == 1 else (behind - 1) // self.spread + 1

    def most(self, count: Count) -> Count:
        """Return the largest number of input positions under ``count`` neighbouring windows."""
        covered = (count - 1) * self.stride + self.extent
        return covered if self.spread == 1 else -(-covered // self.spread)

    @property
    def ahead(self) -> int:
        """Return the distance from a window's position to its end, in its own units."""
        return self.extent - 1 - self.padding

    @property
    def returns(self) -> bool:
        """Return whether the next window may cover all positions of this one."""
        return self.stride < self.spread

    def over(self, length: int) -> AxisWindow:
        """Return the window for an output of ``length`` positions, of which one alone needs no stride."""
        if length > 1 or self.stride <= self.spread:
            return self
        return AxisWindow(self.spread, self.padding, self.extent, self.spread)

    def padded(self, more: int) -> AxisWindow:
        """Return the window with ``more`` additional input positions of padding before the input."""
        return AxisWindow(self.stride, self.padding + more * self.spread, self.extent, self.spread)


PIXEL = AxisWindow(1, 0, 1)
"""Window of a stage that reads the pixel it writes."""

Windows = tuple[AxisWindow, AxisWindow]
"""Windows on rows and columns."""


def whole_windows(source: BlockTensor) -> Windows:
    """Return the windows of a stage that reads all of an input for every pixel it writes."""
    return AxisWindow(0, 0, source.height), AxisWindow(0, 0, source.width)


def stage_windows(stage: Stage) -> Windows:
    """Return the windows of a stage on its inputs' rows and columns."""
    axes = zip(stage.stride, stage.padding, stage.extent, stage.spread, strict=True)
    rows, columns = (AxisWindow(*axis) for axis in axes)
    return rows, columns


@lru_cache(maxsize=1 << 12)
def make_tilings(length: int, sizes: tuple[int, ...]) -> Tilings:
    """Return all tilings of an axis of ``length`` positions into tiles of the given sizes; the last may be short."""
    chosen = [min(size, length) for size in sizes]
    starts = [np.arange(0, length, size, dtype=np.int64) for size in chosen]
    ends = [np.minimum(start + size, length) for start, size in zip(starts, chosen, strict=True)]
    first = np.cumsum([0, *map(len, starts[:-1])], dtype=np.int64)
    return Tilings(np.array(chosen, dtype=np.int64), first, np.concatenate(starts), np.concatenate(ends))


def strip_sizes(length: int) -> tuple[int, ...]:
    """Return the tile extents to try on an axis: the smallest extent for every number of tiles."""
    return tuple(sorted({-(-length // count) for count in range(1, length + 1)}, reverse=True))


@lru_cache(maxsize=1 << 13)
def _alike(low: bytes, high: bytes, holes: bool) -> Ranges:
    return Ranges(np.frombuffer(low, np.int64), np.frombuffer(high, np.int64), holes)


@lru_cache(maxsize=1 << 13)
def needed(ranges: Ranges, window: AxisWindow, length: int) -> Ranges:
    """Return the ranges of an input axis of ``length`` positions needed for ``ranges`` of the output, clipped."""
    low = np.maximum(window.first(ranges.low), 0)
    high = np.minimum(window.end(ranges.high), length)
    empty = low >= high
    if ranges.holes:
        empty |= ranges.low >= ranges.high
    if holes := bool(np.count_nonzero(empty)):
        low, high = np.where(empty, NOWHERE, low), np.where(empty, -NOWHERE, high)
    return _alike(low.tobytes(), high.tobytes(), holes)


@lru_cache(maxsize=1 << 13)
def union(left: Ranges, right: Ranges) -> Ranges:
    """Return the hull of two consumers' ranges: a ring is filled without gaps."""
    low, high = np.minimum(left.low, right.low), np.maximum(left.high, right.high)
    return _alike(low.tobytes(), high.tobytes(), left.holes and right.holes)


@lru_cache(maxsize=1 << 13)
def longest(ranges: Ranges, tilings: Tilings) -> IntArray:
    """Return the longest range of each option, [options]."""
    lengths: IntArray = np.maximum.reduceat(_lengths(ranges), tilings.first)
    return lengths


@lru_cache(maxsize=1 << 13)
def total(ranges: Ranges, tilings: Tilings) -> IntArray:
    """Return the sum of all ranges of each option, [options]."""
    sums: IntArray = np.add.reduceat(_lengths(ranges), tilings.first)
    return sums


def _lengths(ranges: Ranges) -> IntArray:
    lengths = ranges.high - ranges.low
    return np.maximum(lengths, 0) if ranges.holes else lengths


def total_in_runs(ranges: Ranges, tilings: Tilings, chunks: IntArray, run_costs: tuple[int, ...]) -> IntArray:
    """Return the cost of the ranges of each option, divided into runs of a chunk and a rest, [chunks, options].

    Args:
        chunks: positions, [chunks, 1].
        run_costs: costs of runs of 1, 2, … positions, up to at least the largest chunk.
    """
    lengths, costs = np.maximum(ranges.high - ranges.low, 0), _costs_from_0(run_costs)
    of_range = lengths // chunks * costs[chunks] + costs[lengths % chunks]
    total: IntArray = np.add.reduceat(of_range, tilings.first, axis=1)
    return total


@lru_cache(maxsize=1 << 12)
def _costs_from_0(run_costs: tuple[int, ...]) -> IntArray:
    return np.array((0, *run_costs), dtype=np.int64)


def covers(ranges: Ranges, tilings: Tilings, length: int) -> npt.NDArray[np.bool_]:
    """Return whether an option's ranges, in order, cover every position of the axis, [options].

    A tile that needs nothing (low >= high) of any range leaves no gap.
    """
    empty = ranges.low >= ranges.high
    low, high = np.where(empty, 0, ranges.low), np.where(empty, 0, ranges.high)
    counts = np.diff(np.append(tilings.first, len(low)))
    # An offset per option makes its positions larger than all before, so one pass yields each option's own maxima.
    lift = np.repeat(np.arange(len(counts), dtype=np.int64) * (length + 1), counts)
    reached = np.maximum.accumulate(high + lift) - lift
    before = np.concatenate((np.zeros(1, dtype=np.int64), reached[:-1]))
    before[tilings.first] = 0
    gap: npt.NDArray[np.bool_] = np.logical_or.reduceat(low > before, tilings.first)
    complete: npt.NDArray[np.bool_] = reached[tilings.first + counts - 1] >= length
    return ~gap & complete
