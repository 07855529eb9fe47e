"""Extraction of a block from a connected part of a model's graph.

    extraction = extract(model, range(3, 9))    # operator indices of the first subgraph
    extraction.block                            # tensors, stages, weights and tables
    extraction.inputs, extraction.outputs       # the model's tensors that are the block's operands

RESHAPE and similar operators become no stage: their output is their input under another name. PAD with zeros before
convolutions becomes their padding; operators that together are a function of one value become a table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockTensor, ElementType, Stage, StageKind, Storage, WeightForm
from tflite_fuse.model.operators import operator_label
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.lowering.lower import PART_ALONE, Lowerings, absorb, lower_model, lower_operator
from tflite_fuse.ops.lowering.operands import Activation, Shape, tensor_name
from tflite_fuse.ops.lowering.tables import find_tables
from tflite_fuse.ops.lowering.view import Fit, Lowered
from tflite_fuse.ops.table import KINDS


def with_weights(lowerings: Lowerings, form: WeightForm) -> Lowerings:
    """Return the same stages with their weights stored in this form."""
    if form is WeightForm.EIGHT:
        return lowerings
    return tuple(
        replace(each, stage=replace(each.stage, weight_form=form)) if not isinstance(each, str) and each.stage else each
        for each in lowerings
    )


def flash_of_16_bits(blocks: Iterable[Block]) -> int:
    """Return the additional bytes of 16-bit weights over 8-bit weights."""
    return sum(
        len(KINDS[stage.kind].constants.encode(stage, block.tensors).weights)
        - len(KINDS[stage.kind].constants.encode(replace(stage, weight_form=WeightForm.EIGHT), block.tensors).weights)
        for block in blocks
        for stage in block.stages
        if stage.weight_form is WeightForm.SIXTEEN
    )


@dataclass(frozen=True)
class Extraction:
    """A block and its place in the model.

    Attributes:
        block: block without a configuration; inputs are INPUT, outputs OUTPUT, tensors between SCRATCH.
        operators: the model's operators that it replaces, in the order of its stages.
        inputs, outputs: the model's tensors of ``block.inputs`` and ``block.outputs``, in that order.
    """

    block: Block
    operators: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def fusability(model: Model) -> tuple[str | None, ...]:
    """Return for each operator of the first subgraph None if a block can contain it, else a clause with the reason."""
    return tuple(lowered if isinstance(lowered, str) else None for lowered in lower_model(model))


def extract(model: Model, operators: Iterable[int], lowerings: Lowerings | None = None) -> Extraction:
    """Return the block that computes the same as these operators of the first subgraph.

    Args:
        model: any valid model.
        operators: their indices in execution order; they are connected and can run without others in between.
        lowerings: ``lower_model`` of the model, if already computed.

    Raises:
        BlockError: the message names the operator that cannot be part of it, and the reason.
    """
    piece = _Piece(model, operators, lowerings)
    piece.check_order()
    stages = _live(piece, _absorb(piece))
    for index, lowered in stages.items():
        if lowered.part_alone:
            raise piece.refusal(index, PART_ALONE)
    _check_connected(piece, stages)
    return _assemble(piece, stages)


class _Piece:
    """The selected operators, lowered, with the readers and writers of their tensors."""

    def __init__(self, model: Model, operators: Iterable[int], lowerings: Lowerings | None) -> None:
        self.model = model
        self.operators = tuple(dict.fromkeys(operators))
        count = len(model.main.operators)
        if not self.operators or not 0 <= min(self.operators) <= max(self.operators) < count:
            raise BlockError(f"a block needs operators between 0 and {count - 1}, not {list(self.operators)}")
        self.lowered = {index: self._lower(index, lowerings) for index in self.operators}
        self.writer = {lowered.output.index: index for index, lowered in self.lowered.items()}
        self.readers = model.main.readers

    def _lower(self, index: int, lowerings: Lowerings | None) -> Lowered:
        try:
            lowered = lower_operator(self.model, index) if lowerings is None else lowerings[index]
            if isinstance(lowered, str):
                raise BlockError(lowered)
            return lowered
        except BlockError as error:
            raise self.refusal(index, str(error)) from error

    def refusal(self, index: int, reason: str) -> BlockError:
        return BlockError(f"{operator_label(self.model, index)} not fused: {reason}")

    def leaves(self, tensor: int) -> bool:
        """Return whether a tensor is read outside the piece or is an output of the model."""
        outside = any(reader not in self.lowered for reader in self.readers.get(tensor, ()))
        return outside or tensor in self.model.main.outputs

    def root(self, tensor: int) -> int:
        """Return the tensor that holds these bytes, before the piece's renaming operators."""
        while tensor in self.writer and self.lowered[self.writer[tensor]].stage is None:
            tensor = self.lowered[self.writer[tensor]].inputs[0].index
        return tensor

    def check_order(self) -> None:
        """Raise BlockError if an operator outside the piece must run between its operators."""
        waiting: dict[int, int] = {}
        for index, operator in enumerate(self.model.main.operators):
            source = next((waiting[t] for t in operator.inputs or () if t in waiting), None)
            if index in self.lowered:
                if source is not None:
                    outside = operator_label(self.model, source)
                    raise self.refusal(index, f"it waits for {outside} outside the block, which waits for the block")
            elif source is not None or any(t in self.writer for t in operator.inputs or ()):
                waiting.update(dict.fromkeys(operator.outputs or (), index))


