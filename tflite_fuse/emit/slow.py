"""Blocks whose inputs and outputs lie in a slow memory: each pixel is read once, from the first to the last.

Kernels read a pixel once per window and output channel. So a stage first copies inputs in the slow memory, run by run,
into a ring in the fast one: a PAD that adds nothing. Outputs are written once. An output that the block reads itself
is written to a ring, from which such a stage copies it out before a reader continues.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tflite_fuse.emit.block_plan import BlockPlan
from tflite_fuse.emit.in_model import operands_of
from tflite_fuse.errors import LimitError
from tflite_fuse.ir.block import Block, BlockTensor, Stage, StageKind, Storage
from tflite_fuse.ir.program import Program
from tflite_fuse.memory.place.portfolio import place
from tflite_fuse.model.edit import set_metadata
from tflite_fuse.model.memories import MEMORIES_METADATA, Memories, SlowTensors, slow_tensors_entry
from tflite_fuse.model.schema import Model, Operator, SubGraph
from tflite_fuse.model.types import tensor_nbytes


@dataclass(frozen=True)
class Traffic:
    """Bytes that move between the fast and the slow memory in one inference."""

    read: int = 0
    written: int = 0

    @property
    def total(self) -> int:
        """Bytes read and written."""
        return self.read + self.written

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.read + other.read, self.written + other.written)


def can_copy_out(block: Block, output: int) -> bool:
    """Return whether a stage reads an output and advances with it, so that it can wait for a copy."""
    return _first_alike(block, output) is not None


def _first_alike(block: Block, output: int) -> int | None:
    extent = block.tensors[output].height, block.tensors[output].width
    for number, stage in enumerate(block.stages):
        result = block.tensors[stage.output]
        if output in stage.inputs and stage.waits_for < 0 and (result.height, result.width) == extent:
            return number
    return None


def with_copies_out(block: Block, slow: Collection[int]) -> Block:
    """Return a block with those of its slow outputs that it reads in rings, copied out before a reader continues."""
    for output in sorted(set(slow) & set(block.outputs)):
        waiting = _first_alike(block, output)
        if waiting is None:
            continue
        ring, stages = len(block.tensors), list[Stage]()
        for number, stage in enumerate(block.stages):
            inputs = tuple(ring if tensor == output else tensor for tensor in stage.inputs)
            changed = replace(stage, inputs=inputs, waits_for=output if number == waiting else stage.waits_for)
            stages.append(replace(changed, output=ring) if stage.output == output else changed)
            stages += [Stage(StageKind.PAD, (ring,), output)] if stage.output == output else []
        block = replace(block, tensors=(*block.tensors, _ring(block.tensors[output])), stages=tuple(stages))
    return block


def with_copies(block: Block, inputs: Collection[int]) -> Block:
    """Return a block that copies some of its inputs into rings before anything else reads them."""
    if not inputs:
        return block
    rings = {tensor: len(block.tensors) + number for number, tensor in enumerate(sorted(inputs))}
    ring_tensors = (_ring(block.tensors[tensor]) for tensor in rings)
    copies = (Stage(StageKind.PAD, (tensor,), ring) for tensor, ring in rings.items())
    stages = (replace(each, inputs=tuple(rings.get(tensor, tensor) for tensor in each.inputs)) for each in block.stages)
    return replace(block, tensors=(*block.tensors, *ring_tensors), stages=(*copies, *stages))


def _ring(tensor: BlockTensor) -> BlockTensor:
    return replace(tensor, name=f"{tensor.name}/copy", storage=Storage.SCRATCH)


def traffic_of(plan: BlockPlan) -> Traffic:
    """Return the bytes that one inference of a block reads from the slow memory and writes to it."""
    pixels, tensors = plan.schedule.stage_pixels, plan.block.tensors
    read = written = 0
    for stage, count in zip(plan.block.stages, pixels, strict=True):
        read += sum(count * tensors[tensor].pixel_bytes for tensor in stage.inputs if tensor in plan.slow)
        written += count * tensors[stage.output].pixel_bytes if stage.output in plan.slow else 0
    return Traffic(read, written)


def slow_places(program: Program, room: int) -> tuple[dict[int, int], int]:
    """Return where a program's slow tensors lie in their memory, and the bytes they take there.

    Args:
        program: its steps in the order they run.
        room: bytes of the memory.

    Raises:
        LimitError: they do not fit.
    """
    tensors = program.origin[1].tensors
    sizes = (tensor_nbytes(each) if index in program.slow else 0 for index, each in enumerate(tensors))
    placement = place(replace(program, sizes=tuple(sizes), slow=frozenset()))
    if placement.height > room:
        raise LimitError(
            f"the slow memory has {room:,} bytes, and tensors between blocks need {placement.height:,}",
            limit=room,
            reached=placement.height,
        )
    return {tensor: placement.offsets[tensor] for tensor in program.slow}, placement.height


def with_places(plan: BlockPlan, graph: SubGraph, operator: Operator, places: Mapping[int, int]) -> BlockPlan:
    """Return a block with the offsets of its operands in the slow memory.

    Args:
        plan: of the block.
        graph, operator: its subgraph and operator.
        places: of the graph's tensors in the slow memory.
    """
    if not plan.slow:
        return plan
    behind = _behind(plan, graph, operator)
    return replace(plan, slow={each: places[behind[each]] for each in plan.slow})


def _behind(plan: BlockPlan, graph: SubGraph, operator: Operator) -> dict[int, int]:
    """Return the graph's tensor of each input and output of a block."""
    operands, block = operands_of(graph, operator), plan.block
    return dict(zip((*block.inputs, *block.outputs), (*operands.inputs, *operands.outputs), strict=True))


def with_slow_tensors(model: Model, memories: Memories) -> Model:
    """Return a model whose metadata lists the tensors of its blocks, which carry their plans, in the slow memory."""
    offsets = dict[int, int]()
    for operator in model.main.operators:
        if operator.plan is not None and operator.plan.slow:
            behind = _behind(operator.plan, model.main, operator)
            offsets |= {behind[each]: offset for each, offset in operator.plan.slow.items()}
    return set_metadata(model, MEMORIES_METADATA, slow_tensors_entry(SlowTensors(memories, offsets)))
