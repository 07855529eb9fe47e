"""Exact search of all paths through the cut graph, as a Pareto front of RAM and work.

A label at a cut describes a path to it: the largest working set so far, its bytes of the arena's tail (if that counts),
and its work. RAM is the sum of the first two. All labels are extended by all edges, and dominated labels at the same
cut are dropped, because they cannot become part of a better path. The labels at the last cut are the front of the whole
model.

Two bounds keep the number of labels small without losing a point. No path has a peak below that of the bottleneck
shortest path, so smaller peaks count as equal to it. A path with more RAM than the best one of least work is not on the
front, so labels that can only become such paths are dropped.

Among paths with equal RAM and work, if tails do not count, the path that fuses the fewest operators is selected, then
the one with the fewest blocks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

import numpy as np

from tflite_fuse.ir.axes import IntArray
from tflite_fuse.search.cut_graph import NEVER, CutGraph, Edge, least_ram, pareto

_DEAREST = (1 << 63) - 1
"""Largest cost that can be represented."""
_AT_ONCE = 1024
"""Number of labels compared one by one before dominated ones are dropped in bulk."""


@dataclass(frozen=True)
class Leg:
    """One edge of a path, under one of its options."""

    edge: Edge
    option: int


@dataclass(frozen=True)
class Path:
    """A path through the cut graph.

    Attributes:
        peak: largest RAM of its edges in bytes.
        tail: bytes, the sum over its edges and the graph's own.
        work: sum over its edges.
        legs: the edges from first to last.
    """

    peak: int
    tail: int
    work: int
    legs: tuple[Leg, ...]


@dataclass(frozen=True)
class _Bounds:
    """Bounds on labels that can be on the front.

    Attributes:
        floor: no path has a smaller peak.
        ceiling: no path with more RAM is on the front.
        tail_ahead, work_ahead: for each cut, the least tail and the least work from there to the end.
        most_work: largest work of a path.
        tails: whether edges differ in their tail.
        most_cuts: number of cuts on the longest path.
        step: costs within an interval of this length count as equal; all edges of a path lose at most the least gain.
    """

    floor: int
    ceiling: int
    tail_ahead: list[int]
    work_ahead: list[int]
    most_work: int
    tails: bool
    most_cuts: int
    step: int = 1


@dataclass(frozen=True)
class _Labels:
    """The labels at one cut, one array entry each.

    ``cost`` counts work first, then fused operators and blocks. ``edge``, ``label`` and ``option`` are the origin of a
    label: the edge into this cut, the label at its start, and its option.
    """

    peak: IntArray
    tail: IntArray
    cost: IntArray
    edge: IntArray
    label: IntArray
    option: IntArray


def search_paths(
    cuts: CutGraph, most_work: int | None = None, least_gain: float = 0.0, most_ram: int | None = None
) -> tuple[Path, ...]:
    """Return all paths that no other dominates in RAM and work, RAM ascending.

    RAM is peak + tail.

    Args:
        cuts: the edges.
        most_work: work beyond which paths are dropped, except those of least work; None for no limit.
        least_gain: paths whose work is not smaller than the previous one's by more than this share are left out, and
            as much work may be lost.
        most_ram: bytes of RAM beyond which paths are dropped, except those of least RAM, unless work is limited.
    """
    start, edges = cuts.start, [list(into) for into in cuts.into]
    tails = any(edge.tail for into in edges for edge in into)
    ahead = _ahead(edges, lambda edge: edge.tail), _ahead(edges, _least_work)
    bounds = _Bounds(_least_peak(edges, start), NEVER, *ahead, NEVER, tails, cuts.most_cuts)
    if most_work is not None:
        bounds = replace(bounds, most_work=max(most_work, bounds.work_ahead[0]))
    tight = _cheapest_edges(edges)
    bound = least_ram(CutGraph(start, 0, tuple(map(tuple, tight))))  # of one of these paths, maybe not the best
    cheapest = _labels(tight, replace(bounds, ceiling=bound))[-1]
    ceiling = int((cheapest.peak + cheapest.tail).min())
    if most_ram is not None and most_work is None:
        ceiling = min(ceiling, max(most_ram, least_ram(cuts)) - cuts.tail)
    step = int(least_gain * bounds.work_ahead[0] * bounds.most_cuts) or 1
    labels = _labels(edges, replace(bounds, ceiling=ceiling, step=step))
    end = labels[-1]
    paths: list[Path] = []
    for index in pareto(end.peak + end.tail, end.cost):
        work = int(end.cost[index]) // bounds.most_cuts**2
        if not paths or work < (1 - least_gain) * paths[-1].work:
            legs, peak = _trace(edges, labels, int(index))
            paths.append(Path(max(start, peak), int(end.tail[index]) + cuts.tail, work, legs))
    return tuple(paths)


def paths_by_ram(cuts: CutGraph, most_work: int | None = None) -> Iterator[Path]:
    """Yield all paths within some work in ascending order of their RAM, dominated ones too.

    Paths are followed best first, of equal ones the one that is furthest ahead; bounds are the least peak, tail and
    work ahead. An edge's options are taken one after the other, because each needs more RAM than the one before.

    Args:
        cuts: the edges.
        most_work: work of the longest path; None for no limit.
    """
    edges, out = [list(into) for into in cuts.into], [list[Edge]() for _ in cuts.into]
    for edge in (edge for into in edges for edge in into):
        out[edge.source].append(edge)
    tail_ahead, work_ahead = _ahead(edges, lambda edge: edge.tail), _ahead(edges, _least_work)
    peak_ahead = [NEVER] * (len(edges) - 1) + [0]
    for edge in (edge for into in reversed(edges) for edge in into):
        least = max(int(edge.options.ram[0]), peak_ahead[edge.target])
        peak_ahead[edge.source] = min(peak_ahead[edge.source], least)
    waiting, number = list[tuple[int, int, int, Path, Leg]](), count()

    def follow(path: Path, edge: Edge, option: int) -> None:
        """Add the path that continues with an edge under its first option, from a number on, within the work."""
        left = NEVER if most_work is None else most_work - path.work - work_ahead[edge.target]
        option = max(option, int(np.count_nonzero(edge.options.work > left)))
        if option < len(edge.options):
            peak = max(path.peak, int(edge.options.ram[option]), peak_ahead[edge.target])
            ram = peak + path.tail + edge.tail + tail_ahead[edge.target]
            heappush(waiting, (ram, -edge.target, next(number), path, Leg(edge, option)))

    start = Path(cuts.start, cuts.tail, 0, ())
    for edge in out[0]:
        follow(start, edge, 0)
    while waiting:
        *_, path, leg = heappop(waiting)
        follow(path, leg.edge, leg.option + 1)
        peak, work = max(path.peak, int(leg.edge.options.ram[leg.option])), int(leg.edge.options.work[leg.option])
        longer = Path(peak, path.tail + leg.edge.tail, path.work + work, (*path.legs, leg))
        if leg.edge.target == len(out) - 1:
            yield longer
        for edge in out[leg.edge.target]:
            follow(longer, edge, 0)


def _least_peak(edges: list[list[Edge]], start: int) -> int:
    """Return the least peak of any path in bytes."""
    least = [start]
    for into in edges[1:]:
        least.append(min((max(least[edge.source], int(edge.options.ram[0])) for edge in into), default=NEVER))
    return least[-1]


def _ahead(edges: list[list[Edge]], cost: Callable[[Edge], int]) -> list[int]:
    """Return for each cut the least sum of ``cost`` over the edges of any path from it to the end."""
    least = [NEVER] * (len(edges) - 1) + [0]
    for into in reversed(edges):
        for edge in into:
            least[edge.source] = min(least[edge.source], least[edge.target] + cost(edge))
    return least


def _least_work(edge: Edge) -> int:
    """Return the work of an edge's cheapest option."""
    return int(edge.options.work[-1])


