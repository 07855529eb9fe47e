"""LSTM: long short-term memory.

Pixels are steps in time. Each step starts from the result of the previous one, the first one from that of the last
inference. A step sums its input and the last output for each of four gates, in 4096ths. Sigmoids and hyperbolic
tangents are interpolated linearly between the entries of a table. Products of the gates update the cell state and
select its part in the output. All is bit-exact to TFLM's reference kernel with 8-bit weights and 16-bit cell states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, floor, frexp

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Int8Array, Stage, StageKind, Storage
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.arithmetic import Int64Array, clip_int16, multiply_by_quantized_multiplier, wrap_int32
from tflite_fuse.ops.entry import (
    Coding,
    Kernels,
    Kind,
    Operand,
    Runs,
    StageCheck,
    StoredTables,
    Tables,
    Tensors,
    counted,
    int32_bytes,
    parameters_of,
    pixels_of,
    required,
)
from tflite_fuse.ops.lowering.operands import read_bias, read_filter, tensor_name
from tflite_fuse.ops.lowering.requantization import quantize_multiplier
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView
from tflite_fuse.units import round_up

GATES = 4
"""Gates in the order of the operator's inputs: input, forget, cell, output."""

_FORGET, _CELL, _OUTPUT = 1, 2, 3
_NUMBERS = 26
_SUMS = 2 * GATES
_STEPS = 256
_TANH = 4
"""Number of the activation in the TensorFlow Lite schema."""

_FIRST_WEIGHTS, _FIRST_RECURRENT, _FIRST_BIAS = 1, 5, 12
_ABSENT = (9, 10, 11, 16, 17, 20, 21, 22, 23)
_HIDDEN, _CELL_STATE = 18, 19

_ONE_MORE = (
    *(4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41, 43, 44, 45, 46),
    *(49, 50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255),
)
"""Entries of the runtime's table that are one more than the nearest integer."""

SIGMOIDS = tuple(floor(2**16 / (1 + exp(-i / 24)) + 0.5) + (i in _ONE_MORE) for i in range(_STEPS))
"""2¹⁶ times the sigmoid of i / 24, as in the runtime."""


@dataclass(frozen=True)
class LstmParameters:
    """Numeric parameters of an LSTM.

    Attributes:
        sums: multiplier and shift of each gate's sum over the input, then over the last output: to 4096ths.
        products: multiplier and shift of forget gate times cell state, of input times cell gate, of output gate times
            curve.
        curve: multiplier and right shift from a cell state to 4096ths, times 3.
        clip: bound of cell states, 32768 for none.
        zero_point: zero point of the last output.
        biases: int32 [gates, input and last output, channels], without zero points.
    """

    sums: tuple[tuple[int, int], ...]
    products: tuple[tuple[int, int], ...]
    curve: tuple[int, int]
    clip: int
    zero_point: int
    biases: Int64Array


def memory_of(output: BlockTensor) -> int:
    """Return the bytes of two halves, of the last inference and of this one: cell states, int16, and last outputs."""
    return 2 * round_up(3 * output.channels, 2)


def _depth(tensors: Tensors, stage: Stage) -> int:
    return tensors[stage.inputs[0]].channels


def _check(check: StageCheck) -> None:
    source, memory = check.sources
    channels, parameters = check.output.channels, parameters_of(check.stage, LstmParameters)
    check.same_shape(source, channels=False)
    check.require(memory.storage is Storage.PERSISTENT, "forgets everything with a run")
    check.require(memory.pixels == 1 and memory.channels == memory_of(check.output), "has a memory of another size")
    weights = check.stage.weights
    shape = (GATES, channels, source.channels + channels)
    check.require(weights is not None and weights.shape == shape, f"needs int8 weights of shape {list(shape)}")
    check.require(parameters.biases.shape == (GATES, 2, channels), f"needs {_SUMS} x {channels} biases")
    scales, clamp = (*parameters.sums, *parameters.products), (check.stage.activation_min, check.stage.activation_max)
    check.require(clamp == (-128, 127), "clamps its output")
    check.require(len(parameters.sums) == _SUMS and len(parameters.products) == 3, "lacks multipliers")
    check.require(all(m > -(2**31) and -31 <= s <= 30 for m, s in scales), "has a multiplier that cannot be applied")
    check.require(
        1 <= parameters.curve[0] < 2**15 and 0 <= parameters.curve[1] <= 30, "has an impossible scale of cell states"
    )
    check.require(
        1 <= parameters.clip <= 2**15 and -128 <= parameters.zero_point <= 127, "has an impossible clip or zero point"
    )


