"""Permissions for an operator's output to share memory with an input that dies there."""

from __future__ import annotations

from dataclasses import dataclass

from tflite_fuse.errors import PlanError
from tflite_fuse.memory.graph import MemoryGraph


@dataclass(frozen=True)
class Overlap:
    """An output may overlap an input of the operator that writes it.

    The input must not be read after that operator. What is promised is the operator's own behaviour: the order in
    which its kernel reads the one and writes the other.

    Attributes:
        input: tensor read.
        output: tensor written.
        distance: None: the two may start at the same byte, and overlap in no other way (in place). A number D of
            bytes, negative ones included: they may overlap wherever ``offset(output) + D <= offset(input)``
            ("diagonal"). A kernel that runs through both from the first byte to the last permits the largest D of
            (bytes written so far) - (first input byte still to be read), taken over the whole run after each write.
    """

    input: int
    output: int
    distance: int | None = None


def graph_overlaps(graph: MemoryGraph) -> tuple[Overlap, ...]:
    """The in-place pairs the graph's operators carry, as overlaps."""
    return tuple(Overlap(read, written) for op in graph.ops for read, written in op.in_place)


def require_sound(graph: MemoryGraph, overlaps: tuple[Overlap, ...]) -> None:
    """Check that every overlap joins an input and an output of one operator.

    Raises:
        PlanError: it does not.
    """
    pairs = {(read, written) for op in graph.ops for read in op.inputs for written in op.outputs}
    for overlap in overlaps:
        if (overlap.input, overlap.output) not in pairs:
            raise PlanError(
                f"tensors {_name(graph, overlap.input)} and {_name(graph, overlap.output)} are allowed to overlap but "
                "no operator reads the one and writes the other"
            )


def _name(graph: MemoryGraph, tensor: int) -> str:
    return graph.names[tensor] if 0 <= tensor < len(graph.names) else f"number {tensor}"
