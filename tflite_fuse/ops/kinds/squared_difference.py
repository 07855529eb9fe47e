"""SQUARED_DIFFERENCE: two tensors of equal shape, value by value."""

from __future__ import annotations

from collections.abc import Sequence

from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ops.arithmetic import Int64Array, multiply_by_quantized_multiplier
from tflite_fuse.ops.entry import Kernels, Kind, Operand, Runs, StageCheck, Tensors, parameters_of, pixels_of
from tflite_fuse.ops.kinds.add import AddParameters, decode_addition, encode_addition
from tflite_fuse.ops.lowering.requantization import quantize_multiplier, quantize_multiplier_below_one
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView

_LEFT_SHIFT = 7
"""Bits by which TFLM scales int8 operands up: the square of a difference of halves of them stays within 32 bits."""


def _check(check: StageCheck) -> None:
    check.pair()
    found = parameters_of(check.stage, AddParameters)
    halves = ((found.multiplier_0, found.shift_0), (found.multiplier_1, found.shift_1))
    # Each operand is at most halved, so that the square of their difference is an int32.
    sound = all(0 <= multiplier < 2**31 and -31 <= shift <= -(multiplier > 2**30) for multiplier, shift in halves)
    sound = sound and 0 <= found.left_shift <= _LEFT_SHIFT
    sound = sound and 0 <= found.output_multiplier < 2**31 and -31 <= found.output_shift <= 30
    check.require(sound, f"has impossible parameters {found}")


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    (tensor_0, values_0), (tensor_1, values_1) = operands
    numbers, scaled = parameters_of(stage, AddParameters), multiply_by_quantized_multiplier
    term_0 = scaled((values_0 - tensor_0.zero_point) << numbers.left_shift, numbers.multiplier_0, numbers.shift_0)
    term_1 = scaled((values_1 - tensor_1.zero_point) << numbers.left_shift, numbers.multiplier_1, numbers.shift_1)
    return scaled((term_0 - term_1) ** 2, numbers.output_multiplier, numbers.output_shift) + output.zero_point


def _work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    """Three multiplications by a multiplier and shift, each of which takes about what a product takes."""
    return {"products": 3 * pixels_of(runs) * tensors[stage.output].channels}


def _lower(view: OperatorView) -> Lowered:
    """SQUARED_DIFFERENCE of equal shapes, all in double precision."""
    first, second, output = view.pair()
    twice_largest = 2.0 * max(first.scale, second.scale)
    one, other = (quantize_multiplier_below_one(scale / twice_largest) for scale in (first.scale, second.scale))
    square = quantize_multiplier(twice_largest * twice_largest / (4**_LEFT_SHIFT * output.scale))
    parameters = AddParameters(_LEFT_SHIFT, *one, *other, *square)
    stage = Stage(StageKind.SQUARED_DIFFERENCE, (), -1, parameters=parameters)
    return Lowered(stage, (first, second), output, output.shape, Fit.PIXELS)


SQUARED_DIFFERENCE = Kind(
    StageKind.SQUARED_DIFFERENCE,
    inputs=(2, 2),
    by_value=True,
    check=_check,
    reference=_reference,
    encode_table=encode_addition,
    decode_table=decode_addition,
    work=_work,
    counts=("products",),
    lowerings={"SQUARED_DIFFERENCE": _lower},
)
