"""How much of a block's scratch may lie over an input it has spent by then, in closed form.

Rings lie in scratch one behind the other. While a stage fills its ring for the first time, those that read the block's
input have advanced as far as the windows between say, and what they have read for the last time may be written over. So
the end of scratch, where the rings of the last stages are, may lie over the beginning of the input. How far is the
least that any ring allows: what lies behind the bytes it has filled so far, and the rows that are spent then.
``spent_inputs`` finds the same by following all events; the closed form is never above it. Rows count alone: one that
is looked at from any column on counts as needed whole.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tflite_fuse.fusion.block.axes import IntArray
from tflite_fuse.fusion.block.layer_graph import LayerGraph
from tflite_fuse.fusion.block.stages import BlockTensor
from tflite_fuse.fusion.estimate.demands import Demand, Grid
from tflite_fuse.units import round_up

MOST_ROWS = 8
"""Rows of a ring that are looked at one by one; a higher one counts as filled at once."""


class LateRings:
    """The rings of a growing block in one tile, as it grows upwards."""

    def __init__(self, graph: LayerGraph, grid: Grid, driven: BlockTensor, alignment: int) -> None:
        """Args: alignment: all sizes and distances are rounded up to a multiple of it."""
        self.graph, self.whole, self.alignment = graph, grid.is_whole(driven), alignment
        self._steps = np.arange(1, MOST_ROWS + 1, dtype=np.int64)
        self._added: list[tuple[int, Demand, IntArray, IntArray]] = []
        self._layers: list[int] = []
        self._behind: list[IntArray] = []  # Of each layer's ring, [chunks, rows].

    @cached_property
    def _one_tile(self) -> tuple[int, int] | None:
        """Where the first configuration in one tile is among all, if there is any."""
        found = np.argwhere(self.whole)
        return (int(found[0, 0]), int(found[0, 1])) if len(found) else None

    def add(self, index: int, demand: Demand, behind: IntArray, end: IntArray) -> None:
        """Adds a layer's ring; it is looked at where a block reads the network's input, which few do.

        Args:
            index: the layer's.
            demand: for what it writes.
            behind: bytes of the rings behind it, [chunks, heights, widths].
            end: the same and its own.
        """
        if self._one_tile is not None:
            self._added.append((index, demand, behind, end))

    def _look_at(self, index: int, demand: Demand, behind: IntArray, end: IntArray) -> None:
        """Works out what lies behind a ring while its rows are filled; arguments as of ``add``."""
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
        """Bytes of scratch that may lie over an input, [chunks, heights, widths].

        Args:
            demand: for the input.
            rings: bytes of all rings.
            scratch: bytes of scratch, the rings among them.
        """
        found = np.zeros_like(scratch)
        for ring in self._added:
            self._look_at(*ring)
        self._added.clear()
        if self._layers:
            saved = (np.array(self._behind) + self._spent(demand)[:, None, :]).min(axis=(0, 2))[:, None]
            saved = np.minimum(np.minimum(saved, rings[:, self.whole]), demand.extent.nbytes)
            size = scratch[:, self.whole]
            found[:, self.whole] = round_up(size, self.alignment) - round_up(size - saved, self.alignment)
        return found

    def _spent(self, demand: Demand) -> IntArray:
        """Bytes of an input spent when each layer begins each row of its ring, [layers, rows]."""
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
