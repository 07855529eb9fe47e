"""Ring sizes of a block, and overlap of its scratch with inputs, in closed form.

Ring sizes. With one reader, a k x k window sliding over rows of w pixels needs the last ``(k − 1) * w + k`` pixels,
plus the chunk. With several readers (the skip of a residual), pixels stay until the slowest has read them. While the
driven tensor is computed at row p, a tensor is in use from row ``p * scale − behind``, where the first window of a tile
begins, to row ``p * scale + ahead``, up to which it is filled. The separation of two readers then does not depend on p.
It is largest either in mid-tile, when one reader is about to catch up with the pixels that another has pulled, or at
the start of a tile, when one has pulled all it needs and another has not begun.

Overlap. Rings follow each other in scratch. While a stage fills its ring for the first time, the readers of the
block's input have advanced as far as the windows between determine, and rows without a later reader may be overwritten.
The end of scratch, with the rings of the last stages, may therefore lie over the beginning of the input. The overlap is
the least over all rings of the bytes behind its filled part plus the bytes of free rows at that time. ``spent_inputs``
computes the exact overlap from the events; the closed form is never above it. A partly needed row counts as needed
whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, reduce
from itertools import permutations
from math import floor, gcd, lcm
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.cost.schedule.tile_order import ring_bytes
from tflite_fuse.ir.axes import PIXEL, AxisWindow, IntArray, Ranges, Tilings, Windows, longest, needed, union
from tflite_fuse.ir.block import BlockTensor
from tflite_fuse.units import round_up


class Rings:
    """The rings of a growing block: the reach of every layer, and the layers where paths meet again."""

    def __init__(self, grid: Grid, chunks: IntArray, last: int) -> None:
        """Take the output pixels that a stage computes per step, ``chunks`` of shape [chunks, 1, 1]."""
        self.grid, self.chunks = grid, chunks
        self._chunks = tuple(chunks.ravel().tolist())
        self.reaches: dict[int, Reaches] = {last: (Reach(), Reach())}
        self._meets: dict[int, int] = {last: last}
        self._kept: dict[int, Demand] = {}

    def follow(self, layer: int, consumers: Sequence[Consumer]) -> None:
        """Record the readers of a layer's output."""
        self.reaches[layer] = joint_reaches(consumers)
        self._meets[layer] = self._meeting(consumers)

    def bytes(self, demand: Demand) -> IntArray:
        """Return the bytes of a tensor's ring, [chunks, heights, widths]."""
        if demand.extent.pixels == 1:
            return ring_bytes(np.ones_like(self.chunks), demand.extent.pixel_bytes)
        if len(demand.consumers) == 1:
            axes = (demand.rows, self.grid.heights), (demand.columns, self.grid.widths)
            return _with_one_reader(demand.consumers[0].windows, *axes, demand.extent.pixel_bytes, self._chunks)
        join = self.reaches[self._meeting(demand.consumers)]
        pixels = ring_pixels(demand.consumers, join, self.grid, *demand.largest(self.grid), self.chunks)
        # A ring that is never filled, because all its reads are padding, still has one pixel.
        return ring_bytes(np.maximum(pixels, 1), demand.extent.pixel_bytes)

    def keep(self, layer: int, demand: Demand) -> None:
        """Record that the output of a layer is kept in a ring."""
        self._kept[layer] = demand

    def early(self, demand: Demand) -> tuple[IntArray, IntArray] | None:
        """Return the changes in bytes of (rings behind a tensor's, its own ring) if one of its branches runs early.

        None if no branch can, or it saves nothing. Branches whose stages shift windows are not considered. In one tile
        (``cost/schedule/early_branches``).
        """
        join, best = self._meeting(demand.consumers), None
        for branch in demand.consumers:
            end = branch.layer
            while end != join and self._meets[end] != join:
                end = self._meets[end]
            kept = self._kept.get(end)
            if end == join or kept is None or self.reaches[end] != branch.reaches:
                continue
            together = tuple(each for each in demand.consumers if each is not branch)
            firsts = [each for each in together if each.layer != join and self._is_kept_like(each, kept, branch)]
            if not firsts:
                continue
            own = self.bytes(demand._replace(consumers=together)) - self.bytes(demand)
            for first in firsts if (own < 0).any() else ():
                waiting = (*kept.consumers, Consumer(first.layer, (PIXEL, PIXEL), first.reaches))
                behind = self.bytes(kept._replace(consumers=waiting)) - self.bytes(kept)
                if (behind + own < 0).any() and (best is None or (behind + own < sum(best)).all()):
                    best = behind, own
        return best

    def _is_kept_like(self, first: Consumer, kept: Demand, branch: Consumer) -> bool:
        """Return whether a stage can wait for a branch that ends in ``kept``: it computes the same pixels."""
        first_kept = self._kept.get(first.layer)
        if first_kept is None or not self._are_alike(first_kept, kept):
            return False
        return all(map(_is_inside, branch.windows, first.windows))

    def _are_alike(self, one: Demand, other: Demand) -> bool:
        """Return whether the largest tile needs the same rows and columns of two tensors of one extent."""
        axes = (one.rows, other.rows, self.grid.heights), (one.columns, other.columns, self.grid.widths)
        largest = ((a, b, tilings.first[tilings.sizes.argmax()]) for a, b, tilings in axes)
        alike = all(a.low[at] == b.low[at] and a.high[at] == b.high[at] for a, b, at in largest)
        return alike and (one.extent.height, one.extent.width) == (other.extent.height, other.extent.width)

    def _meeting(self, consumers: Sequence[Consumer]) -> int:
        """Return the layer where the paths through all consumers meet."""
        meeting = consumers[0].layer
        for consumer in consumers[1:]:
            other = consumer.layer
            while meeting != other:
                if meeting < other:
                    meeting = self._meets[meeting]
                else:
                    other = self._meets[other]
        return meeting


