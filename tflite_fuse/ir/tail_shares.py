"""What a model's operators add to the tail of the arena, as numbers: memory works them out, the search weighs them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TailShares:
    """Bytes of the tail, as upper bounds.

    Attributes:
        operators: for each operator of the first subgraph as it is: its structs, options and kernel data, the structs
            of the tensors it writes and of the constants it reads. Empty: nothing is known, nothing counts.
        block: of a fused block in place of operators, without its outputs; its constants and scratch included.
        tensor: of each output of a block.
        fixed: all the rest, such as the structs of the model's inputs and outputs.
    """

    operators: tuple[int, ...] = ()
    block: int = 0
    tensor: int = 0
    fixed: int = 0

    def of_operator(self, index: int) -> int:
        return self.operators[index] if self.operators else 0

    def of_block(self, results: int) -> int:
        """Of a block that writes so many tensors."""
        return self.block + results * self.tensor

    @property
    def total(self) -> int:
        """Of the model as it is."""
        return self.fixed + sum(self.operators)


NO_TAIL = TailShares()
"""Of a network whose tail is not known."""
