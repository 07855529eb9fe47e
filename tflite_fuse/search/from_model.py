"""A model with costs for fusion: its first subgraph's operators and arena tensors, with the model's indices."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

from tflite_fuse.cost.priced_program import PricedProgram, PricedStep, SeenShape
from tflite_fuse.emit.in_model import executed_macs
from tflite_fuse.ir.block import BlockTensor, StageKind
from tflite_fuse.ir.program import Program, program_of
from tflite_fuse.ir.tail_shares import TailShares
from tflite_fuse.memory.tflm.tail_by_operator import tail_shares
from tflite_fuse.model.schema import Model
from tflite_fuse.ops.kinds.state import MARK_BYTES
from tflite_fuse.ops.lowering.lower import Lowerings, absorb, lower_model
from tflite_fuse.ops.lowering.operands import Activation, Shape
from tflite_fuse.ops.lowering.view import Lowered
from tflite_fuse.units import round_up


def graph_from_model(
    model: Model, lowered: Lowerings | None = None, macs: Sequence[int] | None = None, moved: Collection[int] = ()
) -> PricedProgram:
    """Return a model with the costs of its operators, in MACs and bytes.

    Args:
        model: any model.
        lowered, macs: ``lower_model`` and ``executed_macs`` of it, if already computed.
        moved: inputs that blocks read from outside the arena.

    Raises:
        ModelError: an arena tensor has a dynamic shape, or a fused block of the model is damaged.
    """
    memory = program_of(model)
    lowered = lower_model(model) if lowered is None else lowered
    macs = executed_macs(model) if macs is None else macs
    steps = tuple(_priced(memory, lowered, index, macs[index]) for index in range(len(memory.steps)))
    return PricedProgram(
        sizes=memory.sizes,
        steps=steps,
        inputs=(*memory.inputs, *memory.resident),
        outputs=(*memory.outputs, *memory.resident),
        names=memory.names,
        file=memory.file,
        graph=memory.graph,
        tensors=_extents(memory, lowered),
        tail=_with_states(tail_shares(memory, moved=moved), lowered),
    )


def _with_states(tail: TailShares, lowered: Sequence[Lowered | str]) -> TailShares:
    """Return the shares with the bytes of states, which are in the arena with any choice of blocks."""
    stages = ((each.stage, each.output_shape) for each in lowered if not isinstance(each, str))
    kept = [prod(shape) for stage, shape in stages if stage is not None and stage.kind is StageKind.STATE]
    return replace(tail, fixed=tail.fixed + sum(round_up(MARK_BYTES + nbytes, MARK_BYTES) for nbytes in kept))


MOST_PIXELS = 1 << 20
"""Largest number of pixels of a map for which blocks are searched, because schedules are simulated pixel by pixel. A
camera image of 640 x 480 has a third of it.
"""


def _priced(memory: Program, lowered: Sequence[Lowered | str], index: int, macs: int) -> PricedStep:
    """Return an operator as a step of the graph that is searched, with the reason where no block can hold it."""
    operator, result = memory.steps[index], lowered[index]
    ends = operator.inputs, operator.outputs
    if isinstance(result, str):
        return PricedStep(operator.name, *ends, work=macs, reason=result)
    shapes = (_written(result), *map(result.seen, result.inputs))
    if any(height * width > MOST_PIXELS for height, width, _ in shapes):
        reason = f"it works on a map of more than {MOST_PIXELS:,} pixels"
        return PricedStep(operator.name, *ends, work=macs, reason=reason)
    if result.stage is None:
        return PricedStep(operator.name, *ends, work=macs, view=True)
    absorbed = result.inner or _is_absorbed(memory, lowered, result)
    unit = (result.unit[0], result.unit[-1]) if result.unit else None
    stage = result.table or result.stage
    return PricedStep(
        operator.name,
        *ends,
        work=macs,
        stage=stage,
        absorbed=absorbed,
        unit=unit,
        in_one_tile=result.passed_over,
        seen_shapes=tuple(SeenShape(source.index, result.seen(source), result.fit) for source in result.inputs),
    )


def _is_absorbed(memory: Program, lowered: Sequence[Lowered | str], result: Lowered) -> bool:
    """Return whether all readers of an operator's output can absorb it."""
    tensor = result.output.index
    readers = [reader for reader, op in zip(lowered, memory.steps, strict=True) if tensor in op.inputs]
    absorbing = [not isinstance(reader, str) and absorb(result, reader) is not None for reader in readers]
    return bool(absorbing) and all(absorbing) and tensor not in memory.outputs


def _extents(memory: Program, lowered: Sequence[Lowered | str]) -> tuple[BlockTensor, ...]:
    """Return height, width and channels of every tensor; a single pixel for tensors that no block contains."""
    tensors = [BlockTensor(name, 1, 1, 0, 0) for name in memory.names]
    entries = [each for each in lowered if not isinstance(each, str)]
    stages = [each for each in entries if each.stage is not None]
    views = [each for each in entries if each.stage is None]
    for result in (*views, *stages):
        for source in result.inputs:
            tensors[source.index] = _extent(source, result.seen(source))
        if result.stage is None:
            tensors[result.output.index] = _extent(result.output, _written(result))
    for result in stages:
        tensors[result.output.index] = _extent(result.output, _written(result))
    return tuple(tensors)


def _written(result: Lowered) -> Shape:
    return result.output.flattened if result.stage is None else result.output_shape


def _extent(activation: Activation, shape: Shape) -> BlockTensor:
    return BlockTensor(activation.name, *shape, zero_point=0, element_type=activation.element_type)
