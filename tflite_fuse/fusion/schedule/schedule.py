"""The exact schedule of a block: how large its rings must be, where they lie, what work is done.

    schedule(block, config).scratch_bytes

The order is the executor's (``arduino/src/executor/tflite_fuse_block.c``): tiles of
the driven tensor one after another, in each of them runs of at most ``chunk`` pixels, pulled through the stages. All
numbers here are those of that order; only the overlaps of blocks in several tiles are bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tflite_fuse.fusion.block.check import check_config
from tflite_fuse.fusion.block.limits import STACK_POINTERS
from tflite_fuse.fusion.block.stages import Block, BlockConfig, BlockTensor, Stage, StageKind, Storage
from tflite_fuse.fusion.schedule.events import FAR, Reader, Runs, TileRun, TileShape, follow_tile
from tflite_fuse.fusion.schedule.tiles import (
    Split,
    TileSpans,
    accumulates,
    is_one_tile,
    other_outputs,
    split_block,
    tile_classes,
    tile_spans,
)

SCRATCH_ALIGNMENT = 4
"""Every tensor and every accumulator in scratch starts at a multiple of this many bytes."""

CURSOR_BYTES = 12
"""What the executor remembers per spatial stage."""

POINTER_BYTES = 8
"""Bytes of each of the pointers in scratch to the pixels of a window with more than STACK_POINTERS, on every target."""

_NARROW_SUMS = (2**15 - 1) // 128
"""A global average of at most this many pixels sums in int16."""


@dataclass(frozen=True)
class Schedule:
    """How a block runs under a configuration.

    Attributes:
        config: as given.
        driven: the tensor computed tile by tile.
        spatial_stages: stages[:spatial_stages] run tile by tile, the others once, behind accumulators.
        capacities: pixels in the ring of each tensor; 0 for tensors that are not in scratch.
        offsets: byte offset in scratch of each tensor, −1 for those that are not in it.
        accumulator_offsets: byte offset in scratch of each stage's sums, −1 for stages that keep none.
        reserved_bytes: at the start of scratch, for the executor itself.
        scratch_bytes: all of scratch.
        stage_pixels: pixels each stage computes, over all tiles.
        stage_macs: multiply-accumulates each stage executes, taps on padding counted.
        stage_runs: for each spatial stage how many runs of each length there are, over all tiles.
        overlaps: (input, output) → bytes: the output may lie over the input if the input's address is at least this
            much higher than the output's (a negative number: the output may start that far inside the input). Exact
            for blocks in one tile; in several, as if a tile read everything first and wrote everything last.
    """

    config: BlockConfig
    driven: int
    spatial_stages: int
    capacities: tuple[int, ...]
    offsets: tuple[int, ...]
    accumulator_offsets: tuple[int, ...]
    reserved_bytes: int
    scratch_bytes: int
    stage_pixels: tuple[int, ...]
    stage_macs: tuple[int, ...]
    stage_runs: tuple[dict[int, int], ...]
    overlaps: dict[tuple[int, int], int]

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one run of the block."""
        return sum(self.stage_macs)


def schedule(block: Block, config: BlockConfig) -> Schedule:
    """Works out how a block runs.

    Raises:
        BlockError: the block cannot run like this; the message says which tensor is in the way.
    """
    check_config(config)
    split = split_block(block)
    tiles = [(_follow(block, split, config, tile.shape), tile.count) for tile in tile_classes(block, split, config)]
    capacities = _capacities(block, split, [run for run, _ in tiles])
    layout = lay_out(block, split, capacities)
    pixels = [sum(run.produced[stage.output] * count for run, count in tiles) for stage in _spatial(block, split)]
    pixels += [1] * (len(block.stages) - split.spatial)
    macs = [count * macs_per_pixel(stage, block.tensors) for stage, count in zip(block.stages, pixels, strict=True)]
    return Schedule(
        config=config,
        driven=split.driven,
        spatial_stages=split.spatial,
        capacities=capacities,
        offsets=layout.offsets,
        accumulator_offsets=layout.accumulator_offsets,
        reserved_bytes=reserved_bytes(block.stages, split.spatial),
        scratch_bytes=layout.scratch_bytes,
        stage_pixels=tuple(pixels),
        stage_macs=tuple(macs),
        stage_runs=tuple(_run_lengths(stage.output, tiles) for stage in _spatial(block, split)),
        overlaps=_overlaps(block, split, config, tiles[0][0]),
    )


