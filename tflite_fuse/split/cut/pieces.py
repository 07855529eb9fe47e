"""A box of a stage's output as a smaller stage, with its receptive field and its weights.

The smaller stage is an ordinary one: fewer rows and columns with the actual padding, fewer output channels with their
weights, biases and multipliers. So the kernels of whole layers run parts of them, and every output element is computed
from the same integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.axes import AxisWindow, stage_windows
from tflite_fuse.ir.block import BlockTensor, Requantization, Stage, StageKind
from tflite_fuse.ops.entry import Window, parameters_of
from tflite_fuse.ops.table import KINDS, accumulates, input_windows
from tflite_fuse.ops.weighted.sums import SUM_BYTES, PartOf
from tflite_fuse.split.cut.network import Network, Node
from tflite_fuse.split.cut.regions import Box, Range, Region, region_of, whole


@dataclass(frozen=True)
class Piece:
    """A part of a stage.

    Attributes:
        node: index of the network's node.
        stage: its ``inputs`` number the piece's own; its ``output`` is the next number.
        tensors: extents of the inputs, then of the output.
        reads: for each input the network's value and the box of it.
        writes: the value and the box of it.
    """

    node: int
    stage: Stage
    tensors: tuple[BlockTensor, ...]
    reads: tuple[tuple[int, Box], ...]
    writes: tuple[int, Box]


def can_be_cut(node: Node) -> bool:
    """Return whether parts of a node's output can be computed separately."""
    return node.stage is not None and node.stage.kind in _CHANNELS


def pieces_of(network: Network, node: int, region: Region) -> tuple[Piece, ...]:
    """Return a region of a stage's output as pieces, one box each.

    Raises:
        BlockError: the stage cannot be cut like this.
    """
    return tuple(_piece(network, node, part) for box in region for part in _aligned(network.nodes[node], box))


def receptive_field(network: Network, node: int, region: Region) -> dict[int, Region]:
    """Return value → region that a region of a node's output needs; whole values for an operator without stage."""
    regions: dict[int, Region] = dict.fromkeys(network.nodes[node].inputs, ())
    if network.nodes[node].stage is None:
        return {value: network.region(value) for value in regions} if region else regions
    for box in region:
        for part in _aligned(network.nodes[node], box):
            for value, needed in box_needs(network, node, part):
                regions[value] = region_of(*regions[value], needed)
    return regions


def box_needs(network: Network, node: int, box: Box) -> tuple[tuple[int, Box], ...]:
    """Return (value, box) for each input that a box of a stage's output reads.

    Raises:
        BlockError: the stage cannot be cut like this.
    """
    stage = _stage_of(network.nodes[node])
    shapes = [network.shape(value) for value in stage.inputs]
    full = box == network.box(stage.output)
    if stage.kind not in _CHANNELS:
        if not full:
            raise BlockError(f"{network.nodes[node].name} cannot be cut")
        return tuple((value, whole(shape)) for value, shape in zip(stage.inputs, shapes, strict=True))
    channels = _CHANNELS[stage.kind](stage, [shape[2] for shape in shapes], box.channels)
    needs = []
    looks = input_windows(stage, network.values)
    for value, shape, channel_range, windows in zip(stage.inputs, shapes, channels, looks, strict=True):
        if channel_range[0] >= channel_range[1]:
            continue  # an input of a concatenation outside the box
        if _sees_all(stage) or accumulates(stage, network.values):
            rows, columns = (0, shape[0]), (0, shape[1])
        else:
            row_window, column_window = windows
            rows, columns = _seen(row_window, box.rows, shape[0]), _seen(column_window, box.columns, shape[1])
            if rows[0] >= rows[1] or columns[0] >= columns[1]:
                raise BlockError(f"a part of {network.nodes[node].name} would read only padding")
        needs.append((value, Box(rows, columns, channel_range)))
    return tuple(needs)


def _sees_all(stage: Stage) -> bool:
    """Return whether a stage's single output pixel reads all pixels of its input."""
    whole_image = isinstance(stage.parameters, PartOf) and stage.parameters.image
    return stage.kind is StageKind.FULLY_CONNECTED or whole_image


def _seen(window: AxisWindow, positions: Range, length: int) -> Range:
    return max(window.first(positions[0]), 0), min(window.end(positions[1]), length)


# ---- Channels ----

_Channels = Callable[[Stage, list[int], Range], list[Range]]


def _all(stage: Stage, counts: list[int], channels: Range) -> list[Range]:
    return [(0, count) for count in counts]


def _same(stage: Stage, counts: list[int], channels: Range) -> list[Range]:
    """Return the same channels of each input; all of an input with a single channel."""
    return [(0, 1) if count == 1 else channels for count in counts]


