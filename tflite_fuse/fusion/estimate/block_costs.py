"""What a block costs, in closed form: bytes of scratch, multiply-accumulates with every halo.

``block_costs`` prices all blocks that end at one layer, from the shortest to the longest, under all configurations at
once: growing upwards, each step adds one layer's ring and one layer's work to the block found so far. ``schedule``
finds the same numbers by following the executor's order of events; the closed form is never below it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.axes import make_tilings
from tflite_fuse.fusion.block.layer_graph import LayerGraph
from tflite_fuse.fusion.block.stages import BlockConfig, BlockTensor
from tflite_fuse.fusion.estimate.demands import Grid
from tflite_fuse.fusion.estimate.growing_block import PLAIN, BlockCosts, GrowingBlock, Pricing, TileSizes


def block_costs(
    graph: LayerGraph,
    last: int,
    tile_sizes: TileSizes,
    pricing: Pricing = PLAIN,
    firsts: Collection[int] | None = None,
) -> Iterator[BlockCosts]:
    """Prices every block that ends at layer ``last``, shortest first.

    Args:
        last: index of the block's last layer.
        tile_sizes: which tile heights and widths to price for a given driven tensor.
        pricing: chunks, and what the model's memory allows.
        firsts: the first layers to look at; None for all.

    Ranges of layers that are no block are left out (an operator that cannot be fused, a second result that nothing in
    the range reads); the walk ends where no longer range can be a block.
    """
    if not graph.layers[last].fusable or not graph.is_read(graph.layers[last].outputs[0]):
        return
    tail = find_tail(graph, last)
    if tail != last:
        yield from _block(graph, last, graph.layers[last].outputs[0], tile_sizes, pricing).climb(last, firsts)
    if tail is not None:
        folded = _block(graph, last, graph.through_views(graph.layers[tail].inputs[0]), tile_sizes, pricing)
        folded.fold(tail)
        first = tail
        while (
            first > 0 and graph.layers[first - 1].view and graph.layers[first - 1].outputs == graph.layers[first].inputs
        ):
            first -= 1
        if firsts is None or first in firsts:
            yield from folded.price(first)
        yield from folded.climb(first - 1, firsts)


def _block(graph: LayerGraph, last: int, driven: int, tile_sizes: TileSizes, pricing: Pricing) -> GrowingBlock:
    extent = graph.tensors[driven]
    heights, widths = tile_sizes(extent)
    grid = Grid(make_tilings(extent.height, heights), make_tilings(extent.width, widths))
    return GrowingBlock(graph, last, driven, grid, pricing)


def price_block(graph: LayerGraph, first: int, last: int, config: BlockConfig, pricing: Pricing = PLAIN) -> BlockCosts:
    """The block of layers ``first … last`` under one configuration; the arrays of the result have one entry.

    The configuration's chunk overrules those of ``pricing``.

    Raises:
        BlockError: these layers are no block.
    """

    def one_tile(driven: BlockTensor) -> tuple[tuple[int], tuple[int]]:
        return (min(config.tile_height, driven.height),), (min(config.tile_width, driven.width),)

    for costs in block_costs(graph, last, one_tile, replace(pricing, chunks=(config.chunk,))):
        if costs.first == first:
            return costs
    names = graph.layers[first].name, graph.layers[last].name
    raise BlockError(f"the operators from {names[0]} to {names[1]} are no block: choose a range the search offers")


def find_tail(graph: LayerGraph, last: int) -> int | None:
    """The accumulator layer a block ending at ``last`` would be folded around, None if there is none.

    That is the latest accumulator of a spatial input from which every layer up to ``last`` works on single pixels, one
    after the other.
    """
    for index in range(last, -1, -1):
        layer = graph.layers[index]
        if not layer.fusable or len(layer.outputs) != 1 or len(layer.inputs) != 1:
            return None
        if graph.accumulates(index):
            return index if _reads_in_line(graph, index) else None
        if graph.tensors[layer.outputs[0]].pixels > 1 or not _only_link(graph, layer.inputs[0], index):
            return None
    return None


def _reads_in_line(graph: LayerGraph, index: int) -> bool:
    """Whether all views between a layer and what it reads stand right before it and serve nothing else."""
    while graph.producer[graph.layers[index].inputs[0]] >= 0:
        source = graph.layers[index].inputs[0]
        if not graph.layers[graph.producer[source]].view:
            return True
        if not _only_link(graph, source, index):
            return False
        index -= 1
    return True


def driven_tensor(graph: LayerGraph, first: int, last: int) -> int:
    """The tensor a block computes tile by tile: its output, or what its folded tail reads."""
    tail = find_tail(graph, last)
    if tail is None or tail < first:
        return graph.layers[last].outputs[0]
    return graph.through_views(graph.layers[tail].inputs[0])


def _only_link(graph: LayerGraph, tensor: int, reader: int) -> bool:
    return graph.producer[tensor] == reader - 1 and graph.consumers[tensor] == (reader,) and tensor not in graph.outputs
