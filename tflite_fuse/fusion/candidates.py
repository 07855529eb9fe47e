"""The cut graph: where a model can be cut, and what may stand between two cuts.

Nodes are the places between two operators of the given order, 0 (before the first) to n (after the last). An edge from
a to b runs the operators a … b − 1, as they are or as one fused block, and carries its options: bytes of RAM while it
runs against multiply-accumulates, one pair per configuration worth having. RAM is everything live at cut a (the block's
inputs, residuals held for later, network inputs not yet consumed, outputs already there), plus what the edge leaves
behind, plus the block's scratch. A path from 0 to n is a way to run the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import networkx as nx
import numpy as np

from tflite_fuse.fusion.cost import block_costs
from tflite_fuse.fusion.cost_tables import IntArray
from tflite_fuse.fusion.geometry import LayerGraph
from tflite_fuse.fusion.schemes import Restriction
from tflite_fuse.fusion.walk import BlockCosts


@dataclass(frozen=True)
class Options:
    """What an edge offers, each field [options], RAM ascending, MACs descending.

    Attributes:
        ram: bytes live while the edge runs.
        macs: multiply-accumulates executed.
        scratch: bytes of the block's scratch, 0 for an operator that runs as it is.
        tile_height, tile_width: the block's configuration, 0 for an operator that runs as it is.
    """

    ram: IntArray
    macs: IntArray
    scratch: IntArray
    tile_height: IntArray
    tile_width: IntArray

    def __len__(self) -> int:
        return len(self.ram)

    def pick(self, indices: IntArray) -> Options:
        return Options(*(column[indices] for column in self._columns()))

    def joined(self, other: Options) -> Options:
        pairs = zip(self._columns(), other._columns(), strict=True)
        return Options(*(np.concatenate(pair) for pair in pairs))

    def _columns(self) -> tuple[IntArray, ...]:
        return self.ram, self.macs, self.scratch, self.tile_height, self.tile_width


class Residency:
    """Bytes live at the cuts of a graph, and bytes an edge leaves behind."""

    def __init__(self, graph: LayerGraph, alignment: int) -> None:
        """Args: graph: sizes of its tensors are rounded up to ``alignment`` bytes, as the arena planner does."""
        count = len(graph.layers)
        self.alignment = alignment
        self._held = np.zeros(count + 1, dtype=np.int64)
        self._left = np.zeros((count, count), dtype=np.int64)
        for tensor, size in enumerate(graph.sizes):
            producer, end = graph.producer[tensor], self._end(graph, tensor)
            self._held[producer + 1 : end + 1] += self.rounded(size)
            if producer >= 0:
                self._left[: producer + 1, producer:end] += self.rounded(size)
                self._left[: producer + 1, producer] += self.rounded(size) if end == producer else 0

    @staticmethod
    def _end(graph: LayerGraph, tensor: int) -> int:
        """The last layer a tensor is live at; past the end for network outputs."""
        if tensor in graph.outputs:
            return len(graph.layers)
        readers = graph.consumers[tensor]
        return readers[-1] if readers else graph.producer[tensor]

    def rounded(self, size: int) -> int:
        return -(-size // self.alignment) * self.alignment

    def held(self, cut: int) -> int:
        """Bytes of all tensors written before the cut and needed after it."""
        return int(self._held[cut])

    def left(self, first: int, last: int) -> int:
        """Bytes of the tensors the layers ``first … last`` write that outlive them (or that nothing reads)."""
        return int(self._left[first, last])

    def outside(self, first: int, last: int) -> int:
        """Bytes live while ``first … last`` run, but for the scratch of a block."""
        return self.held(first) + self.left(first, last)


def cut_graph(graph: LayerGraph, restriction: Restriction, chunk: int = 1, alignment: int = 1) -> nx.DiGraph:
    """Builds the cut graph.

    Every edge has the attribute ``options``, an ``Options``; the graph's attribute ``start`` holds the bytes that are
    live before the first operator, the network's inputs.

    Args:
        graph: operators in the order they will run.
        restriction: which blocks and configurations a scheme allows.
        chunk: output pixels per step to price the blocks with.
        alignment: arena tensors (the blocks' scratch among them) are rounded up to a multiple of this many bytes.
    """
    residency = Residency(graph, alignment)
    cuts = nx.DiGraph(start=sum(residency.rounded(graph.sizes[tensor]) for tensor in graph.inputs))
    cuts.add_nodes_from(range(len(graph.layers) + 1))
    for index, layer in enumerate(graph.layers):
        ram = np.array([residency.outside(index, index)])
        nothing = np.zeros(1, dtype=np.int64)
        as_it_is = Options(ram, np.array([layer.macs]), nothing, nothing, nothing)
        cuts.add_edge(index, index + 1, options=as_it_is)
    for last in range(len(graph.layers)):
        if graph.layers[last].absorbed:
            continue
        for costs in block_costs(graph, last, restriction.tile_sizes, chunk):
            if costs.first < last and not splits_padding(graph, costs.first) and restriction.allows(costs.first, last):
                options = _block_options(costs, residency, restriction.paired)
                if len(options):
                    cuts.add_edge(costs.first, last + 1, options=options)
    return cuts


def splits_padding(graph: LayerGraph, first: int) -> bool:
    """Whether a block would start right behind a PAD it could absorb; starting with the PAD is never worse."""
    return (
        first > 0 and graph.layers[first - 1].absorbed and first in graph.consumers[graph.layers[first - 1].outputs[0]]
    )


def _block_options(costs: BlockCosts, residency: Residency, paired: bool) -> Options:
    outside = residency.outside(costs.first, costs.last)
    ram = outside - (-costs.scratch // residency.alignment) * residency.alignment
    everything = Options(ram, costs.macs, costs.scratch, costs.tile_height, costs.tile_width)
    usable = costs.usable
    if paired:
        count = math.isqrt(len(ram))
        usable = usable & np.eye(count, dtype=np.bool_).ravel()
    if not usable.all():
        everything = everything.pick(np.flatnonzero(usable))
    return everything.pick(pareto(everything.ram, everything.macs))


def pareto(ram: IntArray, cost: IntArray) -> IntArray:
    """Indices of the pairs no other pair is below in both, RAM ascending; of equal pairs one."""
    order = np.lexsort((cost, ram))
    cheapest = np.minimum.accumulate(cost[order])
    keep = np.ones(len(order), dtype=np.bool_)
    keep[1:] = cost[order][1:] < cheapest[:-1]
    kept: IntArray = order[keep]
    return kept
