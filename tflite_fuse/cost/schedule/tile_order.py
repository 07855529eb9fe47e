"""Order in which the executor computes the pixels of one tile, without simulating it, and the layout of scratch.

The executor pulls: before a stage computes a run of pixels, it requests, input by input, all pixels under its windows,
and the stage that makes those pixels does the same. The runs of a stage therefore follow from the runs of its readers,
and the whole order is built from the driven tensor upwards, one stage at a time, with a few array operations per stage.
A common time axis (``events``) makes tensors with several readers exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce

import numpy as np

from tflite_fuse.cost.schedule.events import (
    FAR,
    Demand,
    Execution,
    Followed,
    Hold,
    Moments,
    TileRun,
    TileShape,
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
    """Offsets and sizes in scratch in bytes; −1 for tensors and sums outside it."""

    offsets: tuple[int, ...]
    accumulator_offsets: tuple[int, ...]
    reserved_bytes: int
    scratch_bytes: int


def ring_bytes(pixels: Count, pixel_bytes: int) -> Count:
    """Return the bytes of a ring with the given capacity in pixels."""
    return round_up(pixels * pixel_bytes, SCRATCH_ALIGNMENT)


def window_pointers(stage: Stage, pixels: int = 1) -> int:
    """Return the pointers that neighbouring output pixels of a stage need: to their windows' pixels and the outputs.

    Kinds that read two tensors at once need one more per pixel.
    """
    fewest, _ = KINDS[stage.kind].inputs
    rows, columns = stage_windows(stage)
    height = stage.kernel_size[0] if rows.spread == 1 else rows.most(1)
    return height * columns.most(pixels) + fewest * pixels


def reserved_bytes(spatial_stages: int, pointers: int) -> int:
    """Return the bytes at the start of scratch for cursors, and for pointers that exceed the C stack's share.

    Args:
        spatial_stages: number of spatial stages.
        pointers: largest ``window_pointers`` of any stage.
    """
    on_stack = pointers <= STACK_POINTERS
    return round_up(CURSOR_BYTES * spatial_stages, POINTER_BYTES) + (0 if on_stack else POINTER_BYTES * pointers)


def accumulator_bytes(stage: Stage, tensors: Sequence[BlockTensor]) -> int:
    """Return the bytes of a stage's sums in scratch; 0 without sums."""
    return round_up(sum_bytes(stage, tensors), SCRATCH_ALIGNMENT)


def lay_out(block: Block, split: Split, capacities: Sequence[int]) -> ScratchLayout:
    """Return the layout of scratch: rings and accumulators follow each other.

    The tail runs after the rings of the spatial stages are done, so its outputs reuse their bytes, behind the sums that
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
        if stage.overwrites >= 0:
            offsets[stage.output] = offsets[stage.overwrites]
        else:
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
"""Largest number of runs stored, at about 50 bytes each: enough for a block of 100 x 100 pixels under hundreds of
configurations.
"""

_BEFORE = -1
"""Number of the driven tensor's events, which no stage causes; other outputs have the numbers below."""


@dataclass(frozen=True)
class _Node:
    """State after following the last stages, from which the next stage can be followed under several executions.

    Attributes:
        followed: events of the tile so far.
        demand: requests to the next stage.
        begins: first position that it computes.
        width: pixels of a row of it.
        successors: resulting states, by the next stage's execution, its output and the tensor for which it waits.
    """

    followed: Followed
    demand: Demand
    begins: int
    width: int
    successors: dict[tuple[Execution, tuple[int, int]], _Node] = field(default_factory=dict)

    def execution(self, longest: int, ahead: bool) -> Execution:
        """Return the actual execution of the next stage: runs exceed neither a request nor a row."""
        return (min(longest, self.width), True) if ahead else (min(longest, self._at_once), False)

    @cached_property
    def _at_once(self) -> int:
        return min(self.width, int(np.max(self.demand.ends - self.demand.starts(self.begins), initial=1)))