def _is_inside(window: AxisWindow, other: AxisWindow) -> bool:
    """Return whether another window of the same output pixel covers a window, along one axis."""
    alike = (window.stride, window.spread) == (other.stride, other.spread)
    return alike and window.padding <= other.padding and window.ahead <= other.ahead


@lru_cache(maxsize=1 << 13)
def _with_one_reader(
    windows: Windows,
    rows: tuple[Ranges, Tilings],
    columns: tuple[Ranges, Tilings],
    pixel_bytes: int,
    chunks: tuple[int, ...],
) -> IntArray:
    """Return the bytes of a ring; cached: blocks that end at different layers share most of them."""
    chunk = np.array(chunks, dtype=np.int64)[:, None, None]
    grid = Grid(rows[1], columns[1])
    height, width = longest(*rows)[:, None], longest(*columns)
    pixels = ring_pixels((Consumer(0, windows),), (Reach(), Reach()), grid, height, width, chunk)
    return ring_bytes(np.maximum(pixels, 1), pixel_bytes)


def joint_reaches(consumers: Sequence[Consumer]) -> Reaches:
    """Return the reaches of a tensor that satisfy all its consumers."""
    if len(consumers) == 1:
        return consumers[0].required
    rows, columns = (_joint(reaches) for reaches in zip(*(consumer.required for consumer in consumers), strict=True))
    return rows, columns


def _joint(reaches: Sequence[Reach]) -> Reach:
    per = lcm(*(each.per for each in reaches))
    alike = [each.in_units(per) for each in reaches]
    return Reach(alike[0].scale, max(each.behind for each in alike), max(each.ahead for each in alike), per)


def ring_pixels(
    consumers: Sequence[Consumer], join: Reaches, grid: Grid, height: IntArray, width: IntArray, chunk: IntArray
) -> IntArray:
    """Return the capacity of a ring in pixels.

    Args:
        consumers: all stages that read it.
        join: reaches of the tensor where the consumers' paths meet again, rows and columns (unused with one consumer).
        grid: the tilings.
        height, width, chunk: extent of its region and output pixels per step, arrays that broadcast against each other.
    """
    region = height * width
    if len(consumers) == 1:
        rows, columns = consumers[0].windows
        across = width if rows.returns else columns.most(chunk)
        separations: list[tuple[IntArray | int, IntArray]] = [(rows.most(1) - 1, across)]
    elif any(len({consumer.required[axis].rate for consumer in consumers}) > 1 for axis in (0, 1)):
        return np.broadcast_to(region, np.broadcast_shapes(region.shape, chunk.shape))
    elif any(_is_enlarged(consumer) for consumer in consumers):
        separations = [(_rows_between(consumers, join), width)]
    else:
        (lag, span), (first_lag, row_span) = (
            _in_mid_tile(consumers, join, chunk),
            _at_the_start(consumers, join, grid, chunk),
        )
        separations = [(lag, span), (np.maximum(lag, first_lag), row_span)]  # Every row has a start.
    capacities = [lag * width + np.minimum(width, span) for lag, span in separations]
    pixels: IntArray = np.minimum(region, reduce(np.maximum, capacities))
    return pixels


