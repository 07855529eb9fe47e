"""Blocks that go on together: what each keeps of a step becomes history when all that may fail in the step has not.

TensorFlow Lite Micro calls each operator by itself, and tells none how the others fared. So a block with a state
commits its step at the beginning of the next one, if the number of the *last* block has changed since: the last that
keeps a state or reads from outside the arena, because only such reading fails in one run and not in another. That
block's variable is one more input of the others; where it keeps no state it is four bytes in which the block counts.

Replace runs of operators by fused blocks: one custom operator each, with its constants and its scratch memory.

Blocks of one operator each, for what is in no block: the device library then runs a model that TFLM ran parts of.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tflite_fuse.cost.schedule.tiles import Tiles, split_block
from tflite_fuse.emit.block_plan import BlockPlan
from tflite_fuse.emit.in_model import executed_macs, operands_of
from tflite_fuse.emit.options import described
from tflite_fuse.emit.outside import OutsideExtraction, input_name, lowerings_for, move_outside
from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockChoice, BlockConfig
from tflite_fuse.ir.program import CUSTOM_CODE, FUSED_OPERATOR, Program, Step, arena_tensors, program_of
from tflite_fuse.model.edit import add_buffer, add_operator_code, prune, replace_main
from tflite_fuse.model.operators import operator_label, operator_name
from tflite_fuse.model.outside import InputMode, forget_in_signatures, outside_numbers, take_inputs_out
from tflite_fuse.model.schema import Buffer, Model, Operator, SubGraph, Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.kinds.state import MARK_BYTES, state_offsets
from tflite_fuse.ops.lowering.extract import Extraction, extract
from tflite_fuse.ops.lowering.lower import Lowerings, lower_model
from tflite_fuse.ops.lowering.operands import Shape, tensor_name

Chosen = tuple[Sequence[int], OutsideExtraction]
"""A block to be: the operators it replaces, and what they become."""


def kept_bytes(model: Model, blocks: Sequence[Chosen]) -> list[int]:
    """Bytes of the variable of each block, 0 for none, as long as their order is not settled. Several blocks with one
    know which step they have run for."""
    earlier = _variables(model)
    keeping = {i for operators, found in blocks if found.extraction.block.keeps_state for i in operators} | set(earlier)
    counts = [bool(keeping) and _may_be_last(model, each, keeping) for each in blocks]
    several = len(earlier) + sum(counts) + sum(found.extraction.block.keeps_state for _, found in blocks) > 1
    sizes = [state_offsets(found.extraction.block.tensors)[1] for _, found in blocks]
    return [
        MARK_BYTES if counted else size + (MARK_BYTES if several and size else 0)
        for counted, size in zip(counts, sizes, strict=True)
    ]


def following(model: Model, new: Collection[int]) -> Model:
    """The model whose new blocks, but the last, see the variable of the last one; those that count in vain have none.

    Args:
        model: its operators in their order.
        new: which of them are new blocks.
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
    """Whether a block without a state reads from outside, and no operator with a state depends on it: in some order all
    of these stand before it."""
    replaced, found = block
    if found.extraction.block.keeps_state or not found.outside:
        return False
    operators, reached = model.main.operators, set(found.extraction.outputs)
    for index in range(min(replaced) + 1, len(operators)):
        if reached.intersection(operators[index].inputs or ()):
            if index in keeping:
                return False
            reached.update(operators[index].outputs or ())
    return True


def _variables(model: Model) -> dict[int, tuple[int, ...]]:
    """The variables of blocks by operator."""
    operators = model.main.operators
    fused = [i for i, operator in enumerate(operators) if operator_name(model, operator) == FUSED_OPERATOR]
    return {i: found.state for i in fused if (found := operands_of(model.main, operators[i])).state}


def _counts(model: Model, variable: Sequence[int]) -> bool:
    """Whether that is all a variable is for: rings and memories have something behind their number."""
    return all(model.main.tensors[tensor].dims == (MARK_BYTES,) for tensor in variable)


_NO_CONSTANTS = bytes(1)
"""What blocks of a program have in place of constants: an empty tensor would be an activation."""