def macs_per_pixel(stage: Stage, tensors: Sequence[BlockTensor]) -> int:
    """Multiply-accumulates per output pixel; additions, pools and copies count none, nor does a depthwise of ones."""
    return 0 if stage.only_adds else products_per_pixel(stage, tensors)


def products_per_pixel(stage: Stage, tensors: Sequence[BlockTensor]) -> int:
    """Products a stage's kernel adds up per output pixel, those with weights of one included."""
    if stage.kind is StageKind.SOURCE:
        return 0
    source, output = tensors[stage.inputs[0]], tensors[stage.output]
    taps = stage.kernel_size[0] * stage.kernel_size[1]
    counts = {
        StageKind.CONV: taps * source.channels * output.channels,
        StageKind.DEPTHWISE: taps * output.channels,
        StageKind.FULLY_CONNECTED: source.nbytes * output.channels,
    }
    return counts.get(stage.kind, 0)


def _spatial(block: Block, split: Split) -> tuple[Stage, ...]:
    return block.stages[: split.spatial]


def _follow(block: Block, split: Split, config: BlockConfig, tile: TileShape) -> TileRun:
    sums_driven = split.spatial < len(block.stages)
    return follow_tile(
        _spatial(block, split), tile, split.driven, sums_driven, other_outputs(block, split), config.chunk
    )


def _run_lengths(tensor: int, tiles: Sequence[tuple[TileRun, int]]) -> dict[int, int]:
    """How many runs of each length write a tensor."""
    found: Counter[int] = Counter()
    for run, count in tiles:
        lengths, times = np.unique(np.diff(run.runs[tensor].ends, prepend=0), return_counts=True)
        found.update(dict(zip(lengths.tolist(), (times * count).tolist(), strict=True)))
    return dict(found)


def _capacities(block: Block, split: Split, runs: Sequence[TileRun]) -> tuple[int, ...]:
    """Pixels of every ring: the most any tile asks for, one for the single pixels of the tail."""
    spatial = {stage.output for stage in _spatial(block, split)}
    return tuple(
        0
        if tensor.storage is not Storage.SCRATCH
        else max([1, *(run.capacities[index] for run in runs)])
        if index in spatial
        else 1
        for index, tensor in enumerate(block.tensors)
    )


# ---- Scratch ----


@dataclass(frozen=True)
class ScratchLayout:
    """Where things lie in scratch, in bytes; −1 for what is not in it."""

    offsets: tuple[int, ...]
    accumulator_offsets: tuple[int, ...]
    scratch_bytes: int


