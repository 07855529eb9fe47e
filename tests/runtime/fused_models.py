"""Models with a piece replaced by the custom operator, without the passes that would choose the piece."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_fuse.cost.schedule.schedule import schedule
from tflite_fuse.emit.encode import EncodedBlock, encode
from tflite_fuse.ir.block import Block, BlockConfig, Stage, StageKind, Storage
from tflite_fuse.ir.program import CUSTOM_CODE
from tflite_fuse.model import load_model, serialize_model
from tflite_fuse.model import schema as s
from tflite_fuse.model.edit import add_buffer, add_operator_code, add_tensor, prune, replace_main, replace_operators
from tflite_fuse.model.outside import InputMode, OutsideInput, set_outside_inputs
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.kinds.state import state_offsets
from tflite_fuse.ops.lowering.extract import extract


def whole(block: Block) -> BlockConfig:
    """One tile, so no recompute: larger than any tensor in these tests."""
    return BlockConfig(max(t.height for t in block.tensors), max(t.width for t in block.tensors))


def constants_of(model: s.Model) -> dict[int, npt.NDArray[Any]]:
    """The bytes and float32 of a model's constants, flat, by tensor."""
    types: dict[int, str] = {TensorType.INT8: "i1", TensorType.FLOAT32: "<f4"}
    tensors = enumerate(model.main.tensors)
    stored = {i: (types[t.type], model.buffers[t.buffer].data) for i, t in tensors if t.type in types}
    return {index: np.frombuffer(data, type_) for index, (type_, data) in stored.items() if data}


def fuse(model_bytes: bytes, operators: Iterable[int], config: BlockConfig | None = None) -> bytes:
    """The model with these operators of its main subgraph run as one block."""
    model = load_model(model_bytes)
    extraction = extract(model, operators)
    plan, inputs = schedule(extraction.block, config or whole(extraction.block)), extraction.inputs
    if extraction.block.keeps_state:
        _, nbytes = state_offsets(extraction.block.tensors)
        model, state = add_tensor(model, s.Tensor((nbytes,), TensorType.UINT8, 0, "block state", is_variable=True))
        inputs = (*inputs, state)
    return with_block(model, extraction.operators, inputs, extraction.outputs, encode(extraction.block, plan))


def fuse_outside(model_bytes: bytes, operators: Iterable[int], storage: Storage, config: BlockConfig) -> bytes:
    """As ``fuse`` for a piece at the model's only input, which leaves the arena: EXTERNAL, or SCRATCH for a source."""
    model = load_model(model_bytes)
    extraction = extract(model, operators)
    block = extraction.block
    ((number, moved),) = (
        each for each in zip(block.inputs, extraction.inputs, strict=True) if each[1] in model.main.inputs
    )
    stored = tuple(tensor for tensor in extraction.inputs if tensor != moved)
    tensors = tuple(replace(t, storage=storage) if i == number else t for i, t in enumerate(block.tensors))
    source = (Stage(StageKind.SOURCE, (), number),) if storage is Storage.SCRATCH else ()
    others = tuple(each for each in block.inputs if each != number)
    block = replace(block, tensors=tensors, stages=(*source, *block.stages), inputs=others)
    image = block.tensors[number]
    entry = OutsideInput(
        position=0,
        name=image.name,
        shape=model.main.tensors[moved].dims,
        scale=0.5,
        zero_point=image.zero_point,
        mode=InputMode.EXTERNAL if storage is Storage.EXTERNAL else InputMode.STREAMED,
        number=0,
        rows=image.height,
        columns=image.width,
        channels=image.channels,
    )
    model = set_outside_inputs(replace_main(model, replace(model.main, inputs=())), [entry])
    return with_block(model, extraction.operators, stored, extraction.outputs, encode(block, schedule(block, config)))


def with_block(
    model: s.Model,
    replaced: tuple[int, ...],
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    encoded: EncodedBlock,
) -> bytes:
    """The model with the encoded block in place of some operators."""
    model, buffer = add_buffer(model, encoded.constants)
    constant = s.Tensor((len(encoded.constants),), TensorType.INT8, buffer, "block constants")
    model, constants = add_tensor(model, constant)
    model, scratch = add_tensor(model, s.Tensor((encoded.scratch_bytes,), TensorType.INT8, 0, "block scratch"))
    model, code = add_operator_code(model, custom=CUSTOM_CODE)
    block = s.Operator(code, (*inputs, constants), (*outputs, scratch), custom_options=encoded.options)
    kept = [
        block if index == max(replaced) else operator
        for index, operator in enumerate(model.main.operators)
        if index == max(replaced) or index not in replaced
    ]
    return serialize_model(prune(replace_operators(model, kept)))


def with_version(options: bytes, version: int) -> bytes:
    """Options of a block that claim to be of another version: the first field of their table."""
    root = int.from_bytes(options[:4], "little")
    vtable = root - int.from_bytes(options[root : root + 4], "little", signed=True)
    at = root + int.from_bytes(options[vtable + 4 : vtable + 6], "little")
    return options[:at] + version.to_bytes(4, "little") + options[at + 4 :]