def _cheapest_edges(edges: list[list[Edge]]) -> list[list[Edge]]:
    """Return the edges on paths of least work, each with only its cheapest option."""
    least, kept = [0], [edges[0]]
    for into in edges[1:]:
        least.append(min((least[edge.source] + _least_work(edge) for edge in into), default=NEVER))
        tight = [edge for edge in into if least[edge.source] + _least_work(edge) == least[-1] < NEVER]
        kept.append([_cheapest(edge) for edge in tight])
    return kept


def _cheapest(edge: Edge) -> Edge:
    """Return an edge with only its cheapest option."""
    return edge if len(edge.options) == 1 else replace(edge, options=edge.options.pick(np.array([-1])))


def _labels(edges: list[list[Edge]], bounds: _Bounds) -> list[_Labels]:
    """Return the labels at every cut; edges that no label can use are removed from ``edges``."""
    zeros = np.zeros(1, dtype=np.int64)
    labels = [_Labels(np.array([bounds.floor]), zeros, zeros, zeros, zeros, zeros)]
    for cut in range(1, len(edges)):
        edges[cut] = [
            edge
            for edge in edges[cut]
            if int(edge.options.ram[0]) <= bounds.ceiling and len(labels[edge.source].peak) > 0
        ]
        labels.append(_extend(edges[cut], cut, labels, bounds))
    return labels


class _Increment(NamedTuple):
    """One edge under one of its options: its increments to every label at its start.

    Attributes:
        edge: index among the edges into the cut.
        option: index among the edge's options.
        ram, tail, cost: as in a label, the RAM no less than the bounds' floor.
    """

    edge: int
    option: int
    ram: int
    tail: int
    cost: int


