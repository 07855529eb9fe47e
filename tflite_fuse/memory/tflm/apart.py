"""Sizes of the two arrays of a split arena: persistent data, and activations with scratch.

The arrays may lie in two memories; ``MicroAllocator::Create`` accepts two buffers. Each buffer has an allocator, which
adds one object to the persistent data. Memory that is only needed while a model loads comes from the activations'
buffer.
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
"""Allocators of the two buffers on 32 bits; a single buffer has one."""


@dataclass(frozen=True)
class Apart:
    """Bytes of the two arrays, multiples of 16.

    Attributes:
        persistent: bytes that the runtime keeps for itself.
        activations: bytes of tensors and scratch, or the peak while loading if that is larger.
    """

    persistent: int
    activations: int


def arenas_apart(program: Program, head: int, build: Build, offsets: Sequence[int] | None = None) -> Apart:
    """Return the least bytes of the two arrays on a 32-bit target.

    Args:
        program: program of a file.
        head: bytes of activations and scratch.
        build: struct sizes of the runtime.
        offsets: offline plan in bytes, one per tensor of all subgraphs; None for no plan.

    Raises:
        ModelError: a dynamic shape.
    """
    of_two = replace(build, allocator=(*_ALLOCATORS, *build.allocator[1:]))
    requests = arena_requests(program, offsets, pointer_bytes=build.pointer, kernels=build.kernels)
    tail = predict_tail(program, of_two, requests, offsets)
    loading = loading_bytes(program, of_two, requests, tail) - round_up(tail.total - tail.edges, ALIGNMENT)
    return Apart(round_up(tail.total, ALIGNMENT), round_up(max(head, loading), ALIGNMENT))
