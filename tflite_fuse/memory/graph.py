"""The graph as memory sees it: operators, and tensors that have a size in bytes.

Weights are not in it: constants live in flash. Neither are empty optional inputs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tflite_fuse.errors import ModelError


@dataclass(frozen=True)
class MemoryOp:
    """One operator.

    Attributes:
        name: how messages and reports call it.
        inputs: arena tensors it reads, in order, indices into ``MemoryGraph.sizes``; the same tensor may repeat.
        outputs: arena tensors it writes.
        ordered: True for an operator with effects beyond its outputs (variables, control flow, resources). Ordered
            operators keep their relative order.
        in_place: pairs (input tensor, output tensor) that may share memory under the kernel set in use: the kernel
            never reads an input byte after the output byte at the same place was written.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    ordered: bool = False
    in_place: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class MemoryGraph:
    """Operators in execution order and the arena tensors between them.

    Attributes:
        sizes: bytes of each tensor. Tensors nobody touches have an entry too, so that indices can be those of a model.
        ops: operators in execution order (a valid topological order).
        inputs: network inputs: live from the start until their last use.
        outputs: network outputs: live from their producer until the end.
        resident: tensors that are live all the time (variables). They count in every working set.
        names: one name per tensor, for messages.
    """

    sizes: tuple[int, ...]
    ops: tuple[MemoryOp, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    resident: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.names:
            object.__setattr__(self, "names", tuple(f"t{i}" for i in range(len(self.sizes))))
        if len(self.names) != len(self.sizes):
            raise ModelError(f"the graph names {len(self.names)} tensors but sizes {len(self.sizes)}")
        written = set(self.inputs) | set(self.resident)
        for op in self.ops:
            for tensor in (*op.inputs, *op.outputs):
                if not 0 <= tensor < len(self.sizes):
                    raise ModelError(f"operator {op.name} uses tensor {tensor}, the graph has {len(self.sizes)}")
            for tensor in op.inputs:
                if tensor not in written:
                    raise ModelError(f"operator {op.name} reads tensor {self.names[tensor]} before it is written")
            written.update(op.outputs)

    def reordered(self, order: Iterable[int]) -> MemoryGraph:
        """The same graph with its operators in another order (checked: every read must follow its write)."""
        ops = tuple(self.ops[index] for index in order)
        return MemoryGraph(self.sizes, ops, self.inputs, self.outputs, self.resident, self.names)
