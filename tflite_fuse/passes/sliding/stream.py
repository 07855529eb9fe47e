"""Conversion of a model over a window of steps, called every few steps, to a stream that takes only the new steps.

windowed: [1, 49, 10, 1] in every call, 47 of 49 steps those of the call before    stream: [1, 2, 10, 1]

Before the first call, and after a reset, states contain silence: the rows to which they converge if the input is its
zero point for ever. All rows of one tensor are then equal, so one row of values describes a state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_fuse.emit.stream_time import StreamTime, stream_time, with_stream_time
from tflite_fuse.errors import BlockError, LimitError, UsageError
from tflite_fuse.ir.block import BlockTensor
from tflite_fuse.ir.program import FUSED_OPERATOR, has_effects
from tflite_fuse.model.edit import add_buffer, replace_tensor
from tflite_fuse.model.macs import operator_macs
from tflite_fuse.model.operators import operator_label, operator_name
from tflite_fuse.model.schema import Model, Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.notes import Note, note
from tflite_fuse.ops.kinds.state import STATE_OPERATOR
from tflite_fuse.ops.lowering.lower import lower_operator
from tflite_fuse.ops.table import KINDS
from tflite_fuse.passes.options import Hop
from tflite_fuse.passes.sliding.time_windows import Time
from tflite_fuse.passes.sliding.unrolling import unroll

Values = npt.NDArray[Any]


def with_resting_states(model: Model) -> Model:
    """Return the model with the initial values of all states. Raises BlockError if blocks cannot compute one."""
    needed = _before_states(model)
    values: dict[int, Values] = {t: _silence(model.main.tensors[t]) for t in model.main.inputs}
    for index in sorted(needed):
        operator = model.main.operators[index]
        if operator_name(model, operator) == f"CUSTOM:{STATE_OPERATOR}":
            new, fill = operator.inputs or ()
            window = operator.output
            content = values[new].ravel()
            whole = int(np.prod(model.main.tensors[window].dims))
            step = content[: content.size // _steps(model, new, window)]
            values[window] = np.tile(step, whole // step.size)
            model = _filled(model, fill, step.astype(np.int8).tobytes())
            continue
        try:
            values[operator.output] = _computed(model, index, values)
        except BlockError as error:
            label = operator_label(model, index)
            raise BlockError(f"{label}, before a state, can be in no block: {error}") from error
    return model


def _steps(model: Model, new: int, window: int) -> int:
    """Return the number of new steps, along the axis in which the window is longer."""
    pairs = zip(model.main.tensors[new].dims, model.main.tensors[window].dims, strict=True)
    return next(a for a, b in pairs if a != b)


def _before_states(model: Model) -> set[int]:
    needed: set[int] = set()
    tensors: set[int] = set()
    for index in reversed(range(len(model.main.operators))):
        operator = model.main.operators[index]
        state = operator_name(model, operator) == f"CUSTOM:{STATE_OPERATOR}"
        if state or tensors.intersection(operator.outputs or ()):
            needed.add(index)
            tensors.update((operator.inputs or ())[:1] if state else operator.inputs or ())
    return needed


def _silence(tensor: Tensor) -> Values:
    """Return the input's zero point; 0.0 for floats; for uint8 the int8 value, which is 128 less."""
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
    for source, content in zip(lowered.inputs, sources, strict=True):
        shape = lowered.seen(source)
        tensor = BlockTensor(source.name, *shape, source.zero_point, element_type=source.element_type)
        operands.append((tensor, content.reshape(shape)))
    output = BlockTensor(
        lowered.output.name, *lowered.output_shape, lowered.output.zero_point,
        element_type=lowered.output.element_type,
    )  # fmt: skip
    result = KINDS[stage.kind].reference(stage, operands, output)
    return result if output.is_real else np.clip(result, stage.activation_min, stage.activation_max)


def _filled(model: Model, tensor: int, data: bytes) -> Model:
    model, buffer = add_buffer(model, data)
    return replace_tensor(model, tensor, replace(model.main.tensors[tensor], shape=(len(data),), buffer=buffer))


TRIED = 8
"""Number of multiples of a model's strides that are tried if a hop does not work."""

_AXES = {"height": 1, "width": 2}
_STATE = f"CUSTOM:{STATE_OPERATOR}"


@dataclass(frozen=True)
class Streamed:
    """A model as a stream, before blocks contain its states.

    Attributes:
        model: the stream; its states are operators that no runtime has.
        time: window and hop.
        macs: multiply-accumulates of a call.
        notes: facts to report.
    """

    model: Model
    time: StreamTime
    macs: int
    notes: tuple[Note, ...]


