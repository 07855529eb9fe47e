"""Where in which tensor the values of a tensor come from, as far as operators move them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tflite_fuse.fusion.block.operators.movement import Indices, moves_in
from tflite_fuse.model.schema import Model


@dataclass(frozen=True)
class Moves:
    """The tensors of a model's first subgraph that operators of ``MOVES`` write."""

    model: Model

    @cached_property
    def _found(self) -> dict[int, tuple[int, Indices]]:
        found: dict[int, tuple[int, Indices]] = {}
        for source, parts in moves_in(self.model):
            start, way = found.get(source.index, (source.index, None))
            for tensor, indices in parts:
                found[tensor] = start, indices if way is None else way.ravel()[indices]
        return found

    def origin(self, tensor: int) -> tuple[int, Indices | None]:
        """The tensor furthest up, and which of its values the tensor holds, in the tensor's shape; None for all."""
        return self._found.get(tensor, (tensor, None))
