"""The reorder pass: the operators of the first subgraph in an order of least peak memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from tflite_fuse.claim import Claim
from tflite_fuse.ir.liveness import peak
from tflite_fuse.ir.program import Program, program_of
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

_SCOPE = "bytes live while one operator runs, over all orders, with these blocks and each tensor in bytes of its own"


@dataclass(frozen=True)
class Ordered:
    """A program in an order of least peak.

    Attributes:
        program: the program in that order.
        changed: whether the order differs from the given one.
        order: the order and its proof; sizes are rounded up to the alignment.
        notes: results to report.
        claim: proof of the program's order.
        peak_before: peak of the given order in bytes.
    """

    program: Program
    changed: bool
    order: OrderResult
    notes: tuple[Note, ...]
    claim: Claim
    peak_before: int


@dataclass(frozen=True)
class Reorder:
    """Run the operators of the first subgraph in an order of least peak.

    The default order is kept if it is optimal. Operators with effects beyond their outputs keep their relative order. A
    plan in the file (``OfflineMemoryAllocation``) belongs to the old order and is dropped if the order changes. Other
    subgraphs stay as they are.

    Attributes:
        budget: work of the search, of which it uses at most a share; None to search until the optimum is proven.
        in_place: kernel set for which operators may write over their inputs ("reference", "cmsis-nn", "esp-nn").
        alignment: every tensor takes a multiple of this many bytes, as in the runtime's arena.
        tuning: rules of thumb.
    """

    budget: Budget | None = None
    in_place: str | None = None
    alignment: int = 16
    tuning: Tuning = TUNING

    name: ClassVar[str] = "reorder"

    def run(self, model: Model) -> PassResult:
        """Reorder a model. Raises: as ``ordered``."""
        ordered = self.ordered(program_of(model))
        if not ordered.changed:
            return PassResult(model, False, ordered.notes, ordered.claim, "order")
        reordered = replace_operators(remove_plan(model), ordered.program.origin[1].operators)
        notes = (*ordered.notes, *(note("removed", "plan of another order"),) * has_plan(model))
        return PassResult(reordered, True, notes, ordered.claim, "order")

    def ordered(self, program: Program) -> Ordered:
        """Return a program of a file in an order of least peak.

        Raises:
            ModelError: an arena tensor has a dynamic shape or elements without a size.
            UsageError: an unknown kernel set.
        """
        shares = self.in_place is not None
        graph = program if self.in_place is None else with_in_place(program, self.in_place)
        graph = rounded(graph, self.alignment)
        budget = self.budget and self.budget.part(self.tuning.order_share)
        result = minimal_peak_order(graph, budget, in_place=shares, tuning=self.tuning)
        before = peak(graph, in_place=shares)
        about = (_note(result, before),)
        if result.order == tuple(range(len(graph.steps))):
            return Ordered(program, False, result, about, _claim(result, before), before)
        moved = program.reordered(result.order)
        return Ordered(moved, True, result, about, _claim(result, result.peak), before)

    def ordered_for(self, program: Program, arena: Callable[[Program], Arena]) -> tuple[Ordered, Arena]:
        """Return a program in an order of least peak, or unchanged if that needs less arena, and its arena.

        The least peak counts every tensor whole, although blocks may write over their input.

        Args:
            program: program of a file in its own order.
            arena: function that returns the arena of a program.

        Raises: as ``ordered``.
        """
        ordered = self.ordered(program)
        after = arena(ordered.program)
        if not ordered.changed:
            return ordered, after
        before = arena(program)
        if before.needed >= after.needed:
            return ordered, after
        kept = note("kept", "order of operators by arena", arena_bytes=before.needed, other_bytes=after.needed)
        claim = _claim(ordered.order, ordered.peak_before)
        return Ordered(program, False, ordered.order, (kept,), claim, ordered.peak_before), before


def _claim(result: OrderResult, needed: int) -> Claim:
    """Return the claim about an order whose peak is ``needed`` bytes."""
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
