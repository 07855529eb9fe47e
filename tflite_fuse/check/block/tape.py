"""The executor's events in one tile, in order, and whether every pixel is present when it is read.

The executor's loops are expanded by substitution into a *tape*. The initial tape holds the tile driver's events:
demands ("the driven tensor must exist up to this pixel"), run after run, and sums in between. From the last stage to
the first, each demand for a stage's output is replaced by the runs that fulfil it; a run is a demand on each input,
then a computation. Demands that are already fulfilled vanish. The final tape holds computations and sums in the
executor's order; the replay finds for each read whether the pixel is written and not yet overwritten.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tflite_fuse.check.block.regions import BlockProgram, Tile, looks
from tflite_fuse.ir.enums import StageKind, Storage
from tflite_fuse.ir.limits import MAX_CHUNK

Ints = npt.NDArray[np.int64]

NEVER = 1 << 60
"""Oldest pixel of a run that reads nothing."""

_DEMAND, _COMPUTE, _SUM = 0, 1, 2


@dataclass
class Tape:
    """Events in order, one array element each.

    Attributes:
        what: demand, compute or sum.
        actor: the tensor demanded, the stage that computes, -1 for sums.
        first, end: pixels computed or summed; ``end`` of those demanded; in raster order of the tensor's region.
    """

    what: Ints
    actor: Ints
    first: Ints
    end: Ints

    def replace(self, at: Ints, counts: Ints, other: Tape) -> Tape:
        """Return the tape with event ``at[i]`` replaced by the next ``counts[i]`` events of another."""
        sizes = np.ones(len(self.what), np.int64)
        sizes[at] = counts
        source = np.repeat(np.arange(len(sizes)), sizes)
        comes_from_other = np.zeros(len(sizes), bool)
        comes_from_other[at] = True
        inserted = comes_from_other[source]
        columns = []
        for own, theirs in zip(self.columns(), other.columns(), strict=True):
            column = own[source]
            column[inserted] = theirs
            columns.append(column)
        return Tape(*columns)

    def columns(self) -> tuple[Ints, Ints, Ints, Ints]:
        return self.what, self.actor, self.first, self.end


@dataclass
class Replay:
    """Results of one tile.

    Attributes:
        tape: computations and sums in order.
        needed: tensor → pixels its ring must hold.
        missing: tensors read before they were computed.
        runs: number of computations.
    """

    tape: Tape
    needed: dict[int, int]
    missing: list[int]
    runs: int


def cut(starts: Ints, ends: Ints, width: int, chunk: int) -> tuple[Ints, Ints, Ints]:
    """Cut ranges of pixels into runs of at most ``chunk`` pixels of one row: (range, first pixel, end) of each run."""
    rows = starts // width
    counts = (ends - 1) // width - rows + 1
    owner = np.repeat(np.arange(len(starts)), counts)
    row = rows[owner] + _count_up(counts)
    low, high = np.maximum(starts[owner], row * width), np.minimum(ends[owner], (row + 1) * width)
    runs = -((low - high) // chunk)
    part = np.repeat(np.arange(len(low)), runs)
    first = low[part] + chunk * _count_up(runs)
    return owner[part], first, np.minimum(first + chunk, high[part])


def _count_up(counts: Ints) -> Ints:
    """Return 0, 1, ... counts[0] - 1, 0, 1, ... counts[1] - 1, and so on."""
    return np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)


def follow(program: BlockProgram, tile: Tile) -> Replay:
    """Expand and replay one tile."""
    tape = _start(program, tile)
    for s in reversed(program.spatial):
        tape = _expand(program, tile, tape, s)
    needed: dict[int, int] = {}
    missing: list[int] = []
    sharing: dict[int, tuple[int, ...]] = {}
    for s in reversed(program.spatial):
        tensor = program.stages[s].output
        in_ring = (tensor, *sharing.get(tensor, ()))
        sharing[program.overwritten(s)] = in_ring
        needed[tensor], complete = _replay(program, tile, tape, s, in_ring)
        if not complete:
            missing.append(tensor)
    for s in program.spatial:
        if program.overwritten(s) in needed:
            needed[program.stages[s].output] = needed[program.overwritten(s)]
    return Replay(tape, needed, missing, int((tape.what == _COMPUTE).sum()))


def _start(program: BlockProgram, tile: Tile) -> Tape:
    """Return the driver's loop over the driven tensor, then the demands that complete the outputs."""
    driven = program.header.driven
    whole = np.array([tile.pixels(driven)], np.int64)
    _, first, end = cut(np.zeros(1, np.int64), whole, max(1, tile.extents[driven][1]), program.header.chunk)
    rows = []
    if program.tensors[driven].producer >= 0:
        rows.append((np.full_like(first, _DEMAND), np.full_like(first, driven), first, end))
    if len(program.tail):
        rows.append((np.full_like(first, _SUM), np.full_like(first, -1), first, end))
    last = [s for s in program.spatial if program.tensors[program.stages[s].output].storage != Storage.SCRATCH]
    outputs = np.array([program.stages[s].output for s in last], np.int64)
    ends = np.array([tile.pixels(t) for t in outputs.tolist()], np.int64)
    completed = (np.full_like(outputs, _DEMAND), outputs, np.zeros_like(outputs), ends)
    loop = (np.stack(parts, axis=1).ravel() for parts in zip(*rows, strict=True))
    return Tape(*(np.concatenate(parts) for parts in zip(loop, completed, strict=True)))


