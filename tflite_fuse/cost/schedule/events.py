"""What happens in one tile, and when: runs, what they ask for, what is held for them.

Events have numbers on one time axis. An event of a stage (asking for an input, computing) is inserted right behind the
event that caused it, and all that come later move. Positions are pixels in raster order of the region the tile needs of
a tensor. Arrays are never changed in place, because configurations that have the last stages in common share them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tflite_fuse.ir.axes import IntArray, Windows

FAR = 1 << 60
"""Later than every event, behind every position."""


@dataclass(frozen=True)
class TileShape:
    """What distinguishes one tile of a block from another.

    Attributes:
        extents: (rows, columns) the tile needs of each tensor; (0, 0) for none.
        windows: for each spatial stage and each of its inputs, how it looks at the region of that input: what lies
            before the region counts as padding.
    """

    extents: tuple[tuple[int, int], ...]
    windows: tuple[tuple[Windows, ...], ...]


class Hold(NamedTuple):
    """What a stage that reads a tensor holds of it: before its run i, computed at ``times[i]``, all from ``oldest[i]``.

    ``oldest`` has one entry more than there are runs: FAR, once all are done.
    """

    times: IntArray
    oldest: IntArray

    def needs_at(self, times: IntArray) -> IntArray:
        """The oldest position still needed when an event happens (a run being computed counts as open)."""
        return self.oldest[self.times.searchsorted(times)]


class Runs(NamedTuple):
    """The runs of one stage in order: they end before position ``ends[i]`` and are computed at ``times[i]``."""

    times: IntArray
    ends: IntArray


class Demand(NamedTuple):
    """Someone asks, at each of ``times``, for all positions before the entry of ``ends``."""

    times: IntArray
    ends: IntArray


Way = tuple[int, bool]
"""How a stage runs: pixels of its longest runs, and whether it runs ahead."""


@dataclass(frozen=True)
class TileRun:
    """What happens in one tile.

    Attributes:
        ways: how its stages really run, from the last one on: what has them in common happens alike.
        capacities: for each tensor a stage writes, the pixels its ring must hold.
        produced: for each tensor a stage writes, the pixels computed.
        lengths: for each tensor a stage writes, how many runs there are of each length, from 0 on.
        runs: of the block's outputs.
        holds: by tensor, of those that no stage writes.
    """

    ways: tuple[Way, ...]
    capacities: Mapping[int, int]
    produced: Mapping[int, int]
    lengths: Mapping[int, IntArray]
    runs: Mapping[int, Runs]
    holds: Mapping[int, Sequence[Hold]]


class Moments(NamedTuple):
    """What is said at the events of one column of a stage's events: ends that are asked for, or the oldest held."""

    stage: int
    column: int
    positions: IntArray


@dataclass(frozen=True)
class Followed:
    """All that is known of a tile once its last few stages are followed.

    Attributes:
        events: by stage, [runs, inputs and the run itself], as long as others refer to them; what is there before
            any stage has numbers below 0.
        demands: by tensor, of those whose stage is still to come.
        holds: by tensor, likewise.
        runs: by tensor, of the block's outputs.
        capacities, produced, lengths: as in ``TileRun``.
    """

    events: Mapping[int, IntArray]
    demands: Mapping[int, tuple[Moments, ...]]
    holds: Mapping[int, tuple[Moments, ...]]
    runs: Mapping[int, Moments] = field(default_factory=dict)
    capacities: Mapping[int, int] = field(default_factory=dict)
    produced: Mapping[int, int] = field(default_factory=dict)
    lengths: Mapping[int, IntArray] = field(default_factory=dict)

    def asked(self, tensor: int) -> Demand:
        """All demands on a tensor, in order."""
        return merge([Demand(self._times(each), each.positions) for each in self.demands.get(tensor, ())])

    def held(self, tensor: int) -> list[Hold]:
        """All that is held of a tensor."""
        return [Hold(self._times(each), each.positions) for each in self.holds.get(tensor, ())]

    def result(self, ways: tuple[Way, ...]) -> TileRun:
        """All of it, once no stage is left."""
        runs = {tensor: Runs(self._times(each), each.positions) for tensor, each in self.runs.items()}
        holds = {tensor: self.held(tensor) for tensor in self.holds}
        return TileRun(ways, self.capacities, self.produced, self.lengths, runs, holds)

    def _times(self, moments: Moments) -> IntArray:
        return self.events[moments.stage][:, moments.column]


def merge(demands: Sequence[Demand]) -> Demand:
    """All demands in order of time, without those that ask for nothing new."""
    if not demands:
        return Demand(np.zeros(0, np.int64), np.zeros(0, np.int64))
    times, ends = demands[0]
    if len(demands) > 1:
        times, ends = (np.concatenate(each) for each in zip(*demands, strict=True))
        order = np.argsort(times)
        times, ends = times[order], ends[order]
    ends = np.maximum.accumulate(ends)
    new = np.diff(ends, prepend=0) > 0
    return Demand(times[new], ends[new])


def insert_events(
    known: Mapping[int, IntArray], causes: IntArray, per_row: int
) -> tuple[dict[int, IntArray], IntArray]:
    """Inserts ``per_row`` events right behind ``causes[i]`` (ascending) and those inserted there before, for all i.

    Args:
        known: events that others refer to.

    Returns:
        (where those are now, the new ones, [rows, per_row]).
    """
    new = np.arange(len(causes) * per_row, dtype=np.int64).reshape(-1, per_row) + (causes + 1)[:, np.newaxis]
    return {stage: events + causes.searchsorted(events) * per_row for stage, events in known.items()}, new


def split_runs(starts: IntArray, ends: IntArray, width: int, chunk: int) -> tuple[IntArray, IntArray, IntArray]:
    """Cuts ranges of positions into runs of at most ``chunk`` pixels of one row.

    Returns:
        (range a run belongs to, its position, its pixels), all ranges in order.
    """
    rows, last, pixels = starts // width, (ends - 1) // width, ends - starts
    if not np.count_nonzero((last > rows) | (pixels > chunk) | (pixels < 1)):
        # Most stages are asked for what is one run.
        return np.arange(len(starts), dtype=np.int64), starts, pixels
    owner, row = _expand(rows, last - rows + 1)
    low, high = np.maximum(starts[owner], row * width), np.minimum(ends[owner], (row + 1) * width)
    piece, step = _expand(np.zeros_like(low), -((low - high) // chunk))
    position = low[piece] + step * chunk
    return owner[piece], position, np.minimum(chunk, high[piece] - position)


def _expand(first: IntArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    """For all i, ``counts[i]`` numbers from ``first[i]`` on: (i, number)."""
    owner = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    before = np.cumsum(counts) - counts
    return owner, (first - before)[owner] + np.arange(len(owner), dtype=np.int64)
