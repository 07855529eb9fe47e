"""The fused blocks a model already holds."""

from __future__ import annotations

from tflite_fuse.errors import BlockError, ModelError
from tflite_fuse.fusion.encoding.decode import DecodedBlock, decode
from tflite_fuse.fusion.schedule.schedule import schedule
from tflite_fuse.memory.from_model import FUSED_OPERATOR
from tflite_fuse.memory.overlap import Overlap
from tflite_fuse.model.macs import operator_macs
from tflite_fuse.model.operators import operator_label, operator_name
from tflite_fuse.model.outside import InputMode
from tflite_fuse.model.schema import Model


def blocks_in(model: Model) -> dict[int, DecodedBlock]:
    """The fused blocks of the first subgraph by operator index.

    Raises:
        ModelError: a block is damaged; names the operator.
    """
    found = {}
    for index, operator in enumerate(model.main.operators):
        if operator_name(model, operator) != FUSED_OPERATOR:
            continue
        inputs = [tensor for tensor in operator.inputs or () if tensor >= 0]
        data = model.buffers[model.main.tensors[inputs[-1]].buffer].data if inputs else None
        try:
            found[index] = decode(operator.custom_options or b"", data or b"")
        except BlockError as error:
            raise ModelError(f"{operator_label(model, index)} is no sound fused block: {error}") from error
    return found


def outside_reads(model: Model) -> dict[int, tuple[InputMode, int]]:
    """What the fused blocks read from outside the arena, by number: how, and the bytes of the whole tensor.

    Raises:
        ModelError: a block is damaged; names the operator.
    """
    found: dict[int, tuple[InputMode, int]] = {}
    for decoded in blocks_in(model).values():
        for index, number in decoded.outside.items():
            mode = InputMode.STREAMED if index in decoded.block.sourced else InputMode.EXTERNAL
            found[number] = mode, decoded.block.tensors[index].nbytes
    return found


def executed_macs(model: Model) -> tuple[int, ...]:
    """Multiply-accumulates of one inference for each operator of the first subgraph.

    Those of fused blocks are included, what they recompute too.

    Raises:
        ModelError: a block is damaged; names the operator.
    """
    macs = list(operator_macs(model))
    for index, decoded in blocks_in(model).items():
        macs[index] = sum(schedule(decoded.block, decoded.config).stage_macs)
    return tuple(macs)


def block_overlaps(model: Model) -> tuple[Overlap, ...]:
    """What the fused blocks of the first subgraph guarantee: how far their outputs may lie over their inputs.

    The distances are worked out from the blocks' own options, not taken from the file.

    Raises:
        ModelError: a block is damaged; names the operator.
    """
    found: dict[tuple[int, int], int] = {}
    for index, decoded in blocks_in(model).items():
        inputs, outputs = _operands(model, index, decoded)
        try:
            distances = schedule(decoded.block, decoded.config).overlaps
        except BlockError as error:
            raise ModelError(f"{operator_label(model, index)} cannot be run: {error}") from error
        for (source, target), distance in distances.items():
            pair = inputs[source], outputs[target]
            # A tensor may be given as several inputs of one block: the most demanding one counts.
            found[pair] = max(distance, found.get(pair, distance))
    return tuple(Overlap(source, target, distance) for (source, target), distance in found.items())


def _operands(model: Model, index: int, decoded: DecodedBlock) -> tuple[dict[int, int], dict[int, int]]:
    """The model's tensors behind the block's inputs and behind its outputs, by the block's tensor index."""
    operator, block = model.main.operators[index], decoded.block
    inputs, outputs = (operator.inputs or ())[:-1], (operator.outputs or ())[:-1]
    if (len(inputs), len(outputs)) != (len(block.inputs), len(block.outputs)):
        raise ModelError(
            f"{operator_label(model, index)} has {len(inputs)} inputs and {len(outputs)} outputs beside constants and "
            f"scratch; its options speak of {len(block.inputs)} and {len(block.outputs)}"
        )
    return dict(zip(block.inputs, inputs, strict=True)), dict(zip(block.outputs, outputs, strict=True))
