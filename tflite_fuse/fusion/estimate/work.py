"""How much a growing block computes: multiply-accumulates, or what else is counted, of all its tiles."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from tflite_fuse.fusion.block.axes import IntArray, total, total_in_runs
from tflite_fuse.fusion.block.layer_graph import Layer
from tflite_fuse.fusion.estimate.demands import Consumer, Demand, Grid
from tflite_fuse.fusion.estimate.run_lengths import Mixes, broken_costs, cost_of_row, rows_pulled, whole_rows


@lru_cache(maxsize=1 << 12)
def _more(run_costs: tuple[int, ...], more: int) -> tuple[int, ...]:
    return tuple(cost + more for cost in run_costs)


def _first_reader(demand: Demand) -> Consumer:
    """The stage that asks first."""
    return max(demand.consumers, key=lambda consumer: [reach.ahead for reach in consumer.asked])


class Work:
    """The work of a growing block's layers, which depends on the length of runs where layers have ``run_costs``."""

    def __init__(self, grid: Grid, chunks: Sequence[int], last: int) -> None:
        """Args: chunks: output pixels a stage computes per step."""
        self.grid, self.chunks = grid, tuple(chunks)
        self._steps = np.array(chunks, dtype=np.int64)[:, None]
        self.adds_up: int | None = None  # The layer that stands for those a block ends with where it adds up.
        ends = [*grid.widths.first.tolist(), len(grid.widths.low)]
        self._from_edge = [end - begin == 1 for begin, end in pairwise(ends)]
        self._runs: dict[int, list[Mixes]] = {
            last: [whole_rows(width, self.chunks) for width in grid.widths.sizes.tolist()]
        }

    def of_layer(self, index: int, layer: Layer, demand: Demand) -> IntArray:
        """What all tiles need of a layer, [heights, widths] or [chunks, heights, widths]."""
        if layer.run_costs:
            waited_for = any(consumer.layer != self.adds_up for consumer in demand.consumers)
            costs = _more(layer.run_costs, layer.pull_cost) if waited_for else layer.run_costs
            if demand.consumers and len(self.grid.widths.low) == 1:
                return self._in_all_rows(demand, self._row_in_one_strip(index, demand, costs))
            broken = self._broken_runs(index, demand, costs)
            return self._in_all_rows(demand, self._rows_in_runs(demand, costs) + broken)
        columns = total(demand.columns, self.grid.widths)
        return np.multiply.outer(self._rows(demand), columns) * (layer.work // demand.extent.pixels)

    def in_runs(self, demand: Demand, run_costs: tuple[int, ...]) -> IntArray:
        """What a region costs if its rows are computed one by one, each in runs as long as they may be."""
        return self._in_all_rows(demand, self._rows_in_runs(demand, run_costs))

    def _rows_in_runs(self, demand: Demand, run_costs: tuple[int, ...]) -> IntArray:
        """What a row of all tiles costs in such runs, [chunks, widths]."""
        return total_in_runs(demand.columns, self.grid.widths, self._steps, run_costs)

    def _in_all_rows(self, demand: Demand, of_row: IntArray) -> IntArray:
        every: IntArray = self._rows(demand)[:, None] * of_row[:, None, :]
        return every

    def _rows(self, demand: Demand) -> IntArray:
        """The rows of all bands, [heights]."""
        return total(demand.rows, self.grid.heights)

    def _row_in_one_strip(self, index: int, demand: Demand, run_costs: tuple[int, ...]) -> IntArray:
        """What a row of a layer costs where there is but one strip, [chunks, 1]: the same for most blocks."""
        first, length = _first_reader(demand), int(demand.columns.high[0] - demand.columns.low[0])
        runs = rows_pulled(self._runs[first.layer][0], first.windows, max(length, 1), self._from_edge[0])
        self._runs[index] = [runs]
        return cost_of_row(runs, length, run_costs)

    def _broken_runs(self, index: int, demand: Demand, run_costs: tuple[int, ...]) -> IntArray:
        """What a row of a layer costs beyond that because its reader asks for it in pieces, [chunks, widths].

        Worked out for the widest tile of every option; rows of a single run are in one piece.
        """
        if not demand.consumers:
            return np.zeros((len(self.chunks), self.grid.shape[1]), dtype=np.int64)
        tilings, lengths = self.grid.widths, demand.columns.high - demand.columns.low
        first = _first_reader(demand)
        widths = np.maximum(np.maximum.reduceat(lengths, tilings.first), 1).tolist()
        mixes = zip(self._runs[first.layer], widths, self._from_edge, strict=True)
        self._runs[index] = runs = [rows_pulled(mix, first.windows, width, edge) for mix, width, edge in mixes]
        more = [broken_costs(mix, width, run_costs) for mix, width in zip(runs, widths, strict=True)]
        long_rows = np.add.reduceat(lengths > self._steps, tilings.first, axis=1, dtype=np.int64)
        broken: IntArray = long_rows * np.array(more, dtype=np.int64).T
        return broken
