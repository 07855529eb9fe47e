"""Exact schedule of a block: ring sizes and places, work, and overlap distances of outputs and inputs.

    schedule(block, config).scratch_bytes

The order is that of the executor (``arduino/src/executor/tflite_fuse_block.c``): tiles of the driven tensor one after
another, in each of them runs of at most ``chunk`` pixels, pulled through the stages. All numbers are exact for that
order, except the overlap distances of blocks in several tiles, which are bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tflite_fuse.cost.schedule.events import FAR, Hold, Runs, TileRun
from tflite_fuse.cost.schedule.tile_order import TileOrder, lay_out
from tflite_fuse.cost.schedule.tiles import Split, Tiles, other_outputs, split_block
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.axes import NOWHERE
from tflite_fuse.ir.block import Block, BlockConfig, StageKind, Storage
from tflite_fuse.ops.check import check_config
from tflite_fuse.ops.table import accumulates, macs_per_pixel


def overlap_distances(block: Block, split: Split, tiles: Tiles, run: TileRun) -> dict[tuple[int, int], int]:
    """Return the bytes by which each output must lie below each input: (input, output) → bytes, as in ``Schedule``.

    Args:
        run: events of any tile; the tail runs behind all of them.
    """
    written = {stage.output for stage in split.spatial}
    distances = {}
    for source in block.inputs:
        for output in block.outputs:
            if tiles.one or output not in written:
                distances[source, output] = _distance(block, split, run, source, output)
            else:
                in_tiles = _tiled_distance(block, tiles, source, output)
                distances[source, output] = max(in_tiles, _tail_distance(block, split, source))
    return distances


def _tiled_distance(block: Block, tiles: Tiles, source: int, output: int) -> int:
    """Return the most bytes by which a tile's end of the output precedes the first input byte still needed."""
    read, written = block.tensors[source], block.tensors[output]
    rows, columns = tiles.rows.ranges, tiles.columns.ranges
    oldest = np.add.outer(rows[source].low * read.width, columns[source].low).ravel()
    oldest = np.minimum.accumulate(oldest[::-1])[::-1]
    end_rows, end_columns = np.maximum(rows[output].high, 0), np.maximum(columns[output].high, 0)
    ends = np.maximum.accumulate(np.add.outer((end_rows - 1) * written.width, end_columns).ravel())
    lead = np.where(oldest < NOWHERE, ends * written.pixel_bytes - oldest * read.pixel_bytes, -read.nbytes)
    return max(-read.nbytes, int(lead.max()))


def _tail_distance(block: Block, split: Split, source: int) -> int:
    """Return the distance by the tail: inputs that it reads after the last tile must not be overwritten."""
    needed = any(True for _ in _tail_holds(block, split, source))
    largest = max(block.tensors[output].nbytes for output in block.outputs)
    return largest if needed else -block.tensors[source].nbytes


def _distance(block: Block, split: Split, run: TileRun, source: int, output: int) -> int:
    """Return the most bytes by which the written part of the output precedes the part of the input still needed.

    A run counts as written while its inputs are still needed, and so does the whole tail for its inputs.
    """
    pixel, needed = block.tensors[output].pixel_bytes, block.tensors[source].pixel_bytes
    distance = -block.tensors[source].nbytes
    runs = run.runs.get(output, Runs(np.full(1, FAR), np.ones(1, np.int64)))
    for hold in (*run.holds.get(source, ()), *_tail_holds(block, split, source)):
        oldest = hold.needs_at(runs.times)
        open_ = oldest < FAR
        if open_.any():
            distance = max(distance, int(np.max(runs.ends[open_] * pixel - oldest[open_] * needed)))
    return distance


def _tail_holds(block: Block, split: Split, source: int) -> Iterator[Hold]:
    for stage in split.tail:
        if source in stage.inputs and not (accumulates(stage, block.tensors) and source == split.driven):
            yield Hold(np.full(1, FAR + 1), np.array([0, FAR], np.int64))


