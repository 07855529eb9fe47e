"""A worker's task as blocks of the device library.

A task's steps become one fused block where possible, with inner values as rings. A value that is read in parts (the
skip of a residual needs fewer rows than the window beside it), or that leaves the task, is stored in memory, and a new
block begins behind it. A step of several boxes is one block for each box.

A thrifty task's blocks run in strips of columns, or in runs of few pixels: their rings are shorter, and columns at the
borders of strips are computed twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tflite_fuse.emit.block_plan import BlockPlan
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockConfig, BlockTensor, Stage, Storage
from tflite_fuse.split.cut.network import Network
from tflite_fuse.split.cut.pieces import Piece, pieces_of
from tflite_fuse.split.cut.plan import Task
from tflite_fuse.split.cut.regions import Box

CHUNK = 4
"""Pixels of a run."""

WHOLE = 65535
"""Rows and columns of a tile that covers any tensor."""

_WIDE = 16
"""Columns from which on strips save more RAM than short runs for the same work."""

_THRIFT = (((2, 4), (4, 4), (8, 2)), ((1, 2), (2, 2), (2, 1)))
"""(number of strips, pixels of a run) by thrift - 1, for wide tensors and for narrow ones."""


@dataclass(frozen=True)
class Part:
    """Consecutive pieces of a task that run as one block.

    Attributes:
        pieces: in order.
        inputs: (value, box) that the block reads; a value appears twice if two parts of it are read.
        outputs: (value, box) that it writes to memory.
        plan: the block and its schedule.
    """

    pieces: tuple[Piece, ...]
    inputs: tuple[tuple[int, Box], ...]
    outputs: tuple[tuple[int, Box], ...]
    plan: BlockPlan


Plans = dict[object, BlockPlan]
"""Blocks by their computation, independent of the position: inner workers of a split by rows share them."""


def task_parts(network: Network, task: Task, plans: Plans) -> tuple[Part, ...]:
    """Return the blocks of a task in order, without operators that have no stage; ``plans`` holds known blocks.

    Raises:
        BlockError: a piece cannot be a block.
    """
    parts: list[Part] = []
    kept = _in_memory(network, task)
    while crossing := _crossing(runs := list(_runs(network, task, kept))) - kept:
        kept |= crossing
    for run in runs:
        try:
            part = _part(run, kept, plans, task.thrift)
            _ = part.plan.schedule
            parts.append(part)
        except BlockError:
            if len(run) == 1:
                raise
            parts += [_part([piece], {piece.writes[0]}, plans, task.thrift) for piece in run]
    return tuple(parts)


def _in_memory(network: Network, task: Task) -> set[int]:
    """Return the values of a task that are not inside blocks."""
    left = {value for value, _ in task.owned}
    written = {
        network.nodes[step.node].outputs[0]: step.region for step in task.steps if network.nodes[step.node].stage
    }
    for step in task.steps:
        if network.nodes[step.node].stage is None:
            left.update(network.nodes[step.node].inputs)
            continue
        for piece in pieces_of(network, step.node, step.region):
            left.update(value for value, box in piece.reads if value in written and written[value] != (box,))
    left.update(value for value, region in written.items() if len(region) > 1)
    return left


def _crossing(runs: Sequence[Sequence[Piece]]) -> set[int]:
    """Return the values that one run of pieces writes and a later one reads."""
    crossing, written = set[int](), set[int]()
    for run in runs:
        inside = {piece.writes[0] for piece in run}
        crossing |= {value for piece in run for value, _ in piece.reads} & (written - inside)
        written |= inside
    return crossing


def _runs(network: Network, task: Task, kept: set[int]) -> Iterator[list[Piece]]:
    """Yield the task's pieces, cut behind every value in memory."""
    run = list[Piece]()
    for step in task.steps:
        pieces = pieces_of(network, step.node, step.region) if network.nodes[step.node].stage else ()
        if len(pieces) != 1:
            yield from ([run] if run else [])
            yield from ([piece] for piece in pieces)
            run = []
            continue
        run.append(pieces[0])
        if pieces[0].writes[0] in kept:
            yield run
            run = []
    if run:
        yield run


def _part(pieces: Sequence[Piece], kept: set[int], plans: Plans, thrift: int) -> Part:
    """Return pieces as a block: each is a stage, ``kept`` values are outputs, and parts from elsewhere are inputs."""
    tensors: list[BlockTensor] = []
    inputs: list[tuple[int, Box]] = []
    outputs: list[tuple[int, Box]] = []
    place: dict[tuple[int, Box], int] = {}
    stages: list[Stage] = []
    for piece in pieces:
        for (value, box), tensor in zip(piece.reads, piece.tensors, strict=False):
            if (value, box) not in place:
                place[value, box] = len(tensors)
                tensors.append(replace(tensor, storage=Storage.INPUT))
                inputs.append((value, box))
        storage = Storage.OUTPUT if piece.writes[0] in kept else Storage.SCRATCH
        place[piece.writes] = len(tensors)
        tensors.append(replace(piece.tensors[-1], storage=storage))
        if storage is Storage.OUTPUT:
            outputs.append(piece.writes)
        reads = tuple(place[read] for read in piece.reads)
        stages.append(replace(piece.stage, inputs=reads, output=place[piece.writes]))
    numbers = [tuple(i for i, tensor in enumerate(tensors) if tensor.storage is each) for each in _OPERANDS]
    key = tuple(_likeness(piece, stage, tensors) for piece, stage in zip(pieces, stages, strict=True))
    if (0, key) not in plans:
        block = Block(tuple(tensors), tuple(stages), *numbers)
        plans[0, key] = BlockPlan(block, BlockConfig(WHOLE, WHOLE, CHUNK))
    if (thrift, key) not in plans:
        plans[thrift, key] = _thriftier(plans[0, key], thrift)
    return Part(tuple(pieces), tuple(inputs), tuple(outputs), plans[thrift, key])


def _thriftier(quick: BlockPlan, thrift: int) -> BlockPlan:
    """Return the block with less RAM, if thrift saves any."""
    block = quick.block
    if len(block.stages) == 1:
        return quick
    width = block.tensors[quick.schedule.driven].width
    strips, chunk = _THRIFT[width < _WIDE][thrift - 1]
    thrifty = BlockPlan(block, BlockConfig(WHOLE, -(-width // strips), chunk))
    return min(quick, thrifty, key=_room)


def _room(plan: BlockPlan) -> int:
    """Return the bytes of a block with its inputs and outputs, if all its inputs die there."""
    block, schedule = plan.block, plan.schedule

    def size(index: int) -> int:
        tensor = block.tensors[index]
        return tensor.height * tensor.width * tensor.channels

    together = sum(map(size, (*block.inputs, *block.outputs)))
    saved = (
        size(source) + size(target) - max(size(target), size(source) + max(0, distance))
        for (source, target), distance in schedule.overlaps.items()
    )
    return schedule.scratch_bytes + together - max(0, max(saved, default=0))


def _likeness(piece: Piece, stage: Stage, tensors: Sequence[BlockTensor]) -> object:
    """Return a key that is equal for stages of blocks with the same computation."""
    channels = piece.writes[1].channels, *(box.channels for _, box in piece.reads)
    extents = [tensors[index] for index in (*stage.inputs, stage.output)]
    shapes = tuple((each.height, each.width, each.channels, each.storage) for each in extents)
    return piece.node, stage.inputs, stage.output, stage.padding, channels, shapes


_OPERANDS = (Storage.INPUT, Storage.OUTPUT)
