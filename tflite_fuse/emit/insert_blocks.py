"""Fused blocks in a model: operators replaced by custom operators, and states that advance together.

Each block becomes one custom operator with a constant tensor and a scratch tensor. ``with_lone_blocks`` also makes
blocks of single operators, so the device library runs a model of which TFLM ran parts.

TensorFlow Lite Micro calls operators one by one and does not report failures of the others to them. So a block with a
state commits its step at the beginning of the next one, if the number of the *last* block has changed since. The last
block is the last one that keeps a state or reads from outside the arena, because only such reads can fail in one
inference and succeed in another. Its variable is an additional input of the other blocks; if it keeps no state, the
variable is a counter of four bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tflite_fuse.cost.schedule.early_branches import with_early_branches
from tflite_fuse.cost.schedule.in_place import with_stages_in_place
from tflite_fuse.cost.schedule.tiles import Tiles, split_block
from tflite_fuse.emit.block_plan import BlockPlan
from tflite_fuse.emit.in_model import executed_macs, operands_of
from tflite_fuse.emit.options import described
from tflite_fuse.emit.outside import OutsideExtraction, input_name, lowerings_for, move_outside
from tflite_fuse.emit.slow import (
    can_copy_out,
    slow_places,
    with_copies,
    with_copies_out,
    with_places,
    with_slow_tensors,
)
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockChoice, BlockConfig
from tflite_fuse.ir.program import CUSTOM_CODE, FUSED_OPERATOR, Program, Step, arena_tensors, program_of
from tflite_fuse.model.edit import add_buffer, add_operator_code, prune, replace_main
from tflite_fuse.model.memories import Memories
from tflite_fuse.model.operators import operator_label, operator_name, place_label
from tflite_fuse.model.outside import InputMode, forget_in_signatures, outside_numbers, take_inputs_out
from tflite_fuse.model.schema import Buffer, Model, Operator, SubGraph, Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.kinds.state import MARK_BYTES, state_offsets
from tflite_fuse.ops.lowering.extract import Extraction, extract
from tflite_fuse.ops.lowering.lower import Lowerings, lower_model
from tflite_fuse.ops.lowering.operands import Shape, tensor_name

Chosen = tuple[Sequence[int], OutsideExtraction]
"""A block to insert: the operators it replaces, and their extraction."""


def kept_bytes(model: Model, blocks: Sequence[Chosen]) -> list[int]:
    """Return the bytes of each block's variable (0 for none), before the blocks are ordered.

    Blocks include a step number in their variable if several have one.
    """
    earlier = _variables(model)
    keeping = {i for operators, each in blocks if each.extraction.block.keeps_state for i in operators} | set(earlier)
    counts = [bool(keeping) and _may_be_last(model, each, keeping) for each in blocks]
    several = len(earlier) + sum(counts) + sum(each.extraction.block.keeps_state for _, each in blocks) > 1
    sizes = [state_offsets(each.extraction.block.tensors)[1] for _, each in blocks]
    return [
        MARK_BYTES if counted else size + (MARK_BYTES if several and size else 0)
        for counted, size in zip(counts, sizes, strict=True)
    ]


def with_last_variable(model: Model, new: Collection[int]) -> Model:
    """Return the model with the last block's variable as an input of the other new blocks, without unneeded counters.

    Args:
        model: a model with its operators in their final order.
        new: indices of the new blocks.
    """
    variables = _variables(model)
    if not variables:
        return model
    last = max(variables)
    idle = {index for index in new if index in variables and index != last and _counts(model, variables[index])}
    operators, tensors = list(model.main.operators), list(model.main.tensors)
    for index in set(variables).intersection(new):
        *inputs, state, constants = operators[index].inputs or ()
        if index in idle:
            operators[index] = replace(operators[index], inputs=(*inputs, constants))
        elif index != last:
            operators[index] = replace(operators[index], inputs=(*inputs, *variables[last], state, constants))
        elif idle and len(variables) - len(idle) == 1:
            tensors[state] = replace(tensors[state], shape=(tensors[state].dims[0] - MARK_BYTES,))
    model = replace_main(model, replace(model.main, operators=tuple(operators), tensors=tuple(tensors)))
    return prune(model) if idle else model


def _may_be_last(model: Model, block: Chosen, keeping: Collection[int]) -> bool:
    """Return whether a block without a state reads from outside, and may run behind all operators with a state."""
    replaced, extracted = block
    if extracted.extraction.block.keeps_state or not extracted.outside:
        return False
    operators, reached = model.main.operators, set(extracted.extraction.outputs)
    for index in range(min(replaced) + 1, len(operators)):
        if reached.intersection(operators[index].inputs or ()):
            if index in keeping:
                return False
            reached.update(operators[index].outputs or ())
    return True


def _variables(model: Model) -> dict[int, tuple[int, ...]]:
    """Return the variables of blocks by operator."""
    operators = model.main.operators
    fused = [i for i, operator in enumerate(operators) if operator_name(model, operator) == FUSED_OPERATOR]
    return {i: operands.state for i in fused if (operands := operands_of(model.main, operators[i])).state}


def _counts(model: Model, variable: Sequence[int]) -> bool:
    """Return whether a variable is only a counter: rings and memories have bytes behind their number."""
    return all(model.main.tensors[tensor].dims == (MARK_BYTES,) for tensor in variable)


_NO_CONSTANTS = bytes(1)
"""Constants of blocks in a program without bytes: an empty tensor would be an activation."""


@dataclass(frozen=True)
class InsertedBlock:
    """A block in the rewritten model.

    Attributes:
        choice: the block requested, extended by the operators that only rename its outputs.
        place: index of the operator that it replaces in the order: the last one requested.
        extraction: the block, and the model's tensors that are operands of the operator.
        outside: for each input that the block reads from outside the arena, its tensor → the model's.
        plan: its schedule.
        labels: labels of the replaced operators.
        writes: names of the first outputs of these operators.
        input, output: names of its first input, inside or outside the arena, and of its first output.
        extra_macs: multiply-accumulates that it executes beyond those of the replaced operators.
    """

    choice: BlockChoice
    place: int
    extraction: Extraction
    outside: Mapping[int, int]
    plan: BlockPlan
    labels: tuple[str, ...]
    writes: tuple[str, ...]
    input: str
    output: str
    extra_macs: int


def insert_blocks(
    model: Model, choices: Sequence[BlockChoice], mode: InputMode = InputMode.RESIDENT, moved: Sequence[int] = ()
) -> tuple[Model, tuple[InsertedBlock, ...]]:
    """Return the model with each choice's operators replaced by one custom operator, without unused parts.

    ``BlockMaker`` does the same for many sets of choices.

    Raises:
        BlockError: a choice cannot be one operator, or the blocks cannot read a moved input.
        ModelError: an operator outside the blocks reads a moved input.
    """
    maker = BlockMaker(model, mode, moved)
    program, inserted = maker.program(choices)
    return maker.emit(program, inserted), inserted


class BlockMaker:
    """Builder of a model's blocks; each block is made once and shared by all candidates that contain it.

    The operators of a choice can run one after the other. The custom operator reads the block's inputs and one constant
    tensor (weights, biases, tables). It writes the block's outputs and a scratch tensor without readers, which any
    arena planner places like other tensors.

    A candidate is a ``Program`` whose blocks have plans, but neither options nor constants. Its arena and its work
    follow from sizes and schedules. ``emit`` returns its model.
    """

    def __init__(
        self,
        model: Model,
        mode: InputMode = InputMode.RESIDENT,
        moved: Sequence[int] = (),
        lowerings: Lowerings | None = None,
        memories: Memories | None = None,
    ) -> None:
        """Start from a model without an offline memory plan, because tensor indices change.

        Args:
            model: the model to rewrite.
            mode: place of the inputs ``moved`` in the rewritten model.
            moved: tensors among the model's inputs. Unless resident they leave the model, and its metadata describes
                them.
            lowerings: ``lower_model`` of the model, if already computed.
            memories: the fast and the slow memory, if there are two.
        """
        self.model, self.mode, self.memories = model, mode, memories
        self.moved = () if mode is InputMode.RESIDENT else tuple(moved)
        self.lowerings = lowerings_for(model, mode) if lowerings is None else lowerings
        self.macs = executed_macs(model)
        self._numbers = outside_numbers(model, self.moved)
        self._tiled: dict[
            tuple[tuple[int, ...], tuple[int, int], frozenset[int]], tuple[OutsideExtraction, dict[int, int]]
        ] = {}
        self._built: dict[tuple[tuple[int, ...], BlockConfig, frozenset[int]], tuple[OutsideExtraction, BlockPlan]] = {}
        file, self._code = add_operator_code(forget_in_signatures(model, self.moved), custom=CUSTOM_CODE)
        file, self._no_constants = add_buffer(file, _NO_CONSTANTS)
        self._unfused, self._arena = program_of(file), arena_tensors(file, file.main)

    def program(
        self, choices: Sequence[BlockChoice], order: Sequence[int] = (), slow: frozenset[int] = frozenset()
    ) -> tuple[Program, tuple[InsertedBlock, ...]]:
        """Return the model's program with blocks in place of operators, and the blocks.

        Args:
            choices: operators of each block, in the order of its stages.
            order: all operators in an order in which those of each block are neighbours; empty for the model's own.
            slow: tensors that may lie in the slow memory; those between blocks do.

        Raises:
            BlockError: a choice cannot be one operator, or the blocks cannot read a moved input.
        """
        fused = {index for choice in choices for index in choice.operators}
        longer = [self._with_renames(choice, fused) for choice in choices]
        slow = self._between(slow, longer)
        built = [self._make(choice, slow) for choice in longer]
        states = kept_bytes(
            self.model, [(choice.operators, each) for choice, (each, _) in zip(longer, built, strict=True)]
        )
        graph, sizes = self.model.main, list[int]()
        steps: list[Step | None] = list(self._unfused.steps)
        operators: list[Operator | None] = list(graph.operators)
        inserted: list[InsertedBlock] = []
        for chosen, choice, (extracted, plan), state in zip(choices, longer, built, states, strict=True):
            place = chosen.operators[-1]
            for index in choice.operators:
                steps[index] = operators[index] = None
            graph, operators[place] = self._add_operator(graph, choice, extracted.extraction, plan, state)
            scratch = len(graph.tensors) - 1 - bool(state)
            sizes += [0, plan.schedule.scratch_bytes, *(0,) * bool(state)]
            inputs = tuple(tensor for tensor in extracted.extraction.inputs if tensor in self._arena)
            steps[place] = Step(CUSTOM_CODE, inputs, (*extracted.extraction.outputs, scratch))
            inserted.append(self._inserted(choice, place, extracted, plan))
        ordered = order or range(len(operators))
        graph = replace(
            graph,
            operators=tuple(operator for index in ordered if (operator := operators[index]) is not None),
            inputs=tuple(tensor for tensor in graph.inputs if tensor not in self.moved),
        )
        program = self._unfused.with_steps(
            [step for index in ordered if (step := steps[index]) is not None], graph, sizes
        ).with_slow(slow)
        images = self._images(inserted)
        for tensor in self.moved:
            if tensor not in images:
                raise BlockError(f"no block reads {input_name(self.model, tensor)}, so it cannot be {self.mode.value}")
        return program, tuple(inserted)

    def emit(self, program: Program, inserted: Sequence[InsertedBlock]) -> Model:
        """Return the model of a program, with the bytes of its blocks.

        Args:
            program: result of ``self.program``; its steps may be reordered.
            inserted: its blocks.

        Raises:
            BlockError: a block is too large for the format.
            ModelError: an operator outside the blocks reads a moved input.
        """
        file, graph = program.origin
        operators, tensors, buffers = list(graph.operators), list(graph.tensors), list(file.buffers)
        room = 0 if self.memories is None else self.memories.slow.nbytes
        places = slow_places(program, room)[0] if program.slow else {}
        new = [index for index, op in enumerate(operators) if op.plan is not None and op.custom_options is None]
        for index in sorted(new, key=lambda index: (operators[index].inputs or ())[-1]):
            operator = operators[index]
            assert operator.plan is not None
            plan, constants = with_places(operator.plan, graph, operator, places), (operator.inputs or ())[-1]
            encoded = plan.encoded
            tensors[constants] = replace(tensors[constants], shape=(len(encoded.constants),), buffer=len(buffers))
            buffers.append(Buffer(data=encoded.constants))
            operators[index] = replace(
                operator, custom_options=described(encoded.options, encoded.constants), plan=plan
            )
        graph = replace(graph, operators=tuple(operators), tensors=tuple(tensors), inputs=self.model.main.inputs)
        model = replace(file, subgraphs=(graph, *file.subgraphs[1:]), buffers=tuple(buffers))
        images = self._images(inserted)
        model = take_inputs_out(model, {tensor: images[tensor] for tensor in self.moved}, self.mode)
        model = with_last_variable(prune(model), new)
        return model if not places or self.memories is None else with_slow_tensors(model, self.memories)

    def _with_renames(self, choice: BlockChoice, fused: Set[int]) -> BlockChoice:
        """Return the choice with the RESHAPEs that are the only readers of its outputs: the block writes their results.

        Blocks are found by the tensor computed last, which a RESHAPE at the end would hide.
        """
        operators, renames = self.model.main.operators, list[int]()
        waiting = [tensor for index in choice.operators for tensor in operators[index].outputs or ()]
        while waiting:
            tensor = waiting.pop()
            readers = self.model.main.readers.get(tensor, ())
            lowered = self.lowerings[readers[0]] if len(readers) == 1 and readers[0] not in fused else ""
            if not isinstance(lowered, str) and lowered.stage is None and tensor not in self.model.main.outputs:
                renames += readers
                waiting.append(lowered.output.index)
        return replace(choice, operators=(*choice.operators, *sorted(renames))) if renames else choice

    def _between(self, slow: frozenset[int], choices: Sequence[BlockChoice]) -> frozenset[int]:
        """Return the tensors of ``slow`` that only blocks read and write; a block can copy outputs that it reads."""
        if not slow:
            return slow
        inside = {index for choice in choices for index in choice.operators}
        kept, operands = set[int](), set[int]()
        for index, operator in enumerate(self.model.main.operators):
            kept.update(() if index in inside else (*(operator.inputs or ()), *(operator.outputs or ())))
        for choice in choices:
            extraction = self._extracted(choice).extraction
            read = {tensor for stage in extraction.block.stages for tensor in stage.inputs}
            operands.update(extraction.inputs, extraction.outputs)
            ends = zip(extraction.block.outputs, extraction.outputs, strict=True)
            kept.update(t for b, t in ends if b in read and not can_copy_out(extraction.block, b))
        return (slow & operands) - kept

    def _make(self, choice: BlockChoice, slow: frozenset[int] = frozenset()) -> tuple[OutsideExtraction, BlockPlan]:
        key = choice.operators, choice.config, slow
        if key not in self._built:
            extracted, slow_operands = self._in_tiles(choice, slow)
            numbers = {position: self._numbers[tensor] for position, tensor in extracted.outside.items()}
            block = extracted.extraction.block
            config = _with_tiles_inside(choice.config, block)
            self._built[key] = extracted, BlockPlan(block, config, numbers, slow_operands)
        return self._built[key]

    def _in_tiles(self, choice: BlockChoice, slow: frozenset[int]) -> tuple[OutsideExtraction, dict[int, int]]:
        """Return a block for all run lengths in its tiles, and its operands in the slow memory.

        It copies these operands. Branches run early where that takes less scratch in runs of one pixel.
        """
        tiles = choice.config.tile_height, choice.config.tile_width
        key = choice.operators, tiles, slow
        if key not in self._tiled:
            extracted = self._extracted(choice)
            slow_operands = self._slow_operands(extracted.extraction, slow)
            block = extracted.extraction.block
            if slow_operands:
                block = with_copies_out(block, slow_operands)
                block = with_copies(block, slow_operands.keys() & set(block.inputs))
            block = with_stages_in_place(block)
            block = with_early_branches(block, _with_tiles_inside(BlockConfig(*tiles, chunk=1), block))
            extracted = replace(extracted, extraction=replace(extracted.extraction, block=block))
            self._tiled[key] = extracted, slow_operands
        return self._tiled[key]

    def _extracted(self, choice: BlockChoice) -> OutsideExtraction:
        extraction = extract(self.model, choice.operators, self.lowerings)
        return move_outside(extraction, self.moved, self.mode, _with_tiles_inside(choice.config, extraction.block))

    @staticmethod
    def _slow_operands(extraction: Extraction, slow: frozenset[int]) -> dict[int, int]:
        """Return a block's inputs and outputs in the slow memory, at offset 0 until the order of steps is final."""
        block = extraction.block
        ends = zip((*block.inputs, *block.outputs), (*extraction.inputs, *extraction.outputs), strict=True)
        return {each: 0 for each, tensor in ends if tensor in slow}

    def _add_operator(
        self, graph: SubGraph, choice: BlockChoice, extraction: Extraction, plan: BlockPlan, kept: int
    ) -> tuple[SubGraph, Operator]:
        """Return a block's custom operator, and the graph with its constants, scratch and variable, in this order."""
        ends = sorted({min(choice.operators), max(choice.operators)})
        name = " to ".join(place_label(self.model, index) for index in ends)  # name shown by viewers
        constants = len(graph.tensors)
        scratch, state = constants + 1, (constants + 2,) if kept else ()
        tensors = [
            _bytes_tensor(f"{name}/constants", len(_NO_CONSTANTS), self._no_constants),
            _bytes_tensor(f"{name}/scratch", plan.schedule.scratch_bytes, 0),
        ]
        if kept:
            # The runtime clears variables that are neither int8 nor quantized to zeros in a reset.
            variable = Tensor(shape=(kept,), type=TensorType.UINT8, buffer=0, name=f"{name}/state", is_variable=True)
            tensors.append(variable)
        operator = Operator(
            opcode_index=self._code,
            inputs=(*extraction.inputs, *state, constants),
            outputs=(*extraction.outputs, scratch),
            plan=plan,
            label=" to ".join(operator_label(self.model, index) for index in ends),
        )
        return replace(graph, tensors=(*graph.tensors, *tensors)), operator

    def _inserted(
        self, choice: BlockChoice, place: int, extracted: OutsideExtraction, plan: BlockPlan
    ) -> InsertedBlock:
        computed = (tensor for tensor in extracted.extraction.inputs if tensor in self._arena)
        first, *_ = *computed, *extracted.outside.values()
        names = tensor_name(self.model, first), tensor_name(self.model, extracted.extraction.outputs[0])
        labels = tuple(operator_label(self.model, index) for index in choice.operators)
        first_outputs = (self.model.main.operators[index].output for index in choice.operators)
        writes = tuple(tensor_name(self.model, tensor) for tensor in first_outputs)
        extra = plan.schedule.macs - sum(self.macs[index] for index in choice.operators)
        return InsertedBlock(
            choice, place, extracted.extraction, extracted.outside, plan, labels, writes, *names, extra
        )

    def _images(self, inserted: Sequence[InsertedBlock]) -> dict[int, Shape]:
        """Return rows, columns and channels of the moved inputs, as the blocks read them."""
        images = dict[int, Shape]()
        for block in inserted:
            for position, tensor in block.outside.items():
                if tensor in images and self.mode.streams:
                    raise BlockError(
                        f"two blocks read {input_name(self.model, tensor)}, and a stream can be read only once"
                    )
                image = block.extraction.block.tensors[position]
                images.setdefault(tensor, (image.height, image.width, image.channels))
        return images