@dataclass
class TileOrder:
    """One tile, followed under one configuration after another, with stages in one order after another.

    Last stages that run as before are not followed again.

    Attributes:
        tile: regions, and windows on them.
        driven: the tensor that is computed run by run.
        sums_driven: whether accumulators read it.
        outputs: tensors whose runs are returned.
    """

    tile: TileShape
    driven: int
    sums_driven: bool
    outputs: frozenset[int]
    _roots: dict[tuple[int, ...], _Node] = field(default_factory=dict)
    _kept: int = 0

    def follow(self, config: BlockConfig, stages: Sequence[Stage], completed: Sequence[int]) -> TileRun:
        """Follow the tile under a configuration and return its events.

        Args:
            config: the configuration.
            stages: the spatial stages of a block in topological order.
            completed: tensors besides the driven one to complete at the end of the tile, in this order.
        """
        turns = [(-1, -1), *((stage.output, stage.waits_for) for stage in stages)]
        start = config.chunk, *completed, *turns[-1]
        if start not in self._roots:
            self._roots[start] = self._node(self._start(config.chunk, completed), stages)
        node = self._roots[start]
        for index in reversed(range(len(stages))):
            longest = config.longest_run(index) if stages[index].inputs else MAX_CHUNK
            key = node.execution(longest, index in config.ahead), turns[index]
            if key not in node.successors:
                node.successors[key] = self._node(self._step(node, stages[index], *key[0]), stages[:index])
            node = node.successors[key]
        return node.followed.result()

    def _node(self, followed: Followed, stages: Sequence[Stage]) -> _Node:
        """Return the state after all stages but ``stages``, with the demand on the last one of these."""
        self._kept += sum(len(events) for events in followed.events.values())
        if self._kept > MOST_KEPT:
            self._roots.clear()
            self._kept = 0
        if not stages:
            return _Node(followed, merge([]), 0, 0)
        begins, width = self._begins(stages[-1]), max(1, self.tile.extents[stages[-1].output][1])
        return _Node(followed, _from(begins, followed.demand_on(stages[-1].output)), begins, width)

    def _start(self, chunk: int, completed: Sequence[int]) -> Followed:
        """Return the initial requests: the driven tensor run by run, then all other outputs whole."""
        rows, columns = self.tile.extents[self.driven]
        whole = np.array([rows * columns], dtype=np.int64)
        _, visits, counts = split_runs(np.zeros(1, dtype=np.int64), whole, columns, chunk)
        length = 2 * len(visits)
        events = {_BEFORE: np.arange(length, dtype=np.int64).reshape(-1, 2)}
        demands: dict[int, tuple[Moments, ...]] = {self.driven: (Moments(_BEFORE, 0, visits + counts),)}
        holds = {self.driven: (Moments(_BEFORE, 1, np.append(visits, FAR)),)} if self.sums_driven else {}
        for number, output in enumerate(completed, start=1):
            rows, columns = self.tile.extents[output]
            events[_BEFORE - number] = np.full((1, 1), length, dtype=np.int64)
            requests = Moments(_BEFORE - number, 0, np.array([rows * columns], dtype=np.int64))
            demands[output] = (*demands.get(output, ()), requests)
            length += 1
        return Followed(events, demands, holds)

    def _step(self, node: _Node, stage: Stage, longest: int, ahead: bool) -> Followed:
        """Follow one more stage: divide the demand on it into runs and add their demands on its inputs."""
        output, windows, earlier = stage.output, self.tile.windows[stage.output], node.followed
        width, begins = node.width, node.begins
        demand = _whole_runs(node.demand, width, longest) if ahead else node.demand
        owner, position, count = split_runs(demand.starts(begins), demand.ends, width, longest)

        demands = {tensor: moments for tensor, moments in earlier.demands.items() if tensor != output}
        shared = earlier.holds.get(output, ()) if stage.overwrites >= 0 else ()
        holds = {tensor: moments for tensor, moments in earlier.holds.items() if tensor != output}
        if shared:
            holds[stage.overwrites] = shared
        runs = dict(earlier.runs)
        needed = _still_needed(earlier.events, demands, holds, runs)
        requests = len(stage.inputs) + (stage.waits_for >= 0)
        events, new = insert_events(needed, demand.times[owner], requests + 1)
        extents = self.tile.extents
        for number, tensor in enumerate(stage.inputs):
            if windows[number] == (PIXEL, PIXEL) and extents[tensor] == extents[output]:
                first, end = position, position + count
            else:
                first, end = _seen(windows[number], extents[tensor], *np.divmod(position, width), count)
            oldest = np.minimum.accumulate(np.concatenate((first, [FAR]))[::-1])[::-1]
            demands[tensor] = (*demands.get(tensor, ()), Moments(output, number, end))
            holds[tensor] = (*holds.get(tensor, ()), Moments(output, -1, oldest))
        if stage.waits_for >= 0:
            demands[stage.waits_for] = (
                *demands.get(stage.waits_for, ()),
                Moments(output, len(stage.inputs), position + count),
            )
        if output in self.outputs:
            runs[output] = Moments(output, -1, position + count)
        produced = int(demand.ends[-1]) - begins if len(demand.ends) else 0
        return Followed(
            {**events, output: new},
            demands,
            holds,
            runs,
            {**earlier.capacities, output: _capacity(demand, earlier.holds_of(output))},
            {**earlier.produced, output: produced},
            {**earlier.lengths, output: _counted(count)},
        )

    def _begins(self, stage: Stage) -> int:
        """Return the first position that a stage computes; earlier inferences computed those before it."""
        if stage.kind is not StageKind.STATE:
            return 0
        return stage.padding[0] * self.tile.extents[stage.output][1] + stage.padding[1]


