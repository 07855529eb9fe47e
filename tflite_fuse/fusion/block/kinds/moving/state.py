"""STATE: behind the pixels of earlier runs, those of this one. The last k time steps of a streaming model are one.

A model spells this with a variable that is read, joined with the new steps along time, cut and assigned. The pass
``rings`` finds the spellings and puts ``STATE_OPERATOR`` in their place, which no runtime knows: a block must hold it.
To a schedule it is a PAD: pixels of earlier runs are there before anything is asked of its input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.arithmetic import Int64Array
from tflite_fuse.fusion.block.entry import (
    NOWHERE,
    Kind,
    Operand,
    StageCheck,
    StoredTables,
    Tables,
    Tensors,
    Window,
    parameters_of,
)
from tflite_fuse.fusion.block.operators.operands import read_constant
from tflite_fuse.fusion.block.operators.view import Lowered, OperatorView
from tflite_fuse.fusion.block.stages import BlockTensor, Stage, StageKind, Storage
from tflite_fuse.model.types import TensorType
from tflite_fuse.units import round_up

STATE_OPERATOR = "TFLITE_FUSE_STATE"
"""Custom code of the operator: inputs are the new steps, the int8 value a reset fills with, and perhaps what earlier
steps hold in the first run of all; its output are earlier and new steps."""

MARK_BYTES = 4
"""In front of each ring: where its first pixel is."""


@dataclass(frozen=True)
class StateParameters:
    """What the pixels of earlier runs hold when there was none.

    Attributes:
        first: int8 values of all of them, as the model's initialization has them; empty for ``Stage.pad_value``, which
            a reset leaves.
    """

    first: bytes = b""


def history_pixels(stage: Stage, output: BlockTensor) -> int:
    """Pixels of the output that earlier runs wrote."""
    return stage.padding[0] * output.width + stage.padding[1]


def state_offsets(tensors: Sequence[BlockTensor]) -> tuple[dict[int, int], int]:
    """Where the rings of a block lie in its state: offset by tensor, and bytes in all."""
    offsets, end = {}, 0
    for index, tensor in enumerate(tensors):
        if tensor.storage is Storage.PERSISTENT:
            offsets[index] = end
            end += round_up(MARK_BYTES + tensor.nbytes, MARK_BYTES)
    return offsets, end


def _check(check: StageCheck) -> None:
    source, output, (top, left) = check.sources[0], check.output, check.stage.padding
    check.same_channels()
    grown = source.height + top, source.width + left
    check.require(
        grown == (output.height, output.width), f"makes another number of pixels than {grown[0]} x {grown[1]}"
    )
    check.require(top + left > 0 and (left == 0 or output.height == 1), "keeps no whole pixels in order of time")
    first = parameters_of(check.stage, StateParameters).first
    wanted = history_pixels(check.stage, output) * output.channels
    check.require(len(first) in (0, wanted), f"starts with {len(first)} values")


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    """The first run of all."""
    ((_, values),) = operands
    first = parameters_of(stage, StateParameters).first
    count = history_pixels(stage, output) * output.channels
    history = np.frombuffer(first, np.int8).astype(np.int64) if first else np.full(count, stage.pad_value, np.int64)
    return np.concatenate([history, values.ravel()]).reshape(output.height, output.width, output.channels)


def _decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    output = tensors[stage.output]
    count = history_pixels(stage, output) * output.channels
    first = b"" if stored.table_offset == NOWHERE else stored.table_bytes(count)
    return replace(stage, pad_value=stored.pad_value() or 0, parameters=StateParameters(first))


def _lower(view: OperatorView) -> Lowered:
    source, output = view.read(), view.write()
    fill = int(read_constant(view.model, view.operand(1), TensorType.INT8, "value after a reset").ravel()[0])
    top, left = (after - before for after, before in zip(output.shape[:2], source.shape[:2], strict=True))
    if min(top, left) < 0 or source.shape[2] != output.shape[2] or (top and left) or (left and output.shape[0] > 1):
        raise BlockError(f"it makes {list(output.dims)} of {list(source.dims)}")
    has_first = view.operand(2) >= 0
    first = read_constant(view.model, view.operand(2), TensorType.INT8, "first state").tobytes() if has_first else b""
    stage = Stage(StageKind.STATE, (), -1, padding=(top, left), pad_value=fill, parameters=StateParameters(first))
    return Lowered(stage, (source,), output, output.shape)


STATE = Kind(
    StageKind.STATE,
    window=Window.SHIFTED,
    outside=lambda stage, source: stage.pad_value,
    check=_check,
    reference=_reference,
    encode_table=lambda stage, tensors: Tables(table=parameters_of(stage, StateParameters).first),
    decode_table=_decode,
    lowerings={f"CUSTOM:{STATE_OPERATOR}": _lower},
)
