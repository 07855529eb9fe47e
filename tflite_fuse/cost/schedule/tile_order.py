"""Where a block's rings and sums lie in its scratch, and how many bytes each takes.

The order in which the executor computes the pixels of one tile, worked out without stepping through it.

The executor pulls: a stage about to compute a run of pixels first asks, input by input, for all its windows need, and
the stage that makes those pixels does the same. So the runs of a stage follow from the runs of its readers, and the
whole order can be built from the driven tensor upwards, one stage at a time, with a few array operations per stage.
What makes tensors with several readers exact is a common time axis (``events``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce

import numpy as np

from tflite_fuse.cost.schedule.events import (
    FAR,
    Demand,
    Followed,
    Hold,
    Moments,
    TileRun,
    TileShape,
    Way,
    insert_events,
    merge,
    split_runs,
)
from tflite_fuse.cost.schedule.tiles import Split
from tflite_fuse.ir.axes import PIXEL, IntArray, Windows, stage_windows
from tflite_fuse.ir.block import Block, BlockConfig, BlockTensor, Stage, StageKind, Storage
from tflite_fuse.ir.limits import CURSOR_BYTES, MAX_CHUNK, POINTER_BYTES, STACK_POINTERS
from tflite_fuse.ops.table import KINDS, accumulates, sum_bytes
from tflite_fuse.units import Count, round_up

SCRATCH_ALIGNMENT = 4
"""Every tensor and every accumulator in scratch starts at a multiple of this many bytes."""


@dataclass(frozen=True)
class ScratchLayout:
    """Where things lie in scratch, in bytes; −1 for what is not in it."""

    offsets: tuple[int, ...]
    accumulator_offsets: tuple[int, ...]
    reserved_bytes: int
    scratch_bytes: int


def ring_bytes(pixels: Count, pixel_bytes: int) -> Count:
    """Bytes of a ring that holds so many pixels."""
    return round_up(pixels * pixel_bytes, SCRATCH_ALIGNMENT)


def window_pointers(stage: Stage) -> int:
    """Pixel pointers the executor needs to compute one output pixel of a stage: its window's and the output's.

    Kinds that read two tensors at once need one more.
    """
    fewest, _ = KINDS[stage.kind].inputs
    rows, columns = stage_windows(stage)
    return (stage.kernel_size[0] if rows.spread == 1 else rows.most(1)) * columns.most(1) + fewest


def reserved_bytes(spatial_stages: int, pointers: int) -> int:
    """Bytes at the start of scratch for cursors, and for the pointers of a window too large for the C stack.

    Args:
        spatial_stages: how many there are.
        pointers: ``window_pointers`` of the stage that needs the most.
    """
    on_stack = pointers <= STACK_POINTERS
    return round_up(CURSOR_BYTES * spatial_stages, POINTER_BYTES) + (0 if on_stack else POINTER_BYTES * pointers)


def accumulator_bytes(stage: Stage, tensors: Sequence[BlockTensor]) -> int:
    """Bytes a stage's sums take in scratch, 0 if it keeps none."""
    return round_up(sum_bytes(stage, tensors), SCRATCH_ALIGNMENT)


def lay_out(block: Block, split: Split, capacities: Sequence[int]) -> ScratchLayout:
    """Places rings and accumulators one behind the other.

    When the tail runs, the rings of the spatial stages are done: what the tail writes lies over them, behind the sums
    it reads.
    """
    offsets, sums = [-1] * len(block.tensors), [-1] * len(block.stages)
    reserved = end = reserved_bytes(len(split.spatial), max(map(window_pointers, block.stages)))
    for index, stage in enumerate(split.tail, len(split.spatial)):
        if accumulates(stage, block.tensors) and stage.inputs[0] == split.driven:
            sums[index] = end
            end += accumulator_bytes(stage, block.tensors)
    tail_end = end
    for stage in split.spatial:
        end = _place(block, stage.output, capacities, offsets, end)
    for index, stage in enumerate(split.tail, len(split.spatial)):
        tail_end = _place(block, stage.output, capacities, offsets, tail_end)
        if accumulates(stage, block.tensors) and sums[index] < 0:
            sums[index] = tail_end
            tail_end += accumulator_bytes(stage, block.tensors)
    return ScratchLayout(tuple(offsets), tuple(sums), reserved, max(end, tail_end))


def _place(block: Block, index: int, capacities: Sequence[int], offsets: list[int], end: int) -> int:
    if block.tensors[index].storage is not Storage.SCRATCH:
        return end
    offsets[index] = end
    return end + ring_bytes(capacities[index], block.tensors[index].pixel_bytes)