def to_stream(model: Model, hop: Hop) -> Streamed:
    """Return the stream of a model.

    Raises:
        UsageError: the hop is invalid for its window.
        LimitError: it cannot be a stream; the message has the reason.
    """
    _refuse_state(model)
    times = _input_times(model, hop.axis)
    steps = {time.steps for time in times.values()}
    if len(steps) != 1 or len({(time.axis, time.each) for time in times.values()}) != 1:
        raise LimitError(f"it is no stream: its inputs have {sorted(steps)} steps along {hop.axis or 'height'}")
    (window,) = steps
    if window < 2:
        raise LimitError("it is no stream: its window has one step")
    if not 0 < hop.steps < window:
        raise UsageError(f"a hop of {hop.steps} is not within 1...{window - 1}: the window has {window} steps")
    try:
        unrolled = unroll(model, hop.steps, times)
        streamed = with_resting_states(unrolled.model)
    except BlockError as error:
        raise LimitError(f"it is no stream: {error}") from error
    before, after = (sum(operator_macs(each)) for each in (model, streamed))
    if after >= before:
        why = _whole_window(unrolled.notes)
        alternatives = _working(model, window, times, unrolled.spacings)
        raise LimitError(
            f"as a stream of hop {hop.steps} it computes {after:,} MACs, not fewer than the {before:,} of the whole "
            f"window{why}{alternatives}"
        )
    time = next(iter(times.values()))
    stream_time = StreamTime(hop.steps, window, time.axis, time.each)
    states = sum(operator_name(streamed, operator) == _STATE for operator in streamed.main.operators)
    notes = (
        note(
            "changed",
            "stream",
            hop=hop.steps,
            window=window,
            rings=states,
            macs=after,
            macs_of_window=before,
            factor=after / before,
        ),
        note("expected", "full window", calls=stream_time.calls),
        *unrolled.notes,
    )
    return Streamed(with_stream_time(streamed, stream_time), stream_time, after, notes)


def _whole_window(notes: Sequence[Note]) -> str:
    """Return the first operator that reads the whole window, and its reason, as a clause; nothing if there is none."""
    if not notes:
        return ""
    return f": {notes[0].operators[0]} and what follows it look at the whole window: {notes[0].details['why']}"


def _working(model: Model, window: int, times: Mapping[int, Time], spacings: frozenset[int]) -> str:
    """Return a clause with the multiples of the strides that compute less than the window."""
    before, hops = sum(operator_macs(model)), list[int]()
    tried = sorted({spacing * times for spacing in spacings if spacing > 1 for times in range(1, TRIED + 1)})
    for hop in [hop for hop in tried if hop < window][:TRIED]:
        with suppress(BlockError):
            hops += [hop] if sum(operator_macs(unroll(model, hop, times).model)) < before else []
    return f"; hops that work: {', '.join(map(str, hops))}" if hops else ""


def _refuse_state(model: Model) -> None:
    if stream_time(model) is not None:
        raise LimitError("it is a stream already")
    for index, operator in enumerate(model.main.operators):
        name = operator_name(model, operator)
        if name == FUSED_OPERATOR:
            raise LimitError(
                f"it is no stream: {operator_label(model, index)} is a fused block; give the model it was made of"
            )
        if has_effects(model, model.main, operator):
            raise LimitError(f"it is no stream: {operator_label(model, index)} has a state or effects of its own")


def _input_times(model: Model, named: str | None) -> Mapping[int, Time]:
    """Return the steps of every input. Raises LimitError if they are not contiguous."""
    times = {}
    for tensor in model.main.inputs:
        described = model.main.tensors[tensor]
        dims = described.dims
        if described.is_open:
            raise LimitError(f"it is no stream: its input {described.name} has no fixed shape")
        if len(dims) == 2:
            dims = _reshaped(model, tensor)
        axis = _AXES[named] if named else 1 if len(dims) < 4 or dims[1] > 1 else 2
        axis = min(axis, len(dims) - 2)
        if len(dims) < 3 or axis < 1:
            raise LimitError(
                f"it is no stream: its input {described.name} of shape {list(described.dims)} has no rows of steps"
            )
        if prod(dims[:axis]) != 1:
            raise LimitError(
                f"it is no stream: a step along {named or 'height'} is a column of {described.name}'s {dims[1]} rows; "
                "steps must be contiguous"
            )
        flat = len(described.dims) == 2
        times[tensor] = Time(1, dims[axis], prod(dims[axis + 1 :])) if flat else Time(axis, dims[axis])
    if not times:
        raise LimitError("it is no stream: it has no input")
    return times


def _reshaped(model: Model, tensor: int) -> tuple[int, ...]:
    """Return the shape of a flat input after its only reader, a RESHAPE."""
    readers = [model.main.operators[index] for index in model.main.readers.get(tensor, ())]
    if len(readers) == 1 and operator_name(model, readers[0]) == "RESHAPE":
        return model.main.tensors[readers[0].output].dims
    return model.main.tensors[tensor].dims
