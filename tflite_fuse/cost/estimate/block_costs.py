"""Scratch, work and shared bytes of blocks in closed form, for all blocks that end at one layer.

``block_costs`` prices these blocks from the shortest to the longest, under all configurations at once: each step
upwards adds one layer's ring and work. Work is in the graph's unit and includes every halo. ``schedule`` computes the
exact numbers from the executor's order of events; bytes and MACs of the closed form are never below them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate, compress

import numpy as np
import numpy.typing as npt

from tflite_fuse.cost.estimate.growing_block import PLAIN, BlockCosts, GrowingBlock, Memory, Pricing, TileSizes
from tflite_fuse.cost.estimate.least_work import WorkLimit
from tflite_fuse.cost.estimate.rings import Demand, Grid, rows_cost
from tflite_fuse.cost.priced_program import PricedProgram, PricedStep
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.axes import IntArray, make_tilings, total, total_in_runs
from tflite_fuse.ir.block import BlockConfig, BlockTensor


@lru_cache(maxsize=1 << 12)
def _with_pull_cost(run_costs: tuple[int, ...], more: int) -> tuple[int, ...]:
    return tuple(cost + more for cost in run_costs)


def block_costs(
    graph: PricedProgram,
    last: int,
    tile_sizes: TileSizes,
    pricing: Pricing = PLAIN,
    firsts: Collection[int] | Mapping[int, int] | None = None,
) -> Iterator[BlockCosts]:
    """Yield the costs of every block that ends at layer ``last``, shortest first.

    Args:
        last: index of the block's last layer.
        tile_sizes: function from the driven tensor to the tile heights and widths to price.
        pricing: chunks, and the permissions of the model's memory.
        firsts: first layers to price, as a mapping with the bytes of scratch beyond which a block may be skipped; None
            for all.

    Ranges of layers that are no block are skipped: those with an operator that cannot be fused, with a second result
    without readers in the range, or behind a PAD that could be absorbed. The iteration ends where no longer range can
    be a block.
    """
    if not graph.steps[last].fusable or not graph.is_read(graph.steps[last].outputs[0]):
        return
    tail = find_tail(graph, last)
    if tail != last:
        yield from _Family(graph, last, None, pricing).priced(tile_sizes, firsts)
    if tail is not None:
        yield from _Family(graph, last, tail, pricing).priced(tile_sizes, firsts)


class _BlockWithWork:
    """A growing block with its work.

    Attributes:
        block: the block from its current first layer on.
        memory: of that block, None if it is none. It is computed at each step, priced or not: overlaps with an input
            are exact before the first layer that enlarges an image, and stay so.
        work: in the graph's unit, [chunks, heights, widths].
    """

    def __init__(self, family: _Family, heights: Sequence[int], widths: Sequence[int]) -> None:
        graph, extent = family.graph, family.graph.tensors[family.driven]
        grid = Grid(make_tilings(extent.height, (*heights,)), make_tilings(extent.width, (*widths,)))
        self.family, self.block = family, GrowingBlock(graph, family.last, family.driven, grid, family.pricing)
        self.work = np.zeros((len(family.pricing.chunks), *grid.shape), dtype=np.int64)
        self._least = 0
        self.memory: Memory | None = None
        if family.tail is not None:
            self._fold(family.tail)

    def _fold(self, tail: int) -> None:
        """Count the accumulator and the layers behind it, computed once; its input is visited pixel by pixel."""
        graph, summing = self.family.graph, self.family.graph.steps[tail]
        self.block.fold(tail)
        for index in range(tail, self.family.last + 1):
            self._count(index, graph.steps[index].work)
        if summing.run_costs:
            in_runs = self._in_runs(self.block.demands[self.family.driven], summing.run_costs)
            self.work = self.work + in_runs - rows_cost(graph.tensors[self.family.driven], summing.run_costs)
        self.memory = self.block.memory(self.family.first_folded)

    def _count(self, index: int, work: IntArray | int) -> None:
        self.work = self.work + work
        self._least += 0 if self.family.pricing.limit is None else self.family.pricing.limit.least[index]

    def add(self, index: int) -> bool:
        """Add one layer; return False if no block that ends there can contain it, or none can run in these tiles."""
        if not self.block.add(index):
            return False
        layer = self.family.graph.steps[index]
        computed = self.block.computed if layer.work else None
        self._count(index, 0 if computed is None else self._work_of(layer, computed))
        self.memory = self.block.memory(index)
        return bool(self.block.usable.any())

    def _work_of(self, layer: PricedStep, demand: Demand) -> IntArray:
        """Return the work of a layer over all tiles, [heights, widths] or [chunks, heights, widths]."""
        if layer.run_costs:
            folded = None if self.family.tail is None else self.family.last  # stands for readers of an accumulator
            waited_for = any(consumer.layer != folded for consumer in demand.consumers)
            return self._in_runs(demand, _with_pull_cost(layer.run_costs, layer.pull_cost if waited_for else 0))
        rows, columns = total(demand.rows, self.block.grid.heights), total(demand.columns, self.block.grid.widths)
        return np.multiply.outer(rows, columns) * (layer.work // demand.extent.pixels)

    def _in_runs(self, demand: Demand, run_costs: tuple[int, ...]) -> IntArray:
        """Return the work of a region whose rows are computed in runs of full length, [chunks, heights, widths].

        Readers that request a row in pieces break some runs; the schedule counts those.
        """
        grid, steps = self.block.grid, np.array(self.family.pricing.chunks, dtype=np.int64)[:, None]
        of_row = total_in_runs(demand.columns, grid.widths, steps, run_costs)
        work: IntArray = total(demand.rows, grid.heights)[:, None] * of_row[:, None, :]
        return work

    def affordable(self, limit: WorkLimit) -> npt.NDArray[np.bool_]:
        """Return the tilings with which a model that contains this block, or a larger one, can meet the limit."""
        affordable: npt.NDArray[np.bool_] = np.any(self.work - self._least <= limit.slack, axis=0)
        return affordable

    def price(self, first: int) -> Iterator[BlockCosts]:
        """Yield the costs of the layers added so far, or nothing if they are no block."""
        if self.memory is None:
            return
        family, (scratch, usable, shared) = self.family, self.memory
        columns = *self._configurations, scratch.ravel(), self.work.ravel(), usable.ravel(), shared.ravel()
        yield BlockCosts(first, family.last, family.driven, *columns)

    @cached_property
    def _configurations(self) -> tuple[IntArray, IntArray, IntArray]:
        grid, chunks = self.block.grid, np.array(self.family.pricing.chunks, dtype=np.int64)[:, None, None]
        chunk, height, width = np.broadcast_arrays(chunks, grid.heights.sizes[:, None], grid.widths.sizes)
        return chunk.ravel(), height.ravel(), width.ravel()


@dataclass(frozen=True)
class _Family:
    """All blocks that end at one layer and are folded around one accumulator or none."""

    graph: PricedProgram
    last: int
    tail: int | None
    pricing: Pricing

    def priced(self, tile_sizes: TileSizes, firsts: Collection[int] | None) -> Iterator[BlockCosts]:
        """Yield the costs of the blocks, shortest first.

        With ``firsts``, only blocks that start with one of these layers are priced. With a limit on work, tilings under
        which no larger block can meet the limit are dropped on the way, because work and scratch grow with every layer.
        """
        lowest = 0 if firsts is None else min(firsts, default=self.last + 1)
        budgets = firsts if isinstance(firsts, Mapping) else {}
        ascending = sorted(budgets)
        largest = dict(zip(ascending, accumulate((budgets[first] for first in ascending), max), strict=True))
        heights, widths = tile_sizes(self.graph.tensors[self.driven])
        block = self.block_from(heights, widths, self.first_folded)
        for first in range(min(self.first_folded - (self.tail is None), self.last), lowest - 1, -1):
            if first < self.first_folded and not block.add(first):
                return
            if self.pricing.limit is not None and block.work.size > 1:
                affordable = block.affordable(self.pricing.limit)
                if not affordable.any():
                    return
                rows, columns = np.any(affordable, axis=1), np.any(affordable, axis=0)
                if np.count_nonzero(rows) * np.count_nonzero(columns) == 1:
                    if self.pricing.divided:
                        return
                    heights, widths = tuple(compress(heights, rows)), tuple(compress(widths, columns))
                    block = self.block_from(heights, widths, first)
            if firsts is None or first in firsts:
                if first in budgets and (least := int(block.block.scratch.min())) > budgets[first]:
                    if least > largest[first]:
                        return
                    continue
                yield from block.price(first)

    def block_from(self, heights: Sequence[int], widths: Sequence[int], first: int) -> _BlockWithWork:
        """Return the block from layer ``first`` on, with the given tile heights and widths."""
        block = _BlockWithWork(self, heights, widths)
        for index in range(self.first_folded - 1, first - 1, -1):
            block.add(index)
        return block

    @cached_property
    def driven(self) -> int:
        """The tensor that the blocks compute tile by tile."""
        graph = self.graph
        return _computed(graph, self.last) if self.tail is None else graph.summed(self.tail)

    @cached_property
    def first_folded(self) -> int:
        """First folded layer: the accumulator or views before it; without one, the views at the end, or the end."""
        if self.tail is None:
            return _views_at_the_end(self.graph, self.last)
        layers, first = self.graph.steps, self.tail
        while layers[first].inputs[0] != self.driven:  # the views between stand in line
            first -= 1
        return first


def price_block(
    graph: PricedProgram, first: int, last: int, config: BlockConfig, pricing: Pricing = PLAIN
) -> BlockCosts:
    """Return the costs of the block ``first … last`` under one configuration; the arrays have one entry.

    The configuration's chunk replaces those of ``pricing``.

    Raises:
        BlockError: these layers are no block.
    """

    def one_tile(driven: BlockTensor) -> tuple[tuple[int], tuple[int]]:
        return (min(config.tile_height, driven.height),), (min(config.tile_width, driven.width),)

    for costs in block_costs(graph, last, one_tile, replace(pricing, chunks=(config.chunk,)), (first,)):
        return costs
    names = graph.steps[first].name, graph.steps[last].name
    raise BlockError(f"the operators from {names[0]} to {names[1]} are no block: choose a range the search offers")


def find_tail(graph: PricedProgram, last: int) -> int | None:
    """Return the accumulator layer around which a block that ends at ``last`` is folded, or None.

    It is the latest accumulator of a spatial input that is followed, up to ``last``, by a chain of layers on single
    pixels.
    """
    for index in range(last, -1, -1):
        layer = graph.steps[index]
        if not layer.fusable or len(layer.outputs) != 1 or len(layer.inputs) != 1:
            return None
        if graph.accumulates(index):
            return index if _reads_in_line(graph, index) else None
        if graph.tensors[layer.outputs[0]].pixels > 1 or not _only_link(graph, layer.inputs[0], index):
            return None
    return None


def _reads_in_line(graph: PricedProgram, index: int) -> bool:
    """Return whether all views between a layer and its source stand right before it and have no other reader."""
    while graph.producer[graph.steps[index].inputs[0]] >= 0:
        source = graph.steps[index].inputs[0]
        if not graph.steps[graph.producer[source]].view:
            return True
        if not _only_link(graph, source, index):
            return False
        index -= 1
    return True


def driven_tensor(graph: PricedProgram, first: int, last: int) -> int:
    """Return the tensor that a block computes tile by tile: its output, or the input of its folded tail."""
    tail = find_tail(graph, last)
    if tail is None or tail < first:
        return _computed(graph, last)
    return graph.summed(tail)


def _views_at_the_end(graph: PricedProgram, last: int) -> int:
    """Return the first of the views at the end, which only rename their input, or ``last + 1`` without any."""
    index = last
    while graph.steps[index].view and _only_link(graph, graph.steps[index].inputs[0], index):
        source, renamed = graph.tensors[graph.steps[index].inputs[0]], graph.tensors[graph.steps[index].outputs[0]]
        if (source.height, source.width) != (renamed.height, renamed.width):
            break
        index -= 1
    return last + 1 if graph.steps[index].view else index + 1


def _computed(graph: PricedProgram, last: int) -> int:
    """Return the last tensor that the layers up to ``last`` compute, before the views that rename it."""
    views = _views_at_the_end(graph, last)
    return graph.steps[last].outputs[0] if views > last else graph.steps[views].inputs[0]


def _only_link(graph: PricedProgram, tensor: int, reader: int) -> bool:
    return graph.producer[tensor] == reader - 1 and graph.consumers[tensor] == (reader,) and tensor not in graph.outputs
