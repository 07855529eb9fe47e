"""The front of a model in a fraction of the time: blocks begin and end where little is live.

A block that ends where a tensor is large has to hand it over whole, so blocks of the full search mostly end at narrow
places too. What this front has, the full one has; it may lack points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tflite_fuse.fusion.block.layer_graph import LayerGraph
from tflite_fuse.fusion.search.cut_graph import cut_graph
from tflite_fuse.fusion.search.fusion_front import SearchOptions
from tflite_fuse.fusion.search.pareto_paths import Path, search_paths
from tflite_fuse.fusion.search.residency import Residency
from tflite_fuse.fusion.search.schemes import Scheme, head_of, restriction

FEWEST_CUTS, MOST_CUTS = 14, 28
"""Places inside a model that blocks may begin and end at, wider ones among them where few are narrow."""

_AROUND = 2
"""Cuts to either side of a narrow place that have no less."""


@dataclass(frozen=True)
class NarrowPoint:
    """One way to run the model.

    Attributes:
        ram_bytes: its largest working set, and the arena's tail.
        tail_bytes: that tail.
        work: in the graph's unit.
        blocks: how many it has.
        operators: operators that are in them.
    """

    ram_bytes: int
    tail_bytes: int
    work: int
    blocks: int
    operators: int


def narrow_front(graph: LayerGraph, options: SearchOptions) -> tuple[NarrowPoint, ...]:
    """Points of a model, RAM ascending, multiply-accumulates descending.

    Args:
        graph: operators in the order they will run.
        options: what to search; compute is counted in multiply-accumulates.

    Raises:
        LimitError: no block of the scheme can read an input that is to leave the arena.
        BudgetError: there are more operators, or more work, than is searched.
    """
    rules = replace(options, every_block=False, chunks=(min(options.chunks),), target=None)
    if options.most_compute is not None:
        rules = replace(rules, most_work=int(max(options.most_compute, 1.0) * graph.work))
    allowed = restriction(graph, rules.scheme, rules.tiles, rules.tile_size, rules.strips)
    if rules.scheme is not Scheme.INVERTED_RESIDUAL:  # its blocks begin and end where they do
        cuts, fits = narrow_cuts(graph, rules.alignment) | {head_of(graph)}, allowed.allows
        allowed = replace(allowed, allows=lambda first, last: first in cuts and last + 1 in cuts and fits(first, last))
    return tuple(map(_point, search_paths(cut_graph(graph, allowed, rules).edges, rules.most_work)))


def narrow_cuts(graph: LayerGraph, alignment: int) -> frozenset[int]:
    """Both ends, the places between two operators where no more bytes are live than around, then the next best."""
    residency, count = Residency(graph, alignment), len(graph.layers)
    held = [residency.held(cut) for cut in range(count + 1)]
    around = [min(held[max(0, cut - _AROUND) : cut + _AROUND + 1]) for cut in range(count + 1)]
    inner = sorted(range(1, count), key=lambda cut: (held[cut] > around[cut], held[cut], cut))
    narrow = sum(held[cut] == around[cut] for cut in inner)
    return frozenset({0, count, *inner[: min(max(narrow, FEWEST_CUTS), MOST_CUTS)]})


def _point(path: Path) -> NarrowPoint:
    fused = [leg.edge for leg in path.legs if leg.edge.fused]
    operators = sum(edge.target - edge.source for edge in fused)
    return NarrowPoint(path.peak + path.tail, path.tail, path.work, len(fused), operators)