@dataclass(frozen=True)
class Schedule:
    """Execution of a block under a configuration.

    Attributes:
        config: as given.
        driven: the tensor that is computed tile by tile.
        spatial_stages: stages[:spatial_stages] run tile by tile, the others once, behind accumulators.
        capacities: pixels in the ring of each tensor; 0 for tensors outside scratch.
        offsets: byte offset in scratch of each tensor; −1 outside scratch.
        accumulator_offsets: byte offset in scratch of each stage's sums; −1 for stages without sums.
        reserved_bytes: bytes at the start of scratch for the executor itself.
        scratch_bytes: bytes of scratch in total.
        stage_pixels: pixels that each stage computes, over all tiles.
        stage_macs: multiply-accumulates that each stage executes, taps on padding included.
        stage_runs: for each spatial stage the number of runs of each length, over all tiles.
        overlaps: (input, output) → bytes: the output may lie over the input if the input's address is at least this
            much higher than the output's (negative: the output may start that far inside the input). Exact for blocks
            in one tile; in several, each tile counts as if it read everything before it wrote anything.
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

    def rings(self, block: Block) -> list[int]:
        """Return the tensors of a block that are written tile by tile into scratch."""
        spatial = (stage.output for stage in block.stages[: self.spatial_stages])
        return [tensor for tensor in spatial if self.offsets[tensor] >= 0]

    @property
    def macs(self) -> int:
        """Return the multiply-accumulates of one run of the block."""
        return sum(self.stage_macs)


class Orders:
    """A block in tiles of one size, for schedules under several configurations of runs and orders of its stages.

    Attributes:
        tiles: its tiles.
        by_class: the order in each class of tiles, and the number of tiles in it.
    """

    def __init__(self, block: Block, config: BlockConfig) -> None:
        """Raise BlockError if the block cannot run in tiles of this size; the message names the tensor."""
        split = split_block(block)
        self.tiles = Tiles(block, split, config)
        outputs = frozenset(block.outputs)
        self.by_class = [
            (TileOrder(shape, split.driven, bool(split.tail), outputs), count) for shape, count in self.tiles.classes
        ]


def schedule(block: Block, config: BlockConfig, orders: Orders | None = None) -> Schedule:
    """Return the schedule of a block under a configuration.

    Args:
        orders: orders of the block in tiles of this size, which depend neither on runs nor on the order of its stages.

    Raises:
        BlockError: the block cannot run under the configuration; the message names the tensor.
    """
    check_config(config)
    split = split_block(block)
    _check_runs(split, config)
    orders = orders or Orders(block, config)
    orders.tiles.check_waits(block, split.spatial)
    completed = other_outputs(block, split)
    runs = [(order.follow(config, split.spatial, completed), count) for order, count in orders.by_class]
    capacities = _capacities(block, split, [run for run, _ in runs])
    layout = lay_out(block, split, capacities)
    pixels = [sum(run.produced[stage.output] * count for run, count in runs) for stage in split.spatial]
    pixels += [1] * len(split.tail)
    macs = [count * macs_per_pixel(stage, block.tensors) for stage, count in zip(block.stages, pixels, strict=True)]
    return Schedule(
        config=config,
        driven=split.driven,
        spatial_stages=len(split.spatial),
        capacities=capacities,
        offsets=layout.offsets,
        accumulator_offsets=layout.accumulator_offsets,
        reserved_bytes=layout.reserved_bytes,
        scratch_bytes=layout.scratch_bytes,
        stage_pixels=tuple(pixels),
        stage_macs=tuple(macs),
        stage_runs=tuple(_run_lengths(stage.output, runs) for stage in split.spatial),
        overlaps=overlap_distances(block, split, orders.tiles, runs[0][0]),
    )


def _check_runs(split: Split, config: BlockConfig) -> None:
    """Raise BlockError if a stage has a run length that the executor would not use."""
    for stage, run in zip(split.spatial, config.longest_runs, strict=False):
        if run and (stage.output == split.driven or not stage.inputs):
            raise BlockError("The stages that read a source or write the driven tensor cannot have own run lengths.")
    if len(config.longest_runs) > len(split.spatial):
        raise BlockError(f"Runs are given for {len(config.longest_runs)} stages of {len(split.spatial)}.")
    bound = (StageKind.SOURCE, StageKind.STATE)
    may = {n for n, each in enumerate(split.spatial) if each.output != split.driven and each.kind not in bound}
    if config.ahead - may:
        raise BlockError(f"Stage {min(config.ahead - may)} cannot run ahead of the stage that waits for it.")


def _run_lengths(tensor: int, tiles: Sequence[tuple[TileRun, int]]) -> dict[int, int]:
    """Return the number of runs of each length that write a tensor."""
    times = Counter[int]()
    for run, count in tiles:
        times.update({length: number * count for length, number in run.lengths[tensor].items()})
    return dict(sorted(times.items()))


def _capacities(block: Block, split: Split, runs: Sequence[TileRun]) -> tuple[int, ...]:
    """Return the pixels of every ring: the most that any tile needs, and one for the single pixels of the tail.

    A ring of two tensors holds the pixels of the second from the time when those of the first are written.
    """
    capacities = [int(tensor.storage is Storage.SCRATCH) for tensor in block.tensors]
    for stage in split.spatial:
        if capacities[stage.output]:
            capacities[stage.output] = max(1, *(run.capacities[stage.output] for run in runs))
        if stage.overwrites >= 0:
            capacities[stage.output] = capacities[stage.overwrites]
    return tuple(capacities)