# ---- Arithmetic ----


def _looked_up(numbers: Int64Array, bits: int, end: int) -> Int64Array:
    """Return 2^(16 + bits) times the sigmoid of numbers ≥ 0; ``end`` beyond the table."""
    table = np.array((*SIGMOIDS, 0), np.int64)
    step = np.minimum(numbers >> bits, _STEPS - 1)
    between = (table[step] << bits) + (numbers & ((1 << bits) - 1)) * (table[step + 1] - table[step])
    return np.where(step < _STEPS - 1, between, end)


def _sigmoid(values: Int64Array) -> Int64Array:
    """Return sigmoids, from 4096ths, times 3, to 32768ths."""
    above = _looked_up(np.abs(values), 9, (2**15 - 1) << 10)
    return np.where(values < 0, (1 << 25) - above + 511, above + 512) >> 10


def _tanh(values: Int64Array) -> Int64Array:
    above = _looked_up(np.abs(values), 8, (2**16 - 1) << 8) - (1 << 23)
    return np.where(values < 0, 127 - above, above + 128) >> 8


def _scaled(values: Int64Array, scale: tuple[int, int]) -> Int64Array:
    return clip_int16(multiply_by_quantized_multiplier(wrap_int32(values), *scale))


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    """Return the output of an inference with the memory given as second input, zeros in the first one."""
    (source, values), (_, memory) = operands
    parameters, channels = parameters_of(stage, LstmParameters), output.channels
    weights = required(stage.weights, stage, "weights").astype(np.int64)
    left = memory.ravel().astype(np.int8)
    cell = left[: 2 * channels].view("<i2").astype(np.int64)
    last = (left[2 * channels : 3 * channels].astype(np.int64) + parameters.zero_point + 128) % 256 - 128
    steps = []
    for step in values.reshape(-1, source.channels) - source.zero_point:
        gates = []
        for g in range(GATES):
            parts = (
                (step, weights[g][:, : source.channels]),
                (last - parameters.zero_point, weights[g][:, source.channels :]),
            )
            sums = [each @ rows.T + parameters.biases[g, part] for part, (each, rows) in enumerate(parts)]
            from_input, from_output = (_scaled(each, parameters.sums[2 * g + part]) for part, each in enumerate(sums))
            total = 3 * clip_int16(from_input + from_output)
            gates.append(_tanh(total) if g == _CELL else _sigmoid(total))
        kept = _scaled(gates[_FORGET] * cell, parameters.products[0])
        kept = kept + _scaled(gates[0] * gates[_CELL], parameters.products[1])
        cell = np.clip(clip_int16(kept), -parameters.clip, parameters.clip)
        multiplier, shift = parameters.curve
        shown = _tanh((cell * multiplier + ((1 << shift) >> 1)) >> shift) * gates[_OUTPUT]
        scaled = multiply_by_quantized_multiplier(shown, *parameters.products[2])
        last = np.clip(wrap_int32(scaled + parameters.zero_point), -128, 127)
        steps.append(last)
    return np.stack(steps).reshape(output.height, output.width, channels)


# ---- Constants ----


