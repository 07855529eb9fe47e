"""A model over a window of steps, called again every few of them, as a stream that takes only the new ones.

windowed: [1, 49, 10, 1] in every call, 47 of 49 steps those of the call before    stream: [1, 2, 10, 1]
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import prod

from tflite_fuse.errors import BlockError, LimitError, UsageError
from tflite_fuse.fusion.block.kinds.moving.state import STATE_OPERATOR
from tflite_fuse.fusion.encoding.stream_time import StreamTime, stream_time, with_stream_time
from tflite_fuse.memory.from_model import FUSED_OPERATOR, has_effects
from tflite_fuse.model.macs import operator_macs
from tflite_fuse.model.operators import operator_label, operator_name
from tflite_fuse.model.schema import Model
from tflite_fuse.passes.options import Hop
from tflite_fuse.passes.sliding.looks import Time
from tflite_fuse.passes.sliding.resting import with_resting_states
from tflite_fuse.passes.sliding.unrolling import unroll

TRIED = 8
"""Multiples of a model's strides that are tried where a hop does not work."""

_AXES = {"height": 1, "width": 2}
_STATE = f"CUSTOM:{STATE_OPERATOR}"


@dataclass(frozen=True)
class Streamed:
    """A model as a stream, before blocks hold its states.

    Attributes:
        model: it; states are operators no runtime knows.
        time: the window, the hop.
        macs: multiply-accumulates of a call.
        notes: a sentence for each thing worth knowing.
    """

    model: Model
    time: StreamTime
    macs: int
    notes: tuple[str, ...]


def to_stream(model: Model, hop: Hop) -> Streamed:
    """The stream of a model.

    Raises:
        UsageError: the hop is none for its window.
        LimitError: it cannot be one, and why.
    """
    _refuse_state(model)
    times = _input_times(model, hop.axis)
    steps = {time.steps for time in times.values()}
    if len(steps) != 1 or len({(time.axis, time.each) for time in times.values()}) != 1:
        raise LimitError(f"it is no stream: its inputs have {sorted(steps)} steps along {hop.axis or 'height'}")
    (window,) = steps
    if not 0 < hop.steps < window:
        raise UsageError(f"a hop of {hop.steps} is not within 1...{window - 1}: the window has {window} steps")
    try:
        found = unroll(model, hop.steps, times)
        streamed = with_resting_states(found.model)
    except BlockError as error:
        raise LimitError(f"it is no stream: {error}") from error
    before, after = (sum(operator_macs(each)) for each in (model, streamed))
    if after >= before:
        why = f": {found.notes[0]}" if found.notes else ""
        others = _working(model, window, times, found.spacings)
        raise LimitError(
            f"as a stream of hop {hop.steps} it computes {after:,} MACs, and {before:,} as it is{why}{others}"
        )
    time = next(iter(times.values()))
    told = StreamTime(hop.steps, window, time.axis, time.each)
    states = sum(operator_name(streamed, operator) == _STATE for operator in streamed.main.operators)
    notes = (
        f"a stream that takes {hop.steps} of {window} steps a call and keeps {states} rings: {after:,} of {before:,} "
        f"MACs a call, {after / before:.3f}",
        f"from call {told.calls} on the window is full; before, and after a reset, it is as if the input's zero point "
        "had been fed",
        *found.notes,
    )
    return Streamed(with_stream_time(streamed, told), told, after, notes)


def _working(model: Model, window: int, times: Mapping[int, Time], spacings: frozenset[int]) -> str:
    """Which multiples of the strides compute less than the window, tried."""
    before, found = sum(operator_macs(model)), list[int]()
    tried = sorted({spacing * times for spacing in spacings if spacing > 1 for times in range(1, TRIED + 1)})
    for hop in [hop for hop in tried if hop < window][:TRIED]:
        with suppress(BlockError):
            found += [hop] if sum(operator_macs(unroll(model, hop, times).model)) < before else []
    return f"; hops that work: {', '.join(map(str, found))}" if found else ""


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
    """Where the steps of every input are. Raises LimitError: they are not one behind the other."""
    found = {}
    for tensor in model.main.inputs:
        held = model.main.tensors[tensor]
        dims = held.dims
        if held.shape_signature is not None and any(size < 0 for size in held.shape_signature[1:]):
            raise LimitError(f"it is no stream: its input {held.name} has no fixed shape")
        if len(dims) == 2:
            dims = _reshaped(model, tensor)
        axis = _AXES[named] if named else 1 if len(dims) < 4 or dims[1] > 1 else 2
        axis = min(axis, len(dims) - 2)
        if len(dims) < 3 or axis < 1:
            raise LimitError(f"it is no stream: its input {held.name} of shape {list(held.dims)} has no rows of steps")
        if prod(dims[:axis]) != 1:
            raise LimitError(
                f"it is no stream: a step along {named or 'height'} is a column of {held.name}'s {dims[1]} rows; steps "
                "must lie one behind the other"
            )
        flat = len(held.dims) == 2
        found[tensor] = Time(1, dims[axis], prod(dims[axis + 1 :])) if flat else Time(axis, dims[axis])
    if not found:
        raise LimitError("it is no stream: it has no input")
    return found


def _reshaped(model: Model, tensor: int) -> tuple[int, ...]:
    """The shape that the one reader of a flat input gives it."""
    readers = [operator for operator in model.main.operators if tensor in (operator.inputs or ())]
    if len(readers) == 1 and operator_name(model, readers[0]) == "RESHAPE":
        return model.main.tensors[(readers[0].outputs or (-1,))[0]].dims
    return model.main.tensors[tensor].dims
