"""How far a block's output must stay below an input it overwrites, in closed form.

In one tile a block reads its inputs from top to bottom and writes its output from top to bottom, so the output may take
the place of input pixels nobody needs any more. While a run of output pixels is written, every stage that reads the
input has advanced as far as the windows between it and the output say; the first pixel it still needs is the oldest
byte that must survive. The distance is the largest lead of written output bytes over those. ``schedule`` finds the same
by following all events; the closed form is never below it.

In several tiles a block reads its input band by band, so what bands of output need is spent from the top down as well.
A tile counts as if it read everything first and wrote everything last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tflite_fuse.fusion.block.axes import IntArray, Ranges, Tilings, Windows
from tflite_fuse.fusion.block.stages import BlockTensor
from tflite_fuse.fusion.estimate.ring_capacity import Reader
from tflite_fuse.units import round_up

_FAR = 1 << 40


@dataclass(frozen=True)
class Fill:
    """How far a tensor is filled once all is done that output pixels up to (p, q) ask for.

    Rows up to ``min(p * scale + ahead, limit)``, of the last of them columns up to ``q * across + right``. All of it
    that anyone will ever ask for is there when ``p * scale + all_ahead`` has passed ``all_limit``.
    """

    scale: int
    ahead: int
    limit: int
    all_ahead: int
    all_limit: int
    across: int
    right: int

    def through(self, windows: Windows, source: BlockTensor) -> Fill:
        """The fill of a stage's input, given that of its output."""
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

    def next_pixel(self, width: int, rows: IntArray, columns: IntArray) -> tuple[IntArray, IntArray]:
        """The first pixel that is not there when output pixels up to (row, column) are; row _FAR if all are."""
        row = np.minimum(rows * self.scale + self.ahead, self.limit)
        column = columns * self.across + self.right + 1
        started = (row >= 0) & (column >= 0)
        row, column = np.where(started, row, 0), np.where(started, column, 0)
        finished = (rows > 0) & ((rows - 1) * self.scale + self.all_ahead >= self.all_limit)
        wrapped = column >= width
        return np.where(finished, _FAR, row + wrapped), np.where(wrapped, 0, column)


def whole_fill(driven: BlockTensor) -> Fill:
    """The driven tensor's own."""
    return Fill(1, 0, driven.height - 1, 0, driven.height - 1, 1, 0)


def joint_fill(fills: Sequence[Fill]) -> Fill:
    """The fill of a tensor with several readers: the furthest's, done when one that wants all of it has it."""
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


@dataclass(frozen=True)
class Overlap:
    """What the distance between a block's input and its driven output follows from.

    Attributes:
        source: the input.
        output: the driven tensor.
        readers: the stages that read the input, with what each writes and its fill.
        last: the layer that writes ``output``.
        chunk: output pixels per run.
    """

    source: BlockTensor
    output: BlockTensor
    readers: Sequence[tuple[Reader, BlockTensor, Fill]]
    last: int
    chunk: int

    def distance(self) -> int:
        """The input may start this many bytes above the output (a negative number: below it)."""
        rows = self._telling_rows()[:, None]
        starts = np.arange(0, self.output.width, self.chunk, dtype=np.int64)[None, :]
        ends = np.minimum(starts + self.chunk, self.output.width)
        written = (rows * self.output.width + ends) * self.output.channels
        oldest = np.full(written.shape, _FAR, dtype=np.int64)
        for reader, result, fill in self.readers:
            mine = reader.layer == self.last
            row, column = (rows, starts) if mine else fill.next_pixel(result.width, rows, ends - 1)
            oldest = np.minimum(oldest, self._oldest_needed(reader.windows, result, row, column))
        lead = np.where(oldest < _FAR, written - oldest * self.source.channels, -self.source.nbytes)
        return int(lead.max())

    def shared(self, alignment: int) -> int:
        """Bytes saved when both overlap as far as the distance allows; all sizes are multiples of ``alignment``."""
        above: IntArray = np.array(self.distance())
        return int(shared_bytes(self.source, self.output, above, alignment))

    def _telling_rows(self) -> IntArray:
        """Output rows among which the largest lead is: in between it grows or shrinks evenly."""
        rows = {0, self.output.height - 1}
        for reader, _, fill in self.readers:
            top = reader.windows[0]
            for event in (
                top.padding // top.stride - fill.ahead,
                fill.limit - fill.ahead,
                fill.all_limit - fill.all_ahead,
            ):
                rows.update(range(event // fill.scale - 2, event // fill.scale + 4))
        return np.array(sorted(row for row in rows if 0 <= row < self.output.height), dtype=np.int64)

    def _oldest_needed(self, windows: Windows, result: BlockTensor, row: IntArray, column: IntArray) -> IntArray:
        """Position of the first input pixel a stage about to write (row, column) of its result still needs."""
        top, left = windows
        here = np.maximum(row * top.stride - top.padding, 0) * self.source.width
        here = here + np.maximum(column * left.stride - left.padding, 0)
        below = np.maximum((row + 1) * top.stride - top.padding, 0) * self.source.width
        oldest: IntArray = np.where(row + 1 < result.height, np.minimum(here, below), here)
        return np.where(row < result.height, oldest, _FAR)


def shared_bytes(source: BlockTensor, output: BlockTensor, distances: IntArray, alignment: int) -> IntArray:
    """Bytes saved when an output lies over an input as far as each distance allows; all sizes are rounded up."""
    whole, written = (round_up(tensor.nbytes, alignment) for tensor in (source, output))
    above = np.maximum(round_up(distances, alignment), 0)
    shared: IntArray = whole + written - np.maximum(written, above + whole)
    return shared


def tiled_distances(
    source: BlockTensor, output: BlockTensor, rows: tuple[Ranges, Tilings], columns: tuple[Ranges, Tilings]
) -> IntArray | None:
    """The distances of a block in several tiles, [heights, widths]; None where tiles may need nothing of the input.

    Bands start lower and lower and so do strips to the right, so the oldest pixel that a tile or a later one needs is
    the tile's own first one, unless the next band starts in the same row: then it is that row's first.

    Args:
        source: the input.
        output: the driven tensor.
        rows, columns: what every band and strip needs of the input, and the bands and strips themselves.
    """
    (needed_rows, bands), (needed_columns, strips) = rows, columns
    if needed_rows.holes or needed_columns.holes:
        return None
    below = np.append(needed_rows.low[1:], _FAR)
    below[bands.first[1:] - 1] = _FAR
    moves_on = below > needed_rows.low
    lead = (bands.high - 1) * (output.width * output.channels) - needed_rows.low * (source.width * source.channels)
    across = strips.high * output.channels - needed_columns.low * source.channels
    on, stays = (
        np.maximum.reduceat(np.where(which, lead, -_FAR), bands.first)[:, None] for which in (moves_on, ~moves_on)
    )
    own = np.maximum.reduceat(across, strips.first)[None, :]
    distances: IntArray = np.maximum(on + own, stays + output.width * output.channels)
    return distances