@dataclass(frozen=True)
class InsertedBlock:
    """A block as it stands in the rewritten model.

    Attributes:
        choice: what was asked for, with what only renames its outputs.
        place: the operator in whose place it stands, the last of what was asked for.
        extraction: the block, and the model's tensors that are operands of the operator.
        outside: for each input the block reads from outside the arena, its tensor → the model's.
        plan: how it runs.
        labels: of the operators it replaced.
        writes: names of the first outputs of these operators.
        input, output: names of its first input, inside or outside the arena, and of its first output.
        extra_macs: multiply-accumulates it executes beyond those of the operators it replaced.
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
    """The model with each choice's operators replaced by one custom operator, and everything unused dropped.

    See ``BlockMaker``, which does this for many sets of choices.

    Raises:
        BlockError: a choice cannot be one operator, or the blocks cannot read a moved input.
        ModelError: an operator outside the blocks reads a moved input.
    """
    maker = BlockMaker(model, mode, moved)
    program, inserted = maker.program(choices)
    return maker.emit(program, inserted), inserted


class BlockMaker:
    """Makes blocks of a model, each once, however many candidates hold it.

    Each choice's operators can run one after the other. The custom operator reads the block's inputs and one
    constant tensor (weights, biases, tables) and writes the block's outputs and an unread tensor, its scratch
    memory: so the arena planner, ours or the runtime's, places the scratch like any other tensor.

    A candidate is a ``Program``: its blocks have plans, but neither options nor constants. Its arena and its work
    follow from sizes and schedules. ``emit`` makes the model of one.
    """

    def __init__(
        self,
        model: Model,
        mode: InputMode = InputMode.RESIDENT,
        moved: Sequence[int] = (),
        lowerings: Lowerings | None = None,
    ) -> None:
        """Start from a model without an offline memory plan, as tensor indices change.

        Args:
            model: what to rewrite.
            mode: where the inputs ``moved`` are from now on.
            moved: tensors among the model's inputs. Unless resident they leave the model; its metadata tells of them.
            lowerings: ``lower_model`` of the model, where that is known already.
        """
        self.model, self.mode = model, mode
        self.moved = () if mode is InputMode.RESIDENT else tuple(moved)
        self.lowerings = lowerings_for(model, mode) if lowerings is None else lowerings
        self.macs = executed_macs(model)
        self._numbers = outside_numbers(model, self.moved)
        self._readers: dict[int, list[int]] = {}
        for index, operator in enumerate(model.main.operators):
            for tensor in dict.fromkeys(operator.inputs or ()):
                self._readers.setdefault(tensor, []).append(index)
        self._made: dict[tuple[tuple[int, ...], BlockConfig], tuple[OutsideExtraction, BlockPlan]] = {}
        file, self._code = add_operator_code(forget_in_signatures(model, self.moved), custom=CUSTOM_CODE)
        file, self._no_constants = add_buffer(file, _NO_CONSTANTS)
        self._unfused, self._arena = program_of(file), arena_tensors(file, file.main)

    def program(
        self, choices: Sequence[BlockChoice], order: Sequence[int] = ()
    ) -> tuple[Program, tuple[InsertedBlock, ...]]:
        """Return the model's program with blocks in place of operators, and the blocks.

        Args:
            choices: operators that become blocks, those of a block in the order of its stages.
            order: all operators in an order in which those of each block stand together; empty for the model's own.

        Raises:
            BlockError: a choice cannot be one operator, or the blocks cannot read a moved input.
        """
        taken = {index for choice in choices for index in choice.operators}
        longer = [self._with_renames(choice, taken) for choice in choices]
        made = [self._make(choice) for choice in longer]
        states = kept_bytes(
            self.model, [(choice.operators, each) for choice, (each, _) in zip(longer, made, strict=True)]
        )
        graph, sizes = self.model.main, list[int]()
        steps: list[Step | None] = list(self._unfused.steps)
        operators: list[Operator | None] = list(graph.operators)
        inserted: list[InsertedBlock] = []
        for chosen, choice, (found, plan), state in zip(choices, longer, made, states, strict=True):
            place = chosen.operators[-1]
            for index in choice.operators:
                steps[index] = operators[index] = None
            graph, operators[place] = self._add_operator(graph, choice, found.extraction, plan, state)
            scratch = len(graph.tensors) - 1 - bool(state)
            sizes += [0, plan.schedule.scratch_bytes, *(0,) * bool(state)]
            inputs = tuple(tensor for tensor in found.extraction.inputs if tensor in self._arena)
            steps[place] = Step(CUSTOM_CODE, inputs, (*found.extraction.outputs, scratch))
            inserted.append(self._inserted(choice, place, found, plan))
        ordered = order or range(len(operators))
        graph = replace(
            graph,
            operators=tuple(operator for index in ordered if (operator := operators[index]) is not None),
            inputs=tuple(tensor for tensor in graph.inputs if tensor not in self.moved),
        )
        program = self._unfused.with_steps(
            [step for index in ordered if (step := steps[index]) is not None], graph, sizes
        )
        images = self._images(inserted)
        for tensor in self.moved:
            if tensor not in images:
                raise BlockError(f"no block reads {input_name(self.model, tensor)}, so it cannot be {self.mode.value}")
        return program, tuple(inserted)

    def emit(self, program: Program, inserted: Sequence[InsertedBlock]) -> Model:
        """Return the model of a program, its steps perhaps in another order, with the bytes of its blocks.

        Args:
            program: of ``self.program``.
            inserted: its blocks.

        Raises:
            BlockError: a block is too large for the format.
            ModelError: an operator outside the blocks reads a moved input.
        """
        file, graph = program.origin
        operators, tensors, buffers = list(graph.operators), list(graph.tensors), list(file.buffers)
        new = [index for index, operator in enumerate(operators) if _is_new(operator)]
        for index in sorted(new, key=lambda index: (operators[index].inputs or ())[-1]):
            operator = operators[index]
            assert operator.plan is not None
            encoded, constants = operator.plan.encoded, (operator.inputs or ())[-1]
            tensors[constants] = replace(tensors[constants], shape=(len(encoded.constants),), buffer=len(buffers))
            buffers.append(Buffer(data=encoded.constants))
            operators[index] = replace(operator, custom_options=described(encoded.options, encoded.constants))
        graph = replace(graph, operators=tuple(operators), tensors=tuple(tensors), inputs=self.model.main.inputs)
        model = replace(file, subgraphs=(graph, *file.subgraphs[1:]), buffers=tuple(buffers))
        images = self._images(inserted)
        model = take_inputs_out(model, {tensor: images[tensor] for tensor in self.moved}, self.mode)
        return following(prune(model), new)

    def _with_renames(self, choice: BlockChoice, taken: Set[int]) -> BlockChoice:
        """With the RESHAPEs that alone read what the block writes: then it writes what they rename, under that name.

        Blocks are searched for by the tensor computed last, which a RESHAPE at the end would hide.
        """
        operators, renames = self.model.main.operators, list[int]()
        waiting = [tensor for index in choice.operators for tensor in operators[index].outputs or ()]
        while waiting:
            tensor = waiting.pop()
            readers = self._readers.get(tensor, [])
            lowered = self.lowerings[readers[0]] if len(readers) == 1 and readers[0] not in taken else ""
            if not isinstance(lowered, str) and lowered.stage is None and tensor not in self.model.main.outputs:
                renames += readers
                waiting.append(lowered.output.index)
        return replace(choice, operators=(*choice.operators, *sorted(renames))) if renames else choice

    def _make(self, choice: BlockChoice) -> tuple[OutsideExtraction, BlockPlan]:
        key = choice.operators, choice.config
        if key not in self._made:
            extraction = extract(self.model, choice.operators, self.lowerings)
            found = move_outside(extraction, self.moved, self.mode, choice.config)
            numbers = {position: self._numbers[tensor] for position, tensor in found.outside.items()}
            block = found.extraction.block
            self._made[key] = found, BlockPlan(block, _within(choice.config, block), numbers)
        return self._made[key]

    def _add_operator(
        self, graph: SubGraph, choice: BlockChoice, extraction: Extraction, plan: BlockPlan, kept: int
    ) -> tuple[SubGraph, Operator]:
        """The custom operator of a block; its constants, scratch and variable are added to the graph, in this order."""
        ends = sorted({min(choice.operators), max(choice.operators)})
        name = " to ".join(operator_label(self.model, index) for index in ends)  # what Netron shows
        constants = len(graph.tensors)
        scratch, state = constants + 1, (constants + 2,) if kept else ()
        tensors = [
            _bytes_tensor(f"{name}/constants", len(_NO_CONSTANTS), self._no_constants),
            _bytes_tensor(f"{name}/scratch", plan.schedule.scratch_bytes, 0),
        ]
        if kept:
            # The runtime fills variables that are neither int8 nor quantized with zeros in a reset.
            variable = Tensor(shape=(kept,), type=TensorType.UINT8, buffer=0, name=f"{name}/state", is_variable=True)
            tensors.append(variable)
        operator = Operator(
            opcode_index=self._code,
            inputs=(*extraction.inputs, *state, constants),
            outputs=(*extraction.outputs, scratch),
            plan=plan,
        )
        return replace(graph, tensors=(*graph.tensors, *tensors)), operator

    def _inserted(self, choice: BlockChoice, place: int, found: OutsideExtraction, plan: BlockPlan) -> InsertedBlock:
        first, *_ = *found.extraction.inputs, *found.outside.values()
        names = tensor_name(self.model, first), tensor_name(self.model, found.extraction.outputs[0])
        labels = tuple(operator_label(self.model, index) for index in choice.operators)
        first_outputs = ((self.model.main.operators[index].outputs or (-1,))[0] for index in choice.operators)
        writes = tuple(tensor_name(self.model, tensor) for tensor in first_outputs)
        extra = plan.schedule.macs - sum(self.macs[index] for index in choice.operators)
        return InsertedBlock(choice, place, found.extraction, found.outside, plan, labels, writes, *names, extra)

    def _images(self, inserted: Sequence[InsertedBlock]) -> dict[int, Shape]:
        """How blocks read the moved inputs: rows, columns and channels."""
        images = dict[int, Shape]()
        for block in inserted:
            for position, tensor in block.outside.items():
                if tensor in images and self.mode is InputMode.STREAMED:
                    raise BlockError(
                        f"two blocks read {input_name(self.model, tensor)}, and a stream can be read only once"
                    )
                image = block.extraction.block.tensors[position]
                images.setdefault(tensor, (image.height, image.width, image.channels))
        return images


def _is_new(operator: Operator) -> bool:
    return operator.plan is not None and operator.custom_options is None


def _within(config: BlockConfig, block: Block) -> BlockConfig:
    """Tiles no larger than what is computed by them: a RESHAPE inside may have given that other rows and columns.

    One tile where several would leave holes in an output. The search counts on a reader inside for every pixel of it,
    but a function of an output and of what that is made of becomes a table of the latter alone, and then it
    has no reader inside.
    """
    split = split_block(block)
    driven = block.tensors[split.driven]
    whole = replace(config, tile_height=driven.height, tile_width=driven.width)
    height, width = min(config.tile_height, driven.height), min(config.tile_width, driven.width)
    tiled = replace(config, tile_height=height, tile_width=width)
    if tiled != whole:
        try:
            Tiles(block, split, tiled)
        except BlockError:
            return whole
    return tiled


def _bytes_tensor(name: str, nbytes: int, buffer: int) -> Tensor:
    return Tensor(shape=(nbytes,), type=TensorType.INT8, buffer=buffer, name=name)


_WHOLE = BlockConfig(2**31 - 1, 2**31 - 1)
"""One tile, whatever the size."""


def with_lone_blocks(model: Model) -> tuple[Model, tuple[str, ...]]:
    """Make a block of every operator that can be a stage and is in no block; one that only renames bytes stays.

    Such a block computes what its operator did, from whole tensors to whole tensors; RESHAPEs behind it are part of it.

    Args:
        model: without an offline plan, as tensor indices change.

    Returns:
        The model, and labels of the operators that became blocks.
    """
    found = [
        index
        for index, lowered in enumerate(lower_model(model))
        if not isinstance(lowered, str) and lowered.stage is not None and not lowered.unit
    ]
    labels = []
    for index in reversed(found):  # a block takes the place of its operator and of RESHAPEs behind it
        try:
            made, _ = insert_blocks(model, [BlockChoice((index,), _WHOLE, 0, 0, 0, "line-buffers")])
        except BlockError:
            continue
        labels.append(operator_label(model, index))
        model = made
    return model, tuple(reversed(labels))
