"""Shares of a model's operators in the tail of the arena: computed by ``memory``, used as costs by the search."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TailShares:
    """Bytes of the tail, as upper bounds.

    Attributes:
        operators: for each operator of the first subgraph: its structs, options and kernel data, and the structs of its
            outputs and constants. Empty if unknown: then nothing counts.
        block: bytes of a fused block in place of operators, with its constants and scratch, without its outputs.
        tensor: bytes of each output of a block.
        fixed: all other bytes, such as the structs of the model's inputs and outputs.
    """

    operators: tuple[int, ...] = ()
    block: int = 0
    tensor: int = 0
    fixed: int = 0

    def of_operator(self, index: int) -> int:
        return self.operators[index] if self.operators else 0

    def of_block(self, results: int) -> int:
        """Return the bytes of a block with ``results`` outputs."""
        return self.block + results * self.tensor

    @property
    def total(self) -> int:
        """Return the bytes of the tail of the unfused model."""
        return self.fixed + sum(self.operators)


NO_TAIL = TailShares()
"""Shares of a network whose tail is unknown."""
