"""The order in which the executor computes the pixels of one tile, worked out without stepping through it.

The executor pulls: a stage about to compute a run of pixels first asks, input by input, for all its windows need, and
whoever makes those pixels does the same. So the runs of a stage follow from the runs of its readers, and the whole
order can be built from the driven tensor upwards, one stage at a time, with a few array operations per stage. What
makes tensors with several readers exact is a common time axis: an event of a stage (asking for an input, computing) is
inserted right behind the event that caused it.

Positions are pixels in raster order of the region the tile needs of a tensor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tflite_fuse.fusion.block.axes import IntArray, Windows
from tflite_fuse.fusion.block.limits import MAX_CHUNK
from tflite_fuse.fusion.block.stages import BlockConfig, Stage, StageKind

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


@dataclass
class Hold:
    """What a stage that reads a tensor holds of it: before its run i, computed at ``times[i]``, all from ``oldest[i]``.

    ``oldest`` has one entry more than there are runs: FAR, once all are done.
    """

    times: IntArray
    oldest: IntArray

    def needs_at(self, times: IntArray) -> IntArray:
        """The oldest position still needed when an event happens (a run being computed counts as open)."""
        return self.oldest[np.searchsorted(self.times, times)]


@dataclass
class Runs:
    """The runs of one stage in order: they end before position ``ends[i]`` and are computed at ``times[i]``.

    The first begins at ``begins``.
    """

    times: IntArray
    ends: IntArray
    begins: int = 0


@dataclass
class TileRun:
    """What happens in one tile.

    Attributes:
        capacities: for each tensor a stage writes, the pixels its ring must hold.
        produced: for each tensor a stage writes, the pixels computed.
        runs: by tensor.
        holds: by tensor.
    """

    capacities: dict[int, int]
    produced: dict[int, int]
    runs: dict[int, Runs]
    holds: dict[int, list[Hold]]


@dataclass
class _Demand:
    """Someone asks, at each of ``times``, for all positions before the entry of ``ends``."""

    times: IntArray
    ends: IntArray


class _Clock:
    """A time axis on which events can be inserted between others; arrays handed out are kept up to date."""

    def __init__(self) -> None:
        self._length = 0
        self._events: list[IntArray] = []

    def append(self, rows: int, per_row: int) -> IntArray:
        """``rows`` x ``per_row`` events after all others."""
        events = self._length + np.arange(rows * per_row, dtype=np.int64).reshape(rows, per_row)
        return self._keep(events)

    def insert(self, causes: IntArray, rows: IntArray, per_row: int) -> IntArray:
        """``rows[i]`` x ``per_row`` events right behind event ``causes[i]`` (ascending), for all i."""
        counts = rows * per_row
        shift = np.zeros(self._length + 1, dtype=np.int64)
        shift[causes + 1] = counts
        shift = np.cumsum(shift)
        first = causes + shift[causes] + 1
        for known in self._events:
            known += shift[known]
        ordinals = np.arange(counts.sum(), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
        return self._keep((np.repeat(first, counts) + ordinals).reshape(-1, per_row))

    def _keep(self, events: IntArray) -> IntArray:
        self._events.append(events)
        self._length += events.size
        return events


def split_runs(starts: IntArray, ends: IntArray, width: int, chunk: int) -> tuple[IntArray, IntArray, IntArray]:
    """Cuts ranges of positions into runs of at most ``chunk`` pixels of one row.

    Returns:
        (range a run belongs to, its position, its pixels), all ranges in order.
    """
    rows = starts // width
    owner, row = _expand(rows, (ends - 1) // width - rows + 1)
    low, high = np.maximum(starts[owner], row * width), np.minimum(ends[owner], (row + 1) * width)
    piece, step = _expand(np.zeros_like(low), -((low - high) // chunk))
    position = low[piece] + step * chunk
    return owner[piece], position, np.minimum(chunk, high[piece] - position)


def _expand(first: IntArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    """For all i, ``counts[i]`` numbers from ``first[i]`` on: (i, number)."""
    owner = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    ordinal = np.arange(len(owner), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    return owner, first[owner] + ordinal


def follow_tile(
    stages: Sequence[Stage],
    tile: TileShape,
    driven: int,
    sums_driven: bool,
    outputs: Sequence[int],
    config: BlockConfig,
) -> TileRun:
    """Works out one tile.

    Args:
        stages: the spatial stages of a block in topological order.
        tile: regions and where windows lie in them.
        driven: the tensor computed pixel by pixel.
        sums_driven: whether accumulators read it.
        outputs: other tensors to complete at the end of the tile, in this order.
        config: pixels per run.
    """
    clock = _Clock()
    demands: dict[int, list[_Demand]] = defaultdict(list)
    result = TileRun({}, {}, {}, defaultdict(list))

    rows, columns = tile.extents[driven]
    whole = np.array([rows * columns], dtype=np.int64)
    _, visits, counts = split_runs(np.zeros(1, dtype=np.int64), whole, columns, config.chunk)
    times = clock.append(len(visits), 2)
    demands[driven].append(_Demand(times[:, 0], visits + counts))
    if sums_driven:
        result.holds[driven].append(Hold(times[:, 1], np.append(visits, FAR)))
    for output in outputs:
        rows, columns = tile.extents[output]
        demands[output].append(_Demand(clock.append(1, 1)[:, 0], np.array([rows * columns], dtype=np.int64)))

    for index in reversed(range(len(stages))):
        stage = stages[index]
        asked = _merge(demands[stage.output])
        begins = _begins(stage, tile)
        asked = _Demand(asked.times[asked.ends > begins], asked.ends[asked.ends > begins])
        longest = config.longest_run(index) if stage.inputs else MAX_CHUNK
        if index in config.ahead:
            asked = _whole_runs(asked, max(1, tile.extents[stage.output][1]), longest)
        result.produced[stage.output] = int(asked.ends[-1]) - begins if len(asked.ends) else 0
        result.capacities[stage.output] = _capacity(asked, result.holds[stage.output])
        _add_stage(stage, tile, index, asked, longest, clock, demands, result)
    return result


def _begins(stage: Stage, tile: TileShape) -> int:
    """The first position a stage computes: those before are of earlier runs."""
    if stage.kind is not StageKind.STATE:
        return 0
    return stage.padding[0] * tile.extents[stage.output][1] + stage.padding[1]


def _merge(demands: Sequence[_Demand]) -> _Demand:
    """All demands in order of time, without those that ask for nothing new."""
    times = np.concatenate([np.zeros(0, np.int64), *(demand.times for demand in demands)])
    ends = np.concatenate([np.zeros(0, np.int64), *(demand.ends for demand in demands)])
    order = np.argsort(times)
    times, ends = times[order], np.maximum.accumulate(ends[order])
    new = ends > np.concatenate((np.zeros(1, np.int64), ends[:-1]))[: len(ends)]
    return _Demand(times[new], ends[new])


def _whole_runs(asked: _Demand, width: int, longest: int) -> _Demand:
    """What is asked for of a stage that computes whole runs: each time up to the end of one, or of the row."""
    row, column = np.divmod(asked.ends - 1, width)
    return _merge([_Demand(asked.times, row * width + np.minimum((column // longest + 1) * longest, width))])


def _capacity(asked: _Demand, holds: Sequence[Hold]) -> int:
    """The most pixels between the end of what was just written and the oldest still needed."""
    if not holds or not len(asked.ends):
        return 0
    oldest = np.min([hold.needs_at(asked.times) for hold in holds], axis=0)
    return max(0, int(np.max(asked.ends - oldest)))


def _add_stage(
    stage: Stage,
    tile: TileShape,
    index: int,
    asked: _Demand,
    longest: int,
    clock: _Clock,
    demands: dict[int, list[_Demand]],
    result: TileRun,
) -> None:
    """Cuts what is asked of a stage into runs and notes what these ask of its inputs."""
    starts = np.concatenate((np.full(1, _begins(stage, tile)), asked.ends[:-1]))[: len(asked.ends)]
    width = max(1, tile.extents[stage.output][1])
    owner, position, count = split_runs(starts, asked.ends, width, longest)
    rows_of_events = np.bincount(owner, minlength=len(asked.ends)).astype(np.int64)
    times = clock.insert(asked.times, rows_of_events, len(stage.inputs) + 1)
    result.runs[stage.output] = Runs(times[:, -1], position + count, _begins(stage, tile))
    for number, tensor in enumerate(stage.inputs):
        first, end = _seen(tile.windows[index][number], tile.extents[tensor], *np.divmod(position, width), count)
        demands[tensor].append(_Demand(times[:, number], end))
        oldest = np.minimum.accumulate(np.append(first, FAR)[::-1])[::-1]
        result.holds[tensor].append(Hold(times[:, -1], oldest))


def _seen(
    windows: Windows, extents: tuple[int, int], row: IntArray, column: IntArray, count: IntArray
) -> tuple[IntArray, IntArray]:
    """First position and end of what runs see of an input: (FAR, 0) if it is padding alone."""
    (height, width), (rows, columns) = extents, windows
    top, bottom = rows.first(row), rows.end(row + 1)
    left, right = columns.first(column), columns.end(column + count)
    seen = (bottom > 0) & (top < height) & (right > 0) & (left < width) & (top < bottom) & (left < right)
    first = np.maximum(top, 0) * width + np.maximum(left, 0)
    end = (np.minimum(bottom, height) - 1) * width + np.minimum(right, width)
    return np.where(seen, first, FAR), np.where(seen, end, 0)
