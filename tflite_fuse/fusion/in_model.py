"""The fused blocks a model already holds."""

from __future__ import annotations

from tflite_fuse.errors import BlockError, ModelError
from tflite_fuse.fusion.decode import DecodedBlock, decode
from tflite_fuse.fusion.schedule import schedule
from tflite_fuse.memory.from_model import FUSED_OPERATOR
from tflite_fuse.model.operators import operator_label, operator_name
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


def executed_macs(block: DecodedBlock) -> int:
    """Multiply-accumulates of one run, recomputed ones included."""
    return sum(schedule(block.block, block.config).stage_macs)
