"""Bytes live at the cuts of a graph, whatever runs between them."""

from __future__ import annotations

import numpy as np

from tflite_fuse.fusion.block.axes import IntArray
from tflite_fuse.fusion.block.layer_graph import LayerGraph
from tflite_fuse.fusion.estimate.growing_block import BlockCosts
from tflite_fuse.units import round_up


class Residency:
    """Bytes live at the cuts of a graph, and bytes an edge leaves behind."""

    def __init__(self, graph: LayerGraph, alignment: int) -> None:
        """Args: graph: sizes of its tensors are rounded up to ``alignment`` bytes, as the arena planner does."""
        count = len(graph.layers)
        self.alignment = alignment
        self.start = sum(round_up(graph.sizes[tensor], alignment) for tensor in graph.inputs)
        held = np.zeros(count + 1, dtype=np.int64)
        left = np.zeros((count, count), dtype=np.int64)
        results = np.zeros((count, count), dtype=np.int64)
        for tensor, size in enumerate(graph.sizes):
            producer, end, size = graph.producer[tensor], self._end(graph, tensor), round_up(size, alignment)
            held[producer + 1 : end + 1] += size
            if producer >= 0:
                results[: producer + 1, producer : max(end, producer + 1)] += 1
                left[: producer + 1, producer:end] += size
                left[: producer + 1, producer] += size if end == producer else 0
        self._held: list[int] = held.tolist()
        self._left: list[list[int]] = left.tolist()
        self._results: list[list[int]] = results.tolist()

    @staticmethod
    def _end(graph: LayerGraph, tensor: int) -> int:
        """The last layer a tensor is live at; past the end for network outputs."""
        if tensor in graph.outputs:
            return len(graph.layers)
        readers = graph.consumers[tensor]
        return readers[-1] if readers else graph.producer[tensor]

    def held(self, cut: int) -> int:
        """Bytes of all tensors written before the cut and needed after it."""
        return self._held[cut]

    def left(self, first: int, last: int) -> int:
        """Bytes of the tensors the layers ``first … last`` write that outlive them (or that nothing reads)."""
        return self._left[first][last]

    def results(self, first: int, last: int) -> int:
        """Number of tensors the layers ``first … last`` write that outlive them (or that nothing reads)."""
        return self._results[first][last]

    def outside(self, first: int, last: int) -> int:
        """Bytes live while ``first … last`` run, but for the scratch of a block."""
        return self.held(first) + self.left(first, last)

    def spare(self, first: int, last: int) -> int:
        """Bytes of scratch with which a block needs no more than the network's inputs do before anything runs."""
        return self.start - self.outside(first, last)

    def while_running(self, costs: BlockCosts) -> IntArray:
        """Bytes live while a block runs, under every tiling."""
        scratch = round_up(costs.scratch, self.alignment)
        return self.outside(costs.first, costs.last) + scratch - costs.shared
