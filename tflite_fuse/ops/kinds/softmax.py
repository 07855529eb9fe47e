"""SOFTMAX: each channel's exponential divided by the sum over the pixel's channels.

All in fixed point, as in TFLM's reference kernel. An exponential depends only on the difference of its value to the
largest one of the pixel, so a table of 256 contains them and no stage computes any at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ops import fixed_point
from tflite_fuse.ops.arithmetic import (
    INT32_MAX,
    Int64Array,
    multiply_by_quantized_multiplier,
    rounding_divide_by_power_of_two,
    saturating_rounding_doubling_high_mul,
)
from tflite_fuse.ops.entry import (
    Kind,
    Layout,
    Numbers,
    Operand,
    StageCheck,
    Tensors,
    by_pixel,
    parameters_of,
)
from tflite_fuse.ops.lowering.requantization import quantize_multiplier
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView

MOST_CHANNELS = 511
"""Largest number of channels: with more equal ones, TFLM's kernel aborts."""

_DISTANCES = 256
_SUM_BITS = 12
"""Integer bits of a sum of exponentials."""
_DIFFERENCE_BITS = 5
"""Integer bits of a scaled difference."""


@dataclass(frozen=True)
class SoftmaxParameters:
    """exp(−d · scale) for d = 0 … 255, in units of 1 / (2³¹ − 1)."""

    exponentials: tuple[int, ...]


def softmax_parameters(scale: float, beta: float) -> SoftmaxParameters:
    """Return the table for an input scale times beta.

    The product is in double precision; differences beyond the kernel's range yield 0.

    Raises:
        BlockError: the reference kernel aborts with this product.
    """
    with np.errstate(over="ignore"):
        factor = min(beta * scale * 2 ** (31 - _DIFFERENCE_BITS), float(INT32_MAX))
    if not factor > 1:
        raise BlockError(f"its beta {beta:g} times its input's scale {scale:g} is too small for the reference kernel")
    fraction, shift = _split(factor)
    radius = floor((2**_DIFFERENCE_BITS - 1) * 2 ** (31 - _DIFFERENCE_BITS) / 2**shift)
    differences = -np.arange(_DISTANCES, dtype=np.int64)
    near = differences >= -radius
    scaled = multiply_by_quantized_multiplier(np.where(near, differences, 0), fraction, shift)
    answers = np.where(near, fixed_point.exp(scaled, _DIFFERENCE_BITS), 0)
    return SoftmaxParameters(tuple(answers.tolist()))


def _split(factor: float) -> tuple[int, int]:
    """Return multiplier and shift of a factor, whose shift may exceed the usual limit by one."""
    multiplier, shift = quantize_multiplier(factor / 2)
    return multiplier, shift + 1


def _check(check: StageCheck) -> None:
    check.same_shape(check.sources[0])
    check.require(check.output.channels <= MOST_CHANNELS, f"has more than {MOST_CHANNELS} channels")
    exponentials = parameters_of(check.stage, SoftmaxParameters).exponentials
    check.require(len(exponentials) == _DISTANCES, f"has no table of {_DISTANCES} exponentials")
    sound = exponentials[0] == INT32_MAX and all(0 <= value <= INT32_MAX for value in exponentials)
    check.require(sound, "has impossible exponentials")


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((_, values),) = operands
    table = np.array(parameters_of(stage, SoftmaxParameters).exponentials, np.int64)
    exponentials = table[values.max(axis=2, keepdims=True) - values]
    total = rounding_divide_by_power_of_two(exponentials, _SUM_BITS).sum(axis=2, keepdims=True)
    # The sum is 2^(bits above 1) times a number in 1…2.
    above = np.floor(np.log2(total)).astype(np.int64) - (31 - _SUM_BITS)
    within = (total << (_SUM_BITS - above)) - 2**31
    shares = saturating_rounding_doubling_high_mul(fixed_point.one_over_one_plus(within), exponentials)
    return np.asarray(rounding_divide_by_power_of_two(shares, above + 23) - 128)


LAYOUT = Layout(SoftmaxParameters, (Numbers("exponentials", lambda output: _DISTANCES),))


@by_pixel("looked up", "products")
def _work(stage: Stage, tensors: Tensors) -> tuple[int, ...]:
    """Return the counts of a pixel: two look-ups and a product per value, and seven products for the quotient."""
    values = tensors[stage.output].channels
    return 3 * values, values + 7


def _lower(view: OperatorView) -> Lowered:
    """Lower SOFTMAX along the last dimension."""
    source, output = view.elementwise()
    if len(source.dims) != len(output.dims):
        raise BlockError(
            f"it makes {len(output.dims)} dimensions of {len(source.dims)}, for which the runtime reads sizes that are "
            "not there"
        )
    if (output.scale, output.zero_point) != (1 / 256, -128):
        raise BlockError("its output is not quantized with scale 1/256 and zero point -128, which TFLM refuses")
    if output.shape[2] > MOST_CHANNELS:
        raise BlockError(f"it has {output.shape[2]} channels: of more than {MOST_CHANNELS} the runtime may stop")
    parameters = softmax_parameters(source.scale, view.number("beta"))
    return Lowered(Stage(StageKind.SOFTMAX, parameters=parameters), (source,), output, output.shape, Fit.PIXELS)


SOFTMAX = Kind(
    StageKind.SOFTMAX,
    check=_check,
    reference=_reference,
    constants=LAYOUT,
    work=_work,
    lowerings={"SOFTMAX": _lower},
)

KINDS = (SOFTMAX,)