def _multiplied(stage: Stage, counts: list[int], channels: Range) -> list[Range]:
    return [(channels[0] // stage.depth_multiplier, -(-channels[1] // stage.depth_multiplier))]


def _joined(stage: Stage, counts: list[int], channels: Range) -> list[Range]:
    ranges, start = [], 0
    for count in counts:
        low, high = max(channels[0] - start, 0), min(channels[1] - start, count)
        ranges.append((low, high) if low < high else (0, 0))
        start += count
    return ranges


def _part_of(stage: Stage, counts: list[int], channels: Range) -> list[Range]:
    _whole_sums(*channels)
    return [parameters_of(stage, PartOf).channels]


def _four_for_one(stage: Stage, counts: list[int], channels: Range) -> list[Range]:
    if stage.requantization is None:
        _whole_sums(*channels)
        return [channels for _ in counts]
    return [(SUM_BYTES * channels[0], SUM_BYTES * channels[1]) for _ in counts]


def _whole_sums(low: int, high: int) -> None:
    if low % SUM_BYTES or high % SUM_BYTES:
        raise BlockError(f"bytes {low} to {high - 1} are no whole sums")


_CHANNELS: dict[StageKind, _Channels] = {
    StageKind.CONV: _all,
    StageKind.FULLY_CONNECTED: _all,
    StageKind.DEPTHWISE: _multiplied,
    StageKind.CONCATENATION: _joined,
    StageKind.CONV_SUMS: _part_of,
    StageKind.ADD_SUMS: _four_for_one,
    **dict.fromkeys(
        (
            StageKind.ADD,
            StageKind.MULTIPLY,
            StageKind.SQUARED_DIFFERENCE,
            StageKind.MAXIMUM,
            StageKind.MINIMUM,
            StageKind.LOOKUP,
            StageKind.PAD,
            StageKind.AVERAGE_POOL,
            StageKind.MAX_POOL,
            StageKind.GLOBAL_AVERAGE,
        ),
        _same,
    ),
}
"""Input channels that a range of output channels needs, by kind. Other kinds are not cut."""


def _aligned(node: Node, box: Box) -> Iterator[Box]:
    """Yield the box, cut so that a depthwise stage with a multiplier reads whole groups of each input channel."""
    multiplier = node.stage.depth_multiplier if node.stage and node.stage.kind is StageKind.DEPTHWISE else 1
    low, high = box.channels
    inside_one = low // multiplier == (high - 1) // multiplier
    if multiplier == 1 or inside_one or (low % multiplier == 0 and high % multiplier == 0):
        yield box
        return
    first, last = -(-low // multiplier) * multiplier, high // multiplier * multiplier
    for start, end in ((low, first), (first, last), (last, high)):
        if start < end:
            yield replace(box, channels=(start, end))


# ---- The smaller stage ----


def _stage_of(node: Node) -> Stage:
    if node.stage is None:
        raise BlockError(f"{node.name} only runs whole: {node.reason}")
    return node.stage


def _piece(network: Network, node: int, box: Box) -> Piece:
    stage = _stage_of(network.nodes[node])
    reads = box_needs(network, node, box)
    tensors = tuple(_part(network.values[value], needed) for value, needed in reads)
    inputs, output = tuple(range(len(reads))), len(reads)
    cut_stage = replace(stage, inputs=inputs, output=output, padding=_padding(stage, box, reads[0][1]))
    cut_stage = _with_channels(cut_stage, box, reads[0][1], network.shape(stage.output)[2])
    return Piece(node, cut_stage, (*tensors, _part(network.values[stage.output], box)), reads, (stage.output, box))


def _part(tensor: BlockTensor, box: Box) -> BlockTensor:
    height, width, channels = box.shape
    return replace(tensor, height=height, width=width, channels=channels)


def _padding(stage: Stage, box: Box, read: Box) -> tuple[int, int]:
    """Return the padding rows above and columns left of a box's first window, relative to the box it reads."""
    usual = stage.kind is StageKind.GLOBAL_AVERAGE or KINDS[stage.kind].window is Window.PIXEL
    if usual or _sees_all(stage) or stage.kind not in _CHANNELS:  # the last are whole
        return stage.padding
    rows, columns = stage_windows(stage)
    return read.rows[0] - rows.first(box.rows[0]), read.columns[0] - columns.first(box.columns[0])


def _with_channels(stage: Stage, box: Box, read: Box, channels: int) -> Stage:
    low, high = box.channels
    if high - low == channels:
        return stage
    table, bias, weights = stage.requantization, stage.bias, stage.weights
    if table is not None and len(table.multiplier) == channels:
        table = Requantization(table.multiplier[low:high], table.shift[low:high])
    if stage.kind is StageKind.CONV_SUMS and weights is not None:
        weights = weights[low // SUM_BYTES : high // SUM_BYTES]
    elif weights is not None:
        weights = weights[..., low:high] if stage.kind is StageKind.DEPTHWISE else weights[low:high]
    multiplier = stage.depth_multiplier
    if stage.kind is StageKind.DEPTHWISE and read.shape[2] == 1:
        multiplier = high - low
    return replace(
        stage,
        weights=weights,
        bias=None if bias is None else bias[low:high],
        requantization=table,
        depth_multiplier=multiplier,
    )
