"""The published ways to fuse, as restrictions of the one search.

Every scheme says which ranges of operators may become a block and in which tiles a block may run; the search and the
executor are the same for all. ``auto`` allows everything that can help: full-width line buffers and vertical strips
anywhere. Tiles cut in both directions need no less scratch than strips of the same width; but where outputs may lie
over spent input, strips in bands share memory with it as strips from top to bottom cannot.

    scheme              source                                              blocks                  tiles
    auto                this package                                        any                     (bands, any strip)
    inverted-residual   fused-layer inverted residuals, Algorithm 1         whole inverted residual TH x TW of them
    head-patches        MCUNetV2, patch-based inference                     one, at the head        n x n equal patches
    h-cache             msf-CNN, H-cache (turned by 90 degrees)             any                     (full, 1)
    stream-1d           StreamNet, 1-D stream buffer                        one, at the head        (full, W / n)
    stream-2d           StreamNet, 2-D stream buffer                        one, at the head        (full, full)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from tflite_fuse.cost.estimate.block_costs import block_costs
from tflite_fuse.cost.estimate.growing_block import BlockCosts, Pricing, TileSizes
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.errors import UsageError
from tflite_fuse.ir.axes import strip_sizes
from tflite_fuse.ir.block import BlockTensor, StageKind

Range = tuple[int, int]
"""First and last layer of a block."""

Sizes = tuple[Sequence[int], Sequence[int]]

Prices = Callable[[PricedProgram, int, TileSizes, Pricing, Collection[int]], Iterator[BlockCosts]]
"""What blocks cost, as ``block_costs`` tells it."""


class Scheme(str, Enum):
    """The names ``--scheme`` takes."""

    AUTO = "auto"
    INVERTED_RESIDUAL = "inverted-residual"
    HEAD_PATCHES = "head-patches"
    H_CACHE = "h-cache"
    STREAM_1D = "stream-1d"
    STREAM_2D = "stream-2d"


DEFAULT_TILES = (8, 8)
"""Number of tiles along height and width of ``inverted-residual`` where nothing is given: the rate at which the paper's
memory halves."""


@dataclass(frozen=True)
class Restriction:
    """What a scheme allows.

    Attributes:
        scheme: its name.
        tile_sizes: from the driven tensor to tile heights and widths.
        allows: whether the layers first … last may be one block.
        paired: the n-th height goes with the n-th width only; else every pair is a configuration.
        prices: who prices its blocks.
    """

    scheme: Scheme
    tile_sizes: TileSizes
    allows: Callable[[int, int], bool]
    paired: bool = False
    prices: Prices = block_costs


def refuse_contradictions(
    scheme: Scheme, tiles: tuple[int, int] | None, tile_size: tuple[int, int] | None, strips: bool
) -> None:
    """Whether a scheme can be had like this; arguments as for ``restriction``.

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
        raise UsageError(f"only the scheme auto can do without strips; the scheme {scheme.value} is what it is")


def restriction(
    graph: PricedProgram,
    scheme: Scheme,
    tiles: tuple[int, int] | None = None,
    tile_size: tuple[int, int] | None = None,
    strips: bool = True,
    bands: bool = False,
) -> Restriction:
    """The restriction of a scheme on a graph.

    Args:
        graph: operators in the order they will run.
        scheme: which.
        tiles: number of tiles along height and width (the paper's T_H and T_W), ``inverted-residual`` only.
        tile_size: height and width of a tile in pixels instead, likewise.
        strips: whether ``auto`` may use strips; all other schemes say themselves what they use.
        bands: whether ``auto`` may run strips in bands, which is good where outputs may lie over spent input.

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
    """The first layer a block may contain (behind a QUANTIZE or an unsupported operator at the input)."""
    return next((index for index, layer in enumerate(graph.steps) if layer.stage is not None), 0)


def inverted_residuals(graph: PricedProgram) -> tuple[Range, ...]:
    """All whole inverted residual blocks: [1x1 expansion], depthwise, 1x1 projection, [addition of the input].

    PADs and RESHAPEs in front of them belong to the block. Only blocks that are one run of the given order are found.
    """
    found = []
    for index in range(len(graph.steps)):
        if _is_kind(graph, index, StageKind.DEPTHWISE):
            first, last = _expansion(graph, index), _projection(graph, index)
            if last is not None:
                found.append((first, _addition(graph, first, last)))
    return tuple(found)


def _expansion(graph: PricedProgram, depthwise: int) -> int:
    """The first layer of the inverted residual around a depthwise convolution."""
    first = _with_padding(graph, depthwise)
    if _follows(graph, first - 1, first) and _is_pointwise(graph, first - 1):
        first = _with_padding(graph, first - 1)
    return first


def _with_padding(graph: PricedProgram, first: int) -> int:
    """The first of the PADs and RESHAPEs that feed a layer and nothing else."""
    while _follows(graph, first - 1, first) and _is_padding(graph, first - 1):
        first -= 1
    return first


def _is_padding(graph: PricedProgram, index: int) -> bool:
    return graph.steps[index].view or _is_kind(graph, index, StageKind.PAD)


def _projection(graph: PricedProgram, depthwise: int) -> int | None:
    """The 1x1 convolution behind a depthwise one, None if something else follows."""
    index = depthwise + 1
    while _follows(graph, index - 1, index) and _is_padding(graph, index):
        index += 1
    return index if _follows(graph, index - 1, index) and _is_pointwise(graph, index) else None


def _addition(graph: PricedProgram, first: int, projection: int) -> int:
    """The layer that adds a block's input to its result, or the projection where none does."""
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
    """Whether ``reader`` alone reads what layer ``index`` writes."""
    if index < 0 or reader >= len(graph.steps):
        return False
    written = graph.steps[index].outputs
    return len(written) == 1 and graph.consumers[written[0]] == (reader,) and written[0] not in graph.outputs


def whole_tile(driven: BlockTensor) -> Sizes:
    """One tile."""
    return (driven.height,), (driven.width,)


def _strips(driven: BlockTensor) -> Sizes:
    return (driven.height,), strip_sizes(driven.width)


def _bands(driven: BlockTensor) -> Sizes:
    """Strips of the whole height, and of bands of 1/2, 1/4, ... of it."""
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
    """The one tiling that was asked for.

    Tiles given by number are made as large as their number allows, ceil(H / T_H) rows, and the last is what remains: 10
    rows in 4 tiles are 3, 3, 3 and 1. (In the paper's Equation 3 the last takes the remainder on top, 2, 2, 2 and 4,
    and is the largest.) Where the last would be empty there are fewer: 9 rows in 6 tiles are four of 2 and one of 1.
    """
    height, width = tiles or size or DEFAULT_TILES
    if size is not None:
        return lambda driven: ((min(height, driven.height),), (min(width, driven.width),))
    return lambda driven: ((-(-driven.height // height),), (-(-driven.width // width),))
