"""Events of one tile: requests and runs of its stages, and pixels held for them.

Events have numbers on one time axis. An event of a stage (a request for an input, or a run) is inserted right behind
the event that caused it, and all later events move. Positions are pixels in raster order of the region that the tile
needs of a tensor. Arrays are never changed in place, because configurations with the same last stages share them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tflite_fuse.ir.axes import IntArray, Windows

FAR = 1 << 60
"""Later than every event and behind every position."""


@dataclass(frozen=True)
class TileShape:
    """Shape of a tile, in which it may differ from other tiles of a block.

    Attributes:
        extents: (rows, columns) that the tile needs of each tensor; (0, 0) for none.
        windows: by output of a spatial stage, for each of its inputs, the windows on the region of that input;
            positions before the region count as padding.
    """

    extents: tuple[tuple[int, int], ...]
    windows: Mapping[int, tuple[Windows, ...]]


class Hold(NamedTuple):
    """Pixels held for a reading stage: until its run i at ``times[i]``, all from position ``oldest[i]`` on.

    ``oldest`` has one more entry than there are runs: FAR after the last one.
    """

    times: IntArray
    oldest: IntArray

    def needs_at(self, times: IntArray) -> IntArray:
        """Return the oldest position still needed at each event; a run that is being computed counts as open."""
        return self.oldest[self.times.searchsorted(times)]


class Runs(NamedTuple):
    """Runs of one stage in order: run i ends before position ``ends[i]`` and is computed at ``times[i]``."""

    times: IntArray
    ends: IntArray


class Demand(NamedTuple):
    """Requests, at each of ``times``, for all positions before the entry of ``ends``."""

    times: IntArray
    ends: IntArray

    def starts(self, begins: int = 0) -> IntArray:
        """Return the start of each request: the end of the previous one, or ``begins``."""
        return np.concatenate(([begins], self.ends[:-1]))[: len(self.ends)]


Execution = tuple[int, bool]
"""Execution of a stage: pixels of its longest runs, and whether it runs ahead."""


@dataclass(frozen=True)
class TileRun:
    """Events of one tile.

    Attributes:
        capacities: ring capacity in pixels of each tensor that a stage writes.
        produced: computed pixels of each tensor that a stage writes.
        lengths: number of runs of each length, for each tensor that a stage writes.
        runs: runs of the block's outputs.
        holds: holds of each tensor that no stage writes.
    """

    capacities: Mapping[int, int]
    produced: Mapping[int, int]
    lengths: Mapping[int, Mapping[int, int]]
    runs: Mapping[int, Runs]
    holds: Mapping[int, Sequence[Hold]]


class Moments(NamedTuple):
    """Positions at the events of one column of a stage's events: requested ends, or the oldest position held."""

    output: int
    column: int
    positions: IntArray


@dataclass(frozen=True)
class Followed:
    """Result of following the last few stages of a tile.

    Attributes:
        events: by output of a stage, [runs, inputs and the run itself], as long as others refer to them; events before
            any stage have numbers below 0.
        demands: by tensor whose stage is still to come.
        holds: by tensor whose stage is still to come.
        runs: by output of the block.
        capacities, produced, lengths: as in ``TileRun``.
    """

    events: Mapping[int, IntArray]
    demands: Mapping[int, tuple[Moments, ...]]
    holds: Mapping[int, tuple[Moments, ...]]
    runs: Mapping[int, Moments] = field(default_factory=dict)
    capacities: Mapping[int, int] = field(default_factory=dict)
    produced: Mapping[int, int] = field(default_factory=dict)
    lengths: Mapping[int, Mapping[int, int]] = field(default_factory=dict)

    def demand_on(self, tensor: int) -> Demand:
        """Return all demands on a tensor, in order."""
        return merge([Demand(self._times(each), each.positions) for each in self.demands.get(tensor, ())])

    def holds_of(self, tensor: int) -> list[Hold]:
        """Return all holds of a tensor."""
        return [Hold(self._times(each), each.positions) for each in self.holds.get(tensor, ())]

    def result(self) -> TileRun:
        """Return the events of the tile after its last stage was followed."""
        runs = {tensor: Runs(self._times(each), each.positions) for tensor, each in self.runs.items()}
        holds = {tensor: self.holds_of(tensor) for tensor in self.holds}
        return TileRun(self.capacities, self.produced, self.lengths, runs, holds)

    def _times(self, moments: Moments) -> IntArray:
        return self.events[moments.output][:, moments.column]


def merge(demands: Sequence[Demand]) -> Demand:
    """Return all demands in order of time, without those for no new positions."""
    if not demands:
        return Demand(np.zeros(0, np.int64), np.zeros(0, np.int64))
    times, ends = demands[0]
    if len(demands) > 1:
        times, ends = (np.concatenate(each) for each in zip(*demands, strict=True))
        order = np.argsort(times)
        times, ends = times[order], ends[order]
    merged = Demand(times, np.maximum.accumulate(ends))
    new = merged.ends > merged.starts()
    return Demand(times[new], merged.ends[new])


def insert_events(
    earlier: Mapping[int, IntArray], causes: IntArray, per_row: int
) -> tuple[dict[int, IntArray], IntArray]:
    """Insert ``per_row`` events right behind each of ``causes`` (ascending) and the events inserted there before.

    Args:
        earlier: events that others refer to.

    Returns:
        (their new numbers, the new events, [rows, per_row]).
    """
    new = np.arange(len(causes) * per_row, dtype=np.int64).reshape(-1, per_row) + (causes + 1)[:, np.newaxis]
    return {output: events + causes.searchsorted(events) * per_row for output, events in earlier.items()}, new


def split_runs(starts: IntArray, ends: IntArray, width: int, chunk: int) -> tuple[IntArray, IntArray, IntArray]:
    """Divide ranges of positions into runs of at most ``chunk`` pixels of one row.

    Returns:
        (range of each run, its position, its pixels), all ranges in order.
    """
    rows, last, pixels = starts // width, (ends - 1) // width, ends - starts
    if not np.count_nonzero((last > rows) | (pixels > chunk) | (pixels < 1)):
        # The common case: each request is one run.
        return np.arange(len(starts), dtype=np.int64), starts, pixels
    owner, row = _expand(rows, last - rows + 1)
    low, high = np.maximum(starts[owner], row * width), np.minimum(ends[owner], (row + 1) * width)
    piece, step = _expand(np.zeros_like(low), -((low - high) // chunk))
    position = low[piece] + step * chunk
    return owner[piece], position, np.minimum(chunk, high[piece] - position)


def _expand(first: IntArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return, for all i, ``counts[i]`` numbers from ``first[i]`` on: (i, number)."""
    owner = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    before = np.cumsum(counts) - counts
    return owner, (first - before)[owner] + np.arange(len(owner), dtype=np.int64)
