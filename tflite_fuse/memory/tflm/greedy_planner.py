"""TensorFlow Lite Micro's own planner, so that "what you have today" is exact.

Source: tensorflow/lite/micro/memory_planner/greedy_memory_planner (behaviour, not text). Buffers with a fixed offset
come first, as they are. The others follow from the largest to the smallest, of equal ones the one announced last
first; each goes into the first gap, from the bottom, between buffers that live at the same time.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tflite_fuse.memory.tflm.head_requests import BufferRequest, arena_requests
from tflite_fuse.memory.tflm.offline_plan import ONLINE
from tflite_fuse.model.schema import Model


@dataclass(frozen=True)
class GreedyHead:
    """The head of the arena as the runtime's own planner lays it out.

    Attributes:
        bytes: what ``print_allocations()`` reports as head.
        buffers: what was placed.
        offsets: bytes from the start of the head, for each buffer.
        unknown: operators whose scratch buffers are not known. Empty = ``bytes`` is exact.
    """

    bytes: int
    buffers: tuple[BufferRequest, ...]
    offsets: tuple[int, ...]
    unknown: tuple[str, ...]


def greedy_head(model: Model, *, pointer_bytes: int = 4) -> GreedyHead:
    """The head the runtime needs for a model, with its offline plan if it has one.

    Args:
        model: a model as loaded.
        pointer_bytes: 4 on microcontrollers, 8 in a 64-bit host build.

    Raises:
        PlanError: the model's offline plan is damaged: the runtime refuses it.
        ModelError: a dynamic shape, or subgraphs that call each other without end.
    """
    requests = arena_requests(model, pointer_bytes=pointer_bytes)
    offsets = greedy_offsets(requests.buffers)
    return GreedyHead(_height(requests.buffers, offsets), requests.buffers, offsets, requests.unknown)


def greedy_height(buffers: Sequence[BufferRequest], fixed: Sequence[int] | None) -> int:
    """Bytes of the head when the offsets of the first subgraph's tensors are fixed; None for those the buffers have."""
    if fixed is not None:
        buffers = [
            replace(buffer, offset=fixed[buffer.tensor])
            if buffer.subgraph == 0 and buffer.tensor is not None
            else buffer
            for buffer in buffers
        ]
    return _height(buffers, greedy_offsets(buffers))


def _height(buffers: Sequence[BufferRequest], offsets: Sequence[int]) -> int:
    return max((offset + buffer.size for offset, buffer in zip(offsets, buffers, strict=True)), default=0)


def greedy_offsets(buffers: Sequence[BufferRequest]) -> tuple[int, ...]:
    """Offset in bytes of each buffer."""
    fixed = [index for index, buffer in enumerate(buffers) if buffer.offset != ONLINE]
    free = [index for index, buffer in enumerate(buffers) if buffer.offset == ONLINE]
    free.sort(key=lambda index: (-buffers[index].size, -index))
    offsets = [buffer.offset for buffer in buffers]
    placed: list[tuple[int, int, int]] = []
    for turn, index in enumerate((*fixed, *free)):
        if buffers[index].offset == ONLINE:
            offsets[index] = _first_gap(buffers, index, placed)
        insort(placed, (offsets[index], turn, index))
    return tuple(offsets)


def _first_gap(buffers: Sequence[BufferRequest], wanted: int, placed: Sequence[tuple[int, int, int]]) -> int:
    size, first, last = buffers[wanted].size, buffers[wanted].first, buffers[wanted].last
    candidate = 0
    for offset, _, index in placed:
        other = buffers[index]
        if other.first > last or first > other.last:
            continue
        if offset - candidate >= size:
            break
        candidate = max(candidate, offset + other.size)
    return candidate


def head_bytes(model: Model) -> int:
    """The head the runtime needs on a microcontroller. See ``greedy_head``."""
    return greedy_head(model).bytes
