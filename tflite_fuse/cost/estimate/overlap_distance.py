"""Distance that a block's output must keep below an input that it overwrites, in closed form.

In one tile a block reads its inputs and writes its output from top to bottom, so the output may replace input pixels
without a later reader. While a run of output pixels is written, each stage that reads the input has advanced as far as
the windows between it and the output determine; the first pixel that it still needs is the oldest byte to keep. The
distance is the largest lead of written output bytes over that byte. ``schedule`` computes the exact distance from the
events; the closed form is never below it.

The closed form does not cover stages that enlarge images. Blocks that contain one are bounded by rows: of an input, all
rows count as needed from the first row from which an output row, or one below it, is computed.

In several tiles a block reads its input band by band, and the rows of earlier bands are free. Each tile counts as if it
read everything before it wrote anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from math import prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tflite_fuse.cost.estimate.rings import Demand, Grid
from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.ir.axes import IntArray, Ranges, Tilings, Windows, make_tilings
from tflite_fuse.ir.block import BlockTensor
from tflite_fuse.units import round_up

Extent = tuple[int, int, int]
"""Rows, columns, and bytes per pixel."""

_FAR = 1 << 40


class OutputOverlap:
    """Bytes of an input that the output of a growing block, which its last layer writes, may overwrite."""

    def __init__(self, graph: PricedProgram, last: int, grid: Grid, chunks: Sequence[int], alignment: int) -> None:
        """Round all sizes and distances up to multiples of ``alignment`` bytes."""
        self.graph, self.last, self.grid, self.chunks, self.alignment = graph, last, grid, tuple(chunks), alignment
        self.output = self._result(last)
        self.whole = grid.is_whole(self.output)
        self._extent = _extent(self.output)
        self._tiled, self._in_one = not self.whole.all(), bool(self.whole.any())
        self._fills = {last: whole_fill(self.output.height)}
        self._cache: dict[tuple[int, int], IntArray] = {}
        self.by_rows = False

    def follow(self, layer: int, demand: Demand) -> None:
        """Record the readers of a layer's output."""
        readers = demand.consumers
        if self.by_rows:
            return
        self._fills[layer] = joint_fill(
            [self._fills[each.layer].through(each.windows, demand.extent) for each in readers]
        )

    def shared(self, source: int, demand: Demand) -> IntArray:
        """Return the bytes of the output that may lie over an input, [chunks, heights, widths]."""
        key = source, len(demand.consumers)
        if key not in self._cache:
            self._cache[key] = self._bytes_shared(demand)
        return self._cache[key]

    def _bytes_shared(self, demand: Demand) -> IntArray:
        if self.grid.shape == (1, 1) and self._in_one:
            return self._in_one_tile(demand)[:, None, None]
        shared = np.empty((len(self.chunks), *self.grid.shape), dtype=np.int64)
        if self._tiled:
            rows, columns = (demand.rows, self.grid.heights), (demand.columns, self.grid.widths)
            distances = tiled_distances(demand.extent, self.output, rows, columns)
            shared[:] = shared_bytes(demand.extent.nbytes, self.output.nbytes, distances, self.alignment)
        if self._in_one:
            shared[:, self.whole] = self._in_one_tile(demand)[:, None]
        return shared

    def _in_one_tile(self, demand: Demand) -> IntArray:
        """Return the bytes of an input that the output may overwrite in one tile, [chunks]."""
        if self.by_rows:
            assert demand.oldest is not None
            distance = np.full(len(self.chunks), distance_by_rows(demand.extent, self.output, demand.oldest))
            return shared_bytes(demand.extent.nbytes, self.output.nbytes, distance, self.alignment)
        readings = self._readings(demand)
        return one_tile_shares(_extent(demand.extent), self._extent, readings, self.chunks, self.alignment)

    def _readings(self, demand: Demand) -> tuple[Reading, ...]:
        return tuple(
            Reading(
                each.windows,
                _extent(self._result(each.layer)),
                None if each.layer == self.last else self._fills[each.layer],
            )
            for each in demand.consumers
        )

    def _result(self, layer: int) -> BlockTensor:
        return self.graph.tensors[self.graph.steps[layer].outputs[0]]


def shared_bytes(source: int, output: int, distances: IntArray, alignment: int) -> IntArray:
    """Return the bytes saved when an output lies over an input at each distance; sizes are in bytes."""
    whole, written = round_up(source, alignment), round_up(output, alignment)
    above = np.maximum(round_up(distances, alignment), 0)
    shared: IntArray = whole + written - np.maximum(written, above + whole)
    return shared


def _extent(tensor: BlockTensor) -> Extent:
    return tensor.height, tensor.width, tensor.pixel_bytes