def _with_tiles_inside(config: BlockConfig, block: Block) -> BlockConfig:
    """Return the configuration with tiles no larger than the driven tensor, which a RESHAPE inside may have changed.

    One tile of all pixels in another shape stays one tile. One tile also replaces several that would leave holes in an
    output. The search expects a reader inside the block for every pixel. But a function of an output and of that
    output's source becomes a table of the source alone, and the output has no reader inside.
    """
    split = split_block(block)
    driven = block.tensors[split.driven]
    whole = replace(config, tile_height=driven.height, tile_width=driven.width)
    height, width = min(config.tile_height, driven.height), min(config.tile_width, driven.width)
    tiled = replace(config, tile_height=height, tile_width=width)
    if config.tile_height * config.tile_width == driven.pixels:
        return whole
    if tiled != whole:
        try:
            Tiles(block, split, tiled)
        except BlockError:
            return whole
    return tiled


def _bytes_tensor(name: str, nbytes: int, buffer: int) -> Tensor:
    return Tensor(shape=(nbytes,), type=TensorType.INT8, buffer=buffer, name=name)


_WHOLE = BlockConfig(2**31 - 1, 2**31 - 1)
"""A single tile of any size."""


def with_lone_blocks(model: Model) -> tuple[Model, tuple[str, ...]]:
    """Return the model with every operator outside blocks that can be a stage as a block, and their labels.

    Such a block computes whole tensors from whole tensors and includes the RESHAPEs behind its operator, and a QUANTIZE
    before or behind that only turns uint8 into int8 or back. An operator that only renames bytes stays.

    Args:
        model: a model without an offline plan, because tensor indices change.

    Returns:
        The model, and labels of the operators that became blocks.
    """
    lowerings = lower_model(model)
    candidates = [
        (index, _with_turned_ends(model, lowerings, index))
        for index, lowered in enumerate(lowerings)
        if not isinstance(lowered, str) and lowered.stage is not None and not lowered.unit
    ]
    labels = []
    for index, operators in reversed(candidates):  # a block replaces its operator and the RESHAPEs behind it
        try:
            rewritten, _ = insert_blocks(model, [BlockChoice(operators, _WHOLE, 0, 0, 0, "line-buffers")])
        except BlockError:
            continue
        labels.append(operator_label(model, index))
        model = rewritten
    return model, tuple(reversed(labels))


def _with_turned_ends(model: Model, lowerings: Lowerings, index: int) -> tuple[int, ...]:
    """Return an operator with each QUANTIZE next to it that turns its input or output, which nothing else reads."""
    graph, operator = model.main, model.main.operators[index]
    before = {graph.writers.get(tensor) for tensor in operator.inputs or () if len(graph.readers[tensor]) == 1}
    behind = [graph.readers.get(tensor, ()) for tensor in operator.outputs or ()]
    only_one = {readers[0] for readers in behind if len(readers) == 1}
    beside = before & {index - 1} | only_one & {index + 1}
    return tuple(sorted((index, *(each for each in beside if each is not None and _turns(model, lowerings, each)))))


def _turns(model: Model, lowerings: Lowerings, index: int) -> bool:
    """Return whether an operator is a QUANTIZE that turns uint8 into int8, or back, and changes nothing else."""
    lowered, name = lowerings[index], operator_name(model, model.main.operators[index])
    return name == "QUANTIZE" and not isinstance(lowered, str) and lowered.stage is None