MOST_KEPT = 1_000_000
"""Runs that are remembered at most, some 50 bytes each: all of a block of 100 x 100 pixels under hundreds of
configurations."""

_BEFORE = -1
"""The events of the driven tensor, which no stage causes; other outputs have the numbers below."""


@dataclass(frozen=True)
class _Node:
    """Where some stages at the end are followed, and the next one can be, in one way or another.

    Attributes:
        followed: what is known of the tile.
        asked: of the next stage.
        begins: the first position it computes.
        width: pixels of a row of it.
        then: by the way in which it runs, where that leads.
    """

    followed: Followed
    asked: Demand
    begins: int
    width: int
    then: dict[Way, _Node] = field(default_factory=dict)

    def way(self, longest: int, ahead: bool) -> Way:
        """How the next stage really runs: never longer than what is asked for at once, or than a row."""
        return (min(longest, self.width), True) if ahead else (min(longest, self._at_once), False)

    @cached_property
    def _at_once(self) -> int:
        return min(self.width, int(np.max(self.asked.ends - _starts(self.asked, self.begins), initial=1)))


@dataclass(frozen=True)
class Spare:
    """How much more a block's rings may take than under another configuration, none being smaller than there.

    Attributes:
        nbytes: of all rings together.
        block: it.
        capacities: pixels of each ring under the other configuration.
    """

    nbytes: int
    block: Block
    capacities: Sequence[int]

    def taken(self, tensor: int, capacity: int) -> int:
        """Bytes that a ring of so many pixels takes of it."""
        made = self.block.tensors[tensor]
        if made.storage is not Storage.SCRATCH:
            return 0
        return ring_bytes(capacity, made.pixel_bytes) - ring_bytes(self.capacities[tensor], made.pixel_bytes)


