"""UNIDIRECTIONAL_SEQUENCE_LSTM as the stage that computes its bytes, with its weights and table.

Its states are its own variables. A block that keeps them elsewhere must begin with the runtime's values after a reset:
outputs at their zero point, and cell states of zero.
"""

from __future__ import annotations

import struct
from math import exp, isfinite, log2

import numpy as np
import numpy.typing as npt

from tflite_fuse.check.original.layers import bias_of
from tflite_fuse.check.original.meaning import Meaning, affine
from tflite_fuse.check.original.scales import product_ratio, split_scale
from tflite_fuse.check.original.values import Original, Step
from tflite_fuse.ir.enums import StageKind
from tflite_fuse.model.types import TensorType

LSTM = "UNIDIRECTIONAL_SEQUENCE_LSTM"

_INPUTS = 24
_LEFT_OUT = (9, 10, 11, 16, 17, 20, 21, 22, 23)
_GATES = range(4)
_TANH = 4
_ROUNDED_UP = 1 << 255 | int("800011009020440005C0467BAEFA7BD110", 16)
"""Bit i: whether entry i of the runtime's table of sigmoids is one more than the nearest integer."""


def sigmoids() -> bytes:
    """Return the runtime's table: uint16, sigmoid of 0, 1/24, 2/24 ... times 65536."""
    nearest = [int(65536 / (1 + exp(-i / 24)) + 0.5) for i in range(256)]
    return struct.pack("<256H", *(value + (_ROUNDED_UP >> i & 1) for i, value in enumerate(nearest)))


def _scale(original: Original, tensor: int, type_: int) -> tuple[float, int] | None:
    """Return scale and zero point of a variable that only one operator uses."""
    variable = original.tensors[tensor] if tensor >= 0 else None
    quantization = None if variable is None else variable.quantization
    if variable is None or quantization is None or variable.type != type_ or not variable.is_variable:
        return None
    graph = original.model.main
    uses = sum((*(op.inputs or ()), *(op.outputs or ())).count(tensor) for op in graph.operators)
    scales, points = quantization.scale or (), quantization.zero_point or ()
    if uses != 1 or tensor in (*graph.inputs, *graph.outputs) or len(scales) != 1 or len(points) != 1:
        return None
    scale, point = float(np.float32(scales[0])), int(points[0])
    return (scale, point) if isfinite(scale) and scale > 0 and -128 <= point <= 127 else None


def _gate(
    original: Original, step: Step, place: int, scale: float, shape: tuple[int, int]
) -> tuple[npt.NDArray[np.int8], tuple[int, int]] | None:
    """Return the weights of a gate, and multiplier and shift of the sums over them."""
    weights, scales = original.weights(step.operand(place)), original.scales(step.operand(place))
    if weights is None or scales is None or len(scales) != 1 or weights.shape != shape:
        return None
    quantization = original.tensors[step.operand(place)].quantization
    if quantization is None or any(quantization.zero_point or ()):
        return None
    multiplier, shift = split_scale(product_ratio(scale, scales, 1 / 4096))
    return weights, (int(multiplier[0]), int(shift[0]))


def lstm(original: Original, step: Step) -> Meaning | None:
    """Return the stage of an LSTM over one int8 sequence with int16 cell states, whose scale is a power of two."""
    source, output = (original.tensors[t].dims for t in (step.inputs[0], step.outputs[0]))
    first, later = original.rows(step.inputs[0]), original.rows(step.outputs[0])
    hidden = _scale(original, step.operand(18), TensorType.INT8)
    cell = _scale(original, step.operand(19), TensorType.INT16)
    if len(step.inputs) != _INPUTS or any(step.operand(place) >= 0 for place in _LEFT_OUT):
        return None
    if hidden is None or cell is None or cell[1] or first is None or later is None or first[:2] != later[:2]:
        return None
    if len(source) != 3 or len(output) != 3 or source[1 if step.number("time_major") else 0] != 1:
        return None
    if (
        step.number("fused_activation_function") != _TANH
        or not log2(cell[0]).is_integer()
        or not 2**-31 <= cell[0] <= 1
    ):
        return None
    channels, zero_points = output[2], (affine(original, step.inputs[0])[1], hidden[1])
    sides = (1, affine(original, step.inputs[0])[0], source[2]), (5, hidden[0], channels)
    rows, biases = [], []
    numbers: list[int] = []
    for g in _GATES:
        bias = bias_of(original, step, channels, 12 + g)
        gates = [_gate(original, step, place + g, scale, (channels, size)) for place, scale, size in sides]
        parts = [each for each in gates if each is not None]
        if bias is None or len(parts) != len(sides):
            return None
        rows.append(np.concatenate([weights for weights, _ in parts], axis=1))
        for (weights, pair), point, start in zip(parts, zero_points, (bias, 0), strict=True):
            numbers += pair
            biases.append(start - point * weights.astype(np.int64).sum(axis=1))
    multipliers, shifts = split_scale([2.0**-15, 2.0**-30 / cell[0], 2.0**-30 / hidden[0]])
    numbers += [int(n) for pair in zip(multipliers, shifts, strict=True) for n in pair]
    raised = int(log2(cell[0])) + 12
    clip = step.options.get("cell_clip", 0.0)
    if not isinstance(clip, (int, float)) or (clip > 0 and clip < cell[0]):
        return None
    numbers += [3 << raised, 0] if raised >= 0 else [3, -raised]
    numbers += [int(min(clip / cell[0], 32767)) if clip > 0 else 1 << 15, hidden[1]]
    folded = np.concatenate(biases).astype(np.int64).astype(np.uint32).astype("<u4").tobytes()
    table = struct.pack("<26i", *numbers) + sigmoids() + folded
    return Meaning(
        step, StageKind.LSTM, step.inputs[:1], step.outputs[0], (first,), later, table=table,
        rows=np.stack(rows).tobytes(),
    )  # fmt: skip
