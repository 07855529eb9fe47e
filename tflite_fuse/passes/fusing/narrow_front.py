"""The front of a model in a fraction of the time: blocks begin and end where little is live.

A block that ends where a tensor is large has to hand it over whole, so blocks of the full search mostly end at narrow
places too. What this front has, the full one has; it may lack points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tflite_fuse.errors import LimitError
from tflite_fuse.fusion.block.layer_graph import LayerGraph
from tflite_fuse.fusion.search.cut_graph import cut_graph, longest_block
from tflite_fuse.fusion.search.edges import CutGraph, least_ram
from tflite_fuse.fusion.search.fusion_front import SearchOptions
from tflite_fuse.fusion.search.pareto_paths import Path, search_paths
from tflite_fuse.fusion.search.residency import Residency
from tflite_fuse.fusion.search.schemes import Restriction, Scheme, head_of, restriction
from tflite_fuse.fusion.search.shared_prices import sharing_prices

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
    rules = _rules(options)
    if options.most_compute is not None:
        rules = replace(rules, most_work=int(max(options.most_compute, 1.0) * graph.work))
    edges = cut_graph(graph, _narrowed(graph, options), rules).edges
    return tuple(map(_point, search_paths(edges, rules.most_work)))


def narrow_overview(
    graph: LayerGraph, options: SearchOptions, schemes: Sequence[SearchOptions]
) -> tuple[tuple[NarrowPoint, ...], list[NarrowPoint | None]]:
    """The front under one set of options, and the point of least RAM under each of others, such as published schemes.

    What a block costs is worked out once for all of them, none of which limits compute. Where no block can read an
    input that is to leave the arena, the front is empty, the least point None.
    """
    everything = (*schemes, options)
    narrowed = [_narrowed(graph, each) for each in everything]
    found: list[CutGraph | None] = []
    for each, allowed in zip(everything, sharing_prices(narrowed, longest_block(len(graph.layers))), strict=True):
        try:
            found.append(cut_graph(graph, allowed, _rules(each)).edges)
        except LimitError:
            found.append(None)
    *others, edges = found
    least = [None if each is None else _point(search_paths(each, most_ram=least_ram(each))[0]) for each in others]
    return () if edges is None else tuple(map(_point, search_paths(edges))), least


def _narrowed(graph: LayerGraph, options: SearchOptions) -> Restriction:
    """What the scheme allows between narrow places."""
    allowed = restriction(graph, options.scheme, options.tiles, options.tile_size, options.strips)
    if options.scheme is Scheme.INVERTED_RESIDUAL:  # its blocks begin and end where they do
        return allowed
    cuts, fits = narrow_cuts(graph, options.alignment) | {head_of(graph)}, allowed.allows
    return replace(allowed, allows=lambda first, last: first in cuts and last + 1 in cuts and fits(first, last))


def _rules(options: SearchOptions) -> SearchOptions:
    return replace(options, every_block=False, chunks=(min(options.chunks),), target=None)


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
