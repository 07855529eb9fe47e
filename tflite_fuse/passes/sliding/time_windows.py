"""Windows of operators along time: the input steps that an output step needs.

    CONV_2D of 10 taps, stride 2, over 49 steps, padded SAME: output step r reads the input steps 2 r - 4 … 2 r + 5

An operator without such a window, for example a SOFTMAX over all steps, needs its whole input; ``BlockError`` has the
reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from math import prod

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.model.operators import RENAMING, SAME, get_options, operator_name, same_padding
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.lowering.movement import MOVES, moved
from tflite_fuse.ops.lowering.operands import read_constant, tensor_name
from tflite_fuse.ops.lowering.view import OperatorView


@dataclass(frozen=True)
class Time:
    """Steps of a tensor: ``steps`` times ``values`` values, with nothing before them.

    Attributes:
        axis: dimension of the tensor; its length is ``steps``, or ``steps * each`` if a step is no dimension of its
            own.
        steps: number of steps.
        each: elements of that axis per step.
    """

    axis: int
    steps: int
    each: int = 1


class WindowKind(Enum):
    """Form of an operator for another number of steps."""

    ALIKE = "with other shapes"
    SLIDING = "as a window that pads nothing, behind a PAD"
    PAD = "as a PAD of other amounts"
    VIEW = "not at all: its output is a part of its input"


@dataclass(frozen=True)
class TimeWindow:
    """Window along time: output step r reads ``taps`` input steps from ``stride * r - before`` on.

    Attributes:
        times: steps of each output.
        dilation: distance of two taps in steps.
        columns: padding of the other axis of the image, (before, behind).
        fill: int8 value outside the window; None for the input's zero point.
    """

    times: tuple[Time, ...]
    kind: WindowKind = WindowKind.ALIKE
    taps: int = 1
    dilation: int = 1
    stride: int = 1
    before: int = 0
    columns: tuple[int, int] = (0, 0)
    fill: int | None = None

    @property
    def reach(self) -> int:
        """Return the number of steps from the first to the last one read, both included."""
        return (self.taps - 1) * self.dilation + 1

    @property
    def steps(self) -> int:
        return self.times[0].steps

    @property
    def late(self) -> bool:
        """Return whether earlier steps are stored before the operator, not behind it, because it computes nothing."""
        return self.kind in (WindowKind.VIEW, WindowKind.PAD)


Times = Mapping[int, Time]
"""The tensors that have steps."""


def time_window_of(model: Model, operator: Operator, times: Times) -> TimeWindow:
    """Return the window of an operator along time.

    Args:
        model: model of the operator.
        operator: an operator that reads at least one tensor with steps.
        times: tensors with steps.

    Raises:
        BlockError: it needs all steps at once; the message has the reason.
    """
    name = operator_name(model, operator)
    outputs = operator.outputs or ()
    if name not in _WINDOWS or not outputs:
        raise BlockError(f"{name.replace('CUSTOM:', 'the custom operator ')} needs all steps at once")
    inputs, options = operator.inputs or (), get_options(operator)
    return _WINDOWS[name](_Seen(model, inputs, operator.output, options, name, outputs, times))


@dataclass(frozen=True)
class _Seen(OperatorView):
    """An operator with the steps of its inputs.

    Attributes:
        name: its name in TFLite's schema.
        outputs: its outputs.
        times: by tensor, the steps of those that have some.
    """

    name: str
    outputs: tuple[int, ...]
    times: Times

    def dims(self, tensor: int) -> tuple[int, ...]:
        return self.model.main.tensors[tensor].dims

    @property
    def time(self) -> Time:
        """Return the time of the first input with steps."""
        return next(self.times[tensor] for tensor in self.inputs if tensor in self.times)

    def outputs_as(self, axis: int, steps: int) -> tuple[Time, ...]:
        """Return the steps of every output along an axis. Raises BlockError if its shape does not match."""
        time = Time(axis, steps)
        for tensor in self.outputs:
            dims = self.dims(tensor)
            if axis >= len(dims) or dims[axis] != steps or prod(dims[:axis]) != 1:
                raise BlockError(f"its output {tensor_name(self.model, tensor)} has no {steps} steps one after another")
        return (time,) * len(self.outputs)


def _each(seen: _Seen) -> TimeWindow:
    """Return the window of an operator by value: inputs have the output's shape, constants are equal for all steps."""
    shape, axis = seen.dims(seen.output), seen.time.axis
    for tensor in seen.inputs:
        if tensor < 0:
            continue
        dims = seen.dims(tensor)
        if tensor in seen.times:
            if dims != shape or seen.times[tensor] != seen.time:
                raise BlockError(f"it repeats {tensor_name(seen.model, tensor)}")
            continue
        if not seen.model.buffers[seen.model.main.tensors[tensor].buffer].data:
            raise BlockError(f"it combines steps with {tensor_name(seen.model, tensor)}, which has no steps")
        own = axis - (len(shape) - len(dims))
        if own >= 0 and dims[own] != 1:
            raise BlockError(f"its constant {tensor_name(seen.model, tensor)} differs from step to step")
    return TimeWindow(seen.outputs_as(axis, seen.time.steps))


