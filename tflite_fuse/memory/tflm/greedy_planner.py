"""Exact reimplementation of TensorFlow Lite Micro's planner, to compute the head of models without a plan.

Source: behaviour of tensorflow/lite/micro/memory_planner/greedy_memory_planner. Buffers with a fixed offset keep it.
The others follow in order of decreasing size, equal sizes in reverse order of request. Each goes into the lowest gap
between buffers with overlapping lifetimes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.tflm.head_requests import BufferRequest, arena_requests
from tflite_fuse.memory.tflm.offline_plan import ONLINE, read_plan
from tflite_fuse.model.schema import Model


@dataclass(frozen=True)
class GreedyHead:
    """The head of the arena as the runtime's own planner lays it out.

    Attributes:
        bytes: bytes that ``print_allocations()`` reports as head.
        buffers: buffers placed.
        offsets: bytes from the start of the head, one per buffer.
        unknown: operators whose scratch buffers are unknown; ``bytes`` is exact if it is empty.
    """

    bytes: int
    buffers: tuple[BufferRequest, ...]
    offsets: tuple[int, ...]
    unknown: tuple[str, ...]


def greedy_head(model: Model, *, pointer_bytes: int = 4) -> GreedyHead:
    """Return the head that the runtime needs for a model, with its offline plan if it has one.

    Args:
        model: a model as loaded.
        pointer_bytes: 4 on microcontrollers, 8 in a 64-bit host build.

    Raises:
        PlanError: the model's offline plan is damaged; the runtime rejects it.
        ModelError: a dynamic shape, or unbounded recursion of subgraphs.
    """
    requests = arena_requests(program_of(model), read_plan(model), pointer_bytes=pointer_bytes)
    offsets = greedy_offsets(requests.buffers)
    return GreedyHead(_height(requests.buffers, offsets), requests.buffers, offsets, requests.unknown)


def greedy_height(buffers: Sequence[BufferRequest], fixed: Sequence[int] | None) -> int:
    """Return the bytes of the head; ``fixed`` replaces the buffers' own offsets for tensors of the first subgraph."""
    offsets = [buffer.offset for buffer in buffers]
    if fixed is not None:
        for index, buffer in enumerate(buffers):
            if buffer.subgraph == 0 and buffer.tensor is not None:
                offsets[index] = fixed[buffer.tensor]
    return _height(buffers, _offsets(buffers, offsets))


def _height(buffers: Sequence[BufferRequest], offsets: Sequence[int]) -> int:
    return max((offset + buffer.size for offset, buffer in zip(offsets, buffers, strict=True)), default=0)


def greedy_offsets(buffers: Sequence[BufferRequest]) -> tuple[int, ...]:
    """Return the offset of each buffer in bytes."""
    return _offsets(buffers, [buffer.offset for buffer in buffers])


def _offsets(buffers: Sequence[BufferRequest], fixed: Sequence[int]) -> tuple[int, ...]:
    """Return the offset of each buffer in bytes; −1 in ``fixed`` marks buffers without a fixed offset."""
    free = [index for index, offset in enumerate(fixed) if offset == ONLINE]
    free.sort(key=lambda index: (-buffers[index].size, -index))
    offsets, placed = list(fixed), _Placed(buffers, fixed)
    for index in free:
        offsets[index] = placed.first_gap(buffers[index])
        placed.add(offsets[index], buffers[index])
    return tuple(offsets)


class _Placed:
    """Buffers with an offset, sorted by it: one column of start, end, first and last use for each."""

    def __init__(self, buffers: Sequence[BufferRequest], fixed: Sequence[int]) -> None:
        # Beyond 64 bits, sums use Python integers: a file may declare tensors of any size.
        total = sum(buffer.size for buffer in buffers) + sum(map(abs, fixed))
        self._columns = np.empty((4, len(buffers)), dtype=np.int64 if total < 1 << 62 else object)
        planned = sorted(
            (index for index, offset in enumerate(fixed) if offset != ONLINE), key=lambda index: fixed[index]
        )
        for column, (offset, buffer) in enumerate((fixed[index], buffers[index]) for index in planned):
            self._columns[:, column] = offset, offset + buffer.size, buffer.first, buffer.last
        self._count = len(planned)

    def add(self, offset: int, buffer: BufferRequest) -> None:
        at, end = int(np.searchsorted(self._columns[0, : self._count], offset, side="right")), self._count
        self._columns[:, at + 1 : end + 1] = self._columns[:, at:end].copy()
        self._columns[:, at] = offset, offset + buffer.size, buffer.first, buffer.last
        self._count += 1

    def first_gap(self, buffer: BufferRequest) -> int:
        """Return the lowest offset at which a buffer fits between those with overlapping lifetimes."""
        placed = self._columns[:, : self._count]
        starts, ends = placed[:2, (placed[2] <= buffer.last) & (placed[3] >= buffer.first)]
        floors = np.maximum.accumulate(np.concatenate((np.zeros(1, self._columns.dtype), ends)))
        wide = np.flatnonzero(starts - floors[:-1] >= buffer.size)
        return int(floors[wide[0] if len(wide) else -1])


def head_bytes(model: Model) -> int:
    """Return the bytes of head that the runtime needs on a microcontroller. See ``greedy_head``."""
    return greedy_head(model).bytes
