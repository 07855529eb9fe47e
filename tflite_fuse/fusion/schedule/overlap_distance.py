"""How far an output must lie below an input for the two to share memory, from the order of events."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tflite_fuse.fusion.block.axes import NOWHERE
from tflite_fuse.fusion.block.kinds.table import accumulates
from tflite_fuse.fusion.block.stages import Block
from tflite_fuse.fusion.schedule.events import FAR, Hold, Runs, TileRun
from tflite_fuse.fusion.schedule.tiles import Split, Tiles


def overlap_distances(block: Block, split: Split, tiles: Tiles, run: TileRun) -> dict[tuple[int, int], int]:
    """How far each output must lie below each input: (input, output) → bytes, as ``Schedule`` has it.

    Args:
        run: what happens in any tile: the tail runs behind all of them.
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
    """The most bytes by which a tile's end of the output is ahead of the first input it or a later tile needs."""
    read, written = block.tensors[source], block.tensors[output]
    rows, columns = tiles.rows.ranges, tiles.columns.ranges
    oldest = np.add.outer(rows[source].low * read.width, columns[source].low).ravel()
    oldest = np.minimum.accumulate(oldest[::-1])[::-1]
    end_rows, end_columns = np.maximum(rows[output].high, 0), np.maximum(columns[output].high, 0)
    ends = np.maximum.accumulate(np.add.outer((end_rows - 1) * written.width, end_columns).ravel())
    lead = np.where(oldest < NOWHERE, ends * written.pixel_bytes - oldest * read.pixel_bytes, -read.nbytes)
    return max(-read.nbytes, int(lead.max()))


def _tail_distance(block: Block, split: Split, source: int) -> int:
    """What the tail still needs of an input when all tiles are done keeps every output off it."""
    needed = any(True for _ in _tail_holds(block, split, source))
    largest = max(block.tensors[output].nbytes for output in block.outputs)
    return largest if needed else -block.tensors[source].nbytes


def _distance(block: Block, split: Split, run: TileRun, source: int, output: int) -> int:
    """The most bytes by which what is written of the output is ahead of what the input is still needed for.

    A run counts as written while its inputs are still needed, as does all the tail for what the tail reads.
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
