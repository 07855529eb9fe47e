"""MATRIX_PRODUCT: each pixel of a tensor times a matrix that is another tensor, as attention multiplies.

The second input is the matrix, needed whole for every pixel. Its pixels are the columns (queries times keys) or the
rows (shares times values). Several matrices lie one behind the other in it, as heads of attention do, each for as many
pixels of the first input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind, Storage
from tflite_fuse.ops.arithmetic import Int64Array, multiply_by_quantized_multiplier
from tflite_fuse.ops.entry import Kind, Layout, Numbers, Operand, StageCheck, Tensors, by_pixel, parameters_of
from tflite_fuse.ops.lowering.requantization import quantize_multiplier
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView, by_value

MOST_DEPTH = 1 << 15
"""Most products of a sum: each is at most 255 * 255, and sums are int32."""


@dataclass(frozen=True)
class MatrixParameters:
    """Scale of the sums, and layout of the second input.

    Attributes:
        bias: 0.
        multiplier, shift: of the sums.
        by_column: 1 where pixels of the second input are columns of a matrix, 0 where they are rows.
    """

    bias: int
    multiplier: int
    shift: int
    by_column: int


LAYOUT = Layout(MatrixParameters, tuple(Numbers(name) for name in MatrixParameters.__dataclass_fields__))


def _check(check: StageCheck) -> None:
    found, (source, second), output = parameters_of(check.stage, MatrixParameters), check.sources, check.output
    check.same_shape(source, channels=False)
    sound = found.bias == 0 and -(2**31) < found.multiplier < 2**31 and -31 <= found.shift <= 30
    check.require(sound and found.by_column in (0, 1), f"has impossible parameters {found}")
    one, channels = source.channels * output.channels, source.channels if found.by_column else output.channels
    count = second.pixels * second.channels // one
    fits = second.channels == channels and count >= 1 and second.pixels * second.channels == count * one
    check.require(fits and output.pixels % count == 0, f"reads {second.name}, which has another shape")
    check.require(source.channels <= MOST_DEPTH, f"adds more than {MOST_DEPTH} products")
    check.require(second.storage is not Storage.PERSISTENT, f"reads the state {second.name} as a matrix")


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    found, ((source, values), (second, matrix)) = parameters_of(stage, MatrixParameters), operands
    shape = (-1, output.channels, source.channels) if found.by_column else (-1, source.channels, output.channels)
    matrices = (matrix - second.zero_point).reshape(shape)
    rows = (values - source.zero_point).reshape(len(matrices), -1, source.channels)
    sums = rows @ (matrices.swapaxes(1, 2) if found.by_column else matrices)
    scaled = multiply_by_quantized_multiplier(sums, found.multiplier, found.shift) + output.zero_point
    return np.asarray(scaled.reshape(output.height, output.width, output.channels))


def _macs(stage: Stage, tensors: Tensors) -> int:
    return tensors[stage.inputs[0]].channels * tensors[stage.output].channels


def _lower(view: OperatorView) -> Lowered:
    """Lower BATCH_MATMUL of two computed tensors."""
    first, second, output = by_value(view.read(0), view.read(1), view.write())
    if view.options.get("adj_x"):
        raise BlockError("it transposes its first operand")
    if first.index == second.index:
        raise BlockError(f"it multiplies {first.name} by itself")
    if min(len(each.dims) for each in (first, second)) < 2 or max(len(each.dims) for each in (first, second)) > 5:
        raise BlockError("TFLM multiplies tensors of 2 to 5 dimensions")
    by_column = bool(view.options.get("adj_y"))
    depth, (deep, columns) = first.dims[-1], second.dims[-2:][:: -1 if by_column else 1]
    alike = prod(second.dims[:-2]) == 1 or second.dims[:-2] == first.dims[:-2]
    if depth != deep or not alike or output.dims != (*first.dims[:-1], columns):
        raise BlockError(f"it makes {list(output.dims)} of {list(first.dims)} and {list(second.dims)}")
    if depth > MOST_DEPTH:
        raise BlockError(f"it adds {depth} products, more than {MOST_DEPTH}")
    multiplier, shift = quantize_multiplier(first.scale * second.scale / output.scale)
    parameters = MatrixParameters(0, multiplier, shift, int(by_column))
    stage = Stage(StageKind.MATRIX_PRODUCT, (), -1, parameters=parameters)
    return Lowered(stage, (first, second), output, output.shape, Fit.PIXELS)


MATRIX_PRODUCT = Kind(
    StageKind.MATRIX_PRODUCT,
    inputs=(2, 2),
    second_whole=True,
    check=_check,
    reference=_reference,
    encode_table=LAYOUT.encode,
    decode_table=LAYOUT.decode,
    macs=_macs,
    work=by_pixel("plain macs", "plain outputs")(
        lambda stage, tensors: (_macs(stage, tensors), tensors[stage.output].channels)
    ),
    lowerings={"BATCH_MATMUL": _lower},
)

KINDS = (MATRIX_PRODUCT,)
