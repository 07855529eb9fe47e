"""The plan pass: place all tensors in the arena and write their offsets into the file. Always the last pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tflite_fuse.claim import Claim
from tflite_fuse.errors import PlanError
from tflite_fuse.ir.program import Overlap, program_of
from tflite_fuse.memory.arena import DEFAULT_OPTIONS, Arena, ArenaOptions, Offsets, realise, with_given_offsets
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.tflm.offline_plan import read_plan, remove_plan, write_plan
from tflite_fuse.model.schema import Model
from tflite_fuse.notes import Note, note
from tflite_fuse.passes.base import PassResult

_SCOPE = "head of the arena over all offsets, with these blocks in this order of operators"
_SCOPE_OF_ALL = "bytes of arena, loading included, over all offsets, with these blocks in this order of operators"


@dataclass(frozen=True)
class PlanResult(PassResult):
    """Result of the pass; ``arena`` is that of its model."""

    arena: Arena | None = None


@dataclass(frozen=True)
class Plan:
    """Write the offsets found by ``memory.arena`` as an ``OfflineMemoryAllocation`` if they shrink the arena.

    The operators' order stays.

    Attributes:
        options: conditions.
        overlaps: function from a model to the overlaps that its fused blocks permit.
        budget: work of the search; None for a new default budget.
        measure: function that returns the bytes of the head in a real runtime, None if it cannot load the model.
    """

    options: ArenaOptions = DEFAULT_OPTIONS
    overlaps: Callable[[Model], Sequence[Overlap]] | None = None
    budget: Budget | None = None
    measure: Callable[[Model], int | None] | None = None

    name: ClassVar[str] = "plan"

    def run(self, model: Model) -> PlanResult:
        """Plan a model.

        Raises:
            ModelError: an arena tensor has a dynamic shape or elements without a size.
            UsageError: an unknown kernel set.
        """
        overlaps = () if self.overlaps is None else self.overlaps(model)
        bare, (offsets, damaged) = remove_plan(model), _read_offsets(model)

        def measured(fixed: Offsets | None) -> int | None:
            assert self.measure is not None
            return self.measure(bare if fixed is None else write_plan(bare, fixed))

        options = self.options if self.measure is None else replace(self.options, measure=measured)
        arena = realise(program_of(bare), overlaps, options, self.budget, offsets)
        arena = replace(arena, notes=(*damaged, *arena.notes))
        if arena.keeps_plan:
            return PlanResult(model, False, arena.notes, arena=arena)
        claim = Claim(arena.proof.proven, arena.proof.bound_bytes, _SCOPE)
        if arena.offsets is not None:
            without = with_given_offsets(program_of(bare), options=options)
            if without.needed <= arena.needed:
                # Loading the model takes more than running it; scratch of other kernels fits worse around a plan.
                kept = note("not planned", "same arena", arena_bytes=without.needed)
                claim = replace(claim, bound_bytes=without.needed, scope=_SCOPE_OF_ALL) if claim.proven else claim
                arena = replace(without, notes=(*damaged, kept))
        planned = bare if arena.offsets is None else write_plan(bare, arena.offsets)
        return PlanResult(planned, planned is not model, arena.notes, claim, "plan", arena)


def _read_offsets(model: Model) -> tuple[Offsets | None, tuple[Note, ...]]:
    """Return the offsets in a model, or None with a note about a damaged plan."""
    try:
        return read_plan(model), ()
    except PlanError as error:
        return None, (note("removed", "plan", why=str(error)),)