def _absorb(piece: _Piece) -> dict[int, Lowered]:
    """Return the piece's stages by operator, in the model's order, without those absorbed by all their readers."""
    stages = {index: lowered for index, lowered in piece.lowered.items() if lowered.stage is not None}
    tables = find_tables(piece.lowered, piece.readers, piece.leaves)
    inner = set().union(*(table.operators for table in tables.values())) - tables.keys()
    stages = {
        index: tables[index].lowered if index in tables else each
        for index, each in stages.items()
        if index not in inner
    }
    for index in list(stages):
        tensor = stages[index].output.index
        readers = set(piece.readers.get(tensor, ()))
        if piece.leaves(tensor) or not readers:
            continue
        joint = {reader: absorb(stages[index], stages.get(reader, piece.lowered[reader])) for reader in readers}
        if all(joint.values()):
            stages.update({reader: lowered for reader, lowered in joint.items() if lowered})
            del stages[index]
    return stages


def _live(piece: _Piece, stages: dict[int, Lowered]) -> dict[int, Lowered]:
    """Return the stages whose outputs have a reader."""
    read = {piece.root(tensor) for tensor in piece.writer if piece.leaves(tensor)}
    live: dict[int, Lowered] = {}
    for index, lowered in reversed(stages.items()):
        if lowered.output.index in read:
            read.update(piece.root(source.index) for source in lowered.inputs)
            live[index] = lowered
    if not live:
        last = piece.operators[-1]
        raise piece.refusal(last, "the operators of its block compute nothing, or nothing that is read outside of it")
    return dict(reversed(live.items()))


def _check_connected(piece: _Piece, stages: dict[int, Lowered]) -> None:
    """Raise BlockError if a stage shares no tensor with the others, directly or indirectly."""
    apart = {
        index: {piece.root(activation.index) for activation in (*lowered.inputs, lowered.output)}
        for index, lowered in stages.items()
    }
    reached = apart.pop(next(iter(apart)))
    while border := [index for index, tensors in apart.items() if tensors & reached]:
        reached |= set().union(*(apart.pop(index) for index in border))
    for index in apart:
        raise piece.refusal(index, "it is not connected to the other operators of its block")


