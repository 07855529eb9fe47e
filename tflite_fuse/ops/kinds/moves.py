"""Kinds that move values without computing: PAD, CONCATENATION, SOURCE, CHANNELS.

PAD also cuts. CONCATENATION joins channels. A callback fills SOURCE. CHANNELS selects channels of the input in any
order, with constant channels between them: PAD along channels, SLICE, STRIDED_SLICE, GATHER and each output of a SPLIT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind, Storage
from tflite_fuse.ir.limits import MAX_TENSORS, MAX_WINDOW
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.arithmetic import Int64Array
from tflite_fuse.ops.entry import (
    Coding,
    Kind,
    Layout,
    Numbers,
    Operand,
    StageCheck,
    StoredTables,
    Tensors,
    Window,
    by_pixel,
    each_value,
    parameters_of,
)
from tflite_fuse.ops.kinds.resize import sliced
from tflite_fuse.ops.lowering.movement import channels_of, moved, places_of
from tflite_fuse.ops.lowering.operands import (
    Activation,
    read_bytes,
    read_constant,
    read_operand,
    read_quantization,
    read_real,
    tensor_name,
)
from tflite_fuse.ops.lowering.requantization import NO_ACTIVATION
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView

_MAX_CONCATENATION_INPUTS = 10


@by_pixel("copied values", "copies")
def _copied(stage: Stage, tensors: Tensors) -> tuple[int, ...]:
    """Return the copied values and the number of copies of a pixel, one per input."""
    return tensors[stage.output].channels, max(len(stage.inputs), 1)


# ---- PAD ----


def _check_pad(check: StageCheck) -> None:
    source, (top, left) = check.sources[0], check.stage.padding
    inside = -top < source.height and -left < source.width
    check.require(inside and source.channels == check.output.channels, f"leaves nothing of {source.name}")


def _pad(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((_, values),) = operands
    top, left = stage.padding
    bottom, right = output.height - top - values.shape[0], output.width - left - values.shape[1]
    added = [(max(before, 0), max(behind, 0)) for before, behind in ((top, bottom), (left, right))]
    padded = np.pad(values, (*added, (0, 0)), constant_values=stage.pad_value)
    return padded[max(-top, 0) :, max(-left, 0) :][: output.height, : output.width]


def _decode_pad(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    return replace(stage, pad_value=stored.pad_value() or 0)


def _lower_pad(view: OperatorView) -> Lowered:
    """Lower PAD and PADV2 of rows and columns, or of channels; without padding it is a renaming."""
    source, output = view.moved()
    amounts = view.paddings(source)
    grown = tuple(dim + before + after for dim, (before, after) in zip(source.dims, amounts, strict=False))
    if grown != output.dims:
        raise BlockError(f"its paddings {amounts} do not lead from {list(source.dims)} to {list(output.dims)}")
    if any(amount < 0 for pair in amounts for amount in pair):
        raise BlockError("it cuts its input (negative paddings)")
    value = _pad_value(view, output) if view.operand(2) >= 0 else output.zero_point
    if not any(map(any, amounts)):
        return Lowered(None, (source,), output)
    rows, columns, channels = ([0, 0], [0, 0], *(amounts[1:] or amounts))[-3:]
    if len(amounts) > 1 and any(amounts[0]):
        raise BlockError("it pads the batch")
    if any(channels):
        if any((*rows, *columns)):
            raise BlockError("it pads channels, and rows or columns besides")
        sources = (*repeat(FILLED, channels[0]), *range(source.shape[2]), *repeat(FILLED, channels[1]))
        stage = Stage(StageKind.CHANNELS, parameters=ChannelParameters(sources, value))
        return Lowered(stage, (source,), output, output.shape, Fit.PIXELS)
    stage = Stage(StageKind.PAD, padding=(rows[0], columns[0]), pad_value=value)
    return Lowered(stage, (source,), output, output.shape)


COPY_OPERATOR = "TFLITE_FUSE_COPY"
"""Custom operator that copies its input. No runtime has it: a block must contain it."""


def _lower_copy(view: OperatorView) -> Lowered:
    if view.is_real:
        source, output = view.same()
    else:
        source, output = (read_bytes(view.model, index) for index in (view.operand(0), view.output))
        view.require_alone(source)
    image = replace(source, by_value=True).shape  # as readers by value see it
    return Lowered(Stage(StageKind.PAD), (source,), output, image, Fit.BYTES, sees=image)


def _pad_value(view: OperatorView, output: Activation) -> int:
    index = view.operand(2)
    if output.is_real:
        if read_constant(view.model, index, TensorType.FLOAT32, "pad value").tobytes().strip(b"\0"):
            raise BlockError("it pads float32 with another value than 0")
        return 0
    values = read_constant(view.model, index, TensorType.INT8, "pad value")
    if values.size != 1 or read_quantization(view.model, index) != ((output.scale,), (output.zero_point,)):
        raise BlockError(f"its pad value {tensor_name(view.model, index)} is not quantized as its output is")
    return int(values.ravel()[0])


PAD = Kind(
    StageKind.PAD,
    window=Window.SHIFTED,
    moves=True,
    cuts=True,
    outside=lambda stage, source: stage.pad_value,
    check=_check_pad,
    reference=_pad,
    constants=Coding(decode=_decode_pad),
    work=_copied,
    lowerings={"PAD": _lower_pad, "PADV2": _lower_pad, f"CUSTOM:{COPY_OPERATOR}": _lower_copy},
)

# ---- CONCATENATION ----


def _check_concatenation(check: StageCheck) -> None:
    for source in check.sources:
        check.same_shape(source, channels=False)
    joined = sum(source.channels for source in check.sources)
    check.require(joined == check.output.channels, f"joins {joined} channels into {check.output.channels}")


def _concatenation(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    return np.concatenate([values for _, values in operands], axis=2)


def _lower_concatenation(view: OperatorView) -> Lowered:
    """Lower CONCATENATION along channels."""
    read, output = (read_real, read_real(view.model, view.output)) if view.is_real else (read_operand, view.write())
    parts = tuple(read(view.model, index) for index in view.inputs)
    axis, rank = view.option("axis", default=0), len(output.dims)
    if all(part.constant is not None for part in parts):
        raise BlockError("all of its inputs are constants")
    if not 2 <= len(parts) <= _MAX_CONCATENATION_INPUTS:
        raise BlockError(f"it joins {len(parts)} tensors")
    if axis not in (rank - 1, -1) or any(len(part.dims) != rank for part in parts):
        raise BlockError(f"it joins along axis {axis}, not along channels")
    if view.option("fused_activation_function", default=NO_ACTIVATION) != NO_ACTIVATION:
        raise BlockError("it has a fused activation, which TFLM refuses")
    if any((part.scale, part.zero_point) != (output.scale, output.zero_point) for part in parts):
        raise BlockError("its inputs and output are quantized differently, which TFLM refuses")
    channels = sum(part.shape[2] for part in parts)
    if any(part.shape[:2] != output.shape[:2] for part in parts) or channels != output.shape[2]:
        raise BlockError(f"its inputs do not add up to its output {output.name}")
    return Lowered(Stage(StageKind.CONCATENATION), parts, output, output.shape, Fit.PIXELS)


CONCATENATION = Kind(
    StageKind.CONCATENATION,
    inputs=(1, MAX_TENSORS),
    moves=True,
    check=_check_concatenation,
    reference=_concatenation,
    work=_copied,
    lowerings={"CONCATENATION": _lower_concatenation},
)

# ---- SOURCE ----


def _check_source(check: StageCheck) -> None:
    check.require(check.output.storage is Storage.SCRATCH, "does not write to scratch")


SOURCE = Kind(StageKind.SOURCE, inputs=(0, 0), check=_check_source, work=_copied)


FILLED = -1
"""Index of a constant channel among ``sources``."""


@dataclass(frozen=True)
class ChannelParameters:
    """Source of each output channel.

    Attributes:
        sources: input channel of each output channel, or FILLED.
        fill: int8 value of filled channels, 0 for float32.
    """

    sources: tuple[int, ...]
    fill: int = 0


def _check(check: StageCheck) -> None:
    check.same_shape(check.sources[0], channels=False)
    channels, parameters = check.sources[0].channels, parameters_of(check.stage, ChannelParameters)
    check.require(channels <= MAX_WINDOW, f"reads more than {MAX_WINDOW} channels")
    check.require(len(parameters.sources) == check.output.channels, f"makes {len(parameters.sources)} channels")
    check.require(all(FILLED <= each < channels for each in parameters.sources), "reads a channel that is not there")
    least, most = (0, 0) if check.output.is_real else (-128, 127)
    check.require(least <= parameters.fill <= most, f"fills with {parameters.fill}")


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((_, values),) = operands
    parameters = parameters_of(stage, ChannelParameters)
    filled = np.full((*values.shape[:2], 1), parameters.fill, values.dtype)
    return np.concatenate([values, filled], axis=2)[:, :, list(parameters.sources)]


_LAYOUT = Layout(
    ChannelParameters, (Numbers("fill", None, "<i2"), Numbers("sources", lambda output: output.channels, "<i2"))
)


def _lowered_by(name: str) -> Callable[[OperatorView], Lowered]:
    """Return the lowering of an operator that moves whole channels or takes every n-th row and column."""

    def lower(view: OperatorView) -> Lowered:
        _, output = view.moved()
        source, (indices,) = moved(name, view, (view.output,))
        sources = channels_of(indices, source.shape, output.shape)
        if sources is None:
            places = places_of(indices, source.shape, output.shape)
            stage = None if places is None else sliced(*places)
            if stage is None:
                raise BlockError(
                    "it moves no whole channels, the same for all pixels, and not every n'th row or column"
                )
            if stage.kind is StageKind.PAD:
                stage = replace(stage, pad_value=source.zero_point)
            return Lowered(stage, (source,), output, output.shape)
        if sources == tuple(range(source.shape[2])):
            return Lowered(None, (source,), output)
        stage = Stage(StageKind.CHANNELS, parameters=ChannelParameters(sources))
        return Lowered(stage, (source,), output, output.shape, Fit.PIXELS)

    return lower


CHANNELS = Kind(
    StageKind.CHANNELS,
    moves=True,
    check=_check,
    reference=_reference,
    constants=_LAYOUT,
    work=each_value({"other values": 1, "other outputs": 1}),
    lowerings={name: _lowered_by(name) for name in ("GATHER", "SLICE", "STRIDED_SLICE")},
)

KINDS = (PAD, CONCATENATION, SOURCE, CHANNELS)