def _zero_points(stage: Stage, tensors: Tensors, zero_point: int) -> Int64Array:
    """Return the share of zero points in sums over raw values: [gates, input and last output, channels]."""
    weights, depth = required(stage.weights, stage, "weights").astype(np.int64), _depth(tensors, stage)
    source = tensors[stage.inputs[0]].zero_point
    return np.stack([source * weights[..., :depth].sum(2), zero_point * weights[..., depth:].sum(2)], axis=1)


def _encode(stage: Stage, tensors: Tensors) -> Tables:
    parameters = parameters_of(stage, LstmParameters)
    pairs = (number for pair in (*parameters.sums, *parameters.products, parameters.curve) for number in pair)
    biases = parameters.biases - _zero_points(stage, tensors, parameters.zero_point)
    table = int32_bytes([*pairs, parameters.clip, parameters.zero_point]) + np.array(SIGMOIDS, "<u2").tobytes()
    return Tables(
        weights=required(stage.weights, stage, "weights").tobytes(), table=table + int32_bytes(biases.ravel())
    )


def _decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    channels, row = tensors[stage.output].channels, _depth(tensors, stage) + tensors[stage.output].channels
    numbers = stored.table(_NUMBERS + _STEPS // 2 + _SUMS * channels)
    if numbers[_NUMBERS:][: _STEPS // 2].astype("<i4").tobytes() != np.array(SIGMOIDS, "<u2").tobytes():
        raise BlockError("An LSTM of the fused block has another table of sigmoids than the runtime.")
    weights = stored.weights(GATES * channels * row).reshape(GATES, channels, row)
    pairs = [(first, second) for first, second in numbers[: _NUMBERS - 2].reshape(-1, 2).tolist()]
    clip, zero_point = numbers[_NUMBERS - 2 : _NUMBERS].tolist()
    stage = replace(stage, weights=weights)
    biases = numbers[_NUMBERS + _STEPS // 2 :].astype(np.int64).reshape(GATES, 2, channels)
    biases = wrap_int32(biases + _zero_points(stage, tensors, zero_point))
    parameters = LstmParameters(
        tuple(pairs[:_SUMS]), tuple(pairs[_SUMS : _SUMS + 3]), pairs[_SUMS + 3], clip, zero_point, biases
    )
    return replace(stage, parameters=parameters)


def _macs(stage: Stage, tensors: Tensors) -> int:
    channels = tensors[stage.output].channels
    return GATES * channels * (tensors[stage.inputs[0]].channels + channels)


@counted("plain macs", "products")
def _work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    """Return the counts, fitted to emulated cores: for public models 9 % too few to 19 % too many.

    A multiply-accumulate counts 9/8 of one in a plain convolution, the other work of a channel thirty products.
    """
    steps, channels = pixels_of(runs), tensors[stage.output].channels
    return {"plain macs": 9 * steps * _macs(stage, tensors) // 8, "products": 30 * steps * channels}


# ---- Lowering ----


def _lower(view: OperatorView) -> Lowered:
    """Lower UNIDIRECTIONAL_SEQUENCE_LSTM of one sequence, int8 with int16 cell states, no peepholes or projection."""
    source, output = view.read(), view.write()
    if any(view.operand(position) >= 0 for position in _ABSENT):
        raise BlockError("it has peepholes, a projection or a normalization, which TFLM refuses")
    if view.option("fused_activation_function", default=0) != _TANH:
        raise BlockError("its activation is not TANH")
    if len(source.dims) != 3 or len(output.dims) != 3 or source.dims[:2] != output.dims[:2]:
        raise BlockError(f"it makes {list(output.dims)} of {list(source.dims)}")
    if source.dims[1 if view.option("time_major", default=0) else 0] != 1:
        raise BlockError("it computes several sequences at once")
    source, output = (replace(each, by_value=True) for each in (source, output))
    hidden, cell = _state(view, _HIDDEN, TensorType.INT8), _state(view, _CELL_STATE, TensorType.INT16)
    channels, depth = output.dims[2], source.dims[2]
    parts = ((_FIRST_WEIGHTS, source.scale, depth), (_FIRST_RECURRENT, hidden[0], channels))
    read = [[_weights(view, first + g, scale, (channels, size)) for first, scale, size in parts] for g in range(GATES)]
    weights = np.stack([np.concatenate([rows for rows, _ in gate], axis=1) for gate in read])
    biases = np.zeros((GATES, 2, channels), np.int64)
    for g in range(GATES):
        bias = read_bias(view.model, view.operand(_FIRST_BIAS + g), channels)
        biases[g, 0] = 0 if bias is None else bias
    power, clip = _power(cell[0]), view.options.get("cell_clip", 0.0)
    up = power + 12
    parameters = LstmParameters(
        tuple(scale for gate in read for _, scale in gate),
        tuple(map(quantize_multiplier, (2.0**-15, 2.0**-30 / cell[0], 2.0**-30 / hidden[0]))),
        (3 << up, 0) if up >= 0 else (3, -up),
        _clip(clip, cell[0]),
        hidden[1],
        biases,
    )
    stage = Stage(StageKind.LSTM, weights=weights, parameters=parameters)
    return Lowered(stage, (source,), output, output.shape, Fit.PIXELS)


def _state(view: OperatorView, position: int, type_: TensorType) -> tuple[float, int]:
    """Return scale and zero point of a variable."""
    index = view.operand(position)
    tensor = view.model.main.tensors[index] if index >= 0 else None
    if tensor is None or not tensor.is_variable or tensor.type != type_ or tensor.quantization is None:
        raise BlockError(f"its state is no quantized variable of type {type_.name.lower()}")
    scales, points = tensor.quantization.scale or (), tensor.quantization.zero_point or ()
    graph = view.model.main
    users = len(graph.readers.get(index, ())) + sum(
        index in each for each in (graph.writers, graph.inputs, graph.outputs)
    )
    if len(scales) != 1 or len(points) != 1 or not 0 < scales[0] < float("inf") or not -128 <= points[0] <= 127:
        raise BlockError(f"its state {tensor_name(view.model, index)} has no scale or an impossible one")
    if users != 1 or (type_ == TensorType.INT16 and points[0] != 0):
        raise BlockError(f"its state {tensor_name(view.model, index)} is used by others, too, or not symmetric")
    return float(scales[0]), int(points[0])


def _weights(
    view: OperatorView, position: int, scale: float, shape: tuple[int, int]
) -> tuple[Int8Array, tuple[int, int]]:
    """Return weights, and multiplier and shift of their sums to 4096ths, all in double precision."""
    values, scales = read_filter(view.model, view.operand(position), 0, 2)
    if values.shape != shape or len(scales) != 1:
        raise BlockError(f"its weights have the shape {list(values.shape)} and {len(scales)} scales")
    return values, quantize_multiplier(float(scale) * float(scales[0]) / 2.0**-12)


def _power(scale: float) -> int:
    """Return p of a scale of 2^p."""
    fraction, exponent = frexp(scale)
    if fraction != 0.5 or not -31 <= exponent - 1 <= 0:
        raise BlockError(f"its cell state has the scale {scale:g}, which is no power of two")
    return exponent - 1


def _clip(clip: object, scale: float) -> int:
    """Return the bound of cell states: the quotient truncated, 32768 for none."""
    if not isinstance(clip, (int, float)) or not clip > 0:
        return 2**15
    quotient = int(min(float(clip) / scale, 32767.0))
    if quotient < 1:
        raise BlockError(f"its cell state is clipped to {clip:g}")
    return quotient


LSTM = Kind(
    StageKind.LSTM,
    inputs=(2, 2),
    memory_bytes=memory_of,
    check=_check,
    reference=_reference,
    constants=Coding(_encode, _decode),
    macs=_macs,
    work=_work,
    lowerings={"UNIDIRECTIONAL_SEQUENCE_LSTM": _lower},
)

KINDS = (LSTM,)
