"""ADD: two tensors of equal shape and different scales. SUB is an ADD that subtracts its second operand.

MAXIMUM and MINIMUM: the larger, or the smaller, of two bytes, whatever they stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np

from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ir.limits import ADD_BITS
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
from tflite_fuse.ops.lowering.requantization import quantize_multiplier_below_one
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView

LEFT_SHIFT = 20
"""Bits by which TFLM scales int8 operands up before it rescales them; more would leave 32 bits."""


@dataclass(frozen=True)
class AddParameters:
    """Quantized addition as TFLM's reference kernel does it (left_shift = 20).

    Each input: ``(value − zero_point) << left_shift``, times its multiplier; their sum times the output's. A negative
    ``multiplier_1`` says that input 1 is scaled by its opposite and subtracted.
    """

    left_shift: int
    multiplier_0: int
    shift_0: int
    multiplier_1: int
    shift_1: int
    output_multiplier: int
    output_shift: int


def add_parameters(input_scale_0: float, input_scale_1: float, output_scale: float) -> AddParameters:
    """Parameters of an int8 ADD, all in double precision.

    Raises:
        BlockError: the output's scale is so small beside the inputs' that TFLM stops.
    """
    twice_largest = 2.0 * max(float(input_scale_0), float(input_scale_1))
    first = quantize_multiplier_below_one(float(input_scale_0) / twice_largest)
    second = quantize_multiplier_below_one(float(input_scale_1) / twice_largest)
    output = quantize_multiplier_below_one(twice_largest / ((1 << LEFT_SHIFT) * float(output_scale)))
    return AddParameters(LEFT_SHIFT, *first, *second, *output)


def _check(check: StageCheck) -> None:
    check.pair()
    add = parameters_of(check.stage, AddParameters)
    multipliers = (add.multiplier_0, abs(add.multiplier_1), add.output_multiplier)
    shifts = (add.shift_0, add.shift_1, add.output_shift)
    sound = 0 <= add.left_shift <= LEFT_SHIFT and all(0 <= multiplier < 2**31 for multiplier in multipliers)
    check.require(sound and all(-31 <= shift <= 0 for shift in shifts), f"has impossible parameters {add}")


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    (tensor_0, values_0), (tensor_1, values_1) = operands
    zero_points = tensor_0.zero_point, tensor_1.zero_point, output.zero_point
    return _added(parameters_of(stage, AddParameters), zero_points, values_0, values_1)


def _added(
    add: AddParameters, zero_points: tuple[int, int, int], values_0: Int64Array, values_1: Int64Array
) -> Int64Array:
    """Sums of values, not yet clamped. ``zero_points``: of both inputs and the output."""
    scaled = multiply_by_quantized_multiplier
    term_0 = scaled((values_0 - zero_points[0]) << add.left_shift, add.multiplier_0, add.shift_0)
    term_1 = scaled((values_1 - zero_points[1]) << add.left_shift, abs(add.multiplier_1), add.shift_1)
    terms = term_0 - term_1 if add.multiplier_1 < 0 else term_0 + term_1
    return scaled(terms, add.output_multiplier, add.output_shift) + zero_points[2]


_NEAR = sorted(product(range(-2, 3), repeat=2), key=lambda pair: pair[0] ** 2 + pair[1] ** 2)
"""Steps away from the factors that are nearest to both scales, the shortest first."""


@lru_cache(maxsize=256)
def _multiples(
    add: AddParameters, zero_points: tuple[int, int, int], clamp: tuple[int, int]
) -> tuple[int, int, int] | None:
    """Numbers f, g and h with which ``(f a + g b + h) >> ADD_BITS``, clamped, is the sum of all int8 a and b.

    The sums of all 65,536 pairs say between which bounds h has to lie for a given f and g; a few next to the scales
    themselves are tried. None where none of them will do: mostly because sums would leave 32 bits.
    """
    values = np.arange(-128, 128, dtype=np.int64)
    sums = np.clip(_added(add, zero_points, values[:, None], values), *clamp)
    not_least, not_most = sums > clamp[0], sums < clamp[1]
    at_least, below = sums << ADD_BITS, (sums + 1) << ADD_BITS
    to_output = add.output_multiplier * 2.0 ** (add.output_shift + add.left_shift - 62 + ADD_BITS)
    nearest = [
        round(to_output * multiplier * 2.0**shift)
        for multiplier, shift in ((add.multiplier_0, add.shift_0), (add.multiplier_1, add.shift_1))
    ]
    for f, g in ((nearest[0] + step[0], nearest[1] + step[1]) for step in _NEAR):
        products = f * values[:, None] + g * values
        low = (at_least - products).max(where=not_least, initial=-(2**31))
        high = (below - products).min(where=not_most, initial=2**31) - 1
        h = int(low + high) // 2
        if low <= high and 128 * (abs(f) + abs(g)) + abs(h) < 2**31:
            return f, g, h
    return None


def encode_addition(stage: Stage, tensors: Tensors) -> Tables:
    """The parameters as seven int32."""
    return Tables(table=int32_bytes(astuple(parameters_of(stage, AddParameters))))


def _encode(stage: Stage, tensors: Tensors) -> Tables:
    """The parameters; and where weights are, the numbers that give the same sums with less work."""
    zero_0, zero_1, zero_out = (tensors[index].zero_point for index in (*stage.inputs, stage.output))
    clamp = stage.activation_min, stage.activation_max
    found = _multiples(parameters_of(stage, AddParameters), (zero_0, zero_1, zero_out), clamp)
    return replace(encode_addition(stage, tensors), weights=int32_bytes(found) if found else b"")


def decode_addition(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    """The stage with its parameters."""
    return replace(stage, parameters=AddParameters(*stored.table(7).tolist()))


def _work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    return {"sums": pixels_of(runs) * tensors[stage.output].channels}


def _lower(view: OperatorView) -> Lowered:
    """ADD of equal shapes."""
    first, second, output = view.pair()
    low, high = view.clamp(output)
    parameters = add_parameters(first.scale, second.scale, output.scale)
    stage = Stage(StageKind.ADD, (), -1, activation_min=low, activation_max=high, parameters=parameters)
    return Lowered(stage, (first, second), output, output.shape, Fit.PIXELS)


def _lower_subtraction(view: OperatorView) -> Lowered:
    """SUB of equal shapes."""
    lowered = _lower(view)
    stage = lowered.stage
    assert stage is not None and isinstance(stage.parameters, AddParameters)
    parameters = replace(stage.parameters, multiplier_1=-stage.parameters.multiplier_1)
    return replace(lowered, stage=replace(stage, parameters=parameters))


ADD = Kind(
    StageKind.ADD,
    inputs=(2, 2),
    by_value=True,
    check=_check,
    reference=_reference,
    encode_table=_encode,
    decode_table=decode_addition,
    work=_work,
    counts=("sums",),
    lowerings={"ADD": _lower, "SUB": _lower_subtraction},
    layers=("add",),
)


def _kind(number: StageKind, extreme: Callable[[Int64Array, Int64Array], Int64Array]) -> Kind:
    """The kind of one of the two: TFLM compares bytes and never looks at their quantization."""

    def reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
        (_, first), (_, second) = operands
        return extreme(first, second)

    def lower(view: OperatorView) -> Lowered:
        first, second, output = view.pair()
        return Lowered(Stage(number, (), -1), (first, second), output, output.shape, Fit.PIXELS)

    return Kind(
        number,
        inputs=(2, 2),
        by_value=True,
        check=lambda check: check.pair(),
        reference=reference,
        lowerings={number.name: lower},
    )


MAXIMUM = _kind(StageKind.MAXIMUM, np.maximum)
MINIMUM = _kind(StageKind.MINIMUM, np.minimum)
