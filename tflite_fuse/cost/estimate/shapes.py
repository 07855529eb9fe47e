"""Blocks as they grow, without their work: what several searches of one graph in several units have in common."""

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
        computed: the demand on the layer that was added, if that computes anything.
        rings: the least bytes of rings alone under any configuration.
        memory: what it takes as a block; None if it is none, or nothing was added to it yet.
    """

    computed: Demand | None
    rings: int
    memory: Memory | None


class Shape:
    """A block under some tilings, grown as far as a search has needed it.

    Attributes:
        driven: what the first layer above finds: the demand of the driven tensor.
        computing: as of ``GrowingBlock``.
        chunks: output pixels per step, those of its memory.
    """

    def __init__(self, block: GrowingBlock, inner: int, is_folded: bool) -> None:
        """Args: inner: the first layer the block has already, if it is folded; else the one behind its last."""
        self.grid, self.computing, self.chunks = block.grid, block.computing, block.pricing.chunks
        self.driven = block.demands[block.driven]
        self._block, self._inner = block, inner
        self._steps: list[Grown | None] = [self._now(inner) if is_folded else Grown(None, 0, None)]

    def at(self, first: int) -> Grown | None:
        """From layer ``first`` on; None where no block can hold that layer."""
        while len(self._steps) <= self._inner - first and self._steps[-1] is not None:
            index = self._inner - len(self._steps)
            self._steps.append(self._now(index) if self._block.add(index) else None)
        steps = self._inner - first
        return self._steps[steps] if steps < len(self._steps) else None

    def _now(self, first: int) -> Grown:
        block = self._block
        return Grown(block.computed, int(block.scratch.min()), block.memory(first))


@dataclass(frozen=True)
class Shapes:
    """The shapes that several searches of one graph look at, each grown once.

    The graph may count another work in each of them, but its inputs lie where they did: what blocks have free
    follows from that, and is no part of what a shape is found by. By default only blocks in one tile are kept: they
    are what searches without recompute have in common, and arrays over many tilings would fill the memory.

    Attributes:
        chunks: output pixels per step, all that any of the searches tries.
        tiled: whether blocks in several tiles are kept, too: for searches that look at few blocks.
    """

    chunks: tuple[int, ...] = ()
    tiled: bool = False
    known: dict[tuple[object, ...], Shape] = field(default_factory=dict, compare=False, repr=False)

    def of(
        self,
        graph: PricedProgram,
        ends: tuple[int, int | None, int, int],
        heights: Sequence[int],
        widths: Sequence[int],
        pricing: Pricing,
    ) -> Shape:
        """The shape of the blocks that end somewhere.

        Args:
            ends: the last layer, the accumulator they are folded around, the first layer of that, the driven tensor.
            heights, widths: of tiles.
        """
        key = ends, pricing.streamed, pricing.sharing, tuple(heights), tuple(widths)
        keeps = (self.tiled or len(heights) * len(widths) == 1) and set(pricing.chunks) <= set(self.chunks)
        if keeps and key in self.known:
            return self.known[key]
        last, tail, inner, driven = ends
        extent = graph.tensors[driven]
        grid = Grid(make_tilings(extent.height, heights), make_tilings(extent.width, widths))
        block = GrowingBlock(graph, last, driven, grid, replace(pricing, chunks=self.chunks) if keeps else pricing)
        if tail is not None:
            block.fold(tail)
        shape = Shape(block, inner, tail is not None)
        if keeps:
            self.known[key] = shape
        return shape


NOTHING_KNOWN = Shapes()
"""For a single search: nothing is kept."""
