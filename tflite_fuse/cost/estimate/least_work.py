"""Lower bounds on the work of a model, to skip blocks that compute too much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.ir.axes import AxisWindow


@dataclass(frozen=True)
class WorkLimit:
    """Limit on the work of blocks in a model.

    Attributes:
        least: least work of each layer, in a block or as an operator.
        slack: work that all layers together may take beyond the sum of ``least``. Work grows with every layer added to
            a block, so a block that exceeds it is skipped with all larger ones.
    """

    least: tuple[int, ...]
    slack: int


def work_limit(graph: PricedProgram, most: int) -> WorkLimit:
    """Return the limit for a model whose total work is at most ``most``, in the graph's unit."""
    computed, least = surely_computed(graph), []
    for layer in graph.steps:
        ranges = (
            [] if layer.run_costs else [(computed[tensor], graph.tensors[tensor].pixels) for tensor in layer.outputs]
        )
        least.append(
            min((rows.pixels(columns) * (layer.work // pixels) for (rows, columns), pixels in ranges), default=0)
        )
    return WorkLimit(tuple(least), most - sum(least))


@dataclass(frozen=True)
class Span:
    """Rows or columns from ``low`` to before ``high``; empty unless ``low < high``."""

    low: int
    high: int

    def __len__(self) -> int:
        return max(0, self.high - self.low)

    def pixels(self, columns: Span) -> int:
        """Return the number of pixels of these rows in some columns."""
        return len(self) * len(columns)

    def seen(self, window: AxisWindow, length: int) -> Span:
        """Return the positions under the windows of this span on an axis of ``length``; empty if there may be gaps."""
        if not len(self) or window.stride > window.extent:
            return NOTHING
        return Span(max(window.first(self.low), 0), min(window.end(self.high), length))

    def joined(self, other: Span) -> Span:
        """Return the union of two spans, or the longer one if they lie apart."""
        if max(self.low, other.low) > min(self.high, other.high):
            return max(self, other, key=len)
        return Span(min(self.low, other.low), max(self.high, other.high))


NOTHING = Span(0, 0)

Area = tuple[Span, Span]
"""Rows and columns."""


def surely_computed(graph: PricedProgram) -> list[Area]:
    """Return for each tensor the area that every block which writes it computes.

    An output of a block is computed whole. Otherwise all readers are inside the block, and the area that they read is
    computed.
    """
    areas = [(Span(0, tensor.height), Span(0, tensor.width)) for tensor in graph.tensors]
    for layer in reversed(graph.steps):
        for tensor in layer.outputs:
            readers = graph.consumers[tensor]
            if readers and tensor not in graph.outputs:
                read = [_seen(graph, reader, tensor, areas) for reader in readers]
                areas[tensor] = reduce(_joined, read)
    return areas


def computed_whole(graph: PricedProgram) -> list[bool]:
    """Return for each tensor whether every block which writes it computes all of it."""
    areas = surely_computed(graph)
    return [rows.pixels(columns) == tensor.pixels for (rows, columns), tensor in zip(areas, graph.tensors, strict=True)]


def _seen(graph: PricedProgram, reader: int, tensor: int, areas: Sequence[Area]) -> Area:
    """Return the area of a tensor that a layer reads, given the computed areas of all tensors."""
    layer, source = graph.steps[reader], graph.tensors[tensor]
    whole = Span(0, source.height), Span(0, source.width)
    if graph.accumulates(reader) or not layer.fusable:
        return whole
    written, computed = graph.tensors[layer.outputs[0]], areas[layer.outputs[0]]
    if layer.stage is None:
        return whole if computed[0].pixels(computed[1]) == written.pixels else (NOTHING, NOTHING)
    rows, columns = graph.reads[reader][tensor]
    return computed[0].seen(rows, source.height), computed[1].seen(columns, source.width)


def _joined(first: Area, second: Area) -> Area:
    """Return an area within the union of two: the union if they differ in one direction, else the larger one."""
    if first[1] == second[1]:
        return first[0].joined(second[0]), first[1]
    if first[0] == second[0]:
        return first[0], first[1].joined(second[1])
    return max(first, second, key=lambda area: area[0].pixels(area[1]))
