"""Operators with a constant number for every channel (PRELU; ADD, SUB and MUL with a constant), and SOFTMAX.

A SCALE multiplies values above and below the zero point by different numbers, an OFFSET adds a number, a SOFTMAX looks
up the exponentials of differences to the maximum. Their tables are computed here as bytes.
"""

from __future__ import annotations

import struct
from math import frexp, isfinite

import numpy as np
import numpy.typing as npt

from tflite_fuse.check.original.functions import exp_below
from tflite_fuse.check.original.meaning import Meaning, affine, fused_clamp
from tflite_fuse.check.original.scales import addition_numbers, scaled, split_scale
from tflite_fuse.check.original.values import Image, Original, Step
from tflite_fuse.ir.enums import StageKind

Int64s = npt.NDArray[np.int64]

_WIDEST = 511
"""Most channels of a SOFTMAX that the runtime computes for all values."""


def constant_operand(original: Original, step: Step) -> int | None:
    """Return the position of the only constant among two operands."""
    found = [position for position in (0, 1) if original.content(step.operand(position))]
    return found[0] if len(step.inputs) == 2 and len(found) == 1 else None


def _numbers(original: Original, step: Step, position: int) -> tuple[Int64s, Image] | None:
    """Return the constant less its zero point, one number per channel, and the image of the result."""
    constant, other = step.inputs[position], step.inputs[1 - position]
    stored, quantization = original.weights(constant), original.affine(constant)
    image = original.rows(step.outputs[0])
    if stored is None or quantization is None or image is None or original.activation(other) is None:
        return None
    if original.rows(other) != image or stored.size != image[2] or stored.shape[-1:] != image[2:]:
        return None
    return stored.ravel().astype(np.int64) - quantization[1], image


def _meaning(step: Step, kind: StageKind, position: int, image: Image, table: bytes, clamp: tuple[int, int]) -> Meaning:
    return Meaning(step, kind, (step.inputs[1 - position],), step.outputs[0], (image,), image, clamp=clamp, table=table)


def prelu(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a PRELU whose alpha is a constant."""
    numbers = _numbers(original, step, 1) if constant_operand(original, step) == 1 else None
    alpha, quantized = original.affine(step.operand(1)), affine(original, step.outputs[0])
    if numbers is None or alpha is None:
        return None
    source = affine(original, step.inputs[0])[0]
    multipliers, shifts = split_scale([source / quantized[0], source * alpha[0] / quantized[0]])
    sides = [(0, int(m), int(s)) for m, s in zip(multipliers, shifts, strict=True)]
    factors = [number for slope in numbers[0].tolist() for number in (1, slope)]
    return _meaning(step, StageKind.SCALE, 1, numbers[1], _scale_table(sides, factors), (-128, 127))


def multiply(original: Original, step: Step, position: int) -> Meaning | None:
    """Return the stage of a MUL with a constant operand."""
    numbers, clamp = _numbers(original, step, position), fused_clamp(original, step)
    constant = original.affine(step.inputs[position])
    if numbers is None or clamp is None or constant is None:
        return None
    scales = [affine(original, step.inputs[1 - position])[0], affine(original, step.outputs[0])[0]]
    multiplier, shift = split_scale([scales[0] * constant[0] / scales[1]])
    sides = [(0, int(multiplier[0]), int(shift[0]))] * 2
    factors = np.repeat(numbers[0], 2).tolist()
    return _meaning(step, StageKind.SCALE, position, numbers[1], _scale_table(sides, factors), clamp)


def _scale_table(sides: list[tuple[int, int, int]], factors: list[int]) -> bytes:
    return struct.pack("<6i", *sides[0], *sides[1]) + struct.pack(f"<{len(factors)}h", *factors)


def add(original: Original, step: Step, position: int, sign: int) -> Meaning | None:
    """Return the stage of an ADD (sign 1) or SUB (sign −1) with a constant operand."""
    numbers, clamp = _numbers(original, step, position), fused_clamp(original, step)
    quantized = [original.affine(tensor) for tensor in step.inputs]
    if numbers is None or clamp is None or quantized[0] is None or quantized[1] is None:
        return None
    left, *rest = addition_numbers(quantized[0][0], quantized[1][0], affine(original, step.outputs[0])[0])
    of_operand = [(rest[0], rest[1], 1), (rest[2], rest[3], sign)]
    multiplier, shift, its_sign = of_operand[position]
    offsets = its_sign * scaled(numbers[0] << left, np.array([multiplier]), np.array([shift]))
    mine = of_operand[1 - position]
    table = struct.pack(f"<{6 + len(offsets)}i", left, *mine[:2], *rest[4:], mine[2], *offsets.tolist())
    return _meaning(step, StageKind.OFFSET, position, numbers[1], table, clamp)


def softmax(original: Original, step: Step) -> Meaning | None:
    """Return the stage of a SOFTMAX from int8 to int8 whose output scale is 1/256.

    Scaled differences have five integer bits. The runtime's kernel aborts if 512 or more channels are equal, so wider
    inputs have no meaning.
    """
    source, output = original.rows(step.inputs[0]), original.rows(step.outputs[0])
    beta = step.options.get("beta", 0.0)
    if (
        source is None
        or source != output
        or len(original.tensors[step.inputs[0]].dims) != len(original.tensors[step.outputs[0]].dims)
        or output[2] > _WIDEST
        or affine(original, step.outputs[0]) != (1 / 256, -128)
    ):
        return None
    if not isinstance(beta, float) or not isfinite(beta):
        return None
    factor = min(beta * affine(original, step.inputs[0])[0] * 2.0**26, 2.0**31 - 1)
    if not factor > 1:
        return None
    fraction, shift = frexp(factor)
    multiplier = int(fraction * 2.0**31 + 0.5)
    if multiplier == 1 << 31:
        multiplier, shift = 1 << 30, shift + 1
    near = np.array([distance for distance in range(256) if distance << shift <= 31 << 26]) << shift
    table = [*exp_below((-near * multiplier + (1 << 30)) >> 31, 5).tolist(), *[0] * (256 - len(near))]
    return Meaning(
        step, StageKind.SOFTMAX, step.inputs, step.outputs[0], (source,), output, table=struct.pack("<256i", *table)
    )
