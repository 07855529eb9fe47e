"""Blocks for a device with a fast and a slow memory: the arena in the one, tensors between blocks in the other.

Where the model fits the fast memory without computing anything twice, nothing lies in the slow one. Else the search
finds, exactly over all blocks in one tile, the cuts of least traffic with all that passes from block to block in the
slow memory. Unused bytes of the fast one then take tensors back, those that save most cycles a byte first, and longer
runs of pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tflite_fuse.cost.priced_program import PricedProgram, PricedStep
from tflite_fuse.emit.slow import slow_places
from tflite_fuse.errors import LimitError
from tflite_fuse.ir.block import ElementType
from tflite_fuse.model.memories import Memories, Region
from tflite_fuse.passes.fusing.candidate import Candidate, Site
from tflite_fuse.passes.fusing.explore import solve
from tflite_fuse.passes.fusing.own_runs import OwnRuns
from tflite_fuse.passes.goal import NOTHING_RECOMPUTED, Goal
from tflite_fuse.search.front import Front, Point
from tflite_fuse.search.fusion_front import CHUNKS

_NO_MORE = 1.0
"""Compute factor allowed where the caller sets none: nothing is computed twice."""

STEPS = 8
"""Number of equal steps from the least fast memory to the largest useful one; a front has a point for each end."""

_TRIED = {1.0: 3, 0.75: 2, 0.5: 2}
"""By share of the fast memory: the number of candidates to find whose arena takes at most that share. The rest of the
memory holds tensors again.
"""


def solve_in_memories(site: Site, memories: Memories, goal: Goal) -> Candidate:
    """Return the candidate of least traffic whose arena fits the fast memory.

    Args:
        site: the model and its fronts.
        memories: of the device.
        goal: compute allowed for an arena in the fast memory alone; by default that of the file.

    Raises:
        LimitError: no candidate fits; the message names the block and its bytes.
    """
    room = memories.fast.nbytes
    alone = Goal(max_ram=room, max_compute=_NO_MORE if goal.is_default else goal.max_compute)
    try:
        return solve(site, alone)
    except LimitError:
        candidates = [_with_fast_tensors(each, memories) for each in _fitting(site, memories)]
    best = min(candidates, key=lambda each: (_cycles(each, memories.slow), each.arena))
    best = _in_longer_runs(best, room)
    return OwnRuns(site).with_own_runs(best, room - best.arena)


def front_in_memories(site: Site, memories: Memories) -> list[tuple[int, Candidate]]:
    """Return bytes of a fast memory, ascending, each with the candidate of ``solve_in_memories``.

    Sizes reach from the least that suffices to the one of ``memories``, or to one that holds the whole model. A size
    is left out if the slow memory is too small for the tensors that do not fit it.

    Args:
        site: the model and its fronts.
        memories: of the device.

    Raises:
        LimitError: no size suffices; the message names the block and its bytes, or those missing in the slow memory.
    """
    least = _least(site, _slow_front(site, memories))
    if least.arena > memories.fast.nbytes:
        raise _too_small(least, memories.fast)
    most = min(memories.fast.nbytes, solve(site, Goal(max_compute=_NO_MORE)).arena)
    points, failure = list[tuple[int, Candidate]](), LimitError()
    for room in sorted({least.arena + (most - least.arena) * step // STEPS for step in range(STEPS + 1)}):
        within = replace(memories, fast=replace(memories.fast, nbytes=room))
        best = solve_in_memories(site, within, NOTHING_RECOMPUTED)
        try:
            slow_places(best.program, memories.slow.nbytes)
        except LimitError as error:
            failure = error
            continue
        points.append((room, best))
    if not points:
        raise failure
    return points


def may_be_slow(graph: PricedProgram) -> frozenset[int]:
    """Return the tensors of more than a pixel that blocks alone read and write, in a type that is not converted."""
    tensors, used = set[int](), set(graph.outputs)
    for step in reversed(graph.steps):
        if not step.fusable or not used.isdisjoint(step.outputs):
            used.update(step.inputs)
    # No block ends in a result of no use, or in a RESHAPE to other rows and columns.
    fusable = [
        each.fusable and not used.isdisjoint(each.outputs) and not _leaves_in_rows(graph, each) for each in graph.steps
    ]
    for tensor, size in enumerate(graph.sizes):
        extent, readers, writer = graph.tensors[tensor], graph.consumers[tensor], graph.producer[tensor]
        users = (*readers, *((writer,) if writer >= 0 else ()))
        in_blocks = all(fusable[index] for index in users) and tensor in used
        kept = tensor in graph.inputs and tensor in graph.outputs
        if size == extent.nbytes > 0 and extent.pixels > 1 and in_blocks and not kept:
            tensors.add(tensor) if extent.element_type is not ElementType.UINT8 else None
    return frozenset(tensors)


def _leaves_in_rows(graph: PricedProgram, step: PricedStep) -> bool:
    """Return whether a step is a RESHAPE to other rows and columns that no block can begin with."""
    source, output = step.inputs[0], step.outputs[0]
    before, after = graph.tensors[source], graph.tensors[output]
    renames = step.view and (before.height, before.width) != (after.height, after.width)
    leaves = output in graph.outputs or not all(graph.steps[reader].fusable for reader in graph.consumers[output])
    return renames and leaves


def _fitting(site: Site, memories: Memories) -> Iterator[Candidate]:
    """Yield candidates of least traffic in shares of the fast memory, with all between blocks in the slow one.

    Runs are of one pixel, which leaves most of the fast memory for tensors that return.

    Raises:
        LimitError: none does.
    """
    room, front, candidates = memories.fast.nbytes, _slow_front(site, memories), dict[Point, Candidate]()
    for share, most in _TRIED.items():
        fits = 0
        for point in reversed(front.points):
            if fits < most and point.ram_bytes <= room * share * (1 + site.tuning.near):
                candidates[point] = _all_slow(site, point)
                fits += candidates[point].arena <= room * share
    fitting = [each for each in candidates.values() if each.arena <= room]
    if not fitting:
        fitting = [_least(site, front)]
        if fitting[0].arena > room:
            raise _too_small(fitting[0], memories.fast)
    yield from fitting


def _slow_front(site: Site, memories: Memories) -> Front:
    """Return the front of fast bytes against work and traffic, with all between blocks in the slow memory."""
    slow, costs = may_be_slow(site.graph), (memories.slow.read_cycles, memories.slow.write_cycles)
    options = replace(
        site.options, slow=slow, traffic=costs, strips=False, bands=False, chunks=(1,), target=None, most_compute=None
    )
    return site.front_of(options)


def _all_slow(site: Site, point: Point) -> Candidate:
    return site.realise(replace(point, slow=may_be_slow(site.graph)))


def _least(site: Site, front: Front) -> Candidate:
    """Return the candidate of the least arena; the first points of the front are placed."""
    points = front.points[: site.tuning.placed_first]
    return min((_all_slow(site, point) for point in points), key=lambda each: each.arena)


def _too_small(least: Candidate, fast: Region) -> LimitError:
    names = [least.site.graph.steps[index].name for index in least.point.largest]
    label = f"the block from {names[0]} to {names[-1]}" if len(names) > 1 else f"{names[0]}"
    return LimitError(
        f"the fast memory {fast.name} has {fast.nbytes:,} bytes: {label} keeps the least arena at {least.arena:,}",
        limit=fast.nbytes,
        reached=least.arena,
        operator=names[0],
    )


def _with_fast_tensors(best: Candidate, memories: Memories) -> Candidate:
    """Return the candidate with tensors in the fast memory again, as many as fit, those that save most a byte first."""
    sizes, slow, saved = best.site.graph.sizes, best.program.slow, dict[int, float]()
    for block in best.blocks:
        for tensor in block.extraction.inputs:
            saved[tensor] = saved.get(tensor, 0) + memories.slow.read_cycles
        for tensor in block.extraction.outputs:
            saved[tensor] = saved.get(tensor, 0) + memories.slow.write_cycles
    for tensor in sorted(slow, key=lambda tensor: (-saved[tensor], -sizes[tensor], tensor)):
        candidate = best.site.realise(replace(best.point, slow=slow - {tensor}))
        if candidate.arena <= memories.fast.nbytes:
            best, slow = candidate, candidate.program.slow
    return best


def _in_longer_runs(best: Candidate, room: int) -> Candidate:
    """Return the candidate with longer runs in each block as far as the fast memory has room while it runs."""
    for index in sorted(range(len(best.blocks)), key=lambda index: -best.blocks[index].plan.schedule.macs):
        for chunk in reversed(CHUNKS[1:]):
            blocks = list(best.point.blocks)
            blocks[index] = replace(blocks[index], config=replace(blocks[index].config, chunk=chunk))
            candidate = best.site.realise(replace(best.point, blocks=tuple(blocks)))
            if candidate.arena <= room and candidate.time < best.time:
                best = candidate
                break
    return best


def _cycles(candidate: Candidate, slow: Region) -> float:
    return candidate.traffic.read * slow.read_cycles + candidate.traffic.written * slow.write_cycles
