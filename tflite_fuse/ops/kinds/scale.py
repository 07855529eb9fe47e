"""SCALE: every channel times a factor of its own, one for values from zero up and one for those below.

PRELU is that, and MUL with a constant that differs from channel to channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from tflite_fuse.ops.kinds.lookup import VALUES, lookup_parameters
from tflite_fuse.ops.lowering.operands import by_channel, read_operand
from tflite_fuse.ops.lowering.requantization import quantize_multiplier
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView, check_pair

_MOST = 2**15
_PREFIX = 24
"""Bytes of the table before the factors."""


@dataclass(frozen=True)
class ScaleParameters:
    """Factors, each a whole number times the multiplier and shift of its side.

    Attributes:
        above, below: multiplier and shift for values from the input's zero point up, and for those below.
        factors: per channel (above, below), 16 bits each.
    """

    above: tuple[int, int]
    below: tuple[int, int]
    factors: tuple[tuple[int, int], ...]


def _check(check: StageCheck) -> None:
    check.same_shape(check.sources[0])
    found = parameters_of(check.stage, ScaleParameters)
    check.require(len(found.factors) == check.output.channels, f"has {len(found.factors)} factors")
    check.require(all(-_MOST <= f < _MOST for pair in found.factors for f in pair), "has a factor beyond 16 bits")
    for multiplier, shift in (found.above, found.below):
        check.require(
            abs(multiplier) < 2**31 and -31 <= shift <= 30, f"has impossible parameters {multiplier}, {shift}"
        )


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((source, values),) = operands
    found, scaled = parameters_of(stage, ScaleParameters), multiply_by_quantized_multiplier
    above, below = np.array(found.factors, np.int64).T
    real = values - source.zero_point
    results = np.where(real >= 0, scaled(real * above, *found.above), scaled(real * below, *found.below))
    return results + output.zero_point


def _encode(stage: Stage, tensors: Tensors) -> Tables:
    found = parameters_of(stage, ScaleParameters)
    return Tables(table=int32_bytes([0, *found.above, 0, *found.below]) + np.array(found.factors, "<i2").tobytes())


def _decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    data = stored.table_bytes(_PREFIX + 4 * tensors[stage.output].channels)
    numbers = np.frombuffer(data[:_PREFIX], "<i4").tolist()
    if numbers[0] or numbers[3]:
        raise BlockError("A product of the fused block has a bias in its table.")
    factors = np.frombuffer(data[_PREFIX:], "<i2").reshape(-1, 2).tolist()
    pairs = tuple((above, below) for above, below in factors)
    above, below = (numbers[1], numbers[2]), (numbers[4], numbers[5])
    return replace(stage, parameters=ScaleParameters(above, below, pairs))


def _work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    return {"products": pixels_of(runs) * tensors[stage.output].channels}


def scale_by_channel(product: Lowered, values: Int64Array) -> Lowered:
    """MULTIPLY of an activation and a constant [channels], which ``product`` reads both, as this kind."""
    source, constant = sorted(product.inputs, key=lambda part: part.constant is not None)
    stage = product.stage
    if stage is None or stage.requantization is None:
        raise BlockError(f"its constant {constant.name} has no scale")
    entry = int(stage.requantization.multiplier[0]), int(stage.requantization.shift[0])
    factors = tuple((factor, factor) for factor in (values - constant.zero_point).tolist())
    made = replace(stage, kind=StageKind.SCALE, requantization=None, parameters=ScaleParameters(entry, entry, factors))
    return Lowered(made, (source,), product.output, product.output_shape, Fit.PIXELS)


def _lower_prelu(view: OperatorView) -> Lowered:
    """PRELU with a constant alpha, one for all channels or one for each; quotients in double precision."""
    source, alpha, output = view.read(), read_operand(view.model, view.operand(1)), view.write()
    check_pair(source, alpha, output)
    if alpha.constant is None:
        raise BlockError(f"its alpha {alpha.name} is computed, not a constant")
    above = quantize_multiplier(source.scale / output.scale)
    below = quantize_multiplier(source.scale * alpha.scale / output.scale)
    slopes = (np.unique(alpha.constant) if alpha.constant.size else VALUES).astype(np.int64)
    if slopes.size > 1:
        slopes = by_channel(alpha, output.shape[2])
    factors = tuple((1, slope) for slope in (slopes - alpha.zero_point).tolist())
    stage = Stage(StageKind.SCALE, (), -1, parameters=ScaleParameters(above, below, factors))
    if slopes.size == 1:
        tensors = [BlockTensor(part.name, 256, 1, 1, part.zero_point) for part in (source, output)]
        answers = _reference(stage, [(tensors[0], VALUES.reshape(256, 1, 1))], tensors[1]).ravel()
        stage = Stage(StageKind.LOOKUP, (), -1, parameters=lookup_parameters(answers))
    return Lowered(stage, (source,), output, output.shape, Fit.PIXELS)


SCALE = Kind(
    StageKind.SCALE,
    check=_check,
    reference=_reference,
    encode_table=_encode,
    decode_table=_decode,
    work=_work,
    counts=("products",),
    lowerings={"PRELU": _lower_prelu},
)
