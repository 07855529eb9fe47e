"""Map of the arena's head over time: tensors, scratch, and the rings inside blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tflite_fuse.cost.schedule.tile_order import ring_bytes
from tflite_fuse.emit.block_plan import BlockPlan
from tflite_fuse.emit.in_model import blocks_in
from tflite_fuse.ir.liveness import length_of_union
from tflite_fuse.memory.tflm.greedy_planner import greedy_head
from tflite_fuse.memory.tflm.head_requests import BufferRequest
from tflite_fuse.model.memories import SlowTensors, slow_bytes, slow_tensors
from tflite_fuse.model.operators import operator_label
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import tensor_nbytes
from tflite_fuse.report.notebook import printable


@dataclass(frozen=True)
class Box:
    """Bytes that are in use for some steps.

    Attributes:
        name: of the tensor, or of the scratch's operator.
        kind: ``tensor``, ``scratch``, or ``ring`` for a part of a block's scratch.
        first, last: steps, both inclusive; −1 is the time before the first operator.
        offset, nbytes: in the head.
    """

    name: str
    kind: str
    first: int
    last: int
    offset: int
    nbytes: int


@dataclass(frozen=True)
class ArenaMap:
    """The head over time, or another memory.

    Attributes:
        steps: names of the operators in execution order.
        head_bytes: its size.
        boxes: its contents; rings come after the scratch that holds them.
        name: of the memory, if there are two.
        second: the slow memory; None if the model uses none.
    """

    steps: tuple[str, ...]
    head_bytes: int
    boxes: tuple[Box, ...]
    name: str = ""
    second: ArenaMap | None = None

    def used_bytes(self) -> list[int]:
        """Return the bytes in use at each step, beginning with the time before the first; shared bytes count once."""
        used: list[list[tuple[int, int]]] = [[] for _ in range(len(self.steps) + 1)]
        for box in self.boxes:
            for step in range(box.first + 1, box.last + 2 if box.kind != "ring" else 0):
                used[step].append((box.offset, box.offset + box.nbytes))
        return list(map(length_of_union, used))


def arena_map(model: Model) -> ArenaMap:
    """Return the head as the runtime's planner lays it out, with the file's offsets.

    Steps are operators of the first subgraph; other subgraphs run in the step that calls them.

    Raises:
        PlanError: the runtime refuses the file's plan.
        ModelError: a dynamic shape, or a damaged block.
    """
    head = greedy_head(model)
    count = len(model.main.operators)
    labels = tuple(printable(operator_label(model, index)) for index in range(count))
    placed = [
        (buffer, offset) for buffer, offset in zip(head.buffers, head.offsets, strict=True) if _shown(buffer, count)
    ]
    blocks = blocks_in(model)
    owners = {(model.main.operators[index].outputs or (-1,))[-1]: index for index in blocks}
    boxes = [_box(model, labels, buffer, offset, owners) for buffer, offset in placed]
    at = {buffer.tensor: offset for buffer, offset in placed if buffer.tensor is not None}
    slow = slow_tensors(model)
    fast, second = ("", None) if slow is None else (slow.memories.fast.name, _second(model, labels, slow))
    return ArenaMap(labels, head.bytes, (*boxes, *_rings(model, blocks, at)), fast, second)


def _second(model: Model, labels: tuple[str, ...], slow: SlowTensors) -> ArenaMap:
    """Return the slow memory: inputs lie there from the start, outputs to the end."""
    graph, end, boxes = model.main, len(labels) - 1, list[Box]()
    for tensor, offset in sorted(slow.offsets.items()):
        users = [step for step, op in enumerate(graph.operators) if tensor in (*(op.inputs or ()), *(op.outputs or ()))]
        first, last = min(users, default=-1), max(users, default=end)
        first, last = -1 if tensor in graph.inputs else first, end if tensor in graph.outputs else last
        name = printable(graph.tensors[tensor].name or f"tensor {tensor}")
        boxes.append(Box(name, "tensor", first, last, offset, tensor_nbytes(graph.tensors[tensor])))
    return ArenaMap(labels, slow_bytes(model), tuple(boxes), slow.memories.slow.name)


def _shown(buffer: BufferRequest, count: int) -> bool:
    return buffer.subgraph == 0 and buffer.first >= 0 and buffer.first <= count


def _box(model: Model, labels: tuple[str, ...], buffer: BufferRequest, offset: int, owners: Mapping[int, int]) -> Box:
    """Return the box of a buffer.

    Args:
        owners: scratch tensors of blocks → their operators.
    """
    last = min(buffer.last, len(labels)) - 1
    owner = buffer.operator if buffer.tensor is None else owners.get(buffer.tensor)
    if owner is not None:
        return Box(f"scratch of {labels[owner]}", "scratch", buffer.first - 1, last, offset, buffer.size)
    name = model.main.tensors[buffer.tensor or 0].name or f"tensor {buffer.tensor}"
    return Box(printable(name), "tensor", buffer.first - 1, last, offset, buffer.size)


def _rings(model: Model, blocks: Mapping[int, BlockPlan], at: Mapping[int, int]) -> Iterator[Box]:
    """Yield the rings inside the scratch tensors of blocks, those of two tensors once."""
    for index, plan in blocks.items():
        scratch = (model.main.operators[index].outputs or (-1,))[-1]
        if scratch not in at:
            continue
        shared = {stage.overwrites for stage in plan.block.stages}
        for number, (tensor, offset, pixels) in enumerate(
            zip(plan.block.tensors, plan.schedule.offsets, plan.schedule.capacities, strict=True)
        ):
            if offset >= 0 and number not in shared:
                size = int(ring_bytes(pixels, tensor.pixel_bytes))
                name = f"{printable(tensor.name)}: {pixels:,} of {tensor.pixels:,} pixels of {tensor.channels} channels"
                yield Box(name, "ring", index, index, at[scratch] + offset, size)
