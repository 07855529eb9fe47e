"""The fused blocks of a model, with their overlaps, work and inputs outside the arena.

An operator made by a pass has its plan attached; blocks from a file are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace

from tflite_fuse.cost.schedule.schedule import Schedule
from tflite_fuse.emit.block_plan import BlockPlan
from tflite_fuse.emit.decode import decode
from tflite_fuse.errors import BlockError, ModelError
from tflite_fuse.ir.program import CUSTOM_CODE, FUSED_OPERATOR, Overlap, Program, arena_tensors
from tflite_fuse.model.edit import replace_operators
from tflite_fuse.model.file import Source, load_model
from tflite_fuse.model.macs import operator_macs
from tflite_fuse.model.operators import operator_label, operator_name
from tflite_fuse.model.outside import InputMode
from tflite_fuse.model.schema import Model, Operator, SubGraph
from tflite_fuse.model.types import tensor_nbytes


@dataclass(frozen=True)
class Operands:
    """Tensors of a fused block's operator.

    Attributes:
        inputs: inputs of the block.
        last: variable of the model's last block with a variable, if that is another block; else empty.
        state: variable of the block, or empty.
        constants, scratch: constant tensor and scratch tensor of the block.
        outputs: outputs of the block.
    """

    inputs: tuple[int, ...]
    last: tuple[int, ...]
    state: tuple[int, ...]
    constants: int
    outputs: tuple[int, ...]
    scratch: int


def operands_of(graph: SubGraph, operator: Operator) -> Operands:
    """Return the operands of a fused block. Raises ModelError if constants or scratch are missing."""
    if not operator.inputs or not operator.outputs:
        raise ModelError("A fused block has no constants or no scratch memory.")
    *inputs, constants = operator.inputs
    *outputs, scratch = operator.outputs
    own = list[int]()
    while inputs and len(own) < 2 and inputs[-1] >= 0 and graph.tensors[inputs[-1]].is_variable:
        own.insert(0, inputs.pop())
    return Operands(tuple(inputs), tuple(own[:-1]), tuple(own[-1:]), constants, tuple(outputs), scratch)


def load_with_plans(source: Source, name: str) -> Model:
    """Return a checked model with the plan of every fused block attached to its operator.

    Raises:
        UsageError: the path cannot be read.
        ModelError: the file or a block in it is damaged; the message begins with ``name``.
    """
    model = load_model(source, name)
    try:
        return with_plans(model)
    except ModelError as error:
        raise ModelError(f"{name}: {error}") from error


def with_plans(model: Model) -> Model:
    """Return the model with the plan of every fused block attached to its operator, so each is decoded only once.

    Raises:
        ModelError: a block is damaged, or two read one source; the message names the operators.
    """
    plans = blocks_in(model)
    if all(model.main.operators[index].plan is plan for index, plan in plans.items()):
        return model
    operators = enumerate(model.main.operators)
    return replace_operators(model, [replace(each, plan=plans.get(index)) for index, each in operators])


def blocks_in(model: Model) -> dict[int, BlockPlan]:
    """Return the fused blocks of the first subgraph by operator index.

    Operators with a plan are not decoded.

    Raises:
        ModelError: a block is damaged, or two read one source; the message names the operators.
    """
    blocks = dict[int, BlockPlan]()
    readers = dict[int, int]()
    for index, operator in enumerate(model.main.operators):
        if operator_name(model, operator) != FUSED_OPERATOR:
            continue
        blocks[index] = operator.plan or _decoded(model, index)
        for number in _sources(blocks[index]):
            if (first := readers.setdefault(number, index)) != index:
                both = f"{operator_label(model, first)} and {operator_label(model, index)}"
                raise ModelError(f"{both} both read source {number}, which delivers its image only once.")
    return blocks


def _decoded(model: Model, index: int) -> BlockPlan:
    operator = model.main.operators[index]
    inputs = [tensor for tensor in operator.inputs or () if tensor >= 0]
    data = model.buffers[model.main.tensors[inputs[-1]].buffer].data if inputs else None
    try:
        decoded = decode(operator.custom_options or b"", data or b"")
    except BlockError as error:
        raise ModelError(f"{operator_label(model, index)} is not a valid fused block: {error}") from error
    plan = BlockPlan(decoded.block, decoded.config, decoded.outside, decoded.slow)
    read, written = _operands(model.main, index, plan)
    for inside, tensor in (read | written).items():
        described, used = model.main.tensors[tensor], plan.block.tensors[inside].nbytes
        if tensor_nbytes(described) != used:
            raise ModelError(
                f"{operator_label(model, index)} uses {used:,} bytes of tensor {described.name}, which has "
                f"{tensor_nbytes(described):,}"
            )
    return plan


def _sources(plan: BlockPlan) -> list[int]:
    """Return the numbers of the sources that a block reads."""
    return [number for index, number in plan.outside.items() if index in plan.block.sourced]


def outside_reads(model: Model) -> dict[int, tuple[InputMode, int]]:
    """Return the mode and the bytes of each tensor that the fused blocks read from outside the arena, by number.

    Raises:
        ModelError: a block is damaged; the message names the operator.
    """
    reads: dict[int, tuple[InputMode, int]] = {}
    for plan in blocks_in(model).values():
        sources = _sources(plan)
        for index, number in plan.outside.items():
            mode = InputMode.STREAMED if number in sources else InputMode.EXTERNAL
            reads[number] = mode, plan.block.tensors[index].nbytes
    return reads


def executed_macs(model: Model) -> tuple[int, ...]:
    """Return the multiply-accumulates of one inference for each operator of the first subgraph.

    Fused blocks count with everything that they recompute.

    Raises:
        ModelError: a block is damaged; the message names the operator.
    """
    macs = list(operator_macs(model))
    for index, _, planned in _schedules(blocks_in(model)):
        macs[index] = planned.macs
    return tuple(macs)


def block_overlaps(model: Model) -> tuple[Overlap, ...]:
    """Return the permitted overlaps of outputs and scratch with inputs, for the first subgraph's blocks.

    The distances are computed from the blocks' options, not read from the file.

    Raises:
        ModelError: a block is damaged; the message names the operator.
    """
    return _overlaps(model.main, blocks_in(model), arena_tensors(model, model.main))


def program_overlaps(program: Program) -> tuple[Overlap, ...]:
    """Return the permitted overlaps of a program's blocks, which have their plans attached.

    Raises:
        ModelError: a block cannot be run; the message names the operator.
    """
    graph = program.origin[1]
    plans = {index: each.plan for index, each in enumerate(graph.operators) if each.plan is not None}
    return _overlaps(graph, plans, {tensor for step in program.steps for tensor in step.inputs})


def _overlaps(graph: SubGraph, plans: Mapping[int, BlockPlan], arena: Set[int]) -> tuple[Overlap, ...]:
    """Return the overlaps of blocks whose inputs are in the arena; others are constants."""
    distances: dict[tuple[int, int], int] = {}
    for index, plan, planned in _schedules(plans):
        inputs, outputs = _operands(graph, index, plan)
        for (source, target), distance in planned.overlaps.items():
            pair = inputs[source], outputs[target]
            if pair[0] in arena:  # One tensor may be several inputs of a block: the largest distance counts.
                distances[pair] = max(distance, distances.get(pair, distance))
        distances |= _scratch_overlaps(graph, index, plan, inputs)
    return tuple(Overlap(source, target, distance) for (source, target), distance in distances.items())


def _scratch_overlaps(
    graph: SubGraph, index: int, plan: BlockPlan, inputs: Mapping[int, int]
) -> dict[tuple[int, int], int]:
    """Return the bytes by which a block's scratch must lie below the model's inputs that it may overlap.

    Tensors of other blocks are excluded: they lie as low as possible, so there is no room below them, and testing them
    would take most of the time.
    """
    sources = [source for source, tensor in inputs.items() if tensor in graph.inputs]
    if not sources:
        return {}
    scratch, over = operands_of(graph, graph.operators[index]).scratch, dict[int, int]()
    for source in sources:
        distance = plan.scratch_distances[source]
        over[inputs[source]] = max(distance, over.get(inputs[source], distance))
    return {(tensor, scratch): far for tensor, far in over.items() if far < plan.schedule.scratch_bytes}


def _schedules(plans: Mapping[int, BlockPlan]) -> Iterator[tuple[int, BlockPlan, Schedule]]:
    for index, plan in plans.items():
        try:
            yield index, plan, plan.schedule
        except BlockError as error:
            raise ModelError(f"{_label(index)} cannot be run: {error}") from error


def _operands(graph: SubGraph, index: int, plan: BlockPlan) -> tuple[dict[int, int], dict[int, int]]:
    """Return the model's tensors of the block's inputs and of its outputs, by the block's tensor index."""
    operands, block = operands_of(graph, graph.operators[index]), plan.block
    inputs, outputs = operands.inputs, operands.outputs
    if (len(inputs), len(outputs)) != (len(block.inputs), len(block.outputs)):
        raise ModelError(
            f"{_label(index)} has {len(inputs)} inputs and {len(outputs)} outputs beside constants and "
            f"scratch; its options declare {len(block.inputs)} and {len(block.outputs)}"
        )
    return dict(zip(block.inputs, inputs, strict=True)), dict(zip(block.outputs, outputs, strict=True))


def _label(index: int) -> str:
    return f"{CUSTOM_CODE}_{index}"