class Fill(NamedTuple):
    """Filled part of a tensor once all requests of output pixels up to (p, q) are done.

    Filled are the rows up to ``min(p * scale + ahead, limit)``, and of the last one the columns up to ``q * across +
    right``. The part that any reader will request is complete when ``p * scale + all_ahead`` has passed ``all_limit``.
    """

    scale: int
    ahead: int
    limit: int
    all_ahead: int
    all_limit: int
    across: int
    right: int

    def through(self, windows: Windows, source: BlockTensor) -> Fill:
        """Return the fill of a stage's input, given that of its output."""
        rows, columns = windows
        down, beside = rows.extent - 1 - rows.padding, columns.extent - 1 - columns.padding
        return Fill(
            self.scale * rows.stride,
            self.ahead * rows.stride + down,
            min(self.limit * rows.stride + down, source.height - 1),
            self.all_ahead * rows.stride + down,
            min(self.all_limit * rows.stride + down, source.height - 1),
            self.across * columns.stride,
            self.right * columns.stride + beside,
        )

    def filled(self, row: int) -> int | None:
        """Return the last filled row when output rows up to ``row`` are done; None if the tensor is complete."""
        if row > 0 and (row - 1) * self.scale + self.all_ahead >= self.all_limit:
            return None
        return min(row * self.scale + self.ahead, self.limit)


def whole_fill(height: int) -> Fill:
    """Return the fill of the driven tensor itself."""
    return Fill(1, 0, height - 1, 0, height - 1, 1, 0)


def joint_fill(fills: Sequence[Fill]) -> Fill:
    """Return the fill of a tensor with several readers: that of the furthest, complete with the last one."""
    best = max(fills, key=lambda fill: (fill.ahead, fill.limit, fill.right))
    last_row = max(fill.all_limit for fill in fills)
    return Fill(
        best.scale,
        best.ahead,
        best.limit,
        max(fill.all_ahead for fill in fills if fill.all_limit == last_row),
        last_row,
        best.across,
        best.right,
    )


