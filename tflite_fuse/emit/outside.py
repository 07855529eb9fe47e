"""Model inputs outside the arena: conditions, and blocks that read them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tflite_fuse.cost.schedule.tiles import is_one_tile, split_block
from tflite_fuse.errors import BlockError, LimitError
from tflite_fuse.ir.block import Block, BlockConfig, BlockTensor, ElementType, Stage, StageKind, Storage
from tflite_fuse.model.edit import Editor
from tflite_fuse.model.operators import operator_label, operator_name
from tflite_fuse.model.outside import OUTSIDE_TYPES, InputMode
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import TensorType, type_name
from tflite_fuse.notes import Note, note
from tflite_fuse.ops.kinds.lookup import VALUES, answers_of, lookup_parameters
from tflite_fuse.ops.kinds.moves import COPY_OPERATOR
from tflite_fuse.ops.kinds.real import DequantizeParameters
from tflite_fuse.ops.lowering.extract import Extraction
from tflite_fuse.ops.lowering.in_pieces import as_maps
from tflite_fuse.ops.lowering.lie_down import lie_down
from tflite_fuse.ops.lowering.lower import Lowerings, lower_model, lower_operator
from tflite_fuse.ops.lowering.operands import read_bytes, read_real, tensor_name
from tflite_fuse.ops.lowering.view import Fit, Lowered

MOST_OUTSIDE = 16
"""Largest number of inputs outside: ``TFLITE_FUSE_MAX_OPERANDS`` of the C library."""


@dataclass(frozen=True)
class OutsideExtraction:
    """An extraction whose block reads some inputs from outside the arena.

    Attributes:
        extraction: the block's inputs are those that remain in the arena.
        outside: for each other input the block's tensor → the model's.
    """

    extraction: Extraction
    outside: dict[int, int]


def move_outside(
    extraction: Extraction, inputs: Collection[int], mode: InputMode, config: BlockConfig
) -> OutsideExtraction:
    """Return the block with some of the model's inputs read from outside the arena.

    A streamed input becomes a ring that a SOURCE stage fills; an external one is read at its address.

    Args:
        extraction: any block of the model.
        inputs: the model's tensors outside the arena; those that the block does not read are ignored.
        mode: streamed or external.
        config: configuration of the block.

    Raises:
        BlockError: a streamed input in a block of several tiles, which would request pixels twice.
    """
    pairs = zip(extraction.block.inputs, extraction.inputs, strict=True)
    moved = {position: tensor for position, tensor in pairs if tensor in inputs}
    if not moved or mode is InputMode.RESIDENT:
        return OutsideExtraction(extraction, {})
    block = extraction.block
    if mode is InputMode.EXTERNAL:
        storage, stages = Storage.EXTERNAL, tuple(_reading_bytes(block, stage, moved) for stage in block.stages)
    else:
        _check_one_tile(block, config, [block.tensors[position] for position in moved])
        sources = (Stage(StageKind.SOURCE, (), position) for position in moved)
        storage, stages = Storage.SCRATCH, (*sources, *block.stages)
    tensors = tuple(replace(t, storage=storage) if i in moved else t for i, t in enumerate(block.tensors))
    kept = tuple(position for position in block.inputs if position not in moved)
    return OutsideExtraction(
        replace(
            extraction,
            block=Block(tensors, stages, kept, block.outputs),
            inputs=tuple(tensor for tensor in extraction.inputs if tensor not in moved.values()),
        ),
        moved,
    )


def _reading_bytes(block: Block, stage: Stage, moved: Collection[int]) -> Stage:
    """Return a stage that reads an external uint8 tensor: a table rotated to begin with the entry for 0x80."""
    unsigned = [i for i in stage.inputs if i in moved and block.tensors[i].element_type is ElementType.UINT8]
    if not unsigned:
        return stage
    half = len(VALUES) // 2
    if isinstance(stage.parameters, DequantizeParameters):
        answers = np.frombuffer(stage.parameters.answers, "<f4")
        return replace(stage, parameters=DequantizeParameters(np.roll(answers, half).tobytes()))
    if stage.kind is not StageKind.LOOKUP:
        raise BlockError(f"{block.tensors[unsigned[0]].name} is uint8 and external; only a table can read it")
    return replace(stage, parameters=lookup_parameters(np.roll(answers_of(stage), half)))


def lowerings_for(model: Model, mode: InputMode, lowerings: Lowerings | None = None) -> Lowerings:
    """Return the operators of a model as stages, for inputs in ``mode``.

    Maps one pixel wide become rows, except where an input outside the arena would, whose pixels the application finds
    by row and column. External memory is never written, so a QUANTIZE of uint8 becomes a table even if it only moves
    every value by 128.
    """
    lowerings = as_maps(model, lower_model(model) if lowerings is None else lowerings)
    if mode is InputMode.EXTERNAL:
        lowerings = tuple(
            each if isinstance(each, str) else _as_table(model, index, each) for index, each in enumerate(lowerings)
        )
    return lie_down(lowerings, () if mode is InputMode.RESIDENT else model.main.inputs)


def _as_table(model: Model, index: int, lowered: Lowered) -> Lowered:
    kinds = [model.main.tensors[each.index].type for each in (*lowered.inputs, lowered.output)]
    if lowered.stage is not None or kinds != [TensorType.UINT8, TensorType.INT8]:
        return lowered
    source, output = lowered.inputs[0], lowered.output
    stage = Stage(StageKind.LOOKUP, (source.index,), output.index, index, parameters=lookup_parameters(VALUES))
    return replace(lowered, stage=stage, output_shape=output.shape, fit=Fit.PIXELS)


def _check_one_tile(block: Block, config: BlockConfig, streamed: Iterable[BlockTensor]) -> None:
    if not is_one_tile(block.tensors[split_block(block).driven], config):
        names = ", ".join(tensor.name for tensor in streamed)
        raise BlockError(
            f"a block that runs in tiles of {config.tile_height} x {config.tile_width} would read pixels of {names} "
            "again, and a streamed input gives each of them once"
        )


def inputs_to_move(
    model: Model, mode: InputMode, lowerings: Lowerings | None = None
) -> tuple[tuple[int, ...], tuple[Note, ...]]:
    """Return the inputs that leave the arena, and a note with the reason for each input that stays.

    Raises:
        LimitError: no input can leave; the message has the reasons.
    """
    if mode is InputMode.RESIDENT:
        return (), ()
    lowerings = lower_model(model) if lowerings is None else lowerings
    reasons = {tensor: why_inside(model, tensor, lowerings) for tensor in dict.fromkeys(model.main.inputs)}
    for tensor in reasons if mode is InputMode.COLUMNS else ():
        if not is_map(model.main.tensors[tensor].dims):
            reasons[tensor] = "it is no map of rows and columns"
    moved = tuple(tensor for tensor, reason in reasons.items() if reason is None)
    stay = {tensor: reason for tensor, reason in reasons.items() if reason is not None}
    if not moved:
        refused = (f"{input_name(model, tensor)} cannot be {mode.value}: {reason}" for tensor, reason in stay.items())
        raise LimitError("; ".join(refused) or f"no input can be {mode.value}: the model has none in the arena")
    if len(moved) > MOST_OUTSIDE:
        raise LimitError(
            f"{len(moved)} inputs cannot be {mode.value}: a runtime takes {MOST_OUTSIDE} outside the arena"
        )
    return moved, tuple(
        note("kept", "input in the arena", tensor=tensor_name(model, tensor), mode=mode.value, why=reason)
        for tensor, reason in stay.items()
    )


def why_inside(model: Model, tensor: int, lowerings: Lowerings | None = None) -> str | None:
    """Return the reason why an input must be in the arena, as a clause with a remedy; None if blocks can read it.

    None does not mean that a single block can read all of it, which a streamed input requires.
    """
    reason = why_not_moved(model, tensor)
    if reason is not None:
        return reason
    readers = model.main.readers.get(tensor, ())
    return _why_not_read(model, tensor, readers, lower_model(model) if lowerings is None else lowerings)


def is_map(dims: Sequence[int]) -> bool:
    """Return whether a shape has rows and columns of one image, which can be exchanged."""
    return len(dims) == 4 and dims[0] == 1 and min(dims) > 0 and min(dims[1:3]) > 1


def why_not_moved(model: Model, tensor: int) -> str | None:
    """Return the reason why no block with any readers can read an input from outside; None if some can."""
    graph, readers = model.main, model.main.readers.get(tensor, ())
    if not readers:
        return "no operator reads it"
    if tensor in graph.outputs:
        return "it is an output of the model as well"
    if graph.inputs.count(tensor) != 1:
        return "the model lists it as input more than once"
    if graph.tensors[tensor].type not in OUTSIDE_TYPES:
        custom = operator_name(model, graph.operators[readers[0]]).startswith("CUSTOM:")
        remedy = "convert the model with int8 inputs (inference_input_type=tf.int8)"
        return (
            f"it is {type_name(graph.tensors[tensor].type)} and {operator_label(model, readers[0])} reads it, while "
            f"blocks read int8, uint8 and float32: {'keep it in the arena' if custom else remedy}"
        )
    return None


def _why_not_read(model: Model, tensor: int, readers: Sequence[int], lowerings: Lowerings) -> str | None:
    try:
        if model.main.tensors[tensor].type == TensorType.FLOAT32:
            read_real(model, tensor)
        else:
            read_bytes(model, tensor)
    except BlockError as error:
        return str(error)
    for index in readers:
        lowered = lowerings[index]
        if isinstance(lowered, str):
            return f"{operator_label(model, index)} reads it and cannot be part of a block: {lowered}"
        if lowered.stage is None:  # RESHAPE and its like: the readers of the result count
            renamed = lowered.output.index
            if renamed in model.main.outputs:
                return f"{operator_label(model, index)} makes it an output of the model"
            reason = _why_not_read(model, renamed, model.main.readers.get(renamed, ()), lowerings)
            if reason is not None:
                return reason
    return None


_COPY = f"CUSTOM:{COPY_OPERATOR}"


def with_copies(model: Model, moved: Collection[int]) -> Model | None:
    """Return the model with copies of inputs in front of their readers; None if none can be copied or has no reader.

    A block that holds such a copy with all that reads it streams the input row by row. One that holds the copy alone
    brings the input into the arena, where operators read it that no block could hold together.

    Args:
        model: any model.
        moved: the inputs that leave the arena; where there are none, all that a block can copy.
    """
    editor, inputs, copies = Editor(model), moved or model.main.inputs, dict[int, int]()
    live = _live(model)
    for tensor in inputs:
        if tensor not in live:
            return None  # a block of its copy and its readers would have no output
        if why_not_moved(model, tensor) is None:
            copies[tensor] = editor.add(_COPY, (tensor,), editor.tensor(editor.tensors[tensor]))
    editor.operators += (
        replace(op, inputs=None if op.inputs is None else tuple(copies.get(tensor, tensor) for tensor in op.inputs))
        for op in model.main.operators
    )
    copied = editor.finish()
    try:
        stages = [lower_operator(copied, index) for index in range(len(copies))]
    except BlockError:
        return None
    return copied if stages else None


def _live(model: Model) -> set[int]:
    """Return the tensors on which an output or a variable depends."""
    live = set(model.main.outputs)
    for operator in reversed(model.main.operators):
        if not operator.outputs or live.intersection(operator.outputs):
            live.update(operator.inputs or ())
    return live


def copies_of(model: Model) -> tuple[int, ...]:
    """Return the operators that copy inputs."""
    names = (operator_name(model, operator) for operator in model.main.operators)
    return tuple(index for index, name in enumerate(names) if name == _COPY)


def input_name(model: Model, tensor: int) -> str:
    """Return the name of an input in messages."""
    return f"input {tensor_name(model, tensor)}"
