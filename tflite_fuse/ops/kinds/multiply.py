"""MULTIPLY: two tensors of equal shape, value by value; one of them may have one pixel, or one channel, for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Requantization, Stage, StageKind
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
    int32_bytes,
    pixels_of,
    required,
)
from tflite_fuse.ops.lowering.requantization import rescale_requantization
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView
from tflite_fuse.ops.weighted.sums import requantize


def _check(check: StageCheck) -> None:
    check.pair(thin=True)
    table = required(check.stage.requantization, check.stage, "requantization table")
    check.require(table.multiplier.shape == table.shift.shape == (1,), "needs one multiplier and shift")
    check.requantization()


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    (tensor_0, values_0), (tensor_1, values_1) = operands
    return requantize(stage, (values_0 - tensor_0.zero_point) * (values_1 - tensor_1.zero_point), output)


def _encode(stage: Stage, tensors: Tensors) -> Tables:
    table = required(stage.requantization, stage, "requantization table")
    return Tables(table=int32_bytes([0, *table.multiplier, *table.shift]))


def _decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    entry = stored.table(3)
    if entry[0]:
        raise BlockError("A product of the fused block has a bias in its table.")
    return replace(stage, requantization=Requantization(entry[1:2], entry[2:3]))


def _work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    return {"products": pixels_of(runs) * tensors[stage.output].channels}


def _lower(view: OperatorView) -> Lowered:
    """MUL of equal shapes, or with one pixel or one channel; the quotient of the scales in double precision."""
    first, second, output = view.pair(thin=True)
    low, high = view.clamp(output)
    table = rescale_requantization(first.scale * second.scale, output.scale, 1)
    stage = Stage(StageKind.MULTIPLY, (), -1, activation_min=low, activation_max=high, requantization=table)
    return Lowered(stage, (first, second), output, output.shape, Fit.PIXELS)


MULTIPLY = Kind(
    StageKind.MULTIPLY,
    inputs=(2, 2),
    by_value=True,
    check=_check,
    reference=_reference,
    encode_table=_encode,
    decode_table=_decode,
    work=_work,
    counts=("products",),
    lowerings={"MUL": _lower},
    layers=("mul",),
)
