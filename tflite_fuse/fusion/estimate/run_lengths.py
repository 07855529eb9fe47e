"""How the rows of a tensor fall into runs: what the executor's pulling makes of it, from windows alone.

A stage computes what it is asked for in runs of at most a chunk. It is asked, run by run of its reader, for the columns
that run sees and none before it saw. The first run of a row under a window sees more columns than the others, so that
runs get shorter the farther a tensor is from the one that drives the block.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tflite_fuse.fusion.block.axes import AxisWindow, IntArray, Windows
from tflite_fuse.fusion.block.stages import BlockTensor


@lru_cache(maxsize=1 << 16)
def row_of_runs(length: int, chunk: int) -> tuple[int, ...]:
    """Ends of the runs of a row that is asked for as a whole."""
    return (*range(chunk, length, chunk), length)


def runs_pulled(reader: tuple[int, ...], window: AxisWindow, length: int, chunk: int) -> tuple[int, ...]:
    """Ends of the runs of a row of ``length`` pixels.

    Args:
        reader: ends of the runs of the stage that reads it first, in one of its rows.
        window: how that stage looks at the row; without padding where the row does not begin at the image's edge.
    """
    asked = {min(window.end(end), length) for end in reader}
    ends: list[int] = []
    start = 0
    for end in sorted(asked | {length}):
        if end > start:
            ends += (*range(start + chunk, end, chunk), end)
            start = end
    return tuple(ends)


class RowMix(NamedTuple):
    """Into which runs the rows of a tensor fall: (ends of the runs, share of the rows). The shares add up to 1."""

    rows: tuple[tuple[tuple[int, ...], float], ...]

    def cost(self, run_costs: tuple[int, ...]) -> float:
        """What a row costs on average."""
        return sum(share * row_cost(ends, run_costs) for ends, share in self.rows)


@dataclass(frozen=True, eq=False)
class Mixes:
    """The same under several chunks, pixels of the longest run.

    What is alike is one object, found by ``_alike``: blocks that end at different layers ask for mostly the same, and
    tuples in tuples take long to compare.
    """

    chunks: tuple[int, ...]
    rows: tuple[RowMix, ...]


@lru_cache(maxsize=1 << 14)
def _alike(chunks: tuple[int, ...], rows: tuple[RowMix, ...]) -> Mixes:
    return Mixes(chunks, rows)


@lru_cache(maxsize=1 << 14)
def rows_pulled(reader: Mixes, windows: Windows, length: int, from_edge: bool) -> Mixes:
    """The rows of the tensor a stage reads, given those of what it writes.

    Args:
        reader: the rows of what it writes.
        windows: how the stage looks at rows and columns.
        length: pixels of a row.
        from_edge: whether rows begin at the image's edge, so that the first windows lie partly in padding.
    """
    mixes = zip(reader.rows, reader.chunks, strict=True)
    return _alike(reader.chunks, tuple(_pulled(mix, windows, length, chunk, from_edge) for mix, chunk in mixes))


def _pulled(reader: RowMix, windows: Windows, length: int, chunk: int, from_edge: bool) -> RowMix:
    """Of the rows a stage moves on by, all but the last are asked for as a whole."""
    (rows, columns), found = windows, defaultdict[tuple[int, ...], float](float)
    rate = max(1, rows.stride // rows.spread)
    columns = columns if from_edge else columns._replace(padding=0)
    for ends, share in reader.rows:
        found[runs_pulled(ends, columns, length, chunk)] += share / rate
    if rate > 1:
        found[row_of_runs(length, chunk)] += 1 - 1 / rate
    return RowMix(tuple(found.items()))


@lru_cache(maxsize=1 << 14)
def broken_costs(mixes: Mixes, length: int, run_costs: tuple[int, ...]) -> tuple[int, ...]:
    """What a row of ``length`` pixels costs on average beyond one that is asked for as a whole, under each chunk."""
    return tuple(
        round(mix.cost(run_costs)) - row_cost(row_of_runs(length, chunk), run_costs)
        for mix, chunk in zip(mixes.rows, mixes.chunks, strict=True)
    )


@lru_cache(maxsize=1 << 14)
def cost_of_row(mixes: Mixes, length: int, run_costs: tuple[int, ...]) -> IntArray:
    """What a row of ``length`` pixels costs on average, [chunks, 1]; one of a single run is in one piece."""
    if length < 1:
        return np.zeros((len(mixes.chunks), 1), dtype=np.int64)
    pairs = zip(mixes.rows, mixes.chunks, strict=True)
    costs = [round(mix.cost(run_costs)) if length > chunk else run_costs[length - 1] for mix, chunk in pairs]
    return np.array(costs, dtype=np.int64)[:, None]


@lru_cache(maxsize=1 << 16)
def row_cost(ends: tuple[int, ...], run_costs: tuple[int, ...]) -> int:
    """What a row costs, ``run_costs`` being those of runs of 1, 2, … pixels."""
    return sum(run_costs[end - start - 1] for start, end in zip((0, *ends), ends, strict=False))


def rows_cost(tensor: BlockTensor, run_costs: tuple[int, ...]) -> int:
    """What all rows of a tensor cost in runs of ``len(run_costs)`` pixels."""
    return tensor.height * row_cost(row_of_runs(tensor.width, len(run_costs)), run_costs)


def whole_rows(length: int, chunks: tuple[int, ...]) -> Mixes:
    """Rows asked for as a whole."""
    return _alike(chunks, tuple(RowMix(((row_of_runs(length, chunk), 1.0),)) for chunk in chunks))
