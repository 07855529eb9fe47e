"""Growing blocks without their work, shared by searches of one graph in several units of work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tflite_fuse.cost.estimate.growing_block import GrowingBlock, Memory, Pricing
from tflite_fuse.cost.estimate.rings import Demand, Grid
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.ir.axes import make_tilings


class Grown(NamedTuple):
    """A block at one step of its growth.

    Attributes:
        computed: demand on the added layer, if it computes anything.
        rings: least bytes of all rings under any configuration.
        memory: memory as a block; None if it is no block, or no layer was added yet.
    """

    computed: Demand | None
    rings: int
    memory: Memory | None


class Shape:
    """A block under some tilings, grown as far as the searches required.

    Attributes:
        driven: demand on the driven tensor, which the first layer above meets.
        computing: as in ``GrowingBlock``.
        chunks: output pixels per step for which the memory was computed.
    """

    def __init__(self, block: GrowingBlock, inner: int, is_folded: bool) -> None:
        """Take as ``inner`` the first layer in a folded block, or the layer behind the last one of another."""
        self.grid, self.computing, self.chunks = block.grid, block.computing, block.pricing.chunks
        self.driven = block.demands[block.driven]
        self._block, self._inner = block, inner
        self._steps: list[Grown | None] = [self._step(inner) if is_folded else Grown(None, 0, None)]

    def at(self, first: int) -> Grown | None:
        """Return the block from layer ``first`` on; None if no block can contain that layer."""
        while len(self._steps) <= self._inner - first and self._steps[-1] is not None:
            index = self._inner - len(self._steps)
            self._steps.append(self._step(index) if self._block.add(index) else None)
        step = self._inner - first
        return self._steps[step] if step < len(self._steps) else None

    def _step(self, first: int) -> Grown:
        block = self._block
        return Grown(block.computed, int(block.scratch.min()), block.memory(first))


@dataclass(frozen=True)
class Shapes:
    """Shapes shared by several searches of one graph; each is grown once.

    The searches may count work in different units, but the tensors have the same places, and with them the free memory,
    which is not part of a shape's key. Only blocks in one tile are stored: searches without recompute share them, and
    arrays over many tilings would need too much memory.

    Attributes:
        chunks: output pixels per step, all that any of the searches tries.
    """

    chunks: tuple[int, ...] = ()
    cache: dict[tuple[object, ...], Shape] = field(default_factory=dict, compare=False, repr=False)

    def of(
        self,
        graph: PricedProgram,
        ends: tuple[int, int | None, int, int],
        heights: Sequence[int],
        widths: Sequence[int],
        pricing: Pricing,
    ) -> Shape:
        """Return the shape of the blocks with the given ends.

        Args:
            ends: the last layer, the accumulator around which they are folded, its first folded layer, the driven
                tensor.
            heights, widths: sizes of tiles.
        """
        key = ends, pricing.streamed, pricing.slow, pricing.overlap_alignment, tuple(heights), tuple(widths)
        keeps = len(heights) * len(widths) == 1 and set(pricing.chunks) <= set(self.chunks)
        if keeps and key in self.cache:
            return self.cache[key]
        last, tail, inner, driven = ends
        extent = graph.tensors[driven]
        grid = Grid(make_tilings(extent.height, (*heights,)), make_tilings(extent.width, (*widths,)))
        block = GrowingBlock(graph, last, driven, grid, replace(pricing, chunks=self.chunks) if keeps else pricing)
        if tail is not None:
            block.fold(tail)
        shape = Shape(block, inner, tail is not None)
        if keeps:
            self.cache[key] = shape
        return shape


NO_CACHE = Shapes()
"""For a single search: nothing is stored."""
