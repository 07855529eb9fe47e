"""Replace runs of operators by fused blocks: one custom operator each, with its constants and its scratch memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.operators.operands import Shape, tensor_name
from tflite_fuse.fusion.encoding.encode import EncodedBlock, encode
from tflite_fuse.fusion.encoding.in_model import executed_macs
from tflite_fuse.fusion.lower.extract import Extraction, extract
from tflite_fuse.fusion.lower.outside import OutsideExtraction, input_name, move_outside
from tflite_fuse.fusion.schedule.schedule import Schedule, schedule
from tflite_fuse.fusion.search.front import BlockChoice
from tflite_fuse.model.edit import add_buffer, add_operator_code, add_tensor, prune, replace_operators
from tflite_fuse.model.operators import operator_label
from tflite_fuse.model.outside import InputMode, outside_numbers, take_inputs_out
from tflite_fuse.model.schema import Model, Operator, Tensor
from tflite_fuse.model.types import TensorType

CUSTOM_CODE = "TFLITE_FUSE"


@dataclass(frozen=True)
class InsertedBlock:
    """A block as it stands in the rewritten model.

    Attributes:
        choice: what was asked for.
        extraction: the block, and the model's tensors that are operands of the operator.
        schedule: how it runs.
        labels: of the operators it replaced.
        input, output: names of its first input, inside or outside the arena, and of its first output.
        extra_macs: multiply-accumulates it executes beyond those of the operators it replaced.
    """

    choice: BlockChoice
    extraction: Extraction
    schedule: Schedule
    labels: tuple[str, ...]
    input: str
    output: str
    extra_macs: int


def insert_blocks(
    model: Model, choices: Sequence[BlockChoice], mode: InputMode = InputMode.RESIDENT, moved: Sequence[int] = ()
) -> tuple[Model, tuple[InsertedBlock, ...]]:
    """The model with each choice's operators replaced by one custom operator, and everything unused dropped.

    Each choice's operators are consecutive in the model's order. The custom operator reads the block's inputs and one
    constant tensor (weights, biases, tables) and writes the block's outputs and a tensor nobody reads, its scratch
    memory: so the arena planner, ours or the runtime's, places the scratch like any other tensor.

    An offline memory plan must have been dropped before: tensor indices change.

    Args:
        model: what to rewrite.
        choices: the blocks.
        mode: where the inputs ``moved`` are from now on.
        moved: tensors among the model's inputs. Unless resident they leave the model; its metadata tells of them.

    Raises:
        BlockError: a choice cannot be one operator, or the blocks cannot read a moved input.
        ModelError: an operator outside the blocks reads a moved input.
    """
    moved = () if mode is InputMode.RESIDENT else moved
    original, numbers = model, outside_numbers(model, moved)
    images: dict[int, Shape] = {}
    inserted: list[InsertedBlock] = []
    replaced: dict[int, Operator | None] = {}
    for choice in choices:
        found = move_outside(extract(original, choice.operators), moved, mode, choice.config)
        _note_images(original, images, found, mode)
        planned = schedule(found.extraction.block, choice.config)
        encoded = encode(found.extraction.block, planned, {at: numbers[t] for at, t in found.outside.items()})
        model, operator = _add_operator(model, found.extraction, encoded)
        replaced.update(dict.fromkeys(choice.operators))
        replaced[choice.operators[-1]] = operator
        inserted.append(_inserted(original, choice, found, planned))
    operators = [replaced.get(index, operator) for index, operator in enumerate(original.main.operators)]
    model = replace_operators(model, [operator for operator in operators if operator is not None])
    for tensor in moved:
        if tensor not in images:
            raise BlockError(f"no block reads {input_name(original, tensor)}, so it cannot be {mode.value}")
    model = take_inputs_out(model, {tensor: images[tensor] for tensor in moved}, mode)
    return prune(model), tuple(inserted)


def _add_operator(model: Model, extraction: Extraction, encoded: EncodedBlock) -> tuple[Model, Operator]:
    """The custom operator of a block; its code, constants and scratch are added to the model."""
    name = model.main.tensors[extraction.outputs[0]].name or f"block {extraction.operators[0]}"
    model, code = add_operator_code(model, custom=CUSTOM_CODE)
    model, buffer = add_buffer(model, encoded.constants)
    model, constants = add_tensor(model, _bytes_tensor(f"{name}/constants", len(encoded.constants), buffer))
    model, scratch = add_tensor(model, _bytes_tensor(f"{name}/scratch", encoded.scratch_bytes, 0))
    operator = Operator(
        opcode_index=code,
        inputs=(*extraction.inputs, constants),
        outputs=(*extraction.outputs, scratch),
        custom_options=encoded.options,
    )
    return model, operator


def _inserted(model: Model, choice: BlockChoice, found: OutsideExtraction, planned: Schedule) -> InsertedBlock:
    first, *_ = *found.extraction.inputs, *found.outside.values()
    names = tensor_name(model, first), tensor_name(model, found.extraction.outputs[0])
    labels = tuple(operator_label(model, index) for index in choice.operators)
    macs = executed_macs(model)
    extra = sum(planned.stage_macs) - sum(macs[index] for index in choice.operators)
    return InsertedBlock(choice, found.extraction, planned, labels, *names, extra)


def _note_images(model: Model, images: dict[int, Shape], found: OutsideExtraction, mode: InputMode) -> None:
    """How a block reads the model's inputs: rows, columns and channels."""
    for position, tensor in found.outside.items():
        if tensor in images and mode is InputMode.STREAMED:
            raise BlockError(f"two blocks read {input_name(model, tensor)}, and a stream can be read only once")
        image = found.extraction.block.tensors[position]
        images.setdefault(tensor, (image.height, image.width, image.channels))


def _bytes_tensor(name: str, nbytes: int, buffer: int) -> Tensor:
    return Tensor(shape=(nbytes,), type=TensorType.INT8, buffer=buffer, name=name)
