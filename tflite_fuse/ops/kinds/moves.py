"""QUANTIZE and DEQUANTIZE: between the float32 of an application and the int8 that blocks compute in.

Neither computes with floats when it runs. DEQUANTIZE has a table of 256 answers. Of QUANTIZE, larger numbers never have
smaller answers, so a table of the numbers at which the answer changes says it all; that also leaves no choice to a
compiler or a core in how a quotient is rounded.

Kinds that compute nothing: PAD, which also cuts, CONCATENATION along channels, and SOURCE, fed by a callback.

CHANNELS: some of the input's channels in any order, and channels of one value between them.

PAD along channels, SLICE, STRIDED_SLICE, GATHER and each output of a SPLIT are this kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import repeat

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind, Storage
from tflite_fuse.ir.limits import MAX_TENSORS, MAX_WINDOW
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.arithmetic import Int64Array
from tflite_fuse.ops.entry import (
    Kernels,
    Kind,
    Operand,
    Runs,
    StageCheck,
    StoredTables,
    Tables,
    Tensors,
    Values,
    Window,
    parameters_of,
    pixels_of,
)
from tflite_fuse.ops.kinds.resize import sliced
from tflite_fuse.ops.lowering.movement import channels_of, moved, places_of
from tflite_fuse.ops.lowering.operands import Activation, read_constant, read_quantization, tensor_name
from tflite_fuse.ops.lowering.requantization import NO_ACTIVATION
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView

Floats = npt.NDArray[np.float32]

_ANSWERS = 256
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
_HALVINGS = 9
"""Comparisons of the search in the table of QUANTIZE, the first with its ends."""
_GUESS = 4
"""What a guess that is right takes: cores with DSP instructions are taken to have those for floats, too."""


@dataclass(frozen=True)
class QuantizeParameters:
    """When the answer changes.

    Attributes:
        steps: 257 numbers in ascending order, as ``keys_of`` them: the least one with an answer, the least ones whose
            answers are −127, −126, … 127, and the first one above all with an answer. Little-endian int32.
        otherwise: the answer to all other numbers, and to what is no number.
    """

    steps: bytes
    otherwise: int

    def to_bytes(self) -> bytes:
        """As the table holds them."""
        return self.steps + self.otherwise.to_bytes(4, "little", signed=True)


@dataclass(frozen=True)
class DequantizeParameters:
    """The answers to −128, −127, … 127, as float32, little-endian."""

    answers: bytes


def keys_of(values: Floats) -> Int64Array:
    """For each float32 an int32 in order as the floats are: −0 right below 0, what is no number at both ends."""
    bits = np.asarray(values, np.float32).view(np.int32).astype(np.int64)
    return np.where(bits < 0, bits ^ _INT32_MAX, bits)


def _floats_of(keys: Int64Array) -> Floats:
    bits = np.where(keys < 0, keys ^ _INT32_MAX, keys)
    return bits.astype(np.int32).view(np.float32)


@lru_cache(maxsize=64)
def quantize_parameters(
    scale: float, zero_point: int, low: float = -np.inf, high: float = np.inf
) -> QuantizeParameters:
    """What TFLM's QUANTIZE makes of float32.

    The quotient by the scale in single precision, rounded to the nearest integer, halves away from zero, plus the zero
    point, and clamped. A quotient that is no int32 is undefined in C; the oracle's machine makes −2³¹ of it, to which
    the zero point is added in 32 bits: so it is −128, or 127 if the zero point is negative.

    Args:
        scale: float32, positive.
        zero_point: −128 … 127.
        low, high: what numbers are clamped to before that.
    """

    def integers(values: Floats) -> npt.NDArray[np.float64]:
        with np.errstate(all="ignore"):
            clamped = np.clip(values, np.float32(low), np.float32(high))
            steps = (clamped / np.float32(scale)).astype(np.float64)
        return np.copysign(np.floor(np.abs(steps) + 0.5), steps)

    wanted = np.arange(-127, 128) - zero_point
    first, end = (
        _least(lambda values: integers(values) > _INT32_MIN, 1)[0],
        _least(lambda values: integers(values) > _INT32_MAX, 1)[0],
    )
    steps = np.concatenate([[first], _least(lambda values: integers(values) >= wanted, len(wanted)), [end]])
    return QuantizeParameters(steps.astype("<i4").tobytes(), -128 if zero_point >= 0 else 127)


def _least(holds: Callable[[Floats], npt.NDArray[np.bool_]], count: int) -> Int64Array:
    """The least of the floats from −infinity to infinity for which something holds, that for any number of conditions
    at once; the one behind infinity where it holds for none. Where it holds once, it holds for all above."""
    ends = keys_of(np.array([-np.inf, np.inf], np.float32))
    low, high = np.full(count, ends[0]), np.full(count, ends[1] + 1)
    while np.any(low < high):
        middle = (low + high) // 2
        found = holds(_floats_of(middle))
        low, high = np.where(found, low, middle + 1), np.where(found, middle, high)
    return high


def dequantize_parameters(scale: float, zero_point: int) -> DequantizeParameters:
    """What TFLM's DEQUANTIZE makes of int8: products in double precision, rounded once."""
    return DequantizeParameters(dequantized(np.arange(-128, 128), scale, zero_point).astype("<f4").tobytes())


