"""REAL_PAIR: two int8 tensors as float32, one operation on them value by value, and the QUANTIZE behind it.

What stands before the operation is a function of one int8 value on either side, DEQUANTIZE mostly: a table of 256
numbers. The operation is the one of single precision; the device does it in integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

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
from tflite_fuse.fusion.block.kinds.borders import QuantizeParameters, answers_to, check_steps, decode_steps
from tflite_fuse.fusion.block.stages import BlockTensor, Stage, StageKind

OPERATIONS: Mapping[str, np.ufunc] = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "DIV": np.divide}
"""By their numbers in the table."""

_STEPS_BYTES = 4 * 258
_SIDE_BYTES = 4 * 256


@dataclass(frozen=True)
class RealPairParameters:
    """What is done.

    Attributes:
        operation: one of OPERATIONS.
        first, second: float32 numbers, little-endian, that the int8 values −128 … 127 of either input become.
        quantize: what the result becomes; a fused activation is part of it.
    """

    operation: str
    first: bytes
    second: bytes
    quantize: QuantizeParameters


def _check(check: StageCheck) -> None:
    check.pair()
    found = parameters_of(check.stage, RealPairParameters)
    check.require(len(found.first) == len(found.second) == _SIDE_BYTES, "has no two tables of 256 numbers")
    check_steps(check, found.quantize)


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Values:
    (_, first), (_, second) = operands
    found = parameters_of(stage, RealPairParameters)
    sides = np.frombuffer(found.first, "<f4")[first + 128], np.frombuffer(found.second, "<f4")[second + 128]
    with np.errstate(all="ignore"):
        return answers_to(found.quantize, OPERATIONS[found.operation](*sides))


def _encode(stage: Stage, tensors: Tensors) -> Tables:
    found = parameters_of(stage, RealPairParameters)
    operation = list(OPERATIONS).index(found.operation).to_bytes(4, "little")
    return Tables(table=found.quantize.to_bytes() + found.first + found.second + operation)


def _decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    table = stored.table_bytes(_STEPS_BYTES + 2 * _SIDE_BYTES + 4)
    sides = table[_STEPS_BYTES : _STEPS_BYTES + _SIDE_BYTES], table[_STEPS_BYTES + _SIDE_BYTES : -4]
    number = int.from_bytes(table[-4:], "little")
    operation = list(OPERATIONS)[number] if number < len(OPERATIONS) else ""
    StageCheck(stage, (), tensors[stage.output]).require(bool(operation), f"does operation {number}")
    return replace(stage, parameters=RealPairParameters(operation, *sides, decode_steps(table[:_STEPS_BYTES])))


def _work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    """As measured for nothing: about as long as many look-ups take."""
    return {"looked up": 20 * pixels_of(runs) * tensors[stage.output].channels}


REAL_PAIR = Kind(
    StageKind.REAL_PAIR,
    inputs=(2, 2),
    by_value=True,
    check=_check,
    reference=_reference,
    encode_table=_encode,
    decode_table=_decode,
    work=_work,
    counts=("looked up",),
)
