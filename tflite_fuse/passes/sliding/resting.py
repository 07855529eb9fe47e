"""What the states of a stream hold before its first call, and after a reset: rows of silence.

Fed with its input's zero point for ever, every row a stream keeps has settled; all rows of one tensor are then equal.
So a state needs one row of values for all of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.kinds.moving.state import STATE_OPERATOR
from tflite_fuse.fusion.block.kinds.table import KINDS
from tflite_fuse.fusion.block.stages import BlockTensor
from tflite_fuse.fusion.lower.operators import lower_operator
from tflite_fuse.model.edit import add_buffer, replace_main
from tflite_fuse.model.operators import operator_label, operator_name
from tflite_fuse.model.schema import Model, Tensor
from tflite_fuse.model.types import TensorType

Values = npt.NDArray[Any]


def with_resting_states(model: Model) -> Model:
    """Says what every state holds before the first call. Raises BlockError: an operator before one is in no block."""
    wanted = _before_states(model)
    values: dict[int, Values] = {t: _silence(model.main.tensors[t]) for t in model.main.inputs}
    for index in sorted(wanted):
        operator = model.main.operators[index]
        if operator_name(model, operator) == f"CUSTOM:{STATE_OPERATOR}":
            new, fill = operator.inputs or ()
            window = (operator.outputs or (-1,))[0]
            given = values[new].ravel()
            whole = int(np.prod(model.main.tensors[window].dims))
            step = given[: given.size // _steps(model, new, window)]
            values[window] = np.tile(step, whole // step.size)
            model = _filled(model, fill, step.astype(np.int8).tobytes())
            continue
        try:
            values[(operator.outputs or (-1,))[0]] = _computed(model, index, values)
        except BlockError as error:
            label = operator_label(model, index)
            raise BlockError(f"{label}, before a state, can be in no block: {error}") from error
    return model


def _steps(model: Model, new: int, window: int) -> int:
    """Steps of what is new: along the axis that the window is longer in."""
    pairs = zip(model.main.tensors[new].dims, model.main.tensors[window].dims, strict=True)
    return next(a for a, b in pairs if a != b)


def _before_states(model: Model) -> set[int]:
    wanted: set[int] = set()
    tensors: set[int] = set()
    for index in reversed(range(len(model.main.operators))):
        operator = model.main.operators[index]
        state = operator_name(model, operator) == f"CUSTOM:{STATE_OPERATOR}"
        if state or tensors.intersection(operator.outputs or ()):
            wanted.add(index)
            tensors.update((operator.inputs or ())[:1] if state else operator.inputs or ())
    return wanted


def _silence(tensor: Tensor) -> Values:
    """The input's zero point; 0.0 of floats; of uint8 as the int8 value of 128 less."""
    if tensor.type == TensorType.FLOAT32:
        return np.zeros(tensor.dims, np.float32)
    points = tensor.quantization.zero_point if tensor.quantization is not None else None
    point = points[0] if points else 0
    return np.full(tensor.dims, point - (128 if tensor.type == TensorType.UINT8 else 0), np.int64)


def _computed(model: Model, index: int, values: dict[int, Values]) -> Values:
    lowered = lower_operator(model, index)
    stage = lowered.stage
    sources = [values[source.index] for source in lowered.inputs]
    if stage is None:
        return sources[0]
    operands = []
    for source, given in zip(lowered.inputs, sources, strict=True):
        shape = lowered.seen(source)
        tensor = BlockTensor(source.name, *shape, source.zero_point, element_type=source.element_type)
        operands.append((tensor, given.reshape(shape)))
    output = BlockTensor(
        lowered.output.name, *lowered.output_shape, lowered.output.zero_point,
        element_type=lowered.output.element_type,
    )  # fmt: skip
    result = KINDS[stage.kind].reference(stage, operands, output)
    return result if output.is_real else np.clip(result, stage.activation_min, stage.activation_max)


def _filled(model: Model, tensor: int, data: bytes) -> Model:
    model, buffer = add_buffer(model, data)
    tensors = list(model.main.tensors)
    tensors[tensor] = replace(tensors[tensor], shape=(len(data),), buffer=buffer)
    return replace_main(model, replace(model.main, tensors=tuple(tensors)))