def _sliding(seen: _Seen) -> TimeWindow:
    time, source = seen.time, seen.inputs[0]
    if source not in seen.times or len(seen.dims(source)) != 4 or time.axis not in (1, 2):
        raise BlockError("its input is no image with steps as rows or columns")
    across, (sign, other) = 3 - time.axis, ("hw", "wh")[time.axis - 1]
    if seen.name.endswith("POOL_2D"):
        taps = {axis: seen.option(f"filter_{'height' if axis == 1 else 'width'}", 0) for axis in (1, 2)}
    else:
        weights = read_constant(seen.model, seen.operand(1), TensorType.INT8, "weights")
        if weights.ndim != 4:
            raise BlockError(f"its weights have {weights.ndim} dimensions, not 4")
        taps = {axis: weights.shape[axis] for axis in (1, 2)}
    stride, dilation = seen.option(f"stride_{sign}", 0), seen.option(f"dilation_{sign}_factor", 1)
    steps = seen.dims(seen.output)[time.axis]
    beside = seen.option(f"stride_{other}", 0), seen.option(f"dilation_{other}_factor", 1)
    if min(stride, dilation, taps[time.axis], steps, *beside) < 1:
        raise BlockError("its windows do not fit its input")
    pads = seen.option("padding", SAME) == SAME
    extent, width = (taps[time.axis] - 1) * dilation + 1, (taps[across] - 1) * beside[1] + 1
    before, _ = same_padding(time.steps, extent, stride)[1] if pads else (0, 0)
    columns = same_padding(seen.dims(source)[across], width, beside[0])[1] if pads else (0, 0)
    window = TimeWindow(
        seen.outputs_as(time.axis, steps), WindowKind.SLIDING, taps[time.axis], dilation, stride, before, columns
    )
    if (steps - 1) * stride - before >= time.steps:
        raise BlockError("its windows do not fit its input")
    if seen.name == "AVERAGE_POOL_2D" and (before or any(columns) or (steps - 1) * stride + window.reach > time.steps):
        raise BlockError("it averages fewer values at the edges of the window")
    return window if seen.name != "MAX_POOL_2D" else TimeWindow(**{**vars(window), "fill": -128})


def _pad(seen: _Seen) -> TimeWindow:
    time, amounts = seen.time, seen.integers(1, "paddings")
    if len(amounts) != 2 * len(seen.dims(seen.inputs[0])) or min(amounts) < 0:
        raise BlockError("its paddings do not fit its dimensions")
    before, behind = amounts[2 * time.axis : 2 * time.axis + 2]
    times = seen.outputs_as(time.axis, time.steps + before + behind)
    return TimeWindow(times, WindowKind.PAD, before=before)


def _rename(seen: _Seen) -> TimeWindow:
    """Return the window of a RESHAPE that keeps the values of a step together."""
    time, dims, source = seen.time, seen.dims(seen.output), seen.dims(seen.inputs[0])
    values = prod(source) // time.steps
    for axis, length in enumerate(dims[:-1]):  # values along the last axis are channels, which have no ring
        if length == time.steps and prod(dims[:axis]) == 1 and prod(dims[axis + 1 :]) == values:
            return TimeWindow((Time(axis, time.steps),))
    raise BlockError(f"it makes {list(dims)} of {list(source)}, which mixes the steps")


