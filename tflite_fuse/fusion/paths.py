"""The exact search: every path through the cut graph, as a Pareto front of (RAM, multiply-accumulates).

A label at a cut says how a path got there: the largest working set so far, what it adds to the arena's tail (if that
counts), the multiply-accumulates so far. RAM is the first two together.
Extending all labels by all edges and dropping those another label at the same cut beats gives, at the last cut, the
front of the whole model: a label that is beaten cannot become part of a better path.

Two bounds keep the labels few without losing a point. No path has a peak below the bottleneck shortest path's, so
smaller peaks are equal to it. And a path with more RAM than one of the fewest multiply-accumulates is not on the front,
so edges that alone need more, with the smallest tail there is, are left out.

Of paths with equal RAM and equal multiply-accumulates the one that fuses the fewest operators is taken, of those the
one with the fewest blocks: what need not change does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx
import numpy as np

from tflite_fuse.fusion.candidates import Options, pareto
from tflite_fuse.fusion.cost_tables import IntArray

_NEVER = 1 << 60
"""Costs of a cut no path leads to."""


@dataclass(frozen=True)
class Step:
    """One edge of a path: from cut ``first`` over the layers ``first … last``, under one option of the edge.

    ``key`` tells it from the edges beside it.
    """

    first: int
    last: int
    key: int
    option: int


@dataclass(frozen=True)
class Path:
    """A way through the cut graph.

    Attributes:
        peak: bytes, the largest RAM of its edges.
        tail: bytes, the sum over its edges and the graph's own.
        macs: the sum over its edges.
        steps: the edges from first to last.
    """

    peak: int
    tail: int
    macs: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class _Bounds:
    """``floor``: no path has a smaller peak. ``ceiling``: no path with a larger one is on the front."""

    floor: int
    ceiling: int


@dataclass(frozen=True)
class _Labels:
    """The labels at one cut, one array entry each.

    ``cost`` counts multiply-accumulates first, then fused operators and blocks. ``edge``, ``label`` and ``option`` say
    where a label came from: which of the edges into this cut, which label at its start, which of its options.
    """

    peak: IntArray
    tail: IntArray
    cost: IntArray
    edge: IntArray
    label: IntArray
    option: IntArray


@dataclass(frozen=True)
class _Edge:
    source: int
    target: int
    key: int
    options: Options
    fused: bool
    tail: int


def search_paths(cuts: nx.MultiDiGraph) -> tuple[Path, ...]:
    """All paths through a cut graph (see ``candidates``) that no other beats in RAM and multiply-accumulates.

    RAM is peak + tail; paths come in its order.
    """
    places = cuts.number_of_nodes()
    edges = [_edges_into(cuts, cut) for cut in range(places)]
    bounds = _bounds(edges, int(cuts.graph["start"]))
    nothing = np.zeros(1, dtype=np.int64)
    labels = [_Labels(np.array([bounds.floor]), nothing, nothing, nothing, nothing, nothing)]
    for cut in range(1, places):
        edges[cut] = [edge for edge in edges[cut] if _may_help(edge, labels, bounds)]
        labels.append(_extend(edges[cut], labels, bounds, places))
    end = labels[-1]
    best = pareto(end.peak + end.tail, end.cost)
    paths: list[Path] = []
    for index in best:
        macs = int(end.cost[index]) // places**2
        if not paths or macs < paths[-1].macs:
            steps, peak = _trace(edges, labels, int(index))
            peak = max(int(cuts.graph["start"]), peak)
            paths.append(Path(peak, int(end.tail[index]) + int(cuts.graph["tail"]), macs, steps))
    return tuple(paths)


def _edges_into(cuts: nx.MultiDiGraph, cut: int) -> list[_Edge]:
    return [
        _Edge(source, cut, key, data["options"], data["fused"], data["tail"])
        for source, _, key, data in cuts.in_edges(cut, keys=True, data=True)
    ]


def _bounds(edges: list[list[_Edge]], start: int) -> _Bounds:
    """From the least peak of any path, the least tail of any, and one path of fewest multiply-accumulates."""
    least, lightest, cheapest = [start], [0], [(0, start, 0)]
    for into in edges[1:]:
        least.append(min((max(least[edge.source], int(edge.options.ram[0])) for edge in into), default=_NEVER))
        lightest.append(min((lightest[edge.source] + edge.tail for edge in into), default=_NEVER))
        cheapest.append(min((_cheaper(cheapest[edge.source], edge) for edge in into), default=(_NEVER, 0, 0)))
    _, peak, tail = cheapest[-1]
    return _Bounds(least[-1], peak + tail - lightest[-1])


def _cheaper(before: tuple[int, int, int], edge: _Edge) -> tuple[int, int, int]:
    macs, peak, tail = before
    return macs + int(edge.options.macs[-1]), max(peak, int(edge.options.ram[-1])), tail + edge.tail


def _may_help(edge: _Edge, labels: list[_Labels], bounds: _Bounds) -> bool:
    return int(edge.options.ram[0]) <= bounds.ceiling and len(labels[edge.source].peak) > 0


@dataclass(frozen=True)
class _Extension:
    """The labels at one cut extended along one edge: every label with every option.

    Entry i is label ``i // len(options)`` with option ``first + i % len(options)``.
    """

    peak: IntArray
    tail: IntArray
    cost: IntArray
    options: range


def _extend(edges: list[_Edge], labels: list[_Labels], bounds: _Bounds, places: int) -> _Labels:
    """Extends all labels along all edges into one cut and keeps those nothing beats."""
    if not edges:
        return _Labels(*(np.zeros(0, dtype=np.int64),) * 6)
    found = [_along(labels[edge.source], edge, bounds, places) for edge in edges]
    peak, tail, cost = (
        np.concatenate(column) for column in zip(*((e.peak, e.tail, e.cost) for e in found), strict=True)
    )
    best = pareto(peak, cost) if not tail.any() else pareto_with_tail(peak, tail, cost)
    ends = np.cumsum([len(each.peak) for each in found])
    edge = np.searchsorted(ends, best, side="right")
    within = best - np.array([0, *ends])[edge]
    count = np.array([len(each.options) for each in found])[edge]
    option = np.array([each.options.start for each in found])[edge] + within % count
    return _Labels(peak[best], tail[best], cost[best], edge, within // count, option)


def _along(before: _Labels, edge: _Edge, bounds: _Bounds, places: int) -> _Extension:
    """All labels at one cut extended by all options of one edge, but for those the bounds rule out."""
    options = edge.options
    first = max(int(np.searchsorted(options.ram, bounds.floor, side="right")) - 1, 0)
    end = int(np.searchsorted(options.ram, bounds.ceiling, side="right"))
    changes = (edge.target - edge.source) * places + 1 if edge.fused else 0
    ram = np.maximum(options.ram[first:end], bounds.floor)
    return _Extension(
        np.maximum.outer(before.peak, ram).ravel(),
        np.repeat(before.tail + edge.tail, end - first),
        np.add.outer(before.cost, options.macs[first:end] * places**2 + changes).ravel(),
        range(first, end),
    )


def pareto_with_tail(peak: IntArray, tail: IntArray, cost: IntArray) -> IntArray:
    """Indices of the triples no other triple is below in all three; of equal triples one."""
    left = np.lexsort((peak, tail, cost))
    kept: list[int] = []
    while len(left):
        best = left[0]
        kept.append(int(best))
        left = left[(peak[left] < peak[best]) | (tail[left] < tail[best])]
    return np.array(kept, dtype=np.int64)


def _trace(edges: list[list[_Edge]], labels: list[_Labels], index: int) -> tuple[tuple[Step, ...], int]:
    """The steps that lead to a label at the end, and their largest RAM (the label may say more, the lower bound)."""
    steps: list[Step] = []
    peak, cut = 0, len(labels) - 1
    while cut > 0:
        at = labels[cut]
        edge, option = edges[cut][int(at.edge[index])], int(at.option[index])
        steps.append(Step(edge.source, cut - 1, edge.key, option))
        peak = max(peak, int(edge.options.ram[option]))
        cut, index = edge.source, int(at.label[index])
    return tuple(reversed(steps)), peak