def _expand(program: BlockProgram, tile: Tile, tape: Tape, s: int) -> Tape:
    """Replace demands for the output of stage ``s`` by the runs that fulfil them."""
    output = program.stages[s].output
    at = np.flatnonzero((tape.what == _DEMAND) & (tape.actor == output))
    reached = np.maximum.accumulate(tape.end[at]) if len(at) else tape.end[at]
    start = first_computed(program, s)
    before = np.concatenate((np.full(1, start), np.maximum(reached[:-1], start)))[: len(reached)]
    if program.stages[s].runs_ahead:
        reached = _to_run_end(reached, max(1, tile.extents[output][1]), longest_run(program, s))
        before = np.concatenate((np.zeros(1, np.int64), reached[:-1]))[: len(reached)]
    unmet = np.flatnonzero(reached > before)
    owner, first, end = cut(before[unmet], reached[unmet], max(1, tile.extents[output][1]), longest_run(program, s))
    sources = [(n, t) for n, t in enumerate(program.inputs[s]) if program.tensors[t].producer >= 0]
    awaited = program.stages[s].waits_for - 1
    each = len(sources) + (awaited >= 0) + 1
    shape = (len(first), each)
    what, actor = np.full(shape, _DEMAND, np.int64), np.empty(shape, np.int64)
    begin, until = np.zeros(shape, np.int64), np.empty(shape, np.int64)
    for column, (number, tensor) in enumerate(sources):
        actor[:, column] = tensor
        until[:, column] = seen(program, tile, s, number, first, end)[1]
    if awaited >= 0:
        actor[:, -2], until[:, -2] = awaited, end
    what[:, -1], actor[:, -1], begin[:, -1], until[:, -1] = _COMPUTE, s, first, end
    counts = np.zeros(len(at), np.int64)
    counts[unmet] = each * np.bincount(owner, minlength=len(unmet))[: len(unmet)]
    return tape.replace(at, counts, Tape(what.ravel(), actor.ravel(), begin.ravel(), until.ravel()))


def _to_run_end(pixels: Ints, width: int, run: int) -> Ints:
    """Return the end of the run that holds the last of so many pixels; runs fill each row from its start."""
    rows, rest = np.divmod(pixels - 1, width)
    return np.where(pixels > 0, rows * width + np.minimum(rest + run - rest % run, width), 0)


def longest_run(program: BlockProgram, s: int) -> int:
    """Return the most pixels that a stage computes at once; a source fills as much of a row as its readers need."""
    return MAX_CHUNK if is_source(program, s) else program.stages[s].longest_run or program.header.chunk