class _Assembly:
    """Tensors of a block, added stage by stage."""

    def __init__(self, piece: _Piece, stages: dict[int, Lowered]) -> None:
        self.piece = piece
        self.stages = stages
        self.tensors: list[BlockTensor] = []
        self.position: dict[int, int] = {}
        self.operand: dict[int, int] = {}
        self.leaving: dict[int, list[int]] = {}
        for tensor in piece.writer:
            if piece.leaves(tensor):
                self.leaving.setdefault(piece.root(tensor), []).append(tensor)

    def place(self, index: int) -> tuple[Stage, ...]:
        """Return the stages of operator ``index`` with the block's tensor indices; add their tensors."""
        lowered = self.stages[index]
        computed = [self._read(index, part) for part in lowered.inputs if part.constant is None]
        shapes = [self.tensors[position] for position in computed]
        height, width, channels = lowered.output_shape
        assert lowered.stage is not None
        if lowered.fit is Fit.PIXELS and not KINDS[lowered.stage.kind].accumulates(shapes[0]):
            largest = max(shapes, key=lambda tensor: tensor.pixels)
            needs_all = KINDS[lowered.stage.kind].needs_all
            wide = [tensor for number, tensor in enumerate(shapes) if not needs_all(number, tensor, largest)]
            height, width = wide[0].height, wide[0].width
            if any((tensor.height, tensor.width) != (height, width) for tensor in wide):
                raise self.piece.refusal(index, "its inputs were reshaped differently")
        read = iter(computed)
        inputs = tuple(
            next(read) if part.constant is None else self._add_constant(part, (height, width))
            for part in lowered.inputs
        )
        if lowered.stage.kind is StageKind.STATE:
            return self._remember(index, replace(lowered.stage, inputs=inputs), (height, width, channels))
        output = self._write(index, lowered.output, (height, width, channels))
        inputs += self._memory(lowered.stage, output)
        return (replace(lowered.stage, inputs=inputs, output=output),)

    def _memory(self, stage: Stage, output: int) -> tuple[int, ...]:
        """Return the memory tensor of a stage with one, or nothing."""
        written = self.tensors[output]
        nbytes = KINDS[stage.kind].memory_bytes(written)
        if not nbytes:
            return ()
        self.tensors.append(BlockTensor(f"{written.name}/memory", 1, 1, nbytes, 0, Storage.PERSISTENT))
        return (len(self.tensors) - 1,)

    def _remember(self, index: int, stage: Stage, shape: Shape) -> tuple[Stage, ...]:
        """Return a STATE, and a copy of its output if it is read outside the block."""
        output = self.stages[index].output
        read_outside = output.index in self.leaving
        copy = self._write(index, output, shape) if read_outside else -1
        kept = self._add(output.index, shape, output.zero_point, Storage.PERSISTENT, output.index)
        stage = replace(stage, output=kept)
        return (stage, Stage(StageKind.PAD, (kept,), copy, operator=index)) if read_outside else (stage,)

    def _read(self, index: int, source: Activation) -> int:
        root = self.piece.root(source.index)
        if root not in self.position:
            self._add(root, self._input_shape(root), source.zero_point, Storage.INPUT, root)
        tensor = self.tensors[self.position[root]]
        lowered = self.stages[index]
        if not lowered.fit.accepts((tensor.height, tensor.width, tensor.channels), lowered.seen(source)):
            raise self.piece.refusal(index, f"it reads its input {source.name} in another shape than it was written")
        return self.position[root]

    def _add_constant(self, part: Activation, size: tuple[int, int]) -> int:
        """Return an operand in flash, one for each stage that reads it: with as many rows and columns, or one pixel."""
        height, width = (1, 1) if part.shape[:2] == (1, 1) else size
        return self._add(part.index, (height, width, part.shape[2]), part.zero_point, Storage.INPUT, part.index)

    def _write(self, index: int, output: Activation, shape: Shape) -> int:
        leaving = self.leaving.pop(output.index, [])
        if len(leaving) > 1:
            writer = self.piece.writer[leaving[1]]
            raise self.piece.refusal(writer, f"outside the block both {output.name} and its renamed form are read")
        storage = Storage.OUTPUT if leaving else Storage.SCRATCH
        return self._add(output.index, shape, output.zero_point, storage, (leaving or [output.index])[0])

    def _add(self, root: int, shape: Shape, zero_point: int, storage: Storage, named: int) -> int:
        self.position[root] = len(self.tensors)
        self.operand[len(self.tensors)] = named
        element_type = self.piece.model.main.tensors[named].type
        kind = ElementType.FLOAT32 if element_type == TensorType.FLOAT32 else ElementType.INT8
        if element_type == TensorType.UINT8 and storage not in (Storage.SCRATCH, Storage.PERSISTENT):
            kind = ElementType.UINT8
        self.tensors.append(BlockTensor(tensor_name(self.piece.model, named), *shape, zero_point, storage, kind))
        return self.position[root]

    def _input_shape(self, root: int) -> Shape:
        """Return the shape in which the block reads a tensor from outside: that of its most restrictive reader."""
        views = [
            (lowered.fit is not Fit.EXACT, lowered.fit is not Fit.PIXELS, lowered.seen(source))
            for lowered in self.stages.values()
            for source in lowered.inputs
            if self.piece.root(source.index) == root
        ]
        return min(views, key=lambda view: view[:2])[2]


def _assemble(piece: _Piece, stages: dict[int, Lowered]) -> Extraction:
    assembly = _Assembly(piece, stages)
    placed = tuple(stage for index in stages for stage in assembly.place(index))
    for renamed in assembly.leaving.values():
        raise piece.refusal(piece.writer[renamed[0]], "what it renames is not computed in its block")
    tensors = tuple(assembly.tensors)
    inputs = tuple(i for i, tensor in enumerate(tensors) if tensor.storage is Storage.INPUT)
    outputs = tuple(i for i, tensor in enumerate(tensors) if tensor.storage is Storage.OUTPUT)
    return Extraction(
        Block(tensors, placed, inputs, outputs),
        piece.operators,
        tuple(assembly.operand[i] for i in inputs),
        tuple(assembly.operand[i] for i in outputs),
    )
