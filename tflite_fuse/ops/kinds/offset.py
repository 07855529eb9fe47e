"""OFFSET: every channel plus a number of its own: ADD or SUB with a constant that differs from channel to channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ops.arithmetic import Int64Array, multiply_by_quantized_multiplier
from tflite_fuse.ops.entry import (
    Kernels,
    Kind,
    Operand,
    Runs,
    StageCheck,
    StoredTables,
    Tables,
    Tensors,
    int32_bytes,
    parameters_of,
    pixels_of,
)
from tflite_fuse.ops.kinds.add import LEFT_SHIFT, AddParameters
from tflite_fuse.ops.lowering.view import Fit, Lowered

MOST_OFFSET = 1 << 28
"""A scaled operand of an int8 addition lies within this."""


@dataclass(frozen=True)
class OffsetParameters:
    """An addition as ``AddParameters`` has it, its second operand worked out.

    Attributes:
        left_shift, multiplier, shift: of the input.
        output_multiplier, output_shift: of the sum.
        sign: of the input, 1 or −1.
        offsets: per channel, the scaled second operand.
    """

    left_shift: int
    multiplier: int
    shift: int
    output_multiplier: int
    output_shift: int
    sign: int
    offsets: tuple[int, ...]


def _check(check: StageCheck) -> None:
    check.same_shape(check.sources[0])
    found = parameters_of(check.stage, OffsetParameters)
    check.require(len(found.offsets) == check.output.channels, f"has {len(found.offsets)} offsets")
    check.require(all(abs(offset) <= MOST_OFFSET for offset in found.offsets), "has an offset beyond 2^28")
    sound = 0 <= found.left_shift <= LEFT_SHIFT and abs(found.sign) == 1
    sound = sound and 0 <= found.multiplier < 2**31 and 0 <= found.output_multiplier < 2**31
    sound = sound and -31 <= found.shift <= 0 and -31 <= found.output_shift <= 0
    check.require(sound, f"has impossible parameters {astuple(found)[:6]}")


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((source, values),) = operands
    found, scaled = parameters_of(stage, OffsetParameters), multiply_by_quantized_multiplier
    term = scaled((values - source.zero_point) << found.left_shift, found.multiplier, found.shift)
    total = found.sign * term + np.array(found.offsets, np.int64)
    return scaled(total, found.output_multiplier, found.output_shift) + output.zero_point


def _encode(stage: Stage, tensors: Tensors) -> Tables:
    *numbers, offsets = astuple(parameters_of(stage, OffsetParameters))
    return Tables(table=int32_bytes([*numbers, *offsets]))


def _decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    numbers = stored.table(6 + tensors[stage.output].channels).tolist()
    left, multiplier, shift, output_multiplier, output_shift, sign = numbers[:6]
    offsets = tuple(numbers[6:])
    parameters = OffsetParameters(left, multiplier, shift, output_multiplier, output_shift, sign, offsets)
    return replace(stage, parameters=parameters)


def _work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    """Two multiplications by a multiplier and shift, each of which takes about what a product takes."""
    return {"products": 2 * pixels_of(runs) * tensors[stage.output].channels}


def offset_by_channel(total: Lowered, values: Int64Array) -> Lowered:
    """ADD of an activation and a constant [channels], which ``total`` reads both, as this kind.

    An addition whose second multiplier is negative subtracts.
    """
    stage = total.stage
    if stage is None or not isinstance(stage.parameters, AddParameters):
        raise BlockError("its constant differs from channel to channel")
    add, first_is_constant = stage.parameters, total.inputs[0].constant is not None
    source, constant = sorted(total.inputs, key=lambda part: part.constant is not None)
    signs = (1, -1 if add.multiplier_1 < 0 else 1)
    sides = ((add.multiplier_0, add.shift_0), (abs(add.multiplier_1), add.shift_1))
    mine, its = (1, 0) if first_is_constant else (0, 1)
    offsets = signs[its] * multiply_by_quantized_multiplier(
        (values - constant.zero_point) << add.left_shift, *sides[its]
    )
    parameters = OffsetParameters(
        add.left_shift, *sides[mine], add.output_multiplier, add.output_shift, signs[mine], tuple(offsets.tolist())
    )
    made = replace(stage, kind=StageKind.OFFSET, parameters=parameters)
    return Lowered(made, (source,), total.output, total.output_shape, Fit.PIXELS)


OFFSET = Kind(
    StageKind.OFFSET,
    check=_check,
    reference=_reference,
    encode_table=_encode,
    decode_table=_decode,
    work=_work,
    counts=("products",),
)