def first_computed(program: BlockProgram, s: int) -> int:
    """Return the first pixel that a stage computes; a STATE keeps those before from earlier runs."""
    stage = program.stages[s]
    if stage.kind != StageKind.STATE:
        return 0
    return stage.pad_top * program.tensors[stage.output].width + stage.pad_left


def seen(program: BlockProgram, tile: Tile, s: int, number: int, first: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return oldest pixel and end of the pixels that runs of stage ``s`` read of an input; (NEVER, 0) on padding."""
    out_width = max(1, tile.extents[program.stages[s].output][1])
    row, begin = np.divmod(first, out_width)
    rows = _under(program, tile, (s, number, 0), row, row)
    columns = _under(program, tile, (s, number, 1), begin, (end - 1) % out_width)
    is_read = (rows[0] < rows[1]) & (columns[0] < columns[1])
    width = tile.extents[program.inputs[s][number]][1]
    oldest, behind = rows[0] * width + columns[0], (rows[1] - 1) * width + columns[1]
    return np.where(is_read, oldest, NEVER), np.where(is_read, behind, 0)


def _under(program: BlockProgram, tile: Tile, of: tuple[int, int, int], first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Return the part of an input's rows or columns under the windows of neighbouring outputs; empty on padding.

    Args:
        program, tile: the block, and a class of its tiles.
        of: stage, number of its input, axis.
        first, last: first and last output along the axis.
    """
    s, number, axis = of
    stride, _, extent, apart = looks(program, s, number, axis)
    origin, length = tile.origins[s][number][axis], tile.extents[program.inputs[s][number]][axis]
    begin, end = -(-(first * stride + origin) // apart), -(-(last * stride + origin + extent) // apart)
    return np.clip(begin, 0, length), np.clip(end, 0, length)


def reads(program: BlockProgram, tile: Tile, tape: Tape, tensor: int) -> tuple[Ints, Ints, Ints]:
    """Return all reads of a tensor in a tile, in order: (event, oldest pixel, end)."""
    spans = []
    for s in program.spatial:
        for number, source in enumerate(program.inputs[s]):
            if source == tensor:
                at = np.flatnonzero((tape.what == _COMPUTE) & (tape.actor == s))
                spans.append((at, *seen(program, tile, s, number, tape.first[at], tape.end[at])))
    if tensor == program.header.driven:
        at = np.flatnonzero(tape.what == _SUM)
        spans.append((at, tape.first[at], tape.end[at]))
    empty = np.zeros(0, np.int64)
    at, oldest, end = (np.concatenate([empty, *parts]) for parts in zip(*spans, strict=True)) if spans else (empty,) * 3
    order = np.argsort(at, kind="stable")
    return at[order], oldest[order], end[order]


def writes(tape: Tape, stage: int) -> tuple[Ints, Ints]:
    """Return the runs of a stage: (event, end of the pixels computed so far)."""
    at = np.flatnonzero((tape.what == _COMPUTE) & (tape.actor == stage))
    return at, tape.end[at]


def _replay(program: BlockProgram, tile: Tile, tape: Tape, s: int, in_ring: tuple[int, ...]) -> tuple[int, bool]:
    """Return the pixels that the ring of a stage's output must hold, and whether each was there when it was read.

    Args:
        in_ring: the output, and the tensors whose pixels replace its pixels.
    """
    written, ends = writes(tape, s)
    each = (reads(program, tile, tape, tensor) for tensor in in_ring)
    at, oldest, end = (np.concatenate(parts) for parts in zip(*each, strict=True))
    reading = oldest < NEVER
    at, oldest, end = at[reading], oldest[reading], end[reading]
    if not len(at):
        return 0, True
    newest = np.append(first_computed(program, s), ends)[np.searchsorted(written, at)]
    return int((newest - oldest).max()), bool((end <= newest).all())


def is_source(program: BlockProgram, stage: int) -> bool:
    """Return whether a stage's pixels come from outside the arena."""
    return program.stages[stage].kind == StageKind.SOURCE
