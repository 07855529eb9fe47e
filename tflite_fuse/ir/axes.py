"""What one axis of a tensor contributes to a block's cost, for many tilings at once.

Rows and columns of a block's regions never mix: the region a tile needs of a tensor is a range of rows times a range
of columns, each found from the driven tensor's range by the windows on the way. So the sizes of all regions of all
tilings (tile heights times tile widths) follow from two one-dimensional tables, computed here with one numpy operation
per layer however many tilings there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tflite_fuse.ir.block import Stage
from tflite_fuse.units import Count

IntArray = npt.NDArray[np.int64]

NOWHERE = 1 << 40
"""Start of an empty range (its end is −NOWHERE): larger than any position, so unions ignore it."""


@dataclass(frozen=True)
class Tilings:
    """Several ways to cut an axis into tiles, all tiles in one flat array.

    Attributes:
        sizes: tile extent of each option, [options].
        first: index of each option's first tile, [options].
        low, high: each tile's half-open range, [tiles].
    """

    sizes: IntArray
    first: IntArray
    low: IntArray
    high: IntArray

    @property
    def ranges(self) -> Ranges:
        """The tiles themselves."""
        return Ranges(self.low, self.high)


class Ranges(NamedTuple):
    """The part of one axis of one tensor that each tile needs.

    Attributes:
        low, high: half-open, [tiles].
        holes: whether some of them are empty (only what lies behind a PAD can be); those have low > high.
    """

    low: IntArray
    high: IntArray
    holes: bool = False


class AxisWindow(NamedTuple):
    """How a stage looks at one axis of its input: the one place that says which positions a window covers.

    Counts before 0 are padding, as are those behind the input's last one. Where images are made larger, the input's
    positions lie ``spread`` apart, and the window steps and reaches in units between them: the window of the output's
    position p covers the input's position i if ``p * stride - padding <= i * spread < p * stride - padding + extent``.
    """

    stride: int
    padding: int
    extent: int
    spread: int = 1

    def first(self, position: Count) -> Count:
        """The first input position under the window of an output position."""
        if self.spread == 1:
            return position * self.stride - self.padding
        return -((self.padding - position * self.stride) // self.spread)

    def end(self, end: Count) -> Count:
        """Behind the last input position that output positions before ``end`` see, of which there is one at least."""
        behind = end * self.stride + (self.extent - self.stride - self.padding)
        return behind if self.spread == 1 else (behind - 1) // self.spread + 1

    def most(self, count: Count) -> Count:
        """The most input positions that ``count`` neighbouring output positions span."""
        covered = (count - 1) * self.stride + self.extent
        return covered if self.spread == 1 else -(-covered // self.spread)

    @property
    def ahead(self) -> int:
        """How far behind where it stands a window ends, in the units it steps in."""
        return self.extent - 1 - self.padding

    @property
    def returns(self) -> bool:
        """Whether the next output position may see all that this one sees."""
        return self.stride < self.spread

    def over(self, length: int) -> AxisWindow:
        """The same for an output of so many positions."""
        if length > 1 or self.stride <= self.spread:
            return self
        return AxisWindow(self.spread, self.padding, self.extent, self.spread)

    def padded(self, more: int) -> AxisWindow:
        """The same behind so many more input positions of padding."""
        return AxisWindow(self.stride, self.padding + more * self.spread, self.extent, self.spread)


PIXEL = AxisWindow(1, 0, 1)
"""That of a stage that reads the pixel it writes."""

SPOT = AxisWindow(0, 0, 1)
"""That of a stage that reads an input's one pixel whatever pixel it writes."""

Windows = tuple[AxisWindow, AxisWindow]
"""On rows and columns."""


def stage_windows(stage: Stage) -> Windows:
    """How a stage looks at its inputs' rows and columns."""
    axes = zip(stage.stride, stage.padding, stage.extent, stage.spread, strict=True)
    rows, columns = (AxisWindow(*axis) for axis in axes)
    return rows, columns


