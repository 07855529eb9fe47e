"""The arena in two arrays, which may lie in two memories: what the runtime keeps, and activations with scratch.

``MicroAllocator::Create`` takes two buffers, too. What it keeps for itself grows by one object, as each buffer has an
allocator; what it needs for a moment while a model loads comes from the activations' buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tflite_fuse.ir.program import Program
from tflite_fuse.memory.tflm.head_requests import arena_requests
from tflite_fuse.memory.tflm.offline_plan import ALIGNMENT
from tflite_fuse.memory.tflm.struct_sizes import Build, Struct
from tflite_fuse.memory.tflm.tail import loading_bytes, predict_tail
from tflite_fuse.units import round_up

_ALLOCATORS = (Struct(16), Struct(32))
"""Of the two buffers, on 32 bits; with one buffer there is a single one."""


@dataclass(frozen=True)
class Apart:
    """Bytes of the two arrays, multiples of 16.

    Attributes:
        persistent: what the runtime keeps for itself.
        activations: tensors and scratch, and what loading takes for a moment where that is more.
    """

    persistent: int
    activations: int


def arenas_apart(program: Program, head: int, build: Build, offsets: Sequence[int] | None = None) -> Apart:
    """Return the least two arrays that a 32-bit target needs.

    Args:
        program: of a file.
        head: bytes of activations and scratch.
        build: struct sizes of the runtime.
        offsets: of an offline plan, one per tensor of all subgraphs; None for no plan.

    Raises:
        ModelError: a dynamic shape.
    """
    of_two = replace(build, allocator=(*_ALLOCATORS, *build.allocator[1:]))
    requests = arena_requests(program, offsets, pointer_bytes=build.pointer, kernels=build.kernels)
    tail = predict_tail(program, of_two, requests, offsets)
    loading = loading_bytes(program, of_two, requests, tail) - round_up(tail.total - tail.edges, ALIGNMENT)
    return Apart(round_up(tail.total, ALIGNMENT), round_up(max(head, loading), ALIGNMENT))
