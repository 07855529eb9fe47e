"""Division of a block into tiles: the driven tensor, the stages of a tile, and the region that it needs of each tensor.

Rows and columns of a region are independent, so each axis is computed on its own, for all tiles at once. Most tiles of
a block differ only in their position; ``Tiles.classes`` groups them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tflite_fuse.cost.schedule.events import TileShape
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.axes import NOWHERE, AxisWindow, Ranges, covers, make_tilings, needed, union
from tflite_fuse.ir.block import Block, BlockConfig, BlockTensor, Stage, Storage
from tflite_fuse.ops.table import KINDS, accumulates, input_windows, remembers


@dataclass(frozen=True)
class Split:
    """The two parts of a block.

    Attributes:
        driven: the tensor that is computed tile by tile.
        spatial: stages that run tile by tile.
        tail: stages behind them, each with an output of one pixel.
    """

    driven: int
    spatial: tuple[Stage, ...]
    tail: tuple[Stage, ...] = ()


def split_block(block: Block) -> Split:
    """Return the driven tensor, the spatial stages and the tail of a block.

    Raises:
        BlockError: a stage behind an accumulator reads or writes more than one pixel of the spatial part.
    """
    summing = [accumulates(stage, block.tensors) for stage in block.stages]
    if not any(summing):
        return Split(block.stages[-1].output, block.stages)
    spatial, tail = block.stages[: summing.index(True)], block.stages[summing.index(True) :]
    driven, inside = tail[0].inputs[0], {stage.output for stage in spatial}
    for stage in tail:
        name = block.tensors[stage.output].name
        if block.tensors[stage.output].pixels != 1:
            raise BlockError(
                f"The block computes {name}, more than one pixel, behind a stage that sums; split it there."
            )
        if accumulates(stage, block.tensors) and stage.inputs[0] == driven:
            continue
        for tensor in stage.inputs:
            if tensor in inside or block.tensors[tensor].pixels != 1:
                raise BlockError(
                    f"The stage that computes {name} reads {block.tensors[tensor].name} behind a stage that sums over "
                    f"{block.tensors[driven].name}; split the block there."
                )
    return Split(driven, spatial, tail)


def is_one_tile(driven: BlockTensor, config: BlockConfig) -> bool:
    """Return whether one tile covers the whole driven tensor: no halo, every pixel computed once."""
    return config.tile_height >= driven.height and config.tile_width >= driven.width


def other_outputs(block: Block, split: Split) -> list[int]:
    """Return the outputs of spatial stages that are stored whole, without the driven tensor, in order of completion."""
    written = [stage.output for stage in split.spatial]
    return [t for t in written if t != split.driven and block.tensors[t].storage is not Storage.SCRATCH]


class Tiles:
    """All tiles of a block.

    Attributes:
        one: whether there is a single tile.
        rows, columns: ranges that its bands and its strips need.
    """

    def __init__(self, block: Block, split: Split, config: BlockConfig) -> None:
        """Raise BlockError if an output would have holes, or a state or a sum would be computed in another order."""
        self.one = is_one_tile(block.tensors[split.driven], config)
        if block.keeps_state and not self.one:
            raise BlockError("A block that keeps a state runs in one tile, because every new pixel is written once.")
        in_order = any(
            KINDS[stage.kind].sums_in_order and split.driven in stage.inputs and accumulates(stage, block.tensors)
            for stage in split.tail
        )
        if in_order and config.tile_width < block.tensors[split.driven].width:
            raise BlockError("A block that sums float32 takes the pixels in their order: its tiles are whole rows.")
        self.rows = Axis(block, split, 0, config.tile_height, self.one)
        self.columns = Axis(block, split, 1, config.tile_width, self.one)
        for stage in split.spatial:
            if remembers(stage, block.tensors) and not self._covers(stage.output):
                raise BlockError(f"Steps of {block.tensors[stage.output].name} without a reader would be lost.")
        for index in other_outputs(block, split):
            if not self._covers(index):
                raise BlockError(
                    f"Output {block.tensors[index].name} would be left with holes in tiles of {config.tile_height} x "
                    f"{config.tile_width}; run the block in one tile."
                )

    def check_waits(self, block: Block, stages: Sequence[Stage]) -> None:
        """Raise BlockError if a stage waits for a tensor of which other pixels are computed than of its output."""
        for stage in stages:
            if stage.waits_for >= 0 and not self._alike(stage.waits_for, stage.output):
                name = block.tensors[stage.waits_for].name
                raise BlockError(f"A stage waits for {name}, of which the block computes other pixels.")

    def _alike(self, first: int, second: int) -> bool:
        """Return whether a single tile computes the same rows and columns of two tensors."""
        ranges = [(axis.ranges[first], axis.ranges[second]) for axis in (self.rows, self.columns)]
        return self.one and all(a.low[0] == b.low[0] and a.high[0] == b.high[0] for a, b in ranges)

    def _covers(self, index: int) -> bool:
        return self.rows.covers(index) and self.columns.covers(index)

    @cached_property
    def classes(self) -> tuple[tuple[TileShape, int], ...]:
        """Tiles grouped by shape, with the number of tiles in each group."""
        return tuple(self._classes())

    def _classes(self) -> Iterator[tuple[TileShape, int]]:
        columns = list(self.columns.classes())
        for row_extents, row_windows, bands in self.rows.classes():
            for column_extents, column_windows, strips in columns:
                pairs = zip(row_extents, column_extents, strict=True)
                extents = tuple((rows, columns) if rows and columns else (0, 0) for rows, columns in pairs)
                windows = {
                    output: (*zip(row_windows[output], column_windows[output], strict=True),) for output in row_windows
                }
                yield TileShape(extents, windows), bands * strips


class Axis:
    """One axis of all tiles.

    Attributes:
        tiling: the bands (or strips) of the driven tensor.
        ranges: by tensor, the range that each of them needs.
    """

    def __init__(self, block: Block, split: Split, axis: int, size: int, one_tile: bool) -> None:
        """Divide a block into tiles; with ``one_tile`` one also completes all that are stored whole."""
        self.lengths = [(tensor.height, tensor.width)[axis] for tensor in block.tensors]
        self.windows_by_stage = [
            (stage, [windows[axis] for windows in input_windows(stage, block.tensors)]) for stage in split.spatial
        ]
        self.tiling = make_tilings(self.lengths[split.driven], (size,))
        empty = Ranges(np.full_like(self.tiling.low, NOWHERE), np.full_like(self.tiling.low, -NOWHERE), True)
        self.ranges = [empty for _ in block.tensors]
        self.ranges[split.driven] = self.tiling.ranges
        for index, tensor in enumerate(block.tensors if one_tile else ()):
            if tensor.storage is not Storage.SCRATCH:
                self.ranges[index] = Ranges(np.zeros(1, np.int64), np.full(1, self.lengths[index], np.int64))
        for stage, windows in reversed(self.windows_by_stage):
            for index, window in zip(stage.inputs, windows, strict=True):
                required = needed(self.ranges[stage.output], window, self.lengths[index])
                self.ranges[index] = union(self.ranges[index], required)

    def covers(self, index: int) -> bool:
        """Return whether the ranges, in order, cover every position of a tensor."""
        return bool(covers(self.ranges[index], self.tiling, self.lengths[index])[0])

    def classes(self) -> Iterator[tuple[tuple[int, ...], dict[int, tuple[AxisWindow, ...]], int]]:
        """Yield extents by tensor, windows by output and input as in ``TileShape``, and the number of equal bands."""
        extents = [np.maximum(ranges.high - ranges.low, 0) for ranges in self.ranges]
        reads = [
            (stage, window, index)
            for stage, own in self.windows_by_stage
            for index, window in zip(stage.inputs, own, strict=True)
        ]
        padding = [
            np.where(
                (extents[stage.output] > 0) & (extents[index] > 0),
                self.ranges[index].low * window.spread - self.ranges[stage.output].low * window.stride + window.padding,
                0,
            )
            for stage, window, index in reads
        ]
        kinds, counts = np.stack(extents + padding), np.ones(1, dtype=np.int64)
        if len(self.tiling.low) > 1:
            kinds, counts = np.unique(kinds, axis=1, return_counts=True)
        for column, count in zip(kinds.T.tolist(), counts.tolist(), strict=True):
            pairs = zip(reads, column[len(extents) :], strict=True)
            shifted = iter(window._replace(padding=before) for (_, window, _), before in pairs)
            windows = {stage.output: tuple(next(shifted) for _ in stage.inputs) for stage, _ in self.windows_by_stage}
            yield tuple(column[: len(extents)]), windows, count
