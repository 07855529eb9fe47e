"""The fusion pass with some operators as others that blocks hold; those that stay outside of blocks as they were."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

from tflite_fuse.errors import LimitError
from tflite_fuse.memory.from_model import FUSED_OPERATOR
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model
from tflite_fuse.passes.fuse import Fuse, FuseResult
from tflite_fuse.passes.preparing.spell_out import spell_out

MOST_TRIED = 2
"""Searches with operators spelled out: behind the first without those that it left outside of blocks."""


@dataclass(frozen=True)
class FuseSpelled:
    """``Fuse``, which also sees CONCATENATIONs along rows and convolutions of groups as what blocks can do.

    Attributes:
        fuse: the pass.
    """

    fuse: Fuse

    name: ClassVar[str] = "fuse"

    def run(self, model: Model) -> FuseResult:
        """Fuse a model. Raises: as ``Fuse.run``."""
        kept: set[int] = set()
        for _ in range(MOST_TRIED):
            spelled = spell_out(model, kept)
            if not spelled.made:
                break
            try:
                result = self.fuse.run(spelled.model)
            except LimitError:
                break
            outside = {index for index, names in spelled.made.items() if _is_outside(result.model, names)}
            if not outside:
                return replace(result, notes=(*spelled.notes, *result.notes))
            kept |= outside
        return self.fuse.run(model)


def _is_outside(model: Model, names: Collection[str]) -> bool:
    """Whether an operator that is no block writes one of some tensors."""
    plain = (op for op in model.main.operators if operator_name(model, op) != FUSED_OPERATOR)
    return any(model.main.tensors[tensor].name in names for op in plain for tensor in op.outputs or ())
