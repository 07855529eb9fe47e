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
    for index, (peak, cost) in enumerate(zip(labels[end].peak, labels[end].cost, strict=True)):
        macs = int(cost) // places**2
        if not paths or macs < paths[-1].macs:
            steps = _trace(labels, end, index)
            paths.append(Path(_peak_of(cuts, steps, int(peak)), macs, steps))
    return tuple(paths)


def _peak_of(cuts: nx.DiGraph, steps: tuple[Step, ...], bound: int) -> int:
    """The largest RAM of a path's edges; never above the label's."""
    ram = (int(cuts.edges[step.first, step.last + 1]["options"].ram[step.option]) for step in steps)
    return max(ram, default=bound)


def _bounds(cuts: nx.DiGraph) -> tuple[int, int]:
    """The least peak of any path, and the least peak of the paths with the fewest multiply-accumulates."""
    least: list[int] = [0]
    cheapest: list[tuple[int, int]] = [(0, 0)]
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


def _extend(cuts: nx.DiGraph, cut: int, labels: list[_Labels], bounds: tuple[int, int], places: int) -> _Labels:
    """Extends all labels along all edges into one cut and keeps those nothing beats."""
    found = [
        _along(labels[source], options, source, cut, bounds, places)
        for source, _, options in cuts.in_edges(cut, data="options")
        if options.ram[0] <= bounds[1] and len(labels[source].peak)
    ]
    if not found:
        return _Labels(*(np.zeros(0, dtype=np.int64),) * 5)
    merged = _Labels(*(np.concatenate(column) for column in zip(*(each.columns() for each in found), strict=True)))
    best = pareto(merged.peak, merged.cost)
    return _Labels(*(column[best] for column in merged.columns()))


def _along(before: _Labels, options: Options, source: int, cut: int, bounds: tuple[int, int], places: int) -> _Labels:
    """All labels at one cut extended by all options of one edge, but for those the bounds rule out."""
    floor, ceiling = bounds
    start = max(int(np.searchsorted(options.ram, floor, side="right")) - 1, 0)
    chosen = np.arange(start, int(np.searchsorted(options.ram, ceiling, side="right")))
    fused = options.tile_height[chosen] > 0
    cost = options.macs[chosen] * places**2 + fused * ((cut - source) * places + 1)
    label = np.repeat(np.arange(len(before.peak)), len(chosen))
    return _Labels(
        np.maximum.outer(before.peak, np.maximum(options.ram[chosen], floor)).ravel(),
        np.add.outer(before.cost, cost).ravel(),
        np.full(len(label), source),
        label,
        np.tile(chosen, len(before.peak)),
    )


def _trace(labels: list[_Labels], cut: int, index: int) -> tuple[Step, ...]:
    steps: list[Step] = []
    while cut > 0:
        at = labels[cut]
        source = int(at.source[index])
        steps.append(Step(source, cut - 1, int(at.option[index])))
        cut, index = source, int(at.label[index])
    return tuple(reversed(steps))
