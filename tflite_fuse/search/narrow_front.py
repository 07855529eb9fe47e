"""A fast approximate front of a model: blocks begin and end at cuts with few live bytes.

A block that ends at a large tensor must store it whole, so blocks of the full search usually end at narrow places, too.
The points of this front are on or above the full one, and some may be missing. Blocks are priced once for several
schemes, which differ only in the blocks and tiles that they allow.
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
    """Return the restrictions for consecutive searches of one graph in which no block is priced twice.

    Args:
        restrictions: restrictions of one graph.
        longest: largest number of operators in a block.
    """
    prices = _Prices(tuple(restrictions), longest)
    return tuple(replace(restriction, prices=prices.costs) for restriction in restrictions)


@dataclass(frozen=True)
class _Prices:
    """Costs of blocks priced so far, by the last layer and the conditions."""

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
        """Yield costs as ``block_costs``, for blocks and tiles that one of the restrictions allows."""
        if pricing.limit is not None:  # the blocks that it excludes differ between schemes
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
        """Return the possible first layers of blocks that end at a layer, under any of the restrictions."""
        shortest_first = range(max(0, last + 1 - self.longest), last + 1)
        return [first for first in shortest_first if any(each.allows(first, last) for each in self.restrictions)]

    def _all_sizes(self, driven: BlockTensor) -> Sizes:
        """Return the tile heights and widths of all restrictions, each once."""
        heights, widths = zip(*(each.tile_sizes(driven) for each in self.restrictions), strict=True)
        return tuple(dict.fromkeys(sum(map(tuple, heights), ()))), tuple(dict.fromkeys(sum(map(tuple, widths), ())))

    def _of_tiles(self, costs: BlockCosts, driven: BlockTensor, tile_sizes: TileSizes, chunks: int) -> BlockCosts:
        """Return the costs under the tiles of one restriction, in its order."""
        (heights, widths), (all_heights, all_widths) = tile_sizes(driven), self._all_sizes(driven)
        grid = np.arange(len(costs.work)).reshape(chunks, len(all_heights), len(all_widths))
        rows, columns = map(all_heights.index, heights), map(all_widths.index, widths)
        at: IntArray = grid[np.ix_(range(chunks), list(rows), list(columns))].ravel()
        columns_of = ("chunk", "tile_height", "tile_width", "scratch", "work", "usable", "shared")
        return costs._replace(**{name: getattr(costs, name)[at] for name in columns_of})


FEWEST_CUTS, MOST_CUTS = 14, 28
"""Number of places inside a model where blocks may begin and end; wider ones are added if few are narrow."""

WIDENED, MOST_WIDENED = 4, 6
"""Number of places on each side of a bottleneck that are added, and of repetitions."""

SLIGHT = 0.98
"""Ratio of RAM after and before a repetition, above which the search ends."""

_AROUND = 2
"""Cuts on each side of a narrow place that have no fewer bytes."""


@dataclass(frozen=True)
class NarrowPoint:
    """One way to run the model.

    Attributes:
        ram_bytes: its largest working set, and the arena's tail.
        tail_bytes: the tail in it.
        work: in the graph's unit.
        blocks: number of blocks.
        operators: number of operators in blocks.
    """

    ram_bytes: int
    tail_bytes: int
    work: int
    blocks: int
    operators: int


def narrow_front(graph: PricedProgram, options: SearchOptions) -> tuple[NarrowPoint, ...]:
    """Return points of a model, RAM ascending, work descending.

    If one block or operator needs the most, places around it are added as long as that reduces RAM.

    Args:
        graph: operators in execution order.
        options: options of the search; work is in multiply-accumulates.

    Raises:
        LimitError: no block of the scheme can read an input that should leave the arena.
        BudgetError: there are more operators, or more work, than can be searched.
    """
    rules = _rules(options)
    if options.most_compute is not None:
        rules = replace(rules, most_work=int(max(options.most_compute, 1.0) * graph.work))
    return tuple(map(_point, search_paths(_searched(graph, options, rules)[0], rules.most_work)))


def narrow_overview(
    graph: PricedProgram, options: SearchOptions, schemes: Sequence[SearchOptions]
) -> tuple[tuple[NarrowPoint, ...], list[NarrowPoint | None]]:
    """Return the front under one set of options, and the point of least RAM under each of others.

    The others, for example published schemes, use the same places, and the cost of each block is computed once for all
    of them. None of the options limits compute. If no block can read an input that should leave the arena, the front is
    empty and the least point None.
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
    """Return the cut graph between narrow places, and these places. Raises: as ``narrow_front``."""
    prices = partial(block_costs, shapes=Shapes(rules.chunks, tiled=True))  # with one more place, most blocks are known

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
    """Return the restriction of the scheme to blocks between some places."""
    allowed = restriction(graph, options.scheme, options.tiles, options.tile_size, options.strips)
    if options.scheme is Scheme.INVERTED_RESIDUAL:  # its blocks have fixed ends
        return allowed
    cuts, fits = places | {head_of(graph)}, allowed.allows
    return replace(allowed, allows=lambda first, last: first in cuts and last + 1 in cuts and fits(first, last))


def _around_bottleneck(graph: PricedProgram, edges: CutGraph) -> frozenset[int]:
    """Return the cuts around both ends of the step with the most bytes at least RAM."""
    legs = search_paths(edges, most_ram=least_ram(edges))[0].legs
    worst = max(legs, key=lambda leg: int(leg.edge.options.ram[leg.option])).edge
    near = {cut + by for cut in (worst.source, worst.target) for by in range(-WIDENED, WIDENED + 1)}
    return frozenset(near).intersection(range(len(graph.steps) + 1))


def _rules(options: SearchOptions) -> SearchOptions:
    return replace(options, every_block=False, chunks=(min(options.chunks),), target=None)


def unbeaten(points: Iterable[NarrowPoint]) -> tuple[NarrowPoint, ...]:
    """Return the points of several fronts that no other dominates, RAM ascending."""
    found: list[NarrowPoint] = []
    for point in sorted(points, key=lambda each: (each.ram_bytes, each.work)):
        if not found or point.work < found[-1].work:
            found.append(point)
    return tuple(found)


def narrow_cuts(graph: PricedProgram, alignment: int, moved: Collection[int] = ()) -> frozenset[int]:
    """Return both ends, the cuts with no more live bytes than around them, then the next best cuts.

    If there are too many, cuts between peaks come first, because the smallest cuts lie together at a network's end
    while the large tensors are at its start. Cuts are always included at both ends of operators that no block can
    contain, of units, and of operators that read moved inputs: blocks end there anyway or may have to.

    Args:
        alignment: alignment of tensors in bytes.
        moved: inputs that leave the arena.
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
    """Return the ratio of the lower of the two peaks beside a cut, up to smaller cuts or an end, to its live bytes."""
    least = held[cut]
    before = takewhile(lambda bytes: bytes >= least, (held[at] for at in range(cut, 0, -1)))
    after = takewhile(lambda bytes: bytes > least, (held[at] for at in range(cut + 1, len(held) - 1)))
    return min(max(before), max(after, default=least)) / max(least, 1)


def _point(path: Path) -> NarrowPoint:
    fused = [leg.edge for leg in path.legs if leg.edge.fused]
    operators = sum(edge.span.length for edge in fused)
    return NarrowPoint(path.peak + path.tail, path.tail, path.work, len(fused), operators)
