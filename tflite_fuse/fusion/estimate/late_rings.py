"""How much of a block's scratch may lie over an input it has spent by then, in closed form.

Rings lie in scratch one behind the other. While a stage fills its ring for the first time, those that read the block's
input have advanced as far as the windows between say, and what they have read for the last time may be written over. So
the end of scratch, where the rings of the last stages are, may lie over the beginning of the input. How far is the
least that any ring allows: what lies behind the bytes it has filled so far, and the rows that are spent then.
``spent_inputs`` finds the same by following all events; the closed form is never above it. Rows count alone: one that
is looked at from any column on counts as needed whole.
"""

from __future__ import annotations

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

    def __init__(self, graph: LayerGraph, chunks: int, grid: Grid, driven: BlockTensor, alignment: int) -> None:
        """Args: alignment: all sizes and distances are rounded up to a multiple of it."""
        self.whole, self.alignment, self._progress = grid.is_whole(driven), alignment, graph.row_progress
        self._layers: list[int] = []
        self._behind = np.zeros((0, chunks, MOST_ROWS), dtype=np.int64)

    def add(self, index: int, demand: Demand, ring: IntArray, behind: IntArray) -> None:
        """Adds a layer's ring.

        Args:
            index: the layer's.
            demand: for what it writes.
            ring: bytes, [chunks, heights, widths].
            behind: bytes of the rings behind it, likewise.
        """
        if not self.whole.any():
            return
        size, rest = (np.broadcast_to(each, behind.shape)[:, self.whole][:, :1] for each in (ring, behind))
        row = demand.extent.width * demand.extent.pixel_bytes
        filled = np.minimum(np.arange(1, MOST_ROWS + 1, dtype=np.int64) * row, size)
        if int(demand.rows.low.min()) > 0 or int(size.max()) > row * MOST_ROWS:
            filled = np.broadcast_to(size, filled.shape)
        self._layers.append(index)
        self._behind = np.concatenate((self._behind, (rest + size - filled)[None]))

    def shared(self, demand: Demand, rings: IntArray, scratch: IntArray) -> IntArray:
        """Bytes of scratch that may lie over an input, [chunks, heights, widths].

        Args:
            demand: for the input.
            rings: bytes of all rings.
            scratch: bytes of scratch, the rings among them.
        """
        found = np.zeros_like(scratch)
        if self._layers and self.whole.any():
            saved = (self._behind + self._spent(demand)[:, None, :]).min(axis=(0, 2))[:, None]
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
            scale, ahead, limit = (each[consumer.layer, layers][:, None] for each in self._progress)
            reached = np.minimum(rows * scale + ahead, limit)
            first = np.where(reached > 0, window.first(np.maximum(reached, 0)), 0) if window.spread == 1 else 0
            oldest = np.minimum(oldest, first)
        spent: IntArray = np.maximum(oldest, 0) * (demand.extent.width * demand.extent.pixel_bytes)
        return spent
