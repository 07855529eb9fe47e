"""How a block is cut into tiles: which tensor is driven, which stages run per tile, and what each tile needs of each.

Rows and columns of a region never mix, so both axes are worked out on their own, for all tiles at once. Most tiles of a
block differ only in where they lie; ``tile_shapes`` groups those that do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.axes import Ranges, covers, make_tilings
from tflite_fuse.fusion.block.stages import Block, BlockConfig, BlockTensor, Stage, StageKind, Storage
from tflite_fuse.fusion.schedule.events import FAR, IntArray, TileShape


@dataclass(frozen=True)
class Split:
    """The two parts of a block.

    Attributes:
        driven: the tensor that is computed tile by tile.
        spatial: stages[:spatial] run tile by tile, stages[spatial:] are the tail: one pixel each.
    """

    driven: int
    spatial: int


def accumulates(stage: Stage, tensors: Sequence[BlockTensor]) -> bool:
    """Whether a stage sums over its whole input before it writes its one pixel.

    A fully connected layer of a single pixel does not: it is a 1x1 convolution.
    """
    if stage.kind is StageKind.FULLY_CONNECTED:
        return tensors[stage.inputs[0]].pixels > 1
    return stage.kind is StageKind.GLOBAL_AVERAGE


def split_block(block: Block) -> Split:
    """Finds the driven tensor and the tail.

    Raises:
        BlockError: a stage behind an accumulator reads or writes more than one pixel of the spatial part.
    """
    summing = [accumulates(stage, block.tensors) for stage in block.stages]
    if not any(summing):
        return Split(block.stages[-1].output, len(block.stages))
    spatial = summing.index(True)
    driven = block.stages[spatial].inputs[0]
    inside = {stage.output for stage in block.stages[:spatial]}
    for stage, sums in zip(block.stages[spatial:], summing[spatial:], strict=True):
        name = block.tensors[stage.output].name
        if block.tensors[stage.output].pixels != 1:
            raise BlockError(
                f"The block computes {name}, more than one pixel, behind a stage that sums; split it there."
            )
        if sums and stage.inputs[0] == driven:
            continue
        for tensor in stage.inputs:
            if tensor in inside or block.tensors[tensor].pixels != 1:
                raise BlockError(
                    f"The stage that computes {name} reads {block.tensors[tensor].name} behind a stage that sums over "
                    f"{block.tensors[driven].name}; split the block there."
                )
    return Split(driven, spatial)


def is_one_tile(driven: BlockTensor, config: BlockConfig) -> bool:
    """Whether one tile covers the whole driven tensor: no halo, every pixel computed once."""
    return config.tile_height >= driven.height and config.tile_width >= driven.width


@dataclass(frozen=True)
class TileClass:
    """Tiles that differ only in where they lie: their shape and how many there are."""

    shape: TileShape
    count: int


def tile_classes(block: Block, split: Split, config: BlockConfig) -> list[TileClass]:
    """All tiles of a block, equal ones together.

    Raises:
        BlockError: under this tiling an output of the block other than the driven tensor would be left with holes.
    """
    one_tile = is_one_tile(block.tensors[split.driven], config)
    rows = _Axis(block, split, 0, config.tile_height, one_tile)
    columns = _Axis(block, split, 1, config.tile_width, one_tile)
    for index in other_outputs(block, split):
        if not (rows.covers(index) and columns.covers(index)):
            raise BlockError(
                f"Output {block.tensors[index].name} would be left with holes in tiles of {config.tile_height} x "
                f"{config.tile_width}; run the block in one tile."
            )
    return [
        TileClass(TileShape(_pairs(row.extents, column.extents), _origins(row, column)), row.count * column.count)
        for row in rows.classes()
        for column in columns.classes()
    ]


@dataclass(frozen=True)
class TileSpans:
    """What the tiles need or write of each tensor, by its index.

    Attributes:
        first_rows, end_rows: of every band of tiles, from top to bottom.
        first_columns, end_columns: of every strip, from left to right. Where nothing is needed, the first is FAR.
    """

    first_rows: dict[int, IntArray]
    end_rows: dict[int, IntArray]
    first_columns: dict[int, IntArray]
    end_columns: dict[int, IntArray]


def tile_spans(block: Block, split: Split, config: BlockConfig) -> TileSpans:
    """The spans of all tiles of a block that runs in several."""
    rows = _Axis(block, split, 0, config.tile_height, False)
    columns = _Axis(block, split, 1, config.tile_width, False)
    return TileSpans(rows.low, rows.high, columns.low, columns.high)


def other_outputs(block: Block, split: Split) -> list[int]:
    """Outputs the spatial stages write besides the driven tensor, in the order in which they are completed."""
    written = [stage.output for stage in block.stages[: split.spatial]]
    return [t for t in written if t != split.driven and block.tensors[t].storage is Storage.OUTPUT]


def _pairs(rows: Sequence[int], columns: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple((y, x) if y and x else (0, 0) for y, x in zip(rows, columns, strict=True))


def _origins(row: _AxisClass, column: _AxisClass) -> tuple[tuple[tuple[int, int], ...], ...]:
    pairs = zip(row.origins, column.origins, strict=True)
    return tuple(tuple(zip(ys, xs, strict=True)) for ys, xs in pairs)


@dataclass(frozen=True)
class _AxisClass:
    """One axis of a ``TileShape`` and the number of bands (or strips) it stands for."""

    extents: tuple[int, ...]
    origins: tuple[tuple[int, ...], ...]
    count: int


class _Axis:
    """The ranges [low, high) all bands (or strips) of a tiling need of every tensor; empty where low >= high."""

    def __init__(self, block: Block, split: Split, axis: int, size: int, one_tile: bool) -> None:
        self.block, self.split, self.axis = block, split, axis
        length = self._length(split.driven)
        self.tiling = make_tilings(length, (size,))
        start = self.tiling.low
        self.low = {index: np.full_like(start, FAR) for index in range(len(block.tensors))}
        self.high = {index: np.zeros_like(start) for index in range(len(block.tensors))}
        self._widen(split.driven, start, self.tiling.high)
        if one_tile:
            for index, tensor in enumerate(block.tensors):
                if tensor.storage is not Storage.SCRATCH:
                    self._widen(index, np.zeros_like(start), np.full_like(start, self._length(index)))
        for stage in reversed(block.stages[: split.spatial]):
            for index in stage.inputs:
                self._widen(index, *self._under(stage, index))

    def _length(self, index: int) -> int:
        tensor = self.block.tensors[index]
        return (tensor.height, tensor.width)[self.axis]

    def _widen(self, index: int, low: IntArray, high: IntArray) -> None:
        seen = low < high
        self.low[index] = np.where(seen, np.minimum(self.low[index], low), self.low[index])
        self.high[index] = np.where(seen, np.maximum(self.high[index], high), self.high[index])

    def _first_window(self, stage: Stage) -> IntArray:
        return self.low[stage.output] * stage.stride[self.axis] - stage.padding[self.axis]

    def _under(self, stage: Stage, index: int) -> tuple[IntArray, IntArray]:
        empty = self.low[stage.output] >= self.high[stage.output]
        stride, padding, extent = stage.stride[self.axis], stage.padding[self.axis], stage.extent[self.axis]
        low = np.maximum(self._first_window(stage), 0)
        high = np.minimum((self.high[stage.output] - 1) * stride - padding + extent, self._length(index))
        return np.where(empty, FAR, low), np.where(empty, 0, high)

    def covers(self, index: int) -> bool:
        """Whether the ranges, in order, leave no position of a tensor out."""
        ranges = Ranges(self.low[index], self.high[index])
        return bool(covers(ranges, self.tiling, self._length(index))[0])

    def classes(self) -> Iterator[_AxisClass]:
        count = len(self.block.tensors)
        empty = {index: self.low[index] >= self.high[index] for index in range(count)}
        table = [np.where(empty[i], 0, self.high[i] - self.low[i]) for i in range(count)]
        stages = self.block.stages[: self.split.spatial]
        for stage in stages:
            for index in stage.inputs:
                origin = self._first_window(stage) - self.low[index]
                table.append(np.where(empty[stage.output] | empty[index], 0, origin))
        kinds, counts = np.unique(np.stack(table), axis=1, return_counts=True)
        for column, repeats in zip(kinds.T.tolist(), counts.tolist(), strict=True):
            numbers = iter(column[count:])
            origins = tuple(tuple(next(numbers) for _ in stage.inputs) for stage in stages)
            yield _AxisClass(tuple(column[:count]), origins, repeats)
