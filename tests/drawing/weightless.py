"""Blocks of a layer graph without weights, sufficient for the exact schedule."""

from __future__ import annotations

from dataclasses import replace

from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.cost.schedule.early_branches import with_early_branches
from tflite_fuse.cost.schedule.in_place import with_stages_in_place
from tflite_fuse.cost.schedule.schedule import Schedule, schedule
from tflite_fuse.ir.block import Block, BlockConfig, Stage, StageKind, Storage


def block_of(graph: PricedProgram, first: int, last: int, moved: Storage = Storage.INPUT) -> Block:
    """Layers first … last as a block: views left out, absorbed PADs done by their readers.

    ``moved`` says where the first network input is: INPUT, EXTERNAL, or SCRATCH if streamed (it gets a SOURCE stage).
    """
    roots: dict[int, int] = {}
    shifts: dict[int, tuple[int, int]] = {}
    stages: list[Stage] = []
    inside = range(first, last + 1)
    for index in inside:
        layer = graph.steps[index]
        source, output = layer.inputs[0], layer.outputs[0]
        readers = graph.consumers[output]
        if layer.view or (layer.absorbed and readers and readers[-1] <= last):
            roots[output] = roots.get(source, source)
            padding = (0, 0) if layer.stage is None else layer.stage.padding
            shifts[output] = padding
            continue
        assert layer.stage is not None
        stage = layer.stage
        more = shifts.get(source, (0, 0))
        padding = (stage.padding[0] + more[0], stage.padding[1] + more[1])
        stages.append(replace(stage, inputs=tuple(roots.get(t, t) for t in stage.inputs), padding=padding))
    written = {stage.output for stage in stages}
    used = _used(stages)
    leaves = {roots.get(t, t) for index in inside for t in graph.steps[index].outputs if _leaves(graph, t, last)}
    number = {tensor: position for position, tensor in enumerate(used)}

    def storage(tensor: int) -> Storage:
        if tensor not in written:
            return moved if tensor == graph.inputs[0] else Storage.INPUT
        return Storage.OUTPUT if tensor in leaves else Storage.SCRATCH

    if moved is Storage.SCRATCH:
        stages[:0] = [Stage(StageKind.SOURCE, (), tensor) for tensor in used if tensor == graph.inputs[0]]
    return Block(
        tensors=tuple(replace(graph.tensors[tensor], storage=storage(tensor)) for tensor in used),
        stages=tuple(
            replace(s, inputs=tuple(number[tensor] for tensor in s.inputs), output=number[s.output]) for s in stages
        ),
        inputs=tuple(number[tensor] for tensor in used if storage(tensor) is Storage.INPUT),
        outputs=tuple(number[tensor] for tensor in used if storage(tensor) is Storage.OUTPUT),
    )


def operands(graph: PricedProgram, first: int, last: int) -> list[int]:
    """The graph's tensors behind a block's, in its order (graphs without views and absorbed PADs)."""
    return _used([stage for stage in (layer.stage for layer in graph.steps[first : last + 1]) if stage is not None])


def _used(stages: list[Stage]) -> list[int]:
    return sorted({tensor for stage in stages for tensor in (*stage.inputs, stage.output)})


def _leaves(graph: PricedProgram, tensor: int, last: int) -> bool:
    readers = graph.consumers[tensor]
    return tensor in graph.outputs or not readers or readers[-1] > last


def early(block: Block, config: BlockConfig) -> tuple[Block, Schedule]:
    """The block as it is made, with its schedule: stages in place, and those branches early that shrink its scratch."""
    made = with_early_branches(with_stages_in_place(block), config)
    return made, schedule(made, config)


def scheduled(block: Block, config: BlockConfig) -> Schedule:
    """The schedule with which a block is made."""
    return early(block, config)[1]
