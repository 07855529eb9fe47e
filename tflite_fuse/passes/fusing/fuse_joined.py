"""The fusion pass with CONCATENATIONs along rows as maxima, those that stay outside of blocks as they were."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

from tflite_fuse.errors import LimitError
from tflite_fuse.memory.from_model import FUSED_OPERATOR
from tflite_fuse.model.operators import operator_label, operator_name
from tflite_fuse.model.schema import Model
from tflite_fuse.passes.fuse import Fuse, FuseResult
from tflite_fuse.passes.preparing.join_rows import join_rows


@dataclass(frozen=True)
class FuseJoined:
    """``Fuse``, which also sees CONCATENATIONs along rows as what a block can do.

    Attributes:
        fuse: the pass.
    """

    fuse: Fuse

    name: ClassVar[str] = "fuse"

    def run(self, model: Model) -> FuseResult:
        """Fuse a model. Raises: as ``Fuse.run``."""
        kept: set[int] = set()
        while (joined := join_rows(model, kept)).made:
            try:
                result = self.fuse.run(joined.model)
            except LimitError:
                break
            outside = {index for index, names in joined.made.items() if _is_outside(result.model, names)}
            if not outside:
                notes = (
                    f"{operator_label(model, index)} is the maximum of its inputs in blocks, each padded with -128"
                    for index in joined.made
                )
                return replace(result, notes=(*notes, *result.notes))
            kept |= outside
        return self.fuse.run(model)


def _is_outside(model: Model, names: Collection[str]) -> bool:
    """Whether an operator that is no block writes one of some tensors."""
    plain = (op for op in model.main.operators if operator_name(model, op) != FUSED_OPERATOR)
    return any(model.main.tensors[tensor].name in names for op in plain for tensor in op.outputs or ())
