"""The exact search: every path through the cut graph, as a Pareto front of (peak RAM, multiply-accumulates).

A label at a cut is a pair (largest working set so far, multiply-accumulates so far) with the edges that lead to it.
Extending all labels by all edges and dropping those another label at the same cut beats gives, at the last cut, the
front of the whole model: a label that is beaten cannot become part of a better path.

Two bounds keep the labels few without losing a point. No path has a peak below the bottleneck shortest path's, so
smaller peaks are equal to it. And no path with a peak above that of the best path of fewest multiply-accumulates is on
the front, so edges above it are left out.

Of paths with equal peak and equal multiply-accumulates the one that fuses the fewest operators is taken, of those the
one with the fewest blocks: what need not change does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx
import numpy as np

from tflite_fuse.fusion.candidates import Options, pareto
from tflite_fuse.fusion.cost_tables import IntArray


@dataclass(frozen=True)
class Step:
    """One edge of a path: from cut ``first`` over the layers ``first … last``, under one option of the edge."""

    first: int
    last: int
    option: int


@dataclass(frozen=True)
class Path:
    """A way through the cut graph.

    Attributes:
        peak: bytes, the largest RAM of its edges.
        macs: the sum over its edges.
        steps: the edges from first to last.
    """

    peak: int
    macs: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class _Labels:
    """The labels at one cut, one array entry each.

    ``cost`` counts multiply-accumulates first, then fused operators and blocks. ``source``, ``label`` and ``option``
    say where a label came from: the cut, which label there, which option of the edge.
    """

    peak: IntArray
    cost: IntArray
    source: IntArray
    label: IntArray
    option: IntArray

    def columns(self) -> tuple[IntArray, ...]:
        return self.peak, self.cost, self.source, self.label, self.option


def search_paths(cuts: nx.DiGraph) -> tuple[Path, ...]:
    """All Pareto-optimal paths through a cut graph (see ``candidates``), peak ascending."""
    end = cuts.number_of_nodes() - 1
    floor, ceiling = _bounds(cuts)
    places = end + 1
    nothing = np.zeros(1, dtype=np.int64)
    labels = [_Labels(np.array([floor]), nothing, nothing, nothing, nothing)]
    for cut in range(1, end + 1):
        labels.append(_extend(cuts, cut, labels, (floor, ceiling), places))
    paths: list[Path] = []
    for index, cost in enumerate(labels[end].cost):
        macs = int(cost) // places**2
        if not paths or macs < paths[-1].macs:
            steps = _trace(labels, end, index)
            paths.append(Path(_peak_of(cuts, steps), macs, steps))
    return tuple(paths)


def _peak_of(cuts: nx.DiGraph, steps: tuple[Step, ...]) -> int:
    """The largest RAM of a path's edges (its label says at least the lower bound of all paths)."""
    ram = [int(cuts.edges[step.first, step.last + 1]["options"].ram[step.option]) for step in steps]
    return max([_start(cuts), *ram])


def _start(cuts: nx.DiGraph) -> int:
    return int(cuts.graph.get("start", 0))


def _bounds(cuts: nx.DiGraph) -> tuple[int, int]:
    """The least peak of any path, and the least peak of the paths with the fewest multiply-accumulates."""
    least: list[int] = [_start(cuts)]
    cheapest: list[tuple[int, int]] = [(0, _start(cuts))]
    for cut in range(1, cuts.number_of_nodes()):
        peaks: list[int] = []
        pairs: list[tuple[int, int]] = []
        for source, _, options in cuts.in_edges(cut, data="options"):
            peaks.append(max(least[source], int(options.ram[0])))
            macs, peak = cheapest[source]
            pairs.append((macs + int(options.macs[-1]), max(peak, int(options.ram[-1]))))
        least.append(min(peaks))
        cheapest.append(min(pairs))
    return least[-1], cheapest[-1][1]


@dataclass(frozen=True)
class _Extension:
    """The labels at one cut extended along one edge: ``peak`` and ``cost`` of every label with every option.

    Entry i is label ``i // len(options)`` with option ``first + i % len(options)``.
    """

    source: int
    peak: IntArray
    cost: IntArray
    options: range


def _extend(cuts: nx.DiGraph, cut: int, labels: list[_Labels], bounds: tuple[int, int], places: int) -> _Labels:
    """Extends all labels along all edges into one cut and keeps those nothing beats."""
    found = [
        _along(labels[source], options, source, cut, bounds, places)
        for source, _, options in cuts.in_edges(cut, data="options")
        if options.ram[0] <= bounds[1] and len(labels[source].peak)
    ]
    if not found:
        return _Labels(*(np.zeros(0, dtype=np.int64),) * 5)
    peak, cost = np.concatenate([each.peak for each in found]), np.concatenate([each.cost for each in found])
    best = pareto(peak, cost)
    ends = np.cumsum([len(each.peak) for each in found])
    edge = np.searchsorted(ends, best, side="right")
    within = best - np.array([0, *ends])[edge]
    count = np.array([len(each.options) for each in found])[edge]
    return _Labels(
        peak[best],
        cost[best],
        np.array([each.source for each in found])[edge],
        within // count,
        np.array([each.options.start for each in found])[edge] + within % count,
    )


def _along(
    before: _Labels, options: Options, source: int, cut: int, bounds: tuple[int, int], places: int
) -> _Extension:
    """All labels at one cut extended by all options of one edge, but for those the bounds rule out."""
    floor, ceiling = bounds
    first = max(int(np.searchsorted(options.ram, floor, side="right")) - 1, 0)
    end = int(np.searchsorted(options.ram, ceiling, side="right"))
    changes = (options.tile_height[first:end] > 0) * ((cut - source) * places + 1)
    ram, cost = np.maximum(options.ram[first:end], floor), options.macs[first:end] * places**2 + changes
    peaks, costs = np.maximum.outer(before.peak, ram), np.add.outer(before.cost, cost)
    return _Extension(source, peaks.ravel(), costs.ravel(), range(first, end))


def _trace(labels: list[_Labels], cut: int, index: int) -> tuple[Step, ...]:
    steps: list[Step] = []
    while cut > 0:
        at = labels[cut]
        source = int(at.source[index])
        steps.append(Step(source, cut - 1, int(at.option[index])))
        cut, index = source, int(at.label[index])
    return tuple(reversed(steps))
