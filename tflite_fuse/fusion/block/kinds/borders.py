"""QUANTIZE and DEQUANTIZE: between the float32 of an application and the int8 that blocks compute in.

Neither computes with floats when it runs. DEQUANTIZE has a table of 256 answers. Of QUANTIZE, larger numbers never have
smaller answers, so a table of the numbers at which the answer changes says it all; that also leaves no choice to a
compiler or a core in how a quotient is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tflite_fuse.fusion.block.arithmetic import Int64Array
from tflite_fuse.fusion.block.entry import (
    Kernels,
    Kind,
    Operand,
    Runs,
    StageCheck,
    StoredTables,
    Tables,
    Tensors,
    Values,
    parameters_of,
    pixels_of,
)
from tflite_fuse.fusion.block.stages import BlockTensor, Stage, StageKind

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