def dequantized(values: Int64Array, scale: float, zero_point: int) -> Floats:
    """Int8 values as the float32 they stand for."""
    with np.errstate(over="ignore"):
        return ((values - zero_point) * scale).astype(np.float32)


def check_steps(check: StageCheck, found: QuantizeParameters) -> None:
    """A table of a QUANTIZE is whole."""
    check.require(len(found.steps) == 4 * (_ANSWERS + 1), f"has no table of {_ANSWERS + 1} numbers")
    check.require(-128 <= found.otherwise <= 127, f"answers {found.otherwise} to what is no number")


def answers_to(found: QuantizeParameters, values: Values) -> Int64Array:
    """What float32 numbers become."""
    steps, keys = np.frombuffer(found.steps, "<i4").astype(np.int64), keys_of(np.asarray(values, np.float32))
    inside = (keys >= steps[0]) & (keys < steps[-1])
    return np.where(inside, np.searchsorted(steps[1:-1], keys, side="right") - 128, found.otherwise)


def decode_steps(table: bytes) -> QuantizeParameters:
    """From what ``to_bytes`` gives."""
    return QuantizeParameters(table[:-4], int.from_bytes(table[-4:], "little", signed=True))


def _check_quantize(check: StageCheck) -> None:
    check.same_shape(check.sources[0])
    check_steps(check, parameters_of(check.stage, QuantizeParameters))


