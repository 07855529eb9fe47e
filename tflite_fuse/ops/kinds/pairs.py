"""Kinds that compute value by value from two tensors of one shape, or from a tensor and a single pixel.

ADD, also as SUB with its second operand subtracted; MUL and SQUARED_DIFFERENCE; one operand of these may have a single
channel. MAXIMUM and MINIMUM, which compare bytes regardless of their quantization.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ir.limits import ADD_BITS
from tflite_fuse.ops.arithmetic import Int64Array, multiply_by_quantized_multiplier
from tflite_fuse.ops.entry import (
    Coding,
    Kind,
    Layout,
    Operand,
    StageCheck,
    StoredTables,
    Tables,
    Tensors,
    by_pixel,
    decode_entries,
    each_value,
    encode_entries,
    int32_bytes,
    parameters_of,
    required,
)
from tflite_fuse.ops.lowering.operands import Activation
from tflite_fuse.ops.lowering.requantization import (
    quantize_multiplier,
    quantize_multiplier_below_one,
    rescale_requantization,
)
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView
from tflite_fuse.ops.weighted.sums import requantize

LEFT_SHIFT = 20
"""Bits by which TFLM scales int8 operands up before it adds them; more would overflow 32 bits."""
_DIFFERENCE_SHIFT = 7
"""The same before it subtracts and squares: the square of a difference of halved operands fits 32 bits."""


def _lowered_by(
    make_stage: Callable[[Activation, Activation, Activation], Stage], *, clamps: bool = False, thin: bool = False
) -> Callable[[OperatorView], Lowered]:
    """Return the lowering to the stage made of an operator's operands and output.

    Args:
        make_stage: function that returns the stage without its clamp.
        clamps: whether a fused activation applies.
        thin: whether an operand may have one channel.
    """

    def lower(view: OperatorView) -> Lowered:
        first, second, output = view.pair(thin)
        stage, (low, high) = make_stage(first, second, output), view.clamp(output) if clamps else (-128, 127)
        stage = replace(stage, activation_min=low, activation_max=high)
        return Lowered(stage, (first, second), output, output.shape, Fit.PIXELS)

    return lower


# ---- ADD ----


@dataclass(frozen=True)
class AddParameters:
    """Quantized addition as in TFLM's reference kernel (left_shift = 20), or squared difference (7).

    Each input is ``(value − zero_point) << left_shift``, times its multiplier; their sum is multiplied by the output's.
    A negative ``multiplier_1`` means that input 1 is scaled by its magnitude and subtracted.
    """

    left_shift: int
    multiplier_0: int
    shift_0: int
    multiplier_1: int
    shift_1: int
    output_multiplier: int
    output_shift: int

    def terms(self, operands: Sequence[tuple[int, Int64Array]]) -> tuple[Int64Array, Int64Array]:
        """Return both operands, scaled. ``operands``: zero point and values of each."""
        scales = (self.multiplier_0, self.shift_0), (abs(self.multiplier_1), self.shift_1)
        first, second = (
            multiply_by_quantized_multiplier((values - zero) << self.left_shift, *scale)
            for (zero, values), scale in zip(operands, scales, strict=True)
        )
        return first, second

    def scaled(self, results: Int64Array) -> Int64Array:
        """Return results at the output's scale, without its zero point."""
        return multiply_by_quantized_multiplier(results, self.output_multiplier, self.output_shift)


ADD_LAYOUT = Layout.of(AddParameters)


def _shares(first: float, second: float) -> tuple[float, tuple[int, int, int, int]]:
    """Return twice the larger scale, and multiplier and shift of each scale relative to it, in double precision."""
    twice_largest = 2.0 * max(first, second)
    one, other = (quantize_multiplier_below_one(scale / twice_largest) for scale in (first, second))
    return twice_largest, (*one, *other)


def add_parameters(input_scale_0: float, input_scale_1: float, output_scale: float) -> AddParameters:
    """Return the parameters of an int8 ADD, all in double precision.

    Raises:
        BlockError: the output's scale is so small compared with the inputs' that TFLM aborts.
    """
    twice_largest, shares = _shares(float(input_scale_0), float(input_scale_1))
    output = quantize_multiplier_below_one(twice_largest / ((1 << LEFT_SHIFT) * float(output_scale)))
    return AddParameters(LEFT_SHIFT, *shares, *output)


