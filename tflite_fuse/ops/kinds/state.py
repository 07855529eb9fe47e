"""STATE: the pixels of earlier inferences followed by those of the current one, such as the last k steps of a stream.

A model expresses a state by a variable that is read, joined with the new steps along time, cut and assigned. The pass
``rings`` replaces such operators by ``STATE_OPERATOR``, which no runtime has: a block must contain it. In a schedule it
is a PAD: pixels of earlier inferences are present before any pixel of its input is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind, Storage
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.arithmetic import Int64Array
from tflite_fuse.ops.entry import (
    NOWHERE,
    Coding,
    Kind,
    Operand,
    StageCheck,
    StoredTables,
    Tables,
    Tensors,
    Window,
    parameters_of,
)
from tflite_fuse.ops.lowering.operands import read_constant
from tflite_fuse.ops.lowering.view import Lowered, OperatorView
from tflite_fuse.units import round_up

STATE_OPERATOR = "TFLITE_FUSE_STATE"
"""Custom code of the operator. Inputs: the new steps, the fill of a reset (an int8 value, or the values of one step),
and optionally the earlier steps in the first inference. Output: earlier and new steps.
"""

MARK_BYTES = 4
"""Bytes in front of each ring: the position of its first pixel."""


@dataclass(frozen=True)
class StateParameters:
    """Pixels of earlier inferences before the first one.

    Attributes:
        first: int8 values of all of them, as in the model's initialization; empty for ``Stage.pad_value``, as after a
            reset.
        step: values of every step after a reset; empty if all are ``Stage.pad_value``.
    """

    first: bytes = b""
    step: bytes = b""


def history_pixels(stage: Stage, output: BlockTensor) -> int:
    """Return the number of output pixels that earlier inferences wrote."""
    return stage.padding[0] * output.width + stage.padding[1]


def step_values(stage: Stage, output: BlockTensor) -> int:
    """Return the number of values in a time step: those of a row, or of a pixel if there is a single row."""
    return (output.width if stage.padding[0] else 1) * output.channels


def state_offsets(tensors: Sequence[BlockTensor]) -> tuple[dict[int, int], int]:
    """Return the offset of each ring in a block's state by tensor, and the bytes of the state."""
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
    parameters = parameters_of(check.stage, StateParameters)
    values = history_pixels(check.stage, output) * output.channels
    check.require(len(parameters.first) in (0, values), f"starts with {len(parameters.first)} values")
    check.require(
        len(parameters.step) in (0, step_values(check.stage, output)), f"resets steps of {len(parameters.step)} values"
    )


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    """Return the output of the first inference."""
    ((_, values),) = operands
    parameters = parameters_of(stage, StateParameters)
    count = history_pixels(stage, output) * output.channels
    step = parameters.step or stage.pad_value.to_bytes(1, "little", signed=True)
    history = np.frombuffer(parameters.first or step * (count // len(step)), np.int8).astype(np.int64)
    return np.concatenate([history, values.ravel()]).reshape(output.height, output.width, output.channels)


def _encode(stage: Stage, tensors: Tensors) -> Tables:
    parameters = parameters_of(stage, StateParameters)
    return Tables(weights=parameters.step, table=parameters.first)


def _decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    output = tensors[stage.output]
    count = history_pixels(stage, output) * output.channels
    first = b"" if stored.table_offset == NOWHERE else stored.table_bytes(count)
    step = b"" if stored.weights_offset == NOWHERE else stored.weights(step_values(stage, output)).tobytes()
    return replace(stage, pad_value=stored.pad_value() or 0, parameters=StateParameters(first, step))


def _lower(view: OperatorView) -> Lowered:
    source, output = view.read(), view.write()
    fill = read_constant(view.model, view.operand(1), TensorType.INT8, "value after a reset").tobytes()
    top, left = (after - before for after, before in zip(output.shape[:2], source.shape[:2], strict=True))
    if min(top, left) < 0 or source.shape[2] != output.shape[2] or (top and left) or (left and output.shape[0] > 1):
        raise BlockError(f"it makes {list(output.dims)} of {list(source.dims)}")
    has_first = view.operand(2) >= 0
    first = read_constant(view.model, view.operand(2), TensorType.INT8, "first state").tobytes() if has_first else b""
    alike = len(set(fill)) == 1
    value = int.from_bytes(fill[:1], "little", signed=True) if alike else output.zero_point
    parameters = StateParameters(first, b"" if alike else fill)
    stage = Stage(StageKind.STATE, padding=(top, left), pad_value=value, parameters=parameters)
    return Lowered(stage, (source,), output, output.shape)


STATE = Kind(
    StageKind.STATE,
    window=Window.SHIFTED,
    outside=lambda stage, source: stage.pad_value,
    check=_check,
    reference=_reference,
    constants=Coding(_encode, _decode),
    lowerings={f"CUSTOM:{STATE_OPERATOR}": _lower},
)

KINDS = (STATE,)
