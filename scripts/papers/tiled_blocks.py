"""Memory and work of the paper on fused inverted residual blocks in its own model, and its Algorithm 1.

A block is 1x1 expansion, k x k depthwise and 1x1 projection, fused whole and cut into T_H x T_W tiles. H3 rows of the
output need H2 = H3 * s + (k - s) rows of the expanded tensor (Equation 3, likewise for columns). They are computed
again for every tile, including padding rows, so halos are computed twice; work is that of all tiles (Equation 2). Tiles
have no line buffers: the tile of the expanded tensor and that of the depthwise result are stored whole, beside the
block's input and output. The paper prints no layout of its buffers; that is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tflite_fuse.cost.priced_program import PricedProgram, PricedStep
from tflite_fuse.ir.block import Stage, StageKind
from tflite_fuse.search.schemes import Range, inverted_residuals


@dataclass(frozen=True)
class Tiled:
    """A network with some of its blocks fused, as the paper counts.

    Attributes:
        blocks: the fused ones, first and last layer.
        ram_bytes: the largest working set, input image and residuals held.
        macs: of all layers, the fused ones tile by tile.
    """

    blocks: tuple[Range, ...]
    ram_bytes: int
    macs: int


def tile_extents(length: int, tiles: int) -> tuple[int, ...]:
    """Return the lengths of the tiles of an axis: floor(length / tiles), and the last takes the remainder.

    10 rows in 4 tiles are 2, 2, 2 and 4. An axis shorter than its number of tiles has tiles of one.
    """
    size = max(length // tiles, 1)
    count = min(tiles, length)
    return (*[size] * (count - 1), length - size * (count - 1))


def algorithm_1(graph: PricedProgram, tiles: tuple[int, int]) -> Tiled:
    """Return the paper's choice of blocks: all of them, less those that can be left out, from the last to the first.

    Args:
        graph: a network.
        tiles: T_H and T_W. 1x1 is the paper's rate for "not fused": no block is.
    """
    if tiles == (1, 1):
        return evaluate(graph, (), tiles)
    chosen = inverted_residuals(graph)
    best = evaluate(graph, chosen, tiles)
    for block in reversed(chosen):
        fewer = evaluate(graph, [other for other in best.blocks if other != block], tiles)
        if fewer.ram_bytes <= best.ram_bytes:
            best = fewer
    return best


def evaluate(graph: PricedProgram, blocks: Sequence[Range], tiles: tuple[int, int]) -> Tiled:
    """Return the arena and the work of a network with exactly these blocks fused."""
    last_of = dict(blocks)
    ram, macs, index = 0, 0, 0
    while index < len(graph.steps):
        last = last_of.get(index, index)
        inside = graph.steps[index : last + 1]
        scratch, work = (0, graph.steps[index].work) if last == index else tile_costs(graph, inside, tiles)
        ram, macs, index = max(ram, live_bytes(graph, index, last) + scratch), macs + work, last + 1
    return Tiled(tuple(blocks), ram, macs)


def live_bytes(graph: PricedProgram, first: int, last: int) -> int:
    """Return bytes of the tensors outside a block that are live while the layers first … last run as one operator."""
    inside = {tensor for layer in graph.steps[first:last] for tensor in layer.outputs}
    return sum(
        size
        for tensor, size in enumerate(graph.sizes)
        if tensor not in inside
        and graph.producer[tensor] <= last
        and (tensor in graph.outputs or max(graph.consumers[tensor], default=graph.producer[tensor]) >= first)
    )


def tile_costs(graph: PricedProgram, block: Sequence[PricedStep], tiles: tuple[int, int]) -> tuple[int, int]:
    """Return scratch of the largest tile, and multiply-accumulates of all tiles and of what stands beside them."""
    depthwise = _stage(block, lambda stage: stage.kind is StageKind.DEPTHWISE)
    driven = graph.tensors[depthwise.output]
    rows, columns = tile_extents(driven.height, tiles[0]), tile_extents(driven.width, tiles[1])
    scratch = macs = 0
    for tile in ((height, width) for height in rows for width in columns):
        inner = list(_tile(graph, block, depthwise, tile))
        scratch = max(scratch, sum(count for count, _ in inner))
        macs += sum(work for _, work in inner)
    return scratch, macs + sum(layer.work for layer in block if layer.stage and layer.stage.kind is StageKind.ADD)


def _tile(
    graph: PricedProgram, block: Sequence[PricedStep], depthwise: Stage, tile: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    """Return bytes kept and work done per layer for a tile of so many rows and columns of the output."""
    halo = [tile[axis] * depthwise.stride[axis] + depthwise.extent[axis] - depthwise.stride[axis] for axis in (0, 1)]
    for layer in block:
        if layer.stage is None or layer.stage.kind not in (StageKind.CONV, StageKind.DEPTHWISE):
            continue
        output = graph.tensors[layer.stage.output]
        before = layer is not block[-1] and layer.stage.output in depthwise.inputs
        pixels = halo[0] * halo[1] if before else tile[0] * tile[1]
        inner = before or layer.stage is depthwise
        yield pixels * output.channels if inner else 0, layer.work // output.pixels * pixels


def _stage(block: Sequence[PricedStep], matches: Callable[[Stage], bool]) -> Stage:
    return next(layer.stage for layer in block if layer.stage is not None and matches(layer.stage))