def _is_enlarged(consumer: Consumer) -> bool:
    """Return whether a reader of a tensor, or a stage between it and the meeting point, enlarges images."""
    return any(window.spread > 1 for window in consumer.windows) or any(
        reach.per > 1 for reach in (*consumer.required, *consumer.reaches)
    )


def _rows_between(consumers: Sequence[Consumer], join: Reaches) -> int:
    """Return an upper bound of the full rows between the slowest consumer and the newest pixel.

    If images are enlarged, positions lie anywhere within the bounds of reaches and a row may be needed again for the
    next one, so rows count whole.
    """
    meeting = join[0]
    rows = [consumer.required[0] for consumer in consumers]
    newest = max(Fraction(row.ahead, row.per) for row in rows)
    oldest = []
    for consumer in consumers:
        reach, window = consumer.reaches[0], consumer.windows[0]
        filled = Fraction(reach.ahead, reach.per) - Fraction(reach.scale * meeting.per, reach.per * meeting.scale)
        oldest.append((filled * window.stride - window.padding) / window.spread)
    first = Fraction(meeting.ahead + meeting.behind, meeting.per) * rows[0].scale * meeting.per
    first /= rows[0].per * meeting.scale
    begun = max(
        Fraction(quick.ahead, quick.per) + Fraction(slow.behind, slow.per) for quick, slow in permutations(rows, 2)
    )
    return max(0, floor(newest - min(oldest)), floor(begun - first))


