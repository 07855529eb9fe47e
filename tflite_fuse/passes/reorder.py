"""The reorder pass: the operators of the first subgraph in an order of least peak memory usage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from tflite_fuse.claim import Claim
from tflite_fuse.ir.liveness import peak
from tflite_fuse.ir.memory_graph import memory_graph
from tflite_fuse.memory.arena import Arena
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.order.least_peak import OrderResult, minimal_peak_order
from tflite_fuse.memory.place.portfolio import rounded
from tflite_fuse.memory.tflm.in_place_kernels import with_in_place
from tflite_fuse.memory.tflm.offline_plan import has_plan, remove_plan
from tflite_fuse.model.edit import replace_operators
from tflite_fuse.model.schema import Model
from tflite_fuse.notes import Note, note
from tflite_fuse.passes.base import PassResult
from tflite_fuse.tuning import TUNING, Tuning

_SCOPE = "bytes live while one operator runs, whatever the order, with the blocks there are and every tensor by itself"


@dataclass(frozen=True)
class ReorderResult(PassResult):
    """What the pass did.

    Attributes:
        order: the order it found and what is proven about it; sizes are rounded up to the pass's alignment.
        arena: of the result, where the pass works it out.
    """

    order: OrderResult | None = None
    arena: Arena | None = None


@dataclass(frozen=True)
class Reorder:
    """Run the operators of the first subgraph in an order of least peak.

    The default order wins ties. Operators with effects beyond their outputs keep their relative order. A plan in the
    file (``OfflineMemoryAllocation``) belongs to the old order and is dropped if the order changes. Other subgraphs
    stay as they are.

    Attributes:
        budget: what the search takes its work from, at most a share of what is left; None to go on until the optimum
            is proven.
        in_place: kernel set for which operators may write over their inputs ("reference", "cmsis-nn", "esp-nn").
        alignment: every tensor takes a multiple of this many bytes, as in the runtime's arena.
        arena: works out what a model needs. The least peak counts every tensor whole; where blocks write over their
            input the order there was may need less, and then it stays.
        tuning: rules of thumb.
    """

    budget: Budget | None = None
    in_place: str | None = None
    alignment: int = 16
    arena: Callable[[Model], Arena] | None = None
    tuning: Tuning = TUNING

    name: ClassVar[str] = "reorder"

    def run(self, model: Model) -> ReorderResult:
        """Reorder a model.

        Raises:
            ModelError: an arena tensor has a dynamic shape or elements without a size.
            UsageError: an unknown kernel set.
        """
        graph = memory_graph(model)
        if self.in_place is not None:
            graph = with_in_place(graph, model, self.in_place)
        graph = rounded(graph, self.alignment)
        shares = self.in_place is not None
        budget = self.budget and self.budget.part(self.tuning.order_share)
        result = minimal_peak_order(graph, budget, in_place=shares, tuning=self.tuning)
        before_peak = peak(graph, in_place=shares)
        about = _note(result, before_peak)
        unchanged = ReorderResult(model, False, (about,), _claim(result, before_peak), "order", result)
        if result.order == tuple(range(len(graph.ops))):
            return unchanged if self.arena is None else replace(unchanged, arena=self.arena(model))
        operators = [model.main.operators[index] for index in result.order]
        reordered = replace_operators(remove_plan(model), operators)
        arena = None
        if self.arena is not None:
            arena, before = self.arena(reordered), self.arena(model)
            if before.needed < arena.needed:
                kept = note("kept", "order of operators by arena", arena_bytes=before.needed, other_bytes=arena.needed)
                return replace(unchanged, notes=(kept,), arena=before)
        notes = (about, *(note("removed", "plan of another order"),) * has_plan(model))
        return ReorderResult(reordered, True, notes, _claim(result, result.peak), "order", result, arena)


def _claim(result: OrderResult, needed: int) -> Claim:
    """What is proven of an order whose peak is ``needed`` bytes."""
    return Claim(needed <= result.lower_bound, result.lower_bound, _SCOPE)


def _note(result: OrderResult, before: int) -> Note:
    return note(
        "kept" if result.peak == before else "changed",
        "order of operators",
        peak_before_bytes=before,
        peak_bytes=result.peak,
        proven=result.optimal,
        bound_bytes=result.lower_bound,
    )
