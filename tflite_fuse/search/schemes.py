"""Published fusion schemes, as restrictions of the one search.

A scheme determines the ranges of operators that may become a block and the tiles in which it may run; search and
executor are the same for all. ``auto`` allows full-width line buffers and vertical strips anywhere. Tiles cut in both
directions need no less scratch than strips of the same width. But if outputs may lie over free input, strips in bands
share memory with it, which strips of the whole height cannot.

    scheme              source                                              blocks                  tiles
    auto                this package                                        any                     (bands, any strip)
    inverted-residual   fused-layer inverted residuals, Algorithm 1         whole inverted residual TH x TW of them
    head-patches        MCUNetV2, patch-based inference                     one, at the head        n x n equal patches
    h-cache             msf-CNN, H-cache (turned by 90 degrees)             any                     (full, 1)
    stream-1d           StreamNet, 1-D stream buffer                        one, at the head        (full, W / n)
    stream-2d           StreamNet, 2-D stream buffer                        one, at the head        (full, full)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from tflite_fuse.cost.estimate.growing_block import TileSizes
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.errors import UsageError
from tflite_fuse.ir.axes import strip_sizes
from tflite_fuse.ir.block import BlockTensor, StageKind

Range = tuple[int, int]
"""First and last layer of a block."""

Sizes = tuple[Sequence[int], Sequence[int]]


class Scheme(str, Enum):
    """Names of schemes in ``--scheme``."""

    AUTO = "auto"
    INVERTED_RESIDUAL = "inverted-residual"
    HEAD_PATCHES = "head-patches"
    H_CACHE = "h-cache"
    STREAM_1D = "stream-1d"
    STREAM_2D = "stream-2d"


DEFAULT_TILES = (8, 8)
"""Default number of tiles along height and width of ``inverted-residual``, with which the paper halves memory."""


@dataclass(frozen=True)
class Restriction:
    """Blocks and tiles that a scheme allows.

    Attributes:
        scheme: its name.
        tile_sizes: function from the driven tensor to tile heights and widths.
        allows: function that returns whether the layers first … last may be one block.
        paired: whether the n-th height is combined only with the n-th width; otherwise with all widths.
    """

    scheme: Scheme
    tile_sizes: TileSizes
    allows: Callable[[int, int], bool]
    paired: bool = False


def refuse_contradictions(
    scheme: Scheme, tiles: tuple[int, int] | None, tile_size: tuple[int, int] | None, strips: bool
) -> None:
    """Raise UsageError unless a scheme can be used with these arguments, which are as for ``restriction``.

    Raises:
        UsageError: tiles given for another scheme, not positive, or by number and by size; strips forbidden in another
            scheme.
    """
    if (tiles is not None or tile_size is not None) and scheme is not Scheme.INVERTED_RESIDUAL:
        raise UsageError(f"tiles belong to the scheme inverted-residual, not to {scheme.value}; leave them out")
    if tiles is not None and tile_size is not None:
        raise UsageError("tiles are given by their number or by their size, not by both; leave one of them out")
    for height, width in (each for each in (tiles, tile_size) if each is not None):
        if height < 1 or width < 1:
            raise UsageError(f"{height}x{width} makes no tiles; give at least 1x1")
    if not strips and scheme is not Scheme.AUTO:
        raise UsageError(f"only the scheme auto can do without strips; the scheme {scheme.value} has fixed tiles")


def restriction(
    graph: PricedProgram,
    scheme: Scheme,
    tiles: tuple[int, int] | None = None,
    tile_size: tuple[int, int] | None = None,
    strips: bool = True,
    bands: bool = False,
) -> Restriction:
    """Return the restriction of a scheme on a graph.

    Args:
        graph: operators in execution order.
        scheme: the scheme.
        tiles: number of tiles along height and width (the paper's T_H and T_W), ``inverted-residual`` only.
        tile_size: height and width of a tile in pixels instead, likewise.
        strips: whether ``auto`` may use strips; other schemes determine this themselves.
        bands: whether ``auto`` may run strips in bands, which helps if outputs may lie over free input.

    Raises:
        UsageError: as ``refuse_contradictions``.
    """
    refuse_contradictions(scheme, tiles, tile_size, strips)
    if scheme is Scheme.AUTO:
        sizes = whole_tile if not strips else _bands if bands else _strips
        return Restriction(scheme, sizes, lambda first, last: True)
    if scheme is Scheme.H_CACHE:
        return Restriction(scheme, _columns, lambda first, last: True)
    if scheme is Scheme.INVERTED_RESIDUAL:
        blocks = frozenset(inverted_residuals(graph))
        return Restriction(scheme, _tiled(tiles, tile_size), lambda first, last: (first, last) in blocks)
    head = head_of(graph)
    sizes = {Scheme.HEAD_PATCHES: _patches, Scheme.STREAM_1D: _strips, Scheme.STREAM_2D: whole_tile}[scheme]
    return Restriction(scheme, sizes, lambda first, last: first == head, paired=scheme is Scheme.HEAD_PATCHES)


def head_of(graph: PricedProgram) -> int:
    """Return the first layer that a block may contain (behind a QUANTIZE or an unsupported operator at the input)."""
    return next((index for index, layer in enumerate(graph.steps) if layer.stage is not None), 0)


def inverted_residuals(graph: PricedProgram) -> tuple[Range, ...]:
    """Return all whole inverted residual blocks: [1x1 expansion], depthwise, 1x1 projection, [addition of the input].

    PADs and RESHAPEs in front of them belong to the block. Blocks must be contiguous in the given order.
    """
    blocks = []
    for index in range(len(graph.steps)):
        if _is_kind(graph, index, StageKind.DEPTHWISE):
            first, last = _expansion(graph, index), _projection(graph, index)
            if last is not None:
                blocks.append((first, _addition(graph, first, last)))
    return tuple(blocks)


def _expansion(graph: PricedProgram, depthwise: int) -> int:
    """Return the first layer of the inverted residual around a depthwise convolution."""
    first = _with_padding(graph, depthwise)
    if _follows(graph, first - 1, first) and _is_pointwise(graph, first - 1):
        first = _with_padding(graph, first - 1)
    return first


def _with_padding(graph: PricedProgram, first: int) -> int:
    """Return the first of the PADs and RESHAPEs that feed only this layer."""
    while _follows(graph, first - 1, first) and _is_padding(graph, first - 1):
        first -= 1
    return first


def _is_padding(graph: PricedProgram, index: int) -> bool:
    return graph.steps[index].view or _is_kind(graph, index, StageKind.PAD)


def _projection(graph: PricedProgram, depthwise: int) -> int | None:
    """Return the 1x1 convolution behind a depthwise one, None if something else follows."""
    index = depthwise + 1
    while _follows(graph, index - 1, index) and _is_padding(graph, index):
        index += 1
    return index if _follows(graph, index - 1, index) and _is_pointwise(graph, index) else None


def _addition(graph: PricedProgram, first: int, projection: int) -> int:
    """Return the layer that adds a block's input to its output, or the projection without one."""
    addition = projection + 1
    if not _is_kind(graph, addition, StageKind.ADD):
        return projection
    added = set(graph.steps[addition].inputs)
    whole = {graph.steps[projection].outputs[0], graph.steps[first].inputs[0]} == added
    return addition if whole else projection


def _is_kind(graph: PricedProgram, index: int, kind: StageKind) -> bool:
    if not 0 <= index < len(graph.steps):
        return False
    stage = graph.steps[index].stage
    return stage is not None and stage.kind is kind


def _is_pointwise(graph: PricedProgram, index: int) -> bool:
    stage = graph.steps[index].stage if _is_kind(graph, index, StageKind.CONV) else None
    return stage is not None and stage.kernel_size == (1, 1) and stage.stride == (1, 1)


def _follows(graph: PricedProgram, index: int, reader: int) -> bool:
    """Return whether ``reader`` is the only reader of layer ``index``."""
    if index < 0 or reader >= len(graph.steps):
        return False
    written = graph.steps[index].outputs
    return len(written) == 1 and graph.consumers[written[0]] == (reader,) and written[0] not in graph.outputs


def whole_tile(driven: BlockTensor) -> Sizes:
    """Return one tile."""
    return (driven.height,), (driven.width,)


def _strips(driven: BlockTensor) -> Sizes:
    return (driven.height,), strip_sizes(driven.width)


def _bands(driven: BlockTensor) -> Sizes:
    """Return strips of the whole height, and of bands of 1/2, 1/4, ... of it."""
    heights = [driven.height]
    while heights[-1] > 1:
        heights.append(-(-heights[-1] // 2))
    return tuple(heights), strip_sizes(driven.width)


def _columns(driven: BlockTensor) -> Sizes:
    return (driven.height,), (1,)


def _patches(driven: BlockTensor) -> Sizes:
    counts = range(1, max(driven.height, driven.width) + 1)
    sizes = dict.fromkeys((-(-driven.height // count), -(-driven.width // count)) for count in counts)
    return tuple(height for height, _ in sizes), tuple(width for _, width in sizes)


def _tiled(tiles: tuple[int, int] | None, size: tuple[int, int] | None) -> TileSizes:
    """Return the requested tiling.

    Tiles given by number have ceil(H / T_H) rows, and the last has the rest: 10 rows in 4 tiles are 3, 3, 3 and 1. (In
    the paper's Equation 3 the last tile also takes the remainder, 2, 2, 2 and 4, and is the largest.) If the last would
    be empty there are fewer: 9 rows in 6 tiles are four of 2 and one of 1.
    """
    height, width = tiles or size or DEFAULT_TILES
    if size is not None:
        return lambda driven: ((min(height, driven.height),), (min(width, driven.width),))
    return lambda driven: ((-(-driven.height // height),), (-(-driven.width // width),))
