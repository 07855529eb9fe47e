"""Kinds with one parameter for every channel.

OFFSET adds a number to each channel: ADD or SUB with a constant that differs between channels. SCALE multiplies each
channel by a factor, with another one for values below zero: PRELU, and MUL with such a constant. An input of one
channel gives all channels of the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ops.arithmetic import Int64Array, multiply_by_quantized_multiplier
from tflite_fuse.ops.entry import (
    Coding,
    Kind,
    Layout,
    Numbers,
    Operand,
    StageCheck,
    StoredTables,
    Tables,
    Tensors,
    always,
    each_value,
    int32_bytes,
    parameters_of,
)
from tflite_fuse.ops.kinds.lookup import VALUES, lookup_parameters
from tflite_fuse.ops.kinds.pairs import LEFT_SHIFT, AddParameters
from tflite_fuse.ops.lowering.operands import by_channel, read_operand
from tflite_fuse.ops.lowering.requantization import quantize_multiplier
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView, check_pair

# ---- OFFSET ----

MOST_OFFSET = 1 << 28
"""Bound on the magnitude of a scaled operand of an int8 addition."""


@dataclass(frozen=True)
class OffsetParameters:
    """An addition as in ``AddParameters`` whose second operand is computed in advance.

    Attributes:
        left_shift, multiplier, shift: scaling of the input.
        output_multiplier, output_shift: scaling of the sum.
        sign: sign of the input, 1 or −1.
        offsets: per channel, the scaled second operand.
    """

    left_shift: int
    multiplier: int
    shift: int
    output_multiplier: int
    output_shift: int
    sign: int
    offsets: tuple[int, ...]


def _check_offset(check: StageCheck) -> None:
    check.broadcast(thin=True)
    parameters = parameters_of(check.stage, OffsetParameters)
    check.require(len(parameters.offsets) == check.output.channels, f"has {len(parameters.offsets)} offsets")
    check.require(all(abs(offset) <= MOST_OFFSET for offset in parameters.offsets), "has an offset beyond 2^28")
    sound = 0 <= parameters.left_shift <= LEFT_SHIFT and abs(parameters.sign) == 1
    sound = sound and 0 <= parameters.multiplier < 2**31 and 0 <= parameters.output_multiplier < 2**31
    sound = sound and -31 <= parameters.shift <= 0 and -31 <= parameters.output_shift <= 0
    check.require(sound, f"has impossible parameters {astuple(parameters)[:6]}")


def _offset(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((source, values),) = operands
    parameters, scaled = parameters_of(stage, OffsetParameters), multiply_by_quantized_multiplier
    term = scaled((values - source.zero_point) << parameters.left_shift, parameters.multiplier, parameters.shift)
    total = parameters.sign * term + np.array(parameters.offsets, np.int64)
    return scaled(total, parameters.output_multiplier, parameters.output_shift) + output.zero_point


_OFFSET_LAYOUT = Layout.of(OffsetParameters, Numbers("offsets", lambda output: output.channels))


def offset_by_channel(total: Lowered, values: Int64Array) -> Lowered:
    """Return an OFFSET for ADD of an activation and a constant [channels], the two inputs of ``total``.

    An addition with a negative second multiplier subtracts.
    """
    stage = total.stage
    if stage is None or not isinstance(stage.parameters, AddParameters):
        raise BlockError("its constant differs from channel to channel")
    add, first_is_constant = stage.parameters, total.inputs[0].constant is not None
    source, constant = sorted(total.inputs, key=lambda part: part.constant is not None)
    signs = (1, -1 if add.multiplier_1 < 0 else 1)
    sides = ((add.multiplier_0, add.shift_0), (abs(add.multiplier_1), add.shift_1))
    own, other = (1, 0) if first_is_constant else (0, 1)
    offsets = signs[other] * multiply_by_quantized_multiplier(
        (values - constant.zero_point) << add.left_shift, *sides[other]
    )
    parameters = OffsetParameters(
        add.left_shift, *sides[own], add.output_multiplier, add.output_shift, signs[own], tuple(offsets.tolist())
    )
    offset = replace(stage, kind=StageKind.OFFSET, parameters=parameters)
    return Lowered(offset, (source,), total.output, total.output_shape, Fit.PIXELS)


OFFSET = Kind(
    StageKind.OFFSET,
    writes_over=always,
    check=_check_offset,
    reference=_offset,
    constants=_OFFSET_LAYOUT,
    # Two multiplications by a multiplier and shift, each about as expensive as a product.
    work=each_value({"products": 2}),
)

# ---- SCALE ----

_PREFIX = 24
"""Bytes of the table before the factors."""


@dataclass(frozen=True)
class ScaleParameters:
    """Factors, each an integer times the multiplier and shift of its side.

    Attributes:
        above, below: multiplier and shift for values at or above the input's zero point, and for values below it.
        factors: per channel (above, below), 16 bits each.
    """

    above: tuple[int, int]
    below: tuple[int, int]
    factors: tuple[tuple[int, int], ...]


def _check_scale(check: StageCheck) -> None:
    check.broadcast(thin=True)
    parameters = parameters_of(check.stage, ScaleParameters)
    check.require(len(parameters.factors) == check.output.channels, f"has {len(parameters.factors)} factors")
    narrow = all(-(2**15) <= factor < 2**15 for pair in parameters.factors for factor in pair)
    check.require(narrow, "has a factor beyond 16 bits")
    for multiplier, shift in (parameters.above, parameters.below):
        check.require(
            abs(multiplier) < 2**31 and -31 <= shift <= 30, f"has impossible parameters {multiplier}, {shift}"
        )


def _scale(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((source, values),) = operands
    parameters, scaled = parameters_of(stage, ScaleParameters), multiply_by_quantized_multiplier
    above, below = np.array(parameters.factors, np.int64).T
    real = values - source.zero_point
    results = np.where(real >= 0, scaled(real * above, *parameters.above), scaled(real * below, *parameters.below))
    return results + output.zero_point


def _encode_scale(stage: Stage, tensors: Tensors) -> Tables:
    parameters = parameters_of(stage, ScaleParameters)
    factors = np.array(parameters.factors, "<i2").tobytes()
    return Tables(table=int32_bytes([0, *parameters.above, 0, *parameters.below]) + factors)


def _decode_scale(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    data = stored.table_bytes(_PREFIX + 4 * tensors[stage.output].channels)
    numbers = np.frombuffer(data[:_PREFIX], "<i4").tolist()
    if numbers[0] or numbers[3]:
        raise BlockError("A product of the fused block has a bias in its table.")
    factors = np.frombuffer(data[_PREFIX:], "<i2").reshape(-1, 2).tolist()
    pairs = tuple((above, below) for above, below in factors)
    above, below = (numbers[1], numbers[2]), (numbers[4], numbers[5])
    return replace(stage, parameters=ScaleParameters(above, below, pairs))


def scale_by_channel(product: Lowered, values: Int64Array) -> Lowered:
    """Return a SCALE for MULTIPLY of an activation and a constant [channels], the two inputs of ``product``."""
    source, constant = sorted(product.inputs, key=lambda part: part.constant is not None)
    stage = product.stage
    if stage is None or stage.requantization is None:
        raise BlockError(f"its constant {constant.name} has no scale")
    entry = int(stage.requantization.multiplier[0]), int(stage.requantization.shift[0])
    factors = tuple((factor, factor) for factor in (values - constant.zero_point).tolist())
    scale = replace(stage, kind=StageKind.SCALE, requantization=None, parameters=ScaleParameters(entry, entry, factors))
    return Lowered(scale, (source,), product.output, product.output_shape, Fit.PIXELS)


def _lower_prelu(view: OperatorView) -> Lowered:
    """Lower PRELU with a constant alpha, for all channels or for each; quotients in double precision."""
    source, alpha, output = view.read(), read_operand(view.model, view.operand(1)), view.write()
    check_pair(source, alpha, output)
    if alpha.constant is None:
        raise BlockError(f"its alpha {alpha.name} is computed, not a constant")
    above = quantize_multiplier(source.scale / output.scale)
    below = quantize_multiplier(source.scale * alpha.scale / output.scale)
    slopes = (np.unique(alpha.constant) if alpha.constant.size else VALUES).astype(np.int64)
    if slopes.size > 1:
        slopes = by_channel(alpha, output.shape[2]).astype(np.int64)
    factors = tuple((1, slope) for slope in (slopes - alpha.zero_point).tolist())
    stage = Stage(StageKind.SCALE, parameters=ScaleParameters(above, below, factors))
    if slopes.size == 1:
        tensors = [BlockTensor(part.name, 256, 1, 1, part.zero_point) for part in (source, output)]
        answers = _scale(stage, [(tensors[0], VALUES.reshape(256, 1, 1))], tensors[1]).ravel()
        stage = Stage(StageKind.LOOKUP, parameters=lookup_parameters(answers))
    return Lowered(stage, (source,), output, output.shape, Fit.PIXELS)


SCALE = Kind(
    StageKind.SCALE,
    writes_over=always,
    check=_check_scale,
    reference=_scale,
    constants=Coding(_encode_scale, _decode_scale),
    work=each_value({"products": 1}),
    lowerings={"PRELU": _lower_prelu},
)

KINDS = (OFFSET, SCALE)