def _transpose(seen: _Seen) -> TimeWindow:
    order = seen.integers(1, "permutation")
    if sorted(order) != list(range(len(seen.dims(seen.inputs[0])))):
        raise BlockError("its permutation is invalid")
    if order[-1] == seen.time.axis:
        raise BlockError("it turns the steps into channels")
    return TimeWindow(seen.outputs_as(order.index(seen.time.axis), seen.time.steps))


def _mean(seen: _Seen) -> TimeWindow:
    rank, time = len(seen.dims(seen.inputs[0])), seen.time
    axes = {axis % rank for axis in seen.integers(1, "axes")}
    if time.axis in axes:
        raise BlockError("it averages over all steps")
    dropped = 0 if seen.option("keep_dims", 0) else sum(axis < time.axis for axis in axes)
    return TimeWindow(seen.outputs_as(time.axis - dropped, time.steps))


def _joining(seen: _Seen) -> TimeWindow:
    time, rank = seen.time, len(seen.dims(seen.output))
    if any(seen.times.get(tensor) != time for tensor in seen.inputs):
        raise BlockError("it joins tensors with different steps or without steps")
    if seen.option("axis", 0) % rank == time.axis:
        raise BlockError("it joins along time")
    return TimeWindow(seen.outputs_as(time.axis, time.steps))


def _moving(seen: _Seen) -> TimeWindow:
    """Return the window of SLICE, STRIDED_SLICE, GATHER or SPLIT: some of the steps, or some values of every step."""
    source, parts = moved(seen.name, seen, seen.outputs)
    time = seen.times.get(source.index)
    if time is None:
        raise BlockError("its input has no steps")
    values = source.elements // time.steps
    steps = [part.ravel()[:: max(part.size // seen.dims(t)[time.axis], 1)] // values if part.ndim > time.axis else None
             for part, t in zip(parts, seen.outputs, strict=True)]  # fmt: skip
    first = parts[0]
    rows = steps[0]
    if rows is None or len(rows) != first.shape[time.axis]:
        raise BlockError("it mixes the steps")
    if all(part.size % time.steps == 0 for part in parts):
        alike = (_same_of_each(part, time.steps, values) for part in parts)
        if all(alike) and all(part.shape[time.axis] == time.steps for part in parts):
            return TimeWindow(seen.outputs_as(time.axis, time.steps))
    whole = np.arange(source.elements, dtype=np.int32).reshape(source.dims)
    if len(parts) != 1 or not np.array_equal(np.take(whole, rows, time.axis), first):
        raise BlockError("it takes different values from different steps")
    stride = int(rows[1] - rows[0]) if len(rows) > 1 else 1
    if stride < 1 or np.any(np.diff(rows) != stride):
        raise BlockError("it takes steps in another order")
    times = seen.outputs_as(time.axis, len(rows))
    return TimeWindow(times, WindowKind.VIEW, stride=stride, before=-int(rows[0]))


def _same_of_each(part: np.ndarray[tuple[int, ...], np.dtype[np.int32]], steps: int, values: int) -> bool:
    by_step = part.reshape(steps, -1)
    return bool(
        np.array_equal(by_step - by_step[:1], np.broadcast_to(np.arange(steps)[:, None] * values, by_step.shape))
    )


_BY_VALUE = (
    "ABS ADD CAST DEQUANTIZE DIV ELU EXP HARD_SWISH LEAKY_RELU LOGISTIC MAXIMUM MINIMUM MUL NEG PRELU QUANTIZE RELU "
    "RELU6 RELU_N1_TO_1 RSQRT SQRT SQUARE SQUARED_DIFFERENCE SUB TANH"
)

_WINDOWS: Mapping[str, Callable[[_Seen], TimeWindow]] = {
    **dict.fromkeys(_BY_VALUE.split(), _each),
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D"), _sliding),
    **dict.fromkeys(("PAD", "PADV2"), _pad),
    **dict.fromkeys(RENAMING, _rename),
    **dict.fromkeys(("GATHER", "SLICE", "SPLIT", "SPLIT_V", "STRIDED_SLICE"), _moving),
    "CONCATENATION": _joining,
    "MEAN": _mean,
    "TRANSPOSE": _transpose,
}
assert set(MOVES) - {"PACK", "TILE", "UNPACK"} <= set(_WINDOWS)