def _still_needed(
    events: Mapping[int, IntArray],
    demands: Mapping[int, Sequence[Moments]],
    holds: Mapping[int, Sequence[Moments]],
    runs: Mapping[int, Moments],
) -> dict[int, IntArray]:
    """Return the events that others refer to."""
    referred = {each.output for by_tensor in (demands, holds) for moments in by_tensor.values() for each in moments}
    referred |= {each.output for each in runs.values()}
    return {output: own for output, own in events.items() if output in referred}


def _from(begins: int, demand: Demand) -> Demand:
    """Return the demand behind a position."""
    if not begins:
        return demand
    behind = demand.ends > begins
    return Demand(demand.times[behind], demand.ends[behind])


def _whole_runs(demand: Demand, width: int, longest: int) -> Demand:
    """Return the demand extended to whole runs: each request up to the end of a run or of the row."""
    row, column = np.divmod(demand.ends - 1, width)
    return merge([Demand(demand.times, row * width + np.minimum((column // longest + 1) * longest, width))])


def _counted(lengths: IntArray) -> dict[int, int]:
    """Return the number of runs of each length."""
    times = np.bincount(lengths)
    used = np.flatnonzero(times)
    return dict(zip(used.tolist(), times[used].tolist(), strict=True))


def _capacity(demand: Demand, holds: Sequence[Hold]) -> int:
    """Return the most pixels between the end of the last run and the oldest position still needed."""
    if not holds or not len(demand.ends):
        return 0
    oldest = reduce(np.minimum, (hold.needs_at(demand.times) for hold in holds))
    return max(0, int((demand.ends - oldest).max()))


def _seen(
    windows: Windows, extents: tuple[int, int], row: IntArray, column: IntArray, count: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the first position and the end of the input under each run; (FAR, 0) if it is all padding."""
    (height, width), (rows, columns) = extents, windows
    top, bottom = rows.first(row), rows.end(row + 1)
    left, right = columns.first(column), columns.end(column + count)
    seen = (bottom > 0) & (top < height) & (right > 0) & (left < width) & (top < bottom) & (left < right)
    first = np.maximum(top, 0) * width + np.maximum(left, 0)
    end = (np.minimum(bottom, height) - 1) * width + np.minimum(right, width)
    return np.where(seen, first, FAR), np.where(seen, end, 0)
