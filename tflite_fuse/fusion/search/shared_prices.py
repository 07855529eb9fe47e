"""Blocks priced once for several schemes, which differ in the blocks and tiles they allow and in nothing else."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tflite_fuse.fusion.block.axes import IntArray
from tflite_fuse.fusion.block.layer_graph import LayerGraph
from tflite_fuse.fusion.block.stages import BlockTensor
from tflite_fuse.fusion.estimate.block_costs import block_costs
from tflite_fuse.fusion.estimate.growing_block import BlockCosts, Pricing, TileSizes
from tflite_fuse.fusion.search.schemes import Restriction, Sizes


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
        graph: LayerGraph,
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