def _check_numbers(check: StageCheck, left: int, operand: tuple[int, int], output: int) -> None:
    """Require int32 multipliers, and shifts within these bounds."""
    check.broadcast(thin=True)
    parameters = parameters_of(check.stage, AddParameters)
    multipliers = (parameters.multiplier_0, abs(parameters.multiplier_1), parameters.output_multiplier)
    sound = 0 <= parameters.left_shift <= left and all(0 <= multiplier < 2**31 for multiplier in multipliers)
    sound = sound and all(operand[0] <= shift <= operand[1] for shift in (parameters.shift_0, parameters.shift_1))
    check.require(sound and -31 <= parameters.output_shift <= output, f"has impossible parameters {parameters}")


def _add(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    values = [(tensor.zero_point, each) for tensor, each in operands]
    return _added(parameters_of(stage, AddParameters), values, output.zero_point)


def _added(add: AddParameters, operands: Sequence[tuple[int, Int64Array]], zero_point: int) -> Int64Array:
    """Return sums of values, not yet clamped."""
    first, second = add.terms(operands)
    return add.scaled(first - second if add.multiplier_1 < 0 else first + second) + zero_point


_NEAR = sorted(product(range(-2, 3), repeat=2), key=lambda pair: pair[0] ** 2 + pair[1] ** 2)
"""Steps away from the factors closest to both scales, the shortest first."""


@lru_cache(maxsize=256)
def _multiples(
    add: AddParameters, zero_points: tuple[int, int, int], clamp: tuple[int, int]
) -> tuple[int, int, int] | None:
    """Return f, g and h such as ``(f a + g b + h) >> ADD_BITS``, clamped, is the sum for all int8 a and b, or None.

    The sums of all 65,536 pairs determine the bounds of h for given f and g; a few pairs next to the scales are tried.
    All of them fail mainly if sums would overflow 32 bits.
    """
    values = np.arange(-128, 128, dtype=np.int64)
    operands = (zero_points[0], values[:, None]), (zero_points[1], values)
    sums = np.clip(_added(add, operands, zero_points[2]), *clamp)
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


def _encode_addition(stage: Stage, tensors: Tensors) -> Tables:
    """Return the parameters, and in place of weights the numbers that yield the same sums with fewer operations.

    These have a loop for operands of as many channels alone.
    """
    if _is_thin(stage, tensors):
        return ADD_LAYOUT.encode(stage, tensors)
    zero_0, zero_1, zero_out = (tensors[index].zero_point for index in (*stage.inputs, stage.output))
    clamp = stage.activation_min, stage.activation_max
    multiples = _multiples(parameters_of(stage, AddParameters), (zero_0, zero_1, zero_out), clamp)
    return replace(ADD_LAYOUT.encode(stage, tensors), weights=int32_bytes(multiples) if multiples else b"")


def _lowered_to_add(sign: int) -> Callable[[OperatorView], Lowered]:
    def add(first: Activation, second: Activation, output: Activation) -> Stage:
        parameters = add_parameters(first.scale, second.scale, output.scale)
        return Stage(StageKind.ADD, parameters=replace(parameters, multiplier_1=sign * parameters.multiplier_1))

    return _lowered_by(add, clamps=True, thin=True)


def _is_thin(stage: Stage, tensors: Tensors) -> bool:
    return any(tensors[source].channels != tensors[stage.output].channels for source in stage.inputs)


@by_pixel("sums", "products")
def _sums(stage: Stage, tensors: Tensors) -> tuple[int, ...]:
    """Return the counts of a pixel: without multiples, each value is scaled three times."""
    values, thin = tensors[stage.output].channels, _is_thin(stage, tensors)
    return values * (not thin), 3 * values * thin


ADD = Kind(
    StageKind.ADD,
    inputs=(2, 2),
    by_value=True,
    check=lambda check: _check_numbers(check, LEFT_SHIFT, (-31, 0), 0),
    reference=_add,
    constants=Coding(_encode_addition, ADD_LAYOUT.decode),
    work=_sums,
    lowerings={"ADD": _lowered_to_add(1), "SUB": _lowered_to_add(-1)},
)

# ---- SQUARED_DIFFERENCE ----


def _check_difference(check: StageCheck) -> None:
    """Require that each operand is at most halved: the square of their difference is an int32."""
    _check_numbers(check, _DIFFERENCE_SHIFT, (-31, 0), 30)
    parameters = parameters_of(check.stage, AddParameters)
    halves = ((parameters.multiplier_0, parameters.shift_0), (parameters.multiplier_1, parameters.shift_1))
    sound = all(multiplier >= 0 and shift <= -(multiplier > 2**30) for multiplier, shift in halves)
    check.require(sound, f"has impossible parameters {parameters}")


def _squared_difference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    numbers = parameters_of(stage, AddParameters)
    first, second = numbers.terms([(tensor.zero_point, values) for tensor, values in operands])
    return numbers.scaled((first - second) ** 2) + output.zero_point


def _difference(first: Activation, second: Activation, output: Activation) -> Stage:
    """Return a SQUARED_DIFFERENCE with parameters computed in double precision."""
    twice_largest, shares = _shares(first.scale, second.scale)
    square = quantize_multiplier(twice_largest * twice_largest / (4**_DIFFERENCE_SHIFT * output.scale))
    parameters = AddParameters(_DIFFERENCE_SHIFT, *shares, *square)
    return Stage(StageKind.SQUARED_DIFFERENCE, parameters=parameters)


SQUARED_DIFFERENCE = Kind(
    StageKind.SQUARED_DIFFERENCE,
    inputs=(2, 2),
    by_value=True,
    check=_check_difference,
    reference=_squared_difference,
    constants=ADD_LAYOUT,
    # Three multiplications by a multiplier and shift, each about as expensive as a product.
    work=each_value({"products": 3}),
    lowerings={"SQUARED_DIFFERENCE": _lowered_by(_difference, thin=True)},
)

# ---- MULTIPLY ----


def _check_product(check: StageCheck) -> None:
    check.broadcast(thin=True)
    table = required(check.stage.requantization, check.stage, "requantization table")
    check.require(table.multiplier.shape == table.shift.shape == (1,), "needs one multiplier and shift")
    check.requantization()


def _multiply(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    (tensor_0, values_0), (tensor_1, values_1) = operands
    return requantize(stage, (values_0 - tensor_0.zero_point) * (values_1 - tensor_1.zero_point), output)


def _encode_product(stage: Stage, tensors: Tensors) -> Tables:
    return Tables(table=encode_entries(0, required(stage.requantization, stage, "requantization table")))


def _decode_product(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    bias, table = decode_entries(stored, 1)
    if bias[0]:
        raise BlockError("A product of the fused block has a bias in its table.")
    return replace(stage, requantization=table)


def _product(first: Activation, second: Activation, output: Activation) -> Stage:
    """Return a MULTIPLY; the quotient of the scales is in double precision."""
    table = rescale_requantization(first.scale * second.scale, output.scale, 1)
    return Stage(StageKind.MULTIPLY, requantization=table)


MULTIPLY = Kind(
    StageKind.MULTIPLY,
    inputs=(2, 2),
    by_value=True,
    check=_check_product,
    reference=_multiply,
    constants=Coding(_encode_product, _decode_product),
    work=each_value({"products": 1}),
    lowerings={"MUL": _lowered_by(_product, clamps=True, thin=True)},
)

# ---- MAXIMUM and MINIMUM ----


def _extreme(number: StageKind, extreme: Callable[[Int64Array, Int64Array], Int64Array]) -> Kind:
    return Kind(
        number,
        inputs=(2, 2),
        by_value=True,
        check=lambda check: check.broadcast(),
        reference=lambda stage, operands, output: extreme(operands[0][1], operands[1][1]),
        lowerings={number.name: _lowered_by(lambda first, second, output: Stage(number))},
    )


MAXIMUM = _extreme(StageKind.MAXIMUM, np.maximum)
MINIMUM = _extreme(StageKind.MINIMUM, np.minimum)

KINDS = (ADD, SQUARED_DIFFERENCE, MULTIPLY, MAXIMUM, MINIMUM)
