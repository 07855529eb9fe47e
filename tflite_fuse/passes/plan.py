"""The planner pass: place every tensor of the arena and write the offsets into the file. Always the last pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tflite_fuse.claim import Claim
from tflite_fuse.ir.memory_graph import Overlap
from tflite_fuse.memory.arena import AS_USUAL, Arena, ArenaOptions, realise
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.tflm.offline_plan import remove_plan, write_plan
from tflite_fuse.model.schema import Model
from tflite_fuse.passes.base import PassResult

_SCOPE = "head of the arena under any offsets, with the blocks and the order of operators there are"


@dataclass(frozen=True)
class PlanResult(PassResult):
    """What the pass did; ``arena`` is that of its model."""

    arena: Arena | None = None


@dataclass(frozen=True)
class Plan:
    """Write the offsets that ``memory.arena`` finds, an ``OfflineMemoryAllocation``, where they save memory.

    The operators' order stays.

    Attributes:
        options: conditions.
        overlaps: what a model's fused blocks allow its tensors to share.
        budget: for the search; None for one of its own.
    """

    options: ArenaOptions = AS_USUAL
    overlaps: Callable[[Model], Sequence[Overlap]] | None = None
    budget: Budget | None = None

    name: ClassVar[str] = "plan"

    def run(self, model: Model) -> PlanResult:
        """Plan a model.

        Raises:
            ModelError: an arena tensor has a dynamic shape or elements without a size.
            UsageError: an unknown kernel set.
        """
        arena = realise(model, self.overlaps(model) if self.overlaps is not None else (), self.options, self.budget)
        if arena.left_alone:
            return PlanResult(model, False, arena.notes, arena=arena)
        claim = Claim(arena.proof.proven, arena.proof.bound_bytes, _SCOPE)
        bare = remove_plan(model)
        planned = bare if arena.offsets is None else write_plan(bare, arena.offsets)
        return PlanResult(planned, planned is not model, arena.notes, claim, "plan", arena)
