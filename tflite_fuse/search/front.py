"""The Pareto front of a model: all pairs of RAM and work that no other pair dominates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.ir.block import BlockChoice
from tflite_fuse.notes import Note, note, tensor_of


@dataclass(frozen=True)
class Point:
    """One execution of the model that no other dominates in RAM and work.

    Work is in multiply-accumulates, or in predicted instructions if a target was searched for.

    Attributes:
        ram_bytes: largest working set, and the arena's tail if the search counts it.
        work: in the graph's unit.
        compute_factor: ``work`` divided by that of the unfused model.
        blocks: the fused blocks in execution order; all other operators run by themselves.
        largest: the operators (one, or those of a block) with the largest working set.
        tail_bytes: the part of ``ram_bytes`` that is the arena's tail, 0 if the search does not count it.
        order: all operators in execution order, numbered as in the front's graph; empty for the graph's own order.
        slow: tensors that may lie in the slow memory; those between blocks do.
    """

    ram_bytes: int
    work: int
    compute_factor: float
    blocks: tuple[BlockChoice, ...]
    largest: tuple[int, ...]
    tail_bytes: int = 0
    order: tuple[int, ...] = ()
    slow: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Front:
    """All points of a model, RAM ascending, work descending.

    Attributes:
        points: at least one; the last one has the least work: usually that of the unfused model, less if blocks skip
            pixels without a reader, more if a scheme always recomputes.
        unfused: the model without blocks, for comparison (it need not be on the front).
        graph: the searched graph.
    """

    points: tuple[Point, ...]
    unfused: Point
    graph: PricedProgram

    def explain(self, point: Point) -> tuple[Note, ...]:
        """Return notes why ``point`` leaves operators unfused: one for each run of neighbours with the same reason."""
        fused = {operator for block in point.blocks for operator in block.operators}
        reasons = (None if index in fused else layer.reason or "" for index, layer in enumerate(self.graph.steps))
        runs = [
            (reason, [index for index, _ in run]) for reason, run in groupby(enumerate(reasons), lambda item: item[1])
        ]
        return tuple(_unfused(self.graph, run, reason) for reason, run in runs if reason is not None)


def _unfused(graph: PricedProgram, operators: Sequence[int], reason: str) -> Note:
    labels = [graph.steps[index].name for index in operators]
    if not reason:
        return note("not fused", "does not pay", *labels)
    return note("not fused", "operator", *labels, why=reason, tensor=tensor_of(reason))
