"""MATRIX_PRODUCT and FLOAT_MATRIX_PRODUCT: each pixel of a tensor times a matrix that is another tensor, for attention.

The second input is the matrix, needed whole for every pixel. Its pixels are the columns (queries times keys) or the
rows (shares times values). Several matrices follow each other in it, as heads of attention do, each for as many
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
from tflite_fuse.ops.entry import Kind, Layout, Operand, StageCheck, Tensors, Values, by_pixel, parameters_of
from tflite_fuse.ops.lowering.operands import read_real
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


@dataclass(frozen=True)
class FloatMatrixParameters:
    """Layout of the second input, as for int8."""

    by_column: int


LAYOUT = Layout.of(MatrixParameters)

FLOAT_LAYOUT = Layout.of(FloatMatrixParameters)


def _check(check: StageCheck) -> None:
    parameters = parameters_of(check.stage, MatrixParameters)
    sound = parameters.bias == 0 and -(2**31) < parameters.multiplier < 2**31 and -31 <= parameters.shift <= 30
    check.require(sound, f"has impossible parameters {parameters}")
    _check_shapes(check, parameters.by_column)


def _check_shapes(check: StageCheck, by_column: int) -> None:
    (source, second), output = check.sources, check.output
    check.same_shape(source, channels=False)
    check.require(by_column in (0, 1), f"has the layout {by_column}")
    one, channels = source.channels * output.channels, source.channels if by_column else output.channels
    count = second.pixels * second.channels // one
    fits = second.channels == channels and count >= 1 and second.pixels * second.channels == count * one
    check.require(fits and output.pixels % count == 0, f"reads {second.name}, which has another shape")
    check.require(source.channels <= MOST_DEPTH, f"adds more than {MOST_DEPTH} products")
    check.require(second.storage is not Storage.PERSISTENT, f"reads the state {second.name} as a matrix")


def _factors(operands: Sequence[Operand], output: BlockTensor, by_column: int) -> tuple[Values, Values]:
    """Return rows, [matrices, pixels, depth], and matrices, [matrices, depth, columns], less their zero points."""
    (source, values), (second, matrix) = operands
    shape = (-1, output.channels, source.channels) if by_column else (-1, source.channels, output.channels)
    matrices = (matrix - second.zero_point).reshape(shape)
    rows = (values - source.zero_point).reshape(len(matrices), -1, source.channels)
    return rows, matrices.swapaxes(1, 2) if by_column else matrices


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    parameters = parameters_of(stage, MatrixParameters)
    rows, matrices = _factors(operands, output, parameters.by_column)
    sums = rows @ matrices
    scaled = multiply_by_quantized_multiplier(sums, parameters.multiplier, parameters.shift) + output.zero_point
    return np.asarray(scaled.reshape(output.height, output.width, output.channels))


def _float_reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Values:
    """Return the sums, one product after the other in single precision."""
    rows, matrices = _factors(operands, output, parameters_of(stage, FloatMatrixParameters).by_column)
    sums = np.zeros((*rows.shape[:2], output.channels), np.float32)
    with np.errstate(all="ignore"):
        for k in range(rows.shape[2]):
            sums += rows[:, :, k, None] * matrices[:, k, None, :]
    return sums.reshape(output.height, output.width, output.channels)


def _macs(stage: Stage, tensors: Tensors) -> int:
    return tensors[stage.inputs[0]].channels * tensors[stage.output].channels


def _lower(view: OperatorView) -> Lowered:
    """Lower BATCH_MATMUL of two computed tensors."""
    if view.is_real:
        operands = [read_real(view.model, index) for index in (view.operand(0), view.operand(1), view.output)]
    else:
        operands = [view.read(0), view.read(1), view.write()]
    first, second, output = by_value(*operands)
    for each in operands:
        if each.constant is not None:
            raise BlockError(f"tensor {each.name} is a constant where blocks read an activation", each.name)
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
    if view.is_real:
        stage = Stage(StageKind.FLOAT_MATRIX_PRODUCT, parameters=FloatMatrixParameters(int(by_column)))
        return Lowered(stage, (first, second), output, output.shape, Fit.PIXELS)
    multiplier, shift = quantize_multiplier(first.scale * second.scale / output.scale)
    parameters = MatrixParameters(0, multiplier, shift, int(by_column))
    stage = Stage(StageKind.MATRIX_PRODUCT, parameters=parameters)
    return Lowered(stage, (first, second), output, output.shape, Fit.PIXELS)


MATRIX_PRODUCT = Kind(
    StageKind.MATRIX_PRODUCT,
    inputs=(2, 2),
    whole=1,
    check=_check,
    reference=_reference,
    constants=LAYOUT,
    macs=_macs,
    work=by_pixel("plain macs", "plain outputs")(
        lambda stage, tensors: (_macs(stage, tensors), tensors[stage.output].channels)
    ),
    lowerings={"BATCH_MATMUL": _lower},
)

_TOGETHER = 4
"""Columns computed together; an incomplete group costs as much as a complete one."""


@by_pixel("float macs", "float taps", "float outputs")
def _float_work(stage: Stage, tensors: Tensors) -> tuple[int, ...]:
    columns, depth = tensors[stage.output].channels, tensors[stage.inputs[0]].channels
    groups = -(-columns // _TOGETHER)
    return _TOGETHER * groups * depth, groups, columns


FLOAT_MATRIX_PRODUCT = Kind(
    StageKind.FLOAT_MATRIX_PRODUCT,
    inputs=(2, 2),
    whole=1,
    reads_real=True,
    writes_real=True,
    check=lambda check: _check_shapes(check, parameters_of(check.stage, FloatMatrixParameters).by_column),
    reference=_float_reference,
    constants=FLOAT_LAYOUT,
    macs=_macs,
    work=_float_work,
)

KINDS = (MATRIX_PRODUCT, FLOAT_MATRIX_PRODUCT)

LOWERINGS = {"BATCH_MATMUL": _lower}
"""It is one of these kinds where it reads float32, too."""