class Reading(NamedTuple):
    """One stage that reads a block's input.

    Attributes:
        windows: its windows on the input.
        result: extent of its output.
        fill: fill of the result; None if the result is the block's output itself, which is filled run by run.
    """

    windows: Windows
    result: Extent
    fill: Fill | None

    def down(self, source: Extent, output: Extent) -> Down:
        """Return the leads of the output's rows at the rows that may be the worst."""
        row_bytes, above, window = output[1] * output[2], source[1] * source[2], self.windows[0]
        written = lead = next_lead = before = -_FAR
        for row in self._moments(output[0]):
            begin = row * row_bytes
            reached = row if self.fill is None else self.fill.filled(row)
            if reached is None:
                continue
            if reached < 0:
                before = max(before, begin + row_bytes)
                continue
            written = max(written, begin)
            lead = max(lead, begin - max(window.first(reached), 0) * above)
            if reached + 1 < self.result[0]:
                next_lead = max(next_lead, begin - max(window.first(reached + 1), 0) * above)
        return Down(written, lead, next_lead, before)

    def _moments(self, height: int) -> set[int]:
        """Return the first and the last output row, and the rows near which the lead changes its slope."""
        fill, window = self.fill or whole_fill(self.result[0]), self.windows[0]
        turns = window.padding // window.stride - fill.ahead, fill.limit - fill.ahead, fill.all_limit - fill.all_ahead
        rows = {0, height - 1}
        for turn in {turn // fill.scale for turn in turns}:
            rows.update(range(max(turn - 2, 0), min(turn + 4, height)))
        return rows

    def across(self, pixel: int, channels: int, runs: Tilings) -> Across:
        """Return the lead within an output row for each division into runs; ``pixel``: bytes of an input column."""
        fill, written = self.fill, runs.high * channels
        column = runs.low if fill is None else (runs.high - 1) * fill.across + fill.right + 1
        part = written - np.maximum(self.windows[1].first(column), 0) * pixel

        def most(lead: IntArray, where: npt.NDArray[np.bool_]) -> IntArray:
            leads: IntArray = np.maximum.reduceat(np.where(where, lead, -_FAR), runs.first)
            return leads

        if column.min() >= 0:  # As for most stages: none is late.
            return Across(np.maximum.reduceat(written, runs.first), most(part, column < self.result[1]), None)
        begun = column >= 0
        return Across(most(written, begun), most(part, begun & (column < self.result[1])), most(written, ~begun))


class Down(NamedTuple):
    """Largest numbers of output bytes written before a row of the output, over some rows.

    Attributes:
        written: over the rows at which part of the stage's result is filled.
        lead: ``written`` minus the input bytes above the rows needed for the current row of the result.
        next_lead: the same for the next row of the result, if there is one.
        before: behind a row during which nothing of the result is filled.
    """

    written: int
    lead: int
    next_lead: int
    before: int


class Across(NamedTuple):
    """Largest numbers of bytes of an output row written by some of its runs, [divisions].

    Attributes:
        begun: over the runs for which the stage has begun its row.
        partly: over the runs that leave part of that row to fill, minus the input bytes before the rest of the row.
        late: over the runs for which nothing of it is filled; None without such runs.
    """

    begun: IntArray
    partly: IntArray
    late: IntArray | None


@lru_cache(maxsize=1 << 14)
def one_tile_shares(
    source: Extent, output: Extent, readings: tuple[Reading, ...], chunks: tuple[int, ...], alignment: int
) -> IntArray:
    """Return the bytes of an input that the output may overwrite in one tile, by chunk; arguments as below."""
    distances = one_tile_distances(source, output, readings, chunks)
    return shared_bytes(prod(source), prod(output), distances, alignment)


def one_tile_distances(
    source: Extent, output: Extent, readings: tuple[Reading, ...], chunks: tuple[int, ...]
) -> IntArray:
    """Return how many bytes the input must start above the output (negative: may start below) in one tile, by chunk.

    The distance is the largest number of bytes written before the first input byte that a stage still needs. A stage
    about to write a pixel of its result needs the input from the window of that pixel on, or from the row under the
    next row of windows if that comes first. Runs of the output differ: they begin no row of the result, fill part of a
    row, or fill all of it.

    Args:
        source: extent of the input.
        output: extent of the driven tensor.
        readings: stages that read the input.
        chunks: output pixels per run.
    """
    distances = np.full(len(chunks), -prod(source), dtype=np.int64)
    for reading in readings:
        down = reading.down(source, output)
        across = reading.across(source[2], output[2], make_tilings(output[1], chunks))
        leads = [down.lead + across.partly, down.next_lead + across.begun]
        if across.late is not None:
            leads.append(down.written + across.late)
        distances = reduce(np.maximum, leads, np.maximum(distances, down.before))
    return distances


def distance_by_rows(source: BlockTensor, output: BlockTensor, oldest: IntArray) -> int:
    """Return an upper bound of the distance in one tile in bytes, from rows alone.

    Args:
        source: the input.
        output: the driven tensor.
        oldest: for each output row, the first row of the input that it or a later one needs.
    """
    kept = np.minimum(np.minimum.accumulate(oldest[::-1])[::-1], source.height)
    written = np.arange(1, output.height + 1, dtype=np.int64) * (output.width * output.pixel_bytes)
    return max(-source.nbytes, int(np.max(written - kept * (source.width * source.pixel_bytes))))


def tiled_distances(
    source: BlockTensor, output: BlockTensor, rows: tuple[Ranges, Tilings], columns: tuple[Ranges, Tilings]
) -> IntArray:
    """Return the distances of a block in several tiles in bytes, [heights, widths].

    If a tile may need nothing of the input, the distance is the whole output: nothing is shared. Bands start ever lower
    and strips ever further right, so the oldest pixel that a tile or a later one needs is the tile's own first pixel,
    or the first of its row if the next band starts in the same row.

    Args:
        source: the input.
        output: the driven tensor.
        rows, columns: input ranges that every band and strip needs, and the bands and strips themselves.
    """
    (needed_rows, bands), (needed_columns, strips) = rows, columns
    below = np.append(needed_rows.low[1:], _FAR)
    below[bands.first[1:] - 1] = _FAR
    moves_on = below > needed_rows.low
    lead = (bands.high - 1) * (output.width * output.pixel_bytes) - needed_rows.low * (
        source.width * source.pixel_bytes
    )
    across = strips.high * output.pixel_bytes - needed_columns.low * source.pixel_bytes
    on, stays = (
        np.maximum.reduceat(np.where(which, lead, -_FAR), bands.first)[:, None] for which in (moves_on, ~moves_on)
    )
    own = np.maximum.reduceat(across, strips.first)[None, :]
    idle = _idle(needed_rows, bands)[:, None] | _idle(needed_columns, strips)[None, :]
    distances: IntArray = np.maximum(on + own, stays + output.width * output.pixel_bytes)
    return np.where(idle, output.nbytes, distances)


def _idle(ranges: Ranges, tilings: Tilings) -> npt.NDArray[np.bool_]:
    """Return whether some tile of an option needs nothing, [options]."""
    idle: npt.NDArray[np.bool_] = np.logical_or.reduceat(ranges.low >= ranges.high, tilings.first)
    return idle
