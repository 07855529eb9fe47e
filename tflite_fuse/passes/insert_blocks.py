"""Replace runs of operators by fused blocks: one custom operator each, with its constants and its scratch memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tflite_fuse.fusion.encode import encode
from tflite_fuse.fusion.extract import Extraction, extract
from tflite_fuse.fusion.front import BlockChoice
from tflite_fuse.fusion.schedule import Schedule, schedule
from tflite_fuse.model.edit import add_buffer, add_operator_code, add_tensor, prune, replace_operators
from tflite_fuse.model.schema import Model, Operator, Tensor
from tflite_fuse.model.types import TensorType

CUSTOM_CODE = "TFLITE_FUSE"


@dataclass(frozen=True)
class InsertedBlock:
    """A block as it stands in the rewritten model."""

    choice: BlockChoice
    extraction: Extraction
    schedule: Schedule


def insert_blocks(model: Model, choices: Sequence[BlockChoice]) -> tuple[Model, tuple[InsertedBlock, ...]]:
    """The model with each choice's operators replaced by one custom operator, and everything unused dropped.

    Each choice's operators are consecutive in the model's order. The custom operator reads the block's inputs and one
    constant tensor (weights, biases, tables) and writes the block's outputs and a tensor nobody reads, its scratch
    memory: so the arena planner, ours or the runtime's, places the scratch like any other tensor.

    An offline memory plan must have been dropped before: tensor indices change.

    Raises:
        BlockError: a choice cannot be one operator.
    """
    original = model
    inserted: list[InsertedBlock] = []
    replaced: dict[int, Operator | None] = {}
    for choice in choices:
        extraction = extract(original, choice.operators)
        planned = schedule(extraction.block, choice.config)
        encoded = encode(extraction.block, planned)
        name = original.main.tensors[extraction.outputs[0]].name or f"block {choice.operators[0]}"
        model, code = add_operator_code(model, custom=CUSTOM_CODE)
        model, buffer = add_buffer(model, encoded.constants)
        model, constants = add_tensor(model, _bytes_tensor(f"{name}/constants", len(encoded.constants), buffer))
        model, scratch = add_tensor(model, _bytes_tensor(f"{name}/scratch", planned.scratch_bytes, 0))
        operator = Operator(
            opcode_index=code,
            inputs=(*extraction.inputs, constants),
            outputs=(*extraction.outputs, scratch),
            custom_options=encoded.options,
        )
        replaced.update(dict.fromkeys(choice.operators))
        replaced[choice.operators[-1]] = operator
        inserted.append(InsertedBlock(choice, extraction, planned))
    operators = [replaced.get(index, operator) for index, operator in enumerate(original.main.operators)]
    kept = [operator for operator in operators if operator is not None]
    return prune(replace_operators(model, kept)), tuple(inserted)


def _bytes_tensor(name: str, nbytes: int, buffer: int) -> Tensor:
    return Tensor(shape=(nbytes,), type=TensorType.INT8, buffer=buffer, name=name)
