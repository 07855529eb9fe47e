"""How much a growing block computes: multiply-accumulates, or what else is counted, of all its tiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tflite_fuse.fusion.block.axes import IntArray, longest_and_total, total_in_runs
from tflite_fuse.fusion.block.layer_graph import Layer
from tflite_fuse.fusion.estimate.demands import Demand, Grid
from tflite_fuse.fusion.estimate.run_lengths import RowMix, row_cost, row_of_runs, whole_rows


class Work:
    """The work of a growing block's layers, which depends on the length of runs where layers have ``run_costs``."""

    def __init__(self, grid: Grid, chunks: Sequence[int], last: int) -> None:
        """Args: chunks: output pixels a stage computes per step."""
        self.grid, self.chunks = grid, chunks
        self._runs: dict[tuple[int, int], list[RowMix]] = {
            (chunk, last): [whole_rows(width, chunk) for width in grid.widths.sizes.tolist()] for chunk in chunks
        }

    def of_layer(self, index: int, layer: Layer, demand: Demand) -> IntArray:
        """What all tiles need of a layer, [heights, widths] or [chunks, heights, widths]."""
        if layer.run_costs:
            broken = [self._broken_runs(index, demand, layer.run_costs, chunk) for chunk in self.chunks]
            return self.in_runs(demand, layer.run_costs) + np.stack(broken)
        _, columns = longest_and_total(demand.columns, self.grid.widths)
        return np.multiply.outer(self._rows(demand), columns) * (layer.macs // demand.extent.pixels)

    def in_runs(self, demand: Demand, run_costs: tuple[int, ...]) -> IntArray:
        """What a region costs if its rows are computed one by one, each in runs as long as they may be."""
        rows = [total_in_runs(demand.columns, self.grid.widths, chunk, run_costs) for chunk in self.chunks]
        return np.stack([np.multiply.outer(self._rows(demand), row) for row in rows])

    def _rows(self, demand: Demand) -> IntArray:
        """The rows of all bands, [heights]."""
        return longest_and_total(demand.rows, self.grid.heights)[1]

    def _broken_runs(self, index: int, demand: Demand, run_costs: tuple[int, ...], chunk: int) -> IntArray:
        """What a layer costs beyond that because its reader asks for a row in pieces, [heights, widths].

        Worked out for the widest tile of every option; rows of a single run are in one piece.
        """
        if not demand.consumers:
            return np.zeros(self.grid.shape, dtype=np.int64)
        tilings, lengths = self.grid.widths, demand.columns.high - demand.columns.low
        first = max(demand.consumers, key=lambda consumer: [reach.ahead for reach in consumer.asked])
        widths = np.maximum(np.maximum.reduceat(lengths, tilings.first), 1).tolist()
        tiles = np.diff(np.append(tilings.first, len(lengths))).tolist()
        self._runs[chunk, index] = [
            mix.pulled(first.windows, width, chunk, from_edge=count == 1)
            for mix, width, count in zip(self._runs[chunk, first.layer], widths, tiles, strict=True)
        ]
        more = [
            round(mix.cost(run_costs)) - row_cost(row_of_runs(width, chunk), run_costs)
            for mix, width in zip(self._runs[chunk, index], widths, strict=True)
        ]
        long_rows = np.add.reduceat(lengths > chunk, tilings.first, dtype=np.int64)
        return np.multiply.outer(self._rows(demand), long_rows * more)
