"""Blocks priced once for several schemes, which differ in the blocks and tiles they allow and in nothing else.

The front of a model in a fraction of the time: blocks begin and end where little is live.

A block that ends where a tensor is large has to hand it over whole, so blocks of the full search mostly end at narrow
places too. What this front has, the full one has; it may lack points.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile

import numpy as np

from tflite_fuse.cost.estimate.block_costs import block_costs
from tflite_fuse.cost.estimate.growing_block import BlockCosts, Pricing, TileSizes
from tflite_fuse.cost.estimate.shapes import Shapes
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.errors import LimitError
from tflite_fuse.ir.axes import IntArray
from tflite_fuse.ir.block import BlockTensor
from tflite_fuse.search.cut_graph import CutGraph, Residency, cut_graph, least_ram, longest_block
from tflite_fuse.search.fusion_front import SearchOptions
from tflite_fuse.search.paths import Path, search_paths
from tflite_fuse.search.schemes import Restriction, Scheme, Sizes, head_of, restriction


def sharing_prices(restrictions: Sequence[Restriction], longest: int) -> tuple[Restriction, ...]:
    """The same restrictions, for searches of one graph one after the other: no block is priced twice.

    Args:
        restrictions: of one graph.
        longest: operators a block may have at most.
    """
    prices = _Prices(tuple(restrictions), longest)
    return tuple(replace(restriction, prices=prices.costs) for restriction in restrictions)


@dataclass(frozen=True)
class _Prices:
    """What has been priced so far, by the last layer and the conditions."""

    restrictions: tuple[Restriction, ...]
    longest: int
    known: dict[tuple[int, Pricing], list[BlockCosts]] = field(default_factory=dict)

    def costs(
        self,
        graph: PricedProgram,
        last: int,
        tile_sizes: TileSizes,
        pricing: Pricing,
        firsts: Collection[int] | Mapping[int, int],
    ) -> Iterator[BlockCosts]:
        """As ``block_costs``, for blocks and tiles that one of the restrictions allows."""
        if pricing.limit is not None:  # what is left out for it differs from scheme to scheme
            yield from block_costs(graph, last, tile_sizes, pricing, firsts)
            return
        if (last, pricing) not in self.known:
            self.known[last, pricing] = list(block_costs(graph, last, self._all_sizes, pricing, self._firsts(last)))
        for costs in self.known[last, pricing]:
            if costs.first in firsts:
                found = self._of_tiles(costs, graph.tensors[costs.driven], tile_sizes, len(pricing.chunks))
                if not isinstance(firsts, Mapping) or int(found.scratch.min()) <= firsts[costs.first]:
                    yield found

    def _firsts(self, last: int) -> list[int]:
        """Where a block may begin that ends at a layer, under any of the restrictions."""
        shortest_first = range(max(0, last + 1 - self.longest), last + 1)
        return [first for first in shortest_first if any(each.allows(first, last) for each in self.restrictions)]

    def _all_sizes(self, driven: BlockTensor) -> Sizes:
        """The tile heights and widths of all restrictions, each once."""
        heights, widths = zip(*(each.tile_sizes(driven) for each in self.restrictions), strict=True)
        return tuple(dict.fromkeys(sum(map(tuple, heights), ()))), tuple(dict.fromkeys(sum(map(tuple, widths), ())))

    def _of_tiles(self, costs: BlockCosts, driven: BlockTensor, tile_sizes: TileSizes, chunks: int) -> BlockCosts:
        """Costs under the tiles of one restriction alone, in its order."""
        (heights, widths), (all_heights, all_widths) = tile_sizes(driven), self._all_sizes(driven)
        grid = np.arange(len(costs.work)).reshape(chunks, len(all_heights), len(all_widths))
        rows, columns = map(all_heights.index, heights), map(all_widths.index, widths)
        at: IntArray = grid[np.ix_(range(chunks), list(rows), list(columns))].ravel()
        columns_of = ("chunk", "tile_height", "tile_width", "scratch", "work", "usable", "shared")
        return costs._replace(**{name: getattr(costs, name)[at] for name in columns_of})


FEWEST_CUTS, MOST_CUTS = 14, 28
"""Places inside a model that blocks may begin and end at, wider ones among them where few are narrow."""

WIDENED, MOST_WIDENED = 4, 6
"""Places to either side of a bottleneck that are looked at, too, and how often."""

SLIGHT = 0.98
"""Of the RAM there was: what does not bring as much is not followed further."""

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


def narrow_front(graph: PricedProgram, options: SearchOptions) -> tuple[NarrowPoint, ...]:
    """Points of a model, RAM ascending, multiply-accumulates descending.

    Args:
        graph: operators in the order they will run.
        options: what to search; compute is counted in multiply-accumulates.

    Where one block or operator needs the most, places around it are looked at, too, as long as that brings something.

    Raises:
        LimitError: no block of the scheme can read an input that is to leave the arena.
        BudgetError: there are more operators, or more work, than is searched.
    """
    rules = _rules(options)
    if options.most_compute is not None:
        rules = replace(rules, most_work=int(max(options.most_compute, 1.0) * graph.work))
    return tuple(map(_point, search_paths(_searched(graph, options, rules)[0], rules.most_work)))


def narrow_overview(
    graph: PricedProgram, options: SearchOptions, schemes: Sequence[SearchOptions]
) -> tuple[tuple[NarrowPoint, ...], list[NarrowPoint | None]]:
    """The front under one set of options, and the point of least RAM under each of others, such as published schemes.

    Blocks of the others begin and end at the same places; what a block costs is worked out once for all of them. None
    of the options limits compute. Where no block can read an
    input that is to leave the arena, the front is empty, the least point None.
    """
    try:
        edges, places = _searched(graph, options, _rules(options))
    except LimitError:
        edges, places = None, narrow_cuts(graph, options.alignment, options.leaving(graph))
    narrowed = [_narrowed(graph, each, places) for each in schemes]
    least: list[NarrowPoint | None] = []
    for each, allowed in zip(schemes, sharing_prices(narrowed, longest_block(len(graph.steps))), strict=True):
        try:
            found = cut_graph(graph, allowed, _rules(each)).edges
        except LimitError:
            least.append(None)
        else:
            least.append(_point(search_paths(found, most_ram=least_ram(found))[0]))
    return () if edges is None else tuple(map(_point, search_paths(edges))), least


def _searched(graph: PricedProgram, options: SearchOptions, rules: SearchOptions) -> tuple[CutGraph, frozenset[int]]:
    """What there is between narrow places, and those that were looked at. Raises: as ``narrow_front``."""
    prices = partial(block_costs, shapes=Shapes(rules.chunks, tiled=True))  # one place more, and most blocks are known

    def between(places: frozenset[int]) -> CutGraph:
        return cut_graph(graph, replace(_narrowed(graph, options, places), prices=prices), rules).edges

    places = narrow_cuts(graph, options.alignment, options.leaving(graph))
    edges = between(places)
    held = Residency(graph, options.alignment).held
    floor = max(held(0), held(len(graph.steps)))
    for _ in range(MOST_WIDENED):
        before = least_ram(edges)
        if SLIGHT * before < floor or not (wider := _around_bottleneck(graph, edges) - places):
            break
        places |= wider
        edges = between(places)
        if least_ram(edges) > SLIGHT * before:
            break
    return edges, places


def _narrowed(graph: PricedProgram, options: SearchOptions, places: frozenset[int]) -> Restriction:
    """What the scheme allows between some places."""
    allowed = restriction(graph, options.scheme, options.tiles, options.tile_size, options.strips)
    if options.scheme is Scheme.INVERTED_RESIDUAL:  # its blocks begin and end where they do
        return allowed
    cuts, fits = places | {head_of(graph)}, allowed.allows
    return replace(allowed, allows=lambda first, last: first in cuts and last + 1 in cuts and fits(first, last))


def _around_bottleneck(graph: PricedProgram, edges: CutGraph) -> frozenset[int]:
    """The cuts around both ends of what holds the most bytes at least RAM."""
    legs = search_paths(edges, most_ram=least_ram(edges))[0].legs
    worst = max(legs, key=lambda leg: int(leg.edge.options.ram[leg.option])).edge
    near = {cut + by for cut in (worst.source, worst.target) for by in range(-WIDENED, WIDENED + 1)}
    return frozenset(near).intersection(range(len(graph.steps) + 1))


def _rules(options: SearchOptions) -> SearchOptions:
    return replace(options, every_block=False, chunks=(min(options.chunks),), target=None)


def unbeaten(points: Iterable[NarrowPoint]) -> tuple[NarrowPoint, ...]:
    """Of points of several fronts those that none beats in both, RAM ascending."""
    found: list[NarrowPoint] = []
    for point in sorted(points, key=lambda each: (each.ram_bytes, each.work)):
        if not found or point.work < found[-1].work:
            found.append(point)
    return tuple(found)


def narrow_cuts(graph: PricedProgram, alignment: int, moved: Collection[int] = ()) -> frozenset[int]:
    """Both ends, the places between two operators where no more bytes are live than around, then the next best.

    Of too many those go first between which most more is live: the least of all lie together at a network's end, and
    what is large is at its start. At both ends of operators that no block can hold, and of those it can hold only
    together, there is always a cut: a block ends there anyhow, or may have to. So there is around operators that read
    inputs which leave the arena: only blocks read these, and one that begins far above may have no end there.

    Args:
        alignment: of tensors, in bytes.
        moved: those inputs.
    """
    residency, count = Residency(graph, alignment), len(graph.steps)
    held = [residency.held(cut) for cut in range(count + 1)]
    around = [min(held[max(0, cut - _AROUND) : cut + _AROUND + 1]) for cut in range(count + 1)]
    layers = graph.steps
    always = {0, count, *(cut for cut in range(1, count) if layers[cut - 1].fusable != layers[cut].fusable)}
    always.update(cut for layer in layers if layer.unit is not None for cut in (layer.unit[0], layer.unit[1] + 1))
    always.update(cut for tensor in moved for reader in graph.consumers[tensor] for cut in (reader, reader + 1))
    narrow = [cut for cut in range(1, count) if held[cut] == around[cut]]
    if len(narrow) > MOST_CUTS:
        inner = sorted(narrow, key=lambda cut: (-_depth(held, cut), held[cut], cut))
    else:
        inner = sorted(range(1, count), key=lambda cut: (held[cut] > around[cut], held[cut], cut))
    return frozenset(always) | frozenset(inner[: min(max(len(narrow), FEWEST_CUTS), MOST_CUTS)])


def _depth(held: Sequence[int], cut: int) -> float:
    """How many times as much as at a cut is live on the lower of the two ways to a cut where less is, or to an end."""
    least = held[cut]
    before = takewhile(lambda bytes: bytes >= least, (held[at] for at in range(cut, 0, -1)))
    after = takewhile(lambda bytes: bytes > least, (held[at] for at in range(cut + 1, len(held) - 1)))
    return min(max(before), max(after, default=least)) / max(least, 1)


def _point(path: Path) -> NarrowPoint:
    fused = [leg.edge for leg in path.legs if leg.edge.fused]
    operators = sum(edge.span.length for edge in fused)
    return NarrowPoint(path.peak + path.tail, path.tail, path.work, len(fused), operators)