@dataclass
class TileOrder:
    """One tile under configurations that are asked one after the other.

    Stages at the end that run as they did under an earlier configuration are not followed again.

    Attributes:
        stages: the spatial stages of a block in topological order.
        tile: regions and where windows lie in them.
        driven: the tensor computed pixel by pixel.
        sums_driven: whether accumulators read it.
        completed: other tensors to complete at the end of the tile, in this order.
        outputs: the tensors whose runs are wanted.
    """

    stages: Sequence[Stage]
    tile: TileShape
    driven: int
    sums_driven: bool
    completed: Sequence[int]
    outputs: frozenset[int]
    _known: dict[int, _Node] = field(default_factory=dict)
    _kept: int = 0

    def under(self, config: BlockConfig) -> TileRun:
        """What happens under a configuration."""
        run = self.within(config, None)
        assert run is not None
        return run

    def within(self, config: BlockConfig, spare: Spare | None) -> TileRun | None:
        """The same; None, and nothing more is followed, once its rings take more than is free."""
        left = 0 if spare is None else spare.nbytes
        if config.chunk not in self._known:
            self._known[config.chunk] = self._node(self._start(config.chunk), len(self.stages))
        now, ways = self._known[config.chunk], list[Way]()
        for index in reversed(range(len(self.stages))):
            longest = config.longest_run(index) if self.stages[index].inputs else MAX_CHUNK
            way = now.way(longest, index in config.ahead)
            if way not in now.then:
                now.then[way] = self._node(self._step(now, index, *way), index)
            now = now.then[way]
            ways.append(way)
            if spare is not None:
                output = self.stages[index].output
                left -= spare.taken(output, now.followed.capacities[output])
                if left < 0:
                    return None
        return now.followed.result(tuple(ways))

    def _node(self, followed: Followed, index: int) -> _Node:
        """Where stages from this one on are followed, and what they need of the stage before them."""
        self._kept += sum(len(events) for events in followed.events.values())
        if self._kept > MOST_KEPT:
            self._known.clear()
            self._kept = 0
        if not index:
            return _Node(followed, merge([]), 0, 0)
        stage = self.stages[index - 1]
        begins, width = self._begins(stage), max(1, self.tile.extents[stage.output][1])
        return _Node(followed, _from(begins, followed.asked(stage.output)), begins, width)

    def _start(self, chunk: int) -> Followed:
        """What is asked before any stage asks: the driven tensor run by run, then all other outputs whole."""
        rows, columns = self.tile.extents[self.driven]
        whole = np.array([rows * columns], dtype=np.int64)
        _, visits, counts = split_runs(np.zeros(1, dtype=np.int64), whole, columns, chunk)
        length = 2 * len(visits)
        events = {_BEFORE: np.arange(length, dtype=np.int64).reshape(-1, 2)}
        demands: dict[int, tuple[Moments, ...]] = {self.driven: (Moments(_BEFORE, 0, visits + counts),)}
        holds = {self.driven: (Moments(_BEFORE, 1, np.append(visits, FAR)),)} if self.sums_driven else {}
        for number, output in enumerate(self.completed, start=1):
            rows, columns = self.tile.extents[output]
            events[_BEFORE - number] = np.full((1, 1), length, dtype=np.int64)
            asked = Moments(_BEFORE - number, 0, np.array([rows * columns], dtype=np.int64))
            demands[output] = (*demands.get(output, ()), asked)
            length += 1
        return Followed(events, demands, holds)

    def _step(self, now: _Node, index: int, longest: int, ahead: bool) -> Followed:
        """Follows one more stage: cuts the demand on it into runs and notes what these need of its inputs."""
        stage, windows, known = self.stages[index], self.tile.windows[index], now.followed
        output, width, begins = stage.output, now.width, now.begins
        asked = _whole_runs(now.asked, width, longest) if ahead else now.asked
        owner, position, count = split_runs(_starts(asked, begins), asked.ends, width, longest)

        demands = {tensor: moments for tensor, moments in known.demands.items() if tensor != output}
        holds = {tensor: moments for tensor, moments in known.holds.items() if tensor != output}
        runs = dict(known.runs)
        needed = _still_needed(known.events, demands, holds, runs)
        events, new = insert_events(needed, asked.times[owner], len(stage.inputs) + 1)
        extents = self.tile.extents
        for number, tensor in enumerate(stage.inputs):
            if windows[number] == (PIXEL, PIXEL) and extents[tensor] == extents[output]:
                first, end = position, position + count
            else:
                first, end = _seen(windows[number], extents[tensor], *np.divmod(position, width), count)
            oldest = np.minimum.accumulate(np.append(first, FAR)[::-1])[::-1]
            demands[tensor] = (*demands.get(tensor, ()), Moments(index, number, end))
            holds[tensor] = (*holds.get(tensor, ()), Moments(index, -1, oldest))
        if output in self.outputs:
            runs[output] = Moments(index, -1, position + count)
        produced = int(asked.ends[-1]) - begins if len(asked.ends) else 0
        return Followed(
            {**events, index: new},
            demands,
            holds,
            runs,
            {**known.capacities, output: _capacity(asked, known.held(output))},
            {**known.produced, output: produced},
            {**known.lengths, output: np.bincount(count)},
        )

    def _begins(self, stage: Stage) -> int:
        """The first position a stage computes: those before are of earlier runs."""
        if stage.kind is not StageKind.STATE:
            return 0
        return stage.padding[0] * self.tile.extents[stage.output][1] + stage.padding[1]


def _still_needed(
    events: Mapping[int, IntArray],
    demands: Mapping[int, Sequence[Moments]],
    holds: Mapping[int, Sequence[Moments]],
    runs: Mapping[int, Moments],
) -> dict[int, IntArray]:
    """The events that others refer to."""
    referred = {each.stage for by_tensor in (demands, holds) for moments in by_tensor.values() for each in moments}
    referred |= {each.stage for each in runs.values()}
    return {stage: found for stage, found in events.items() if stage in referred}


def _from(begins: int, asked: Demand) -> Demand:
    """What is asked for behind a position."""
    if not begins:
        return asked
    behind = asked.ends > begins
    return Demand(asked.times[behind], asked.ends[behind])


def _starts(asked: Demand, begins: int) -> IntArray:
    """Where what is asked for each time starts: behind what was asked for before."""
    return np.concatenate((np.full(1, begins), asked.ends[:-1]))[: len(asked.ends)]


def _whole_runs(asked: Demand, width: int, longest: int) -> Demand:
    """What is asked for of a stage that computes whole runs: each time up to the end of one, or of the row."""
    row, column = np.divmod(asked.ends - 1, width)
    return merge([Demand(asked.times, row * width + np.minimum((column // longest + 1) * longest, width))])


def _capacity(asked: Demand, holds: Sequence[Hold]) -> int:
    """The most pixels between the end of what was just written and the oldest still needed."""
    if not holds or not len(asked.ends):
        return 0
    oldest = reduce(np.minimum, (hold.needs_at(asked.times) for hold in holds))
    return max(0, int((asked.ends - oldest).max()))


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