def _quantized(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Values:
    ((_, values),) = operands
    return answers_to(parameters_of(stage, QuantizeParameters), values)


def _encode_quantize(stage: Stage, tensors: Tensors) -> Tables:
    return Tables(table=parameters_of(stage, QuantizeParameters).to_bytes())


def _decode_quantize(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    return replace(stage, parameters=decode_steps(stored.table_bytes(4 * (_ANSWERS + 2))))


def _work_of_halving(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    comparisons = _GUESS if kernels is Kernels.DSP else _HALVINGS
    return {"looked up": comparisons * pixels_of(runs) * tensors[stage.output].channels}


def _check_dequantize(check: StageCheck) -> None:
    check.same_shape(check.sources[0])
    answers = parameters_of(check.stage, DequantizeParameters).answers
    check.require(len(answers) == 4 * _ANSWERS, f"has no table of {_ANSWERS} answers")


def _dequantized(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Values:
    ((_, values),) = operands
    answers = np.frombuffer(parameters_of(stage, DequantizeParameters).answers, "<f4")
    return np.asarray(answers[values + 128], np.float32)


def _encode_dequantize(stage: Stage, tensors: Tensors) -> Tables:
    return Tables(table=parameters_of(stage, DequantizeParameters).answers)


def _decode_dequantize(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    return replace(stage, parameters=DequantizeParameters(stored.table_bytes(4 * _ANSWERS)))


def _work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    return {"looked up": pixels_of(runs) * tensors[stage.output].channels}


QUANTIZE = Kind(
    StageKind.QUANTIZE,
    reads_real=True,
    check=_check_quantize,
    reference=_quantized,
    encode_table=_encode_quantize,
    decode_table=_decode_quantize,
    work=_work_of_halving,
    counts=("looked up",),
)

DEQUANTIZE = Kind(
    StageKind.DEQUANTIZE,
    writes_real=True,
    check=_check_dequantize,
    reference=_dequantized,
    encode_table=_encode_dequantize,
    decode_table=_decode_dequantize,
    work=_work,
    counts=("looked up",),
)


_MAX_CONCATENATION_INPUTS = 10


def _work_move(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    """Pixels are copied, each in as many pieces as there are inputs."""
    pixels = pixels_of(runs)
    return {"copied values": pixels * tensors[stage.output].channels, "copies": pixels * max(len(stage.inputs), 1)}


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
    """PAD and PADV2 of rows and columns, or of channels; one that adds nothing only renames its input."""
    source, output = view.read(), view.write()
    paddings = read_constant(view.model, view.operand(1), TensorType.INT32, "paddings")
    amounts = paddings.reshape(-1, 2).tolist() if paddings.size == 2 * len(source.dims) else []
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
        stage = Stage(StageKind.CHANNELS, (), -1, parameters=ChannelParameters(sources, value))
        return Lowered(stage, (source,), output, output.shape, Fit.PIXELS)
    stage = Stage(StageKind.PAD, (), -1, padding=(rows[0], columns[0]), pad_value=value)
    return Lowered(stage, (source,), output, output.shape)


def _pad_value(view: OperatorView, output: Activation) -> int:
    index = view.operand(2)
    values = read_constant(view.model, index, TensorType.INT8, "pad value")
    if values.size != 1 or read_quantization(view.model, index) != ((output.scale,), (output.zero_point,)):
        raise BlockError(f"its pad value {tensor_name(view.model, index)} is not quantized as its output is")
    return int(values.ravel()[0])


PAD = Kind(
    StageKind.PAD,
    window=Window.SHIFTED,
    cuts=True,
    outside=lambda stage, source: stage.pad_value,
    check=_check_pad,
    reference=_pad,
    decode_table=_decode_pad,
    work=_work_move,
    counts=("copied values", "copies"),
    lowerings={"PAD": _lower_pad, "PADV2": _lower_pad},
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
    """CONCATENATION along channels."""
    output = view.write()
    parts = tuple(view.read(position) for position in range(len(view.inputs)))
    axis, rank = view.option("axis", default=0), len(output.dims)
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
    return Lowered(Stage(StageKind.CONCATENATION, (), -1), parts, output, output.shape, Fit.PIXELS)


CONCATENATION = Kind(
    StageKind.CONCATENATION,
    inputs=(1, MAX_TENSORS),
    check=_check_concatenation,
    reference=_concatenation,
    work=_work_move,
    counts=("copied values", "copies"),
    lowerings={"CONCATENATION": _lower_concatenation},
    layers=("concat",),
)

# ---- SOURCE ----


def _check_source(check: StageCheck) -> None:
    check.require(check.output.storage is Storage.SCRATCH, "does not write to scratch")


SOURCE = Kind(StageKind.SOURCE, inputs=(0, 0), check=_check_source, work=_work_move, counts=("copied values", "copies"))


FILLED = -1
"""In place of an input channel: the fill."""


@dataclass(frozen=True)
class ChannelParameters:
    """Where output channels come from.

    Attributes:
        sources: the input channel of each output channel, or FILLED.
        fill: int8 value of channels that come from none.
    """

    sources: tuple[int, ...]
    fill: int = 0


def _check(check: StageCheck) -> None:
    check.same_shape(check.sources[0], channels=False)
    channels, found = check.sources[0].channels, parameters_of(check.stage, ChannelParameters)
    check.require(channels <= MAX_WINDOW, f"reads more than {MAX_WINDOW} channels")
    check.require(len(found.sources) == check.output.channels, f"makes {len(found.sources)} channels")
    check.require(all(FILLED <= source < channels for source in found.sources), "reads a channel that is not there")
    check.require(-128 <= found.fill <= 127, f"fills with {found.fill}")


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((_, values),) = operands
    found = parameters_of(stage, ChannelParameters)
    filled = np.full((*values.shape[:2], 1), found.fill, np.int64)
    return np.concatenate([values, filled], axis=2)[:, :, list(found.sources)]


def _encode(stage: Stage, tensors: Tensors) -> Tables:
    found = parameters_of(stage, ChannelParameters)
    return Tables(table=np.array((found.fill, *found.sources), "<i2").tobytes())


def _decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    fill, *sources = np.frombuffer(stored.table_bytes(2 + 2 * tensors[stage.output].channels), "<i2").tolist()
    return replace(stage, parameters=ChannelParameters(tuple(sources), fill))


def _work_channels(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    values = pixels_of(runs) * tensors[stage.output].channels
    return {"other values": values, "other outputs": values}


def _lowered_by(name: str) -> Callable[[OperatorView], Lowered]:
    """An operator that moves whole channels, or takes every n'th row and column; one that does neither is a name."""

    def lower(view: OperatorView) -> Lowered:
        output = view.write()
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
        stage = Stage(StageKind.CHANNELS, (), -1, parameters=ChannelParameters(sources))
        return Lowered(stage, (source,), output, output.shape, Fit.PIXELS)

    return lower


CHANNELS = Kind(
    StageKind.CHANNELS,
    check=_check,
    reference=_reference,
    encode_table=_encode,
    decode_table=_decode,
    work=_work_channels,
    lowerings={name: _lowered_by(name) for name in ("GATHER", "SLICE", "STRIDED_SLICE")},
)