def aligned(size: int, alignment: int = SCRATCH_ALIGNMENT) -> int:
    """``size`` rounded up to a multiple of ``alignment``."""
    return -(-size // alignment) * alignment


def window_pointers(stage: Stage) -> int:
    """Pixel pointers the executor needs to compute one output pixel of a stage."""
    operands = 2 if stage.kind is StageKind.ADD else 1
    return stage.kernel_size[0] * stage.extent[1] + operands


def reserved_bytes(stages: Sequence[Stage], spatial: int) -> int:
    """Bytes at the start of scratch for cursors, and for the pointers of a window too large for the C stack."""
    pointers = max((window_pointers(stage) for stage in stages if stage.kind is not StageKind.SOURCE), default=0)
    return aligned(CURSOR_BYTES * spatial, POINTER_BYTES) + (
        POINTER_BYTES * pointers if pointers > STACK_POINTERS else 0
    )


def accumulator_bytes(stage: Stage, tensors: Sequence[BlockTensor]) -> int:
    """Bytes of a stage's sums, 0 if it keeps none."""
    if not accumulates(stage, tensors):
        return 0
    narrow = stage.kind is StageKind.GLOBAL_AVERAGE and tensors[stage.inputs[0]].pixels <= _NARROW_SUMS
    return tensors[stage.output].channels * (2 if narrow else 4)


def lay_out(block: Block, split: Split, capacities: Sequence[int]) -> ScratchLayout:
    """Places rings and accumulators one behind the other.

    When the tail runs, the rings of the spatial stages are done: what the tail writes lies over them, behind the sums
    it reads.
    """
    offsets, sums = [-1] * len(block.tensors), [-1] * len(block.stages)
    end = reserved_bytes(block.stages, split.spatial)
    tail = range(split.spatial, len(block.stages))
    for index in tail:
        if accumulates(block.stages[index], block.tensors) and block.stages[index].inputs[0] == split.driven:
            sums[index] = end
            end += aligned(accumulator_bytes(block.stages[index], block.tensors))
    tail_end = end
    for stage in _spatial(block, split):
        end = _place(block, stage.output, capacities, offsets, end)
    for index in tail:
        stage = block.stages[index]
        tail_end = _place(block, stage.output, capacities, offsets, tail_end)
        if accumulates(stage, block.tensors) and sums[index] < 0:
            sums[index] = tail_end
            tail_end += aligned(accumulator_bytes(stage, block.tensors))
    return ScratchLayout(tuple(offsets), tuple(sums), max(end, tail_end))


def _place(block: Block, index: int, capacities: Sequence[int], offsets: list[int], end: int) -> int:
    if block.tensors[index].storage is not Storage.SCRATCH:
        return end
    offsets[index] = end
    return end + aligned(capacities[index] * block.tensors[index].channels)


# ---- Output over input ----


def _overlaps(block: Block, split: Split, config: BlockConfig, run: TileRun) -> dict[tuple[int, int], int]:
    """How far each output must lie below each input. ``run`` is any tile: the tail runs behind all of them."""
    pairs = [(source, output) for source in block.inputs for output in block.outputs]
    distances = {pair: _distance(block, split, run, *pair) for pair in pairs}
    if not is_one_tile(block.tensors[split.driven], config):
        spans, spatial = tile_spans(block, split, config), {stage.output for stage in _spatial(block, split)}
        distances |= {
            (source, output): max(_tiled_distance(block, spans, source, output), _tail_distance(block, split, source))
            for source, output in pairs
            if output in spatial
        }
    return distances


def _tiled_distance(block: Block, spans: TileSpans, source: int, output: int) -> int:
    """The most bytes by which a tile's end of the output is ahead of the first input it or a later tile needs."""
    read, written = block.tensors[source], block.tensors[output]
    rows, columns = spans.first_rows[source][:, None], spans.first_columns[source][None, :]
    oldest = np.where((rows < FAR) & (columns < FAR), rows * read.width + columns, FAR).ravel()
    oldest = np.minimum.accumulate(oldest[::-1])[::-1]
    ends = (spans.end_rows[output][:, None] - 1) * written.width + spans.end_columns[output][None, :]
    ends = np.maximum.accumulate(ends.ravel())
    lead = np.where(oldest < FAR, ends * written.channels - oldest * read.channels, -read.nbytes)
    return max(-read.nbytes, int(lead.max()))


def _tail_distance(block: Block, split: Split, source: int) -> int:
    """What the tail still needs of an input when all tiles are done keeps every output off it."""
    needed = any(True for _ in _tail_readers(block, split, source))
    largest = max(block.tensors[output].nbytes for output in block.outputs)
    return largest if needed else -block.tensors[source].nbytes


def _distance(block: Block, split: Split, run: TileRun, source: int, output: int) -> int:
    """The most bytes by which what is written of the output is ahead of what the input is still needed for.

    A run counts as written while its inputs are still needed, as does all the tail for what the tail reads.
    """
    pixel, needed = block.tensors[output].channels, block.tensors[source].channels
    distance = -block.tensors[source].nbytes
    runs = run.runs.get(output, Runs(np.full(1, FAR), np.ones(1, np.int64)))
    readers = [*run.readers.get(source, ()), *_tail_readers(block, split, source)]
    for reader in readers:
        oldest = reader.needs_at(runs.times)
        open_ = oldest < FAR
        if open_.any():
            distance = max(distance, int(np.max(runs.ends[open_] * pixel - oldest[open_] * needed)))
    return distance


def _tail_readers(block: Block, split: Split, source: int) -> Iterator[Reader]:
    for stage in block.stages[split.spatial :]:
        if source in stage.inputs and not (accumulates(stage, block.tensors) and source == split.driven):
            yield Reader(np.full(1, FAR + 1), np.array([0, FAR], np.int64))
