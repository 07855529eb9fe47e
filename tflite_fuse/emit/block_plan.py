"""A block with its schedule and bytes, and the distances at which its scratch may overlap its inputs.

Rings lie in scratch in the order of their stages. A late stage computes its first pixel after much of the input has
been read: a network that ends in maps of a few pixels has read most of its image by then. The end of scratch may
therefore lie over the beginning of the input. (An output, whose last pixel is written last, overlaps the other way
round.) The executor's own bytes and the sums of a tail come first in scratch and are needed from the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tflite_fuse.cost.schedule.events import FAR, Hold, Runs, TileRun
from tflite_fuse.cost.schedule.schedule import Schedule, schedule
from tflite_fuse.cost.schedule.tile_order import TileOrder, accumulator_bytes
from tflite_fuse.cost.schedule.tiles import Split, Tiles, other_outputs, split_block
from tflite_fuse.emit.encode import EncodedBlock, encode
from tflite_fuse.ir.axes import IntArray
from tflite_fuse.ir.block import Block, BlockConfig, Stage, StageKind
from tflite_fuse.ops.table import accumulates


def scratch_distances(block: Block, planned: Schedule) -> dict[int, int]:
    """Return the bytes by which scratch must start below each input, by input: all of scratch if they share nothing.

    Args:
        block: the block.
        planned: its schedule. In several tiles every ring is written while all of an input may still be needed.
    """
    split = split_block(block)
    tiles = Tiles(block, split, planned.config)
    distances = dict.fromkeys(block.inputs, planned.scratch_bytes)
    if not tiles.one:
        return distances
    run = _followed(block, split, tiles, planned)
    for source in block.inputs:
        if not any(_reads_whole(block, split, stage, source) for stage in split.tail):
            distances[source] = min(planned.scratch_bytes, _distance(block, split, tiles, planned, run, source))
    return distances


def _followed(block: Block, split: Split, tiles: Tiles, planned: Schedule) -> TileRun:
    """Return the events of the single tile, with the runs of every stage."""
    written = frozenset(stage.output for stage in split.spatial)
    ((shape, _),) = tiles.classes
    order = TileOrder(shape, split.driven, bool(split.tail), written)
    return order.follow(planned.config, split.spatial, other_outputs(block, split))


def _reads_whole(block: Block, split: Split, stage: Stage, source: int) -> bool:
    """Return whether a stage of the tail reads an input after all tiles are done."""
    return source in stage.inputs and not (accumulates(stage, block.tensors) and source == split.driven)


def _distance(block: Block, split: Split, tiles: Tiles, planned: Schedule, run: TileRun, source: int) -> int:
    """Return the most bytes of scratch written while an input pixel is needed, minus the input bytes before it."""
    distance, needed = _kept_from_the_start(block, split, planned), block.tensors[source].pixel_bytes
    for stage in split.spatial:
        runs = run.runs[stage.output]
        if planned.offsets[stage.output] < 0 or not len(runs.times):
            continue
        written = planned.offsets[stage.output] + _filled(block, tiles, planned, stage, runs)
        oldest = _oldest(run.holds.get(source, ()), runs.times)
        open_ = oldest < FAR
        if open_.any():
            distance = max(distance, int(np.max(written[open_] - oldest[open_] * needed)))
    return distance


def _kept_from_the_start(block: Block, split: Split, planned: Schedule) -> int:
    """Return the end of the bytes needed from the start: cursors, pointers, and the sums of a tail."""
    ends = [planned.reserved_bytes]
    for stage, offset in zip(block.stages, planned.accumulator_offsets, strict=True):
        if offset >= 0 and stage.inputs[0] == split.driven:
            ends.append(offset + accumulator_bytes(stage, block.tensors))
    return max(ends)


def _filled(block: Block, tiles: Tiles, planned: Schedule, stage: Stage, runs: Runs) -> IntArray:
    """Return the bytes of a ring filled after each run; it fills from its start if its region starts at row 0."""
    capacity, pixel = planned.capacities[stage.output], block.tensors[stage.output].pixel_bytes
    from_its_start = int(tiles.rows.ranges[stage.output].low[0]) == 0 and stage.kind is not StageKind.STATE
    filled = np.minimum(runs.ends, capacity) if from_its_start else np.full_like(runs.ends, capacity)
    in_bytes: IntArray = filled * pixel
    return in_bytes


def _oldest(holds: Sequence[Hold], times: IntArray) -> IntArray:
    """Return the oldest pixel of an input that is still needed; a run that is being computed counts as not read yet."""
    each = [hold.needs_at(times) for hold in holds]
    oldest: IntArray = np.min(each, axis=0) if each else np.full_like(times, FAR)
    return oldest


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """A block under a configuration; schedule and bytes are computed on first use, because candidates need no bytes.

    Attributes:
        block: the block.
        config: its tiles and chunk.
        outside: for each external tensor, and each output of a SOURCE stage, its number among the model's.
        slow: for each input and output in the slow memory, its offset there in bytes.
    """

    block: Block
    config: BlockConfig
    outside: Mapping[int, int] = field(default_factory=dict)
    slow: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def schedule(self) -> Schedule:
        """Schedule of the block. Raises BlockError if the block cannot run under the configuration."""
        return schedule(self.block, self.config)

    @cached_property
    def scratch_distances(self) -> Mapping[int, int]:
        """Bytes by which scratch must lie below each input that it may overlap."""
        return scratch_distances(self.block, self.schedule)

    @cached_property
    def encoded(self) -> EncodedBlock:
        """Options and constants. Raises BlockError if the block is inconsistent or too large for the format."""
        return encode(self.block, self.schedule, self.outside, self.slow)