def _in_mid_tile(consumers: Sequence[Consumer], join: Reaches, chunk: IntArray) -> tuple[IntArray, IntArray]:
    """Return the full rows between the slowest consumer and the newest pixel in mid-tile, and the pixels in the row.

    The stage where all paths meet advances by a row or a chunk; the consumers' outputs have not advanced yet.
    """

    def behind(axis: int, step: IntArray) -> IntArray:
        moving = [(consumer.windows[axis], consumer.reaches[axis]) for consumer in consumers]
        oldest = [window.first(reach.ahead - step * (reach.scale // join[axis].scale) + 1) for window, reach in moving]
        separation: IntArray = max(consumer.required[axis].ahead for consumer in consumers) - np.minimum.reduce(oldest)
        return separation

    return behind(0, np.ones_like(chunk)), behind(1, chunk) + 1


def _at_the_start(
    consumers: Sequence[Consumer], join: Reaches, grid: Grid, chunk: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the same when one consumer has pulled all it needs for the first step and another has not begun.

    One tile that covers an axis begins at the image's edge: none of its stages reads anything before.
    """
    scales = [consumers[0].required[axis].scale // join[axis].scale for axis in (0, 1)]

    def separation(axis: int, at_edge: bool) -> int:
        first = [-each.required[axis].behind for each in consumers]
        begins = -join[axis].behind
        if at_edge:
            first, begins = [max(0, each) for each in first], max(0, begins)
        reached = [each.required[axis].ahead + (begins - join[axis].ahead) * scales[axis] for each in consumers]
        return max(quick - slow for i, quick in enumerate(reached) for j, slow in enumerate(first) if i != j)

    lag, span = (
        np.where(tilings.in_one, separation(axis, True), separation(axis, False))
        for axis, tilings in enumerate((grid.heights, grid.widths))
    )
    return lag[:, None], span + (chunk - 1) * scales[1] + 1


@dataclass(frozen=True)
class Grid:
    """All combinations of tile heights and widths of the driven tensor; arrays over both are [heights, widths]."""

    heights: Tilings
    widths: Tilings

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.heights.sizes), len(self.widths.sizes)

    def is_whole(self, driven: BlockTensor) -> npt.NDArray[np.bool_]:
        """Return where one tile covers the whole driven tensor, [heights, widths]."""
        return np.logical_and.outer(self.heights.sizes >= driven.height, self.widths.sizes >= driven.width)

    def has_whole_rows(self, driven: BlockTensor) -> npt.NDArray[np.bool_]:
        """Return where tiles hold whole rows of the driven tensor, [heights, widths]."""
        return np.logical_and.outer(self.heights.sizes > 0, self.widths.sizes >= driven.width)


class Reach(NamedTuple):
    """Rows (or columns) of a tensor in use while the driven tensor is at p: ``p * scale - behind … p * scale + ahead``.

    All three are in units of 1 / ``per`` of a position. ``per`` exceeds 1 if a stage between enlarges images; positions
    then lie within these bounds, not at them.
    """

    scale: int = 1
    behind: int = 0
    ahead: int = 0
    per: int = 1

    def through(self, window: AxisWindow) -> Reach:
        """Return the reach that a stage needs of its input, given that of its output."""
        scale, behind = self.scale * window.stride, self.behind * window.stride + window.padding * self.per
        ahead, per = self.ahead * window.stride + window.ahead * self.per, self.per * window.spread
        shared = gcd(scale, behind, ahead, per)
        return Reach(scale // shared, behind // shared, ahead // shared, per // shared)

    @property
    def rate(self) -> tuple[int, int]:
        """Return the positions per position of the driven tensor, as a fraction in lowest terms."""
        shared = gcd(self.scale, self.per)
        return self.scale // shared, self.per // shared

    def in_units(self, per: int) -> Reach:
        """Return the same reach in units of 1 / ``per``, a multiple of its own ``per``."""
        more = per // self.per
        return Reach(self.scale * more, self.behind * more, self.ahead * more, per)


Reaches = tuple[Reach, Reach]
"""Reaches of rows and columns."""


@dataclass(frozen=True)
class Consumer:
    """One stage that reads a tensor.

    Attributes:
        layer: its index.
        windows: its windows on the tensor's rows and columns.
        reaches: reaches of its output, rows and columns.
    """

    layer: int
    windows: Windows
    reaches: Reaches = (Reach(), Reach())

    @cached_property
    def required(self) -> Reaches:
        """Reaches of the tensor that it needs, rows and columns."""
        (rows, columns), (above, beside) = self.windows, self.reaches
        return above.through(rows), beside.through(columns)

    @cached_property
    def moves_along(self) -> bool:
        """Whether it advances through the tensor with the driven one; a pixel used with a whole map stays needed."""
        (rows, columns), (above, beside) = self.windows, self.reaches
        return bool(rows.stride and columns.stride and above.scale and beside.scale)

    def behind_padding(self, padding: tuple[int, int]) -> Consumer:
        """Return the same stage with additional rows and columns of padding before its input."""
        rows, columns = (window.padded(more) for window, more in zip(self.windows, padding, strict=True))
        return Consumer(self.layer, (rows, columns), self.reaches)


class Demand(NamedTuple):
    """Demands of the layers visited so far on one tensor.

    Attributes:
        extent: the tensor, or the view through which a block reads its input.
        rows, columns: range that every tile needs.
        consumers: stages that read it.
        oldest: for each row of the driven tensor, the first row that it and the rows below need or that is computed for
            them, between windows, too; None if not required.
    """

    extent: BlockTensor
    rows: Ranges
    columns: Ranges
    consumers: tuple[Consumer, ...] = ()
    oldest: IntArray | None = None

    def through(self, windows: Windows, source: BlockTensor, *consumers: Consumer) -> Demand:
        """Return the demand on ``source`` of a stage that reads it through ``windows`` and writes the tensor."""
        if windows == (PIXEL, PIXEL) and (self.extent.height, self.extent.width) == (source.height, source.width):
            return Demand(source, self.rows, self.columns, consumers, self.oldest)
        rows, oldest = needed(self.rows, windows[0], source.height), self.oldest
        if oldest is not None:  # Rows between two windows are computed with the second one.
            oldest = np.maximum(np.minimum(windows[0].first(oldest), windows[0].end(oldest)), 0)
        return Demand(source, rows, needed(self.columns, windows[1], source.width), consumers, oldest)

    def joined(self, other: Demand) -> Demand:
        """Return the union of two demands on one tensor."""
        rows, columns = union(self.rows, other.rows), union(self.columns, other.columns)
        both = None if self.oldest is None or other.oldest is None else np.minimum(self.oldest, other.oldest)
        return Demand(other.extent, rows, columns, self.consumers + other.consumers, both)

    def largest(self, grid: Grid) -> tuple[IntArray, IntArray]:
        """Return the rows and columns of the largest region of each tiling, [heights, 1] and [widths]."""
        return longest(self.rows, grid.heights)[:, None], longest(self.columns, grid.widths)


def rows_cost(tensor: BlockTensor, run_costs: tuple[int, ...]) -> int:
    """Return the cost of all rows of a tensor in runs of ``len(run_costs)`` pixels.

    Args:
        run_costs: costs of runs of 1, 2, … pixels.
    """
    whole, rest = divmod(tensor.width, len(run_costs))
    return tensor.height * (whole * run_costs[-1] + (run_costs[rest - 1] if rest else 0))


MOST_ROWS = 8
"""Largest number of rows of a ring that are followed one by one; a larger ring counts as filled at once."""


class ScratchOverlap:
    """Bytes of the scratch of a growing block in one tile that may lie over an input."""

    def __init__(self, graph: PricedProgram, grid: Grid, driven: BlockTensor, alignment: int) -> None:
        """Round all sizes and distances up to multiples of ``alignment`` bytes."""
        self.graph, self.whole, self.alignment = graph, grid.is_whole(driven), alignment
        self._steps = np.arange(1, MOST_ROWS + 1, dtype=np.int64)
        self._added: list[tuple[int, Demand, IntArray, IntArray]] = []
        self._layers: list[int] = []
        self._behind: list[IntArray] = []  # For each layer's ring, [chunks, rows].

    @cached_property
    def _one_tile(self) -> tuple[int, int] | None:
        """Index of the first configuration in one tile, or None."""
        indices = np.argwhere(self.whole)
        return (int(indices[0, 0]), int(indices[0, 1])) if len(indices) else None

    def add(self, index: int, demand: Demand, behind: IntArray, end: IntArray) -> None:
        """Add a layer's ring; it is evaluated only if the block reads the network's input.

        Args:
            index: the layer.
            demand: demand on its output.
            behind: bytes of the rings behind it, [chunks, heights, widths].
            end: ``behind`` and the bytes of its own ring.
        """
        if self._one_tile is not None:
            self._added.append((index, demand, behind, end))

    def _evaluate(self, index: int, demand: Demand, behind: IntArray, end: IntArray) -> None:
        """Compute the bytes behind the filled part of a ring, row by row; arguments as in ``add``."""
        assert self._one_tile is not None
        row, column = self._one_tile
        rest, whole = behind[:, row, column, None], end[:, row, column, None]
        size, row_bytes = whole - rest, demand.extent.width * demand.extent.pixel_bytes
        if int(demand.rows.low.min()) > 0 or int(size.max()) > row_bytes * MOST_ROWS:
            filled = np.repeat(size, MOST_ROWS, axis=1)
        else:
            filled = np.minimum(self._steps * row_bytes, size)
        self._layers.append(index)
        self._behind.append(whole - filled)

    def shared(self, demand: Demand, rings: IntArray, scratch: IntArray) -> IntArray:
        """Return the bytes of scratch that may lie over an input, [chunks, heights, widths].

        Args:
            demand: demand on the input.
            rings: bytes of all rings.
            scratch: bytes of scratch, rings included.
        """
        shared = np.zeros_like(scratch)
        for ring in self._added:
            self._evaluate(*ring)
        self._added.clear()
        if self._layers:
            saved = (np.array(self._behind) + self._spent(demand)[:, None, :]).min(axis=(0, 2))[:, None]
            saved = np.minimum(np.minimum(saved, rings[:, self.whole]), demand.extent.nbytes)
            size = scratch[:, self.whole]
            shared[:, self.whole] = round_up(size, self.alignment) - round_up(size - saved, self.alignment)
        return shared

    def _spent(self, demand: Demand) -> IntArray:
        """Return the bytes of an input that are free when each layer begins each row of its ring, [layers, rows]."""
        rows, layers = np.arange(MOST_ROWS, dtype=np.int64), np.array(self._layers)
        oldest = np.full((len(layers), MOST_ROWS), demand.extent.height, dtype=np.int64)
        for consumer in demand.consumers:
            window = consumer.windows[0]
            scale, ahead, limit = (each[consumer.layer, layers][:, None] for each in self.graph.row_progress)
            reached = np.minimum(rows * scale + ahead, limit)
            first = np.where(reached > 0, window.first(np.maximum(reached, 0)), 0) if window.spread == 1 else 0
            oldest = np.minimum(oldest, first)
        spent: IntArray = np.maximum(oldest, 0) * (demand.extent.width * demand.extent.pixel_bytes)
        return spent