def make_tilings(length: int, sizes: Iterable[int]) -> Tilings:
    """All tilings of an axis of ``length`` positions into tiles of the given ``sizes`` (the last tile may be short)."""
    chosen = [min(size, length) for size in sizes]
    starts = [np.arange(0, length, size, dtype=np.int64) for size in chosen]
    ends = [np.minimum(start + size, length) for start, size in zip(starts, chosen, strict=True)]
    first = np.cumsum([0, *map(len, starts[:-1])], dtype=np.int64)
    return Tilings(np.array(chosen, dtype=np.int64), first, np.concatenate(starts), np.concatenate(ends))


def strip_sizes(length: int) -> tuple[int, ...]:
    """The tile extents worth trying on an axis: for every number of tiles the smallest extent that needs no more."""
    return tuple(sorted({-(-length // count) for count in range(1, length + 1)}, reverse=True))


def needed(ranges: Ranges, window: AxisWindow, length: int) -> Ranges:
    """What a stage needs of an input axis of ``length`` positions to compute ``ranges`` of its output, clipped."""
    low = np.maximum(window.first(ranges.low), 0)
    high = np.minimum(window.end(ranges.high), length)
    empty = low >= high
    if ranges.holes:
        empty |= ranges.low >= ranges.high
    if holes := bool(np.count_nonzero(empty)):
        low, high = np.where(empty, NOWHERE, low), np.where(empty, -NOWHERE, high)
    return Ranges(low, high, holes)


def union(left: Ranges, right: Ranges) -> Ranges:
    """The hull of two consumers' needs: a FIFO is filled without gaps."""
    low, high = np.minimum(left.low, right.low), np.maximum(left.high, right.high)
    return Ranges(low, high, left.holes and right.holes)


def longest(ranges: Ranges, tilings: Tilings) -> IntArray:
    """The longest range of each option, [options]."""
    found: IntArray = np.maximum.reduceat(_lengths(ranges), tilings.first)
    return found


def total(ranges: Ranges, tilings: Tilings) -> IntArray:
    """The sum of all ranges of each option, [options]."""
    found: IntArray = np.add.reduceat(_lengths(ranges), tilings.first)
    return found


def _lengths(ranges: Ranges) -> IntArray:
    lengths = ranges.high - ranges.low
    return np.maximum(lengths, 0) if ranges.holes else lengths


def total_in_runs(ranges: Ranges, tilings: Tilings, chunks: IntArray, run_costs: tuple[int, ...]) -> IntArray:
    """What the ranges of each option cost, each cut into runs of a chunk and one of the rest, [chunks, options].

    Args:
        chunks: positions, [chunks, 1].
        run_costs: of runs of 1, 2, … positions; as many as the largest chunk at least.
    """
    lengths, costs = np.maximum(ranges.high - ranges.low, 0), _costs_from_0(run_costs)
    of_range = lengths // chunks * costs[chunks] + costs[lengths % chunks]
    total: IntArray = np.add.reduceat(of_range, tilings.first, axis=1)
    return total


@lru_cache(maxsize=1 << 12)
def _costs_from_0(run_costs: tuple[int, ...]) -> IntArray:
    return np.array((0, *run_costs), dtype=np.int64)


def covers(ranges: Ranges, tilings: Tilings, length: int) -> npt.NDArray[np.bool_]:
    """Whether an option's ranges, in order, leave no position of the axis out, [options].

    A tile may need nothing (low >= high), wherever that range is said to lie; it leaves no gap.
    """
    empty = ranges.low >= ranges.high
    low, high = np.where(empty, 0, ranges.low), np.where(empty, 0, ranges.high)
    counts = np.diff(np.append(tilings.first, len(low)))
    # Lifted above all positions of the options before it, an option's maxima start anew in one pass over all.
    lift = np.repeat(np.arange(len(counts), dtype=np.int64) * (length + 1), counts)
    reached = np.maximum.accumulate(high + lift) - lift
    before = np.concatenate((np.zeros(1, dtype=np.int64), reached[:-1]))
    before[tilings.first] = 0
    gap: npt.NDArray[np.bool_] = np.logical_or.reduceat(low > before, tilings.first)
    complete: npt.NDArray[np.bool_] = reached[tilings.first + counts - 1] >= length
    return ~gap & complete
