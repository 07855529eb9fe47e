"""Cuts and the edges between them: what the search of paths works on, and the same as a networkx graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tflite_fuse.fusion.block.axes import IntArray

if TYPE_CHECKING:
    import networkx as nx


NEVER = 1 << 60
"""What it takes to reach a cut no path leads to."""


@dataclass(frozen=True)
class Offers:
    """What an edge offers, each field [options], RAM ascending, MACs descending.

    Attributes:
        ram: bytes live while the edge runs.
        work: in the graph's unit.
        scratch: bytes of the block's scratch, 0 for an operator that runs as it is.
        tile_height, tile_width, chunk: the block's configuration, 0 for an operator that runs as it is.
    """

    ram: IntArray
    work: IntArray
    scratch: IntArray
    tile_height: IntArray
    tile_width: IntArray
    chunk: IntArray

    def __len__(self) -> int:
        return len(self.ram)

    def pick(self, indices: IntArray) -> Offers:
        columns = self.ram, self.work, self.scratch, self.tile_height, self.tile_width, self.chunk
        return Offers(*(column[indices] for column in columns))

    def best(self) -> Offers:
        """Those no other is below in both RAM and multiply-accumulates."""
        larger, cheaper = self.ram[1:] > self.ram[:-1], self.work[1:] < self.work[:-1]
        if np.count_nonzero(larger & cheaper) == len(larger):  # Longer runs mostly take more RAM and less work.
            return self
        return self.pick(pareto(self.ram, self.work))


@dataclass(frozen=True, eq=False)
class Edge:
    """From cut ``source`` over the layers ``source … target − 1``, as an operator that runs as it is or as one block.

    Attributes:
        options: what it takes.
        fused: whether it is a block.
        tail: bytes it adds to the tail of the arena.
    """

    source: int
    target: int
    options: Offers
    fused: bool
    tail: int = 0


@dataclass(frozen=True)
class CutGraph:
    """All edges, and what no edge can change.

    Attributes:
        start: bytes live before the first operator (the network's inputs), or what counts as equal to that.
        tail: bytes of the tail.
        into: the edges into each cut, those of cut 0 (none) first.
    """

    start: int
    tail: int
    into: tuple[tuple[Edge, ...], ...]

    @cached_property
    def reaches_its_end(self) -> bool:
        """Whether any path leads from the first cut to the last."""
        reached = [True]
        for edges in self.into[1:]:
            reached.append(any(reached[edge.source] for edge in edges))
        return reached[-1]

    @property
    def dag(self) -> nx.MultiDiGraph:
        """The same with cuts as nodes, for algorithms on graphs.

        Its attributes are ``start`` and ``tail``, those of its edges ``options``, ``fused`` and ``tail``.
        """
        import networkx as nx  # Loading it takes a tenth of a second.

        dag = nx.MultiDiGraph(start=self.start, tail=self.tail)
        dag.add_nodes_from(range(len(self.into)))
        for edge in (edge for edges in self.into for edge in edges):
            dag.add_edge(edge.source, edge.target, options=edge.options, fused=edge.fused, tail=edge.tail)
        return dag


def least_ram(cuts: CutGraph) -> int:
    """What some path needs: the least peak of any, and of the paths with that peak to every cut the least tail."""
    best = [(cuts.start, cuts.tail)]
    for edges in cuts.into[1:]:
        reached = [(best[edge.source], int(edge.options.ram[0]), edge.tail) for edge in edges]
        best.append(min(((max(peak, ram), tail + more) for (peak, tail), ram, more in reached), default=(NEVER, 0)))
    return sum(best[-1])


def pareto(ram: IntArray, cost: IntArray) -> IntArray:
    """Indices of the pairs no other pair is below in both, RAM ascending; of equal pairs one."""
    order = np.lexsort((cost, ram))
    cheapest = np.minimum.accumulate(cost[order])
    keep = np.ones(len(order), dtype=np.bool_)
    keep[1:] = cost[order][1:] < cheapest[:-1]
    kept: IntArray = order[keep]
    return kept
