"""Where in which tensor the values of a tensor come from, as far as operators move them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

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

    def is_end(self, tensor: int, whole: int) -> bool:
        """Whether a tensor holds the last values of another one, in order; that may be moved from somewhere, too."""
        (start, mine), (other, all_) = self.origin(tensor), self.origin(whole)
        places = (
            np.arange(int(np.prod(self.model.main.tensors[t].dims))) if found is None else found.ravel()
            for t, found in ((tensor, mine), (whole, all_))
        )
        end, values = places
        return start == other and 0 < end.size <= values.size and np.array_equal(end, values[-end.size :])