def _extend(edges: list[Edge], cut: int, labels: list[_Labels], bounds: _Bounds) -> _Labels:
    """Return the labels at one cut: all labels extended along all edges, without dominated ones."""
    increments = [line for number, edge in enumerate(edges) for line in _increments(number, edge, bounds)]
    if not increments:
        return _Labels(*(np.zeros(0, dtype=np.int64),) * 6)
    sources = [labels[edges[line.edge].source] for line in increments]
    counts = np.array([len(source.peak) for source in sources])
    of_edge, of_option, ram, more_tail, more_cost = np.array(increments, dtype=np.int64).T
    peak = np.maximum(np.concatenate([source.peak for source in sources]), ram.repeat(counts))
    tail = np.concatenate([source.tail for source in sources]) + more_tail.repeat(counts)
    cost = np.concatenate([source.cost for source in sources]) + more_cost.repeat(counts)
    dearest = (bounds.most_work - bounds.work_ahead[cut] + 1) * bounds.most_cuts**2 - 1
    within_limits = (peak + tail <= bounds.ceiling - bounds.tail_ahead[cut]) & (cost <= min(dearest, _DEAREST))
    allowed = np.flatnonzero(within_limits)
    best = allowed[pareto_with_tail((peak + tail)[allowed], tail[allowed], cost[allowed] // bounds.step)]
    ends = np.cumsum(counts)
    line = np.searchsorted(ends, best, side="right")
    return _Labels(peak[best], tail[best], cost[best], of_edge[line], best - (ends - counts)[line], of_option[line])


def _increments(number: int, edge: Edge, bounds: _Bounds) -> Iterator[_Increment]:
    """Yield an edge under each of its options that the bounds permit."""
    options, most_cuts = edge.options, bounds.most_cuts
    first = max(int(options.ram.searchsorted(bounds.floor, side="right")) - 1, 0)
    end = int(options.ram.searchsorted(bounds.ceiling, side="right"))
    changes = edge.span.length * most_cuts + 1 if edge.fused and not bounds.tails else 0
    rows = zip(options.ram[first:end].tolist(), options.work[first:end].tolist(), strict=True)
    for option, (ram, work) in enumerate(rows, start=first):
        yield _Increment(number, option, max(ram, bounds.floor), edge.tail, work * most_cuts**2 + changes)


def pareto_with_tail(ram: IntArray, tail: IntArray, cost: IntArray) -> IntArray:
    """Return the indices of the triples that no other triple dominates; of equal triples one.

    ``ram`` is peak + tail. A label with less of both and less cost dominates for every continuation: a larger working
    set later on raises both peaks to the same value, and then the tails decide.
    """
    if not tail.any():
        return pareto(ram, cost)
    rest = cost.argsort(kind="stable")  # merges a few ascending runs, one per edge
    kept: dict[int, int] = {}
    # For each tail, the least RAM so far with at most this tail, and the index of that triple.
    tails, least, best = [-1], [NEVER], [-1]
    while len(rest):
        batch, rest = rest[:_AT_ONCE], rest[_AT_ONCE:]
        rows = batch.tolist(), tail[batch].tolist(), ram[batch].tolist(), cost[batch].tolist()
        for index, its_tail, its_ram, its_cost in zip(*rows, strict=True):
            if least[bisect_right(tails, its_tail) - 1] <= its_ram:
                continue
            first = end = bisect_left(tails, its_tail)
            while end < len(least) and least[end] >= its_ram:
                if kept[best[end]] == its_cost:  # an earlier one of equal cost
                    del kept[best[end]]
                end += 1
            kept[index] = its_cost
            tails[first:end], least[first:end], best[first:end] = [its_tail], [its_ram], [index]
        rest = rest[np.array(least)[np.searchsorted(tails, tail[rest], side="right") - 1] > ram[rest]]
    indices = np.array([*kept], dtype=np.int64)
    ordered: IntArray = indices[np.lexsort((ram[indices], tail[indices], cost[indices]))]
    return ordered


def _trace(edges: list[list[Edge]], labels: list[_Labels], index: int) -> tuple[tuple[Leg, ...], int]:
    """Return the legs that lead to a label at the end, and their largest RAM (a label may have the floor instead)."""
    legs: list[Leg] = []
    peak, cut = 0, len(labels) - 1
    while cut > 0:
        reached = labels[cut]
        edge, option = edges[cut][int(reached.edge[index])], int(reached.option[index])
        legs.append(Leg(edge, option))
        peak = max(peak, int(edge.options.ram[option]))
        cut, index = edge.source, int(reached.label[index])
    return tuple(reversed(legs)), peak
