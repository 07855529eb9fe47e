"""A slow, clear reference of a fused block: every stage computed on whole tensors with numpy.

It is the first witness of what a block must compute. It shares no code with the C executor and knows nothing of tiles,
FIFOs or chunks; its arithmetic is that of TFLM's reference int8 kernels, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.arithmetic import (
    Int64Array,
    multiply_by_quantized_multiplier,
    rounding_divide,
    wrap_int32,
)
from tflite_fuse.fusion.block.stages import Block, BlockTensor, Int8Array, Stage, StageKind, Storage

Operand = tuple[BlockTensor, Int64Array]
"""An input of a stage: the tensor and its values, int64 [H, W, C]."""

T = TypeVar("T")


def run_block_reference(
    block: Block, inputs: Sequence[npt.ArrayLike], external: npt.ArrayLike | None = None
) -> list[Int8Array]:
    """Run a block and return its outputs.

    Args:
        block: any valid block.
        inputs: one int8 array per ``block.inputs``, NHWC with N = 1; any shape with the right number of values.
        external: the int8 image behind EXTERNAL tensors and SOURCE stages, where the block has one.

    Returns:
        One int8 array [1, H, W, C] per ``block.outputs``.

    Raises:
        BlockError: an input is missing, has the wrong size or type, or a stage contradicts its tensors.
    """
    values = run_block_tensors(block, inputs, external)
    return [values[index] for index in block.outputs]


def run_block_tensors(
    block: Block, inputs: Sequence[npt.ArrayLike], external: npt.ArrayLike | None = None
) -> dict[int, Int8Array]:
    """As ``run_block_reference``, but return every tensor by its index: int8 [1, H, W, C]."""
    if len(inputs) != len(block.inputs):
        raise BlockError(f"The block has {len(block.inputs)} inputs but {len(inputs)} arrays were given.")
    values = {index: _whole(block.tensors[index], array) for index, array in zip(block.inputs, inputs, strict=True)}
    for index, tensor in enumerate(block.tensors):
        if tensor.storage is Storage.EXTERNAL:
            values[index] = _whole(tensor, external)
    for stage in block.stages:
        output = block.tensors[stage.output]
        if stage.kind is StageKind.SOURCE:
            values[stage.output] = _whole(output, external)
        else:
            operands = [(block.tensors[index], values[index][0].astype(np.int64)) for index in stage.inputs]
            values[stage.output] = run_stage(stage, operands, output)[np.newaxis]
    return values


def run_stage(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int8Array:
    """Compute one stage (any kind but SOURCE): int8 [H, W, C].

    Raises:
        BlockError: the stage computes another shape than its output tensor has, or lacks a parameter.
    """
    result = _KERNELS[stage.kind](stage, operands, output)
    if result.shape != (output.height, output.width, output.channels):
        raise BlockError(
            f"Tensor {output.name} is {output.height}x{output.width}x{output.channels} but its {stage.kind.name} "
            f"stage computes {'x'.join(map(str, result.shape))}."
        )
    return np.clip(result, stage.activation_min, stage.activation_max).astype(np.int8)


def _whole(tensor: BlockTensor, array: npt.ArrayLike | None) -> Int8Array:
    if array is None:
        raise BlockError(f"Tensor {tensor.name} is read from outside the arena but no external array was given.")
    values = np.asarray(array)
    if values.dtype != np.int8 or values.size != tensor.nbytes:
        raise BlockError(
            f"Tensor {tensor.name} needs {tensor.nbytes} int8 values but got {values.size} of type {values.dtype}."
        )
    return values.reshape(1, tensor.height, tensor.width, tensor.channels)


def _required(value: T | None, stage: Stage, what: str) -> T:
    if value is None:
        raise BlockError(f"A {stage.kind.name} stage has no {what}.")
    return value


def _taps(stage: Stage, source: Int64Array, output: BlockTensor, fill: int) -> Iterator[tuple[int, int, Int64Array]]:
    """Each tap (ky, kx) of a window stage and what it sees: int64 [Hout, Wout, Cin], ``fill`` outside the input."""
    (top, left), (stride_y, stride_x) = stage.padding, stage.stride
    last_row, last_column = (output.height - 1) * stride_y, (output.width - 1) * stride_x
    bottom = max(0, last_row + stage.extent[0] - top - source.shape[0])
    right = max(0, last_column + stage.extent[1] - left - source.shape[1])
    padded = np.pad(source, ((top, bottom), (left, right), (0, 0)), constant_values=fill)
    for ky in range(stage.kernel_size[0]):
        for kx in range(stage.kernel_size[1]):
            y, x = ky * stage.dilation[0], kx * stage.dilation[1]
            yield ky, kx, padded[y : y + last_row + 1 : stride_y, x : x + last_column + 1 : stride_x]


def _matmul(values: Int64Array, weights: Int8Array) -> Int64Array:
    """Sum over the last axis of both: [..., K] with [Cout, K] to [..., Cout].

    Doubles make this a fast library call and stay exact: every partial sum is an integer below 2⁵³.
    """
    return (values.astype(np.float64) @ weights.T.astype(np.float64)).astype(np.int64)


def _requantize(stage: Stage, accumulator: Int64Array, output: BlockTensor) -> Int64Array:
    """From int32 accumulators [..., Cout] to output values before the clamp."""
    table = _required(stage.requantization, stage, "requantization table")
    scaled = multiply_by_quantized_multiplier(
        wrap_int32(accumulator), table.multiplier.astype(np.int64), table.shift.astype(np.int64)
    )
    return wrap_int32(scaled + output.zero_point)


def _bias(stage: Stage) -> Int64Array | int:
    return 0 if stage.bias is None else stage.bias.astype(np.int64)


def _convolution(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((tensor, values),) = operands
    weights = _required(stage.weights, stage, "weights")
    accumulator = np.zeros((output.height, output.width, weights.shape[0]), np.int64)
    for ky, kx, seen in _taps(stage, values - tensor.zero_point, output, fill=0):
        accumulator += _matmul(seen, weights[:, ky, kx, :])
    return _requantize(stage, accumulator + _bias(stage), output)


def _depthwise(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((tensor, values),) = operands
    weights = _required(stage.weights, stage, "weights")
    accumulator = np.zeros((output.height, output.width, weights.shape[2]), np.int64)
    for ky, kx, seen in _taps(stage, values - tensor.zero_point, output, fill=0):
        accumulator += np.repeat(seen, stage.depth_multiplier, axis=2) * weights[ky, kx]
    return _requantize(stage, accumulator + _bias(stage), output)


def _fully_connected(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((tensor, values),) = operands
    weights = _required(stage.weights, stage, "weights")
    accumulator = _matmul(values.reshape(1, 1, -1) - tensor.zero_point, weights)
    return _requantize(stage, accumulator + _bias(stage), output)


def _add(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    (tensor_0, values_0), (tensor_1, values_1) = operands
    add = _required(stage.add, stage, "addition parameters")

    def scaled(values: Int64Array, multiplier: int, shift: int) -> Int64Array:
        return multiply_by_quantized_multiplier(values, np.asarray(multiplier, np.int64), np.asarray(shift, np.int64))

    term_0 = scaled((values_0 - tensor_0.zero_point) << add.left_shift, add.multiplier_0, add.shift_0)
    term_1 = scaled((values_1 - tensor_1.zero_point) << add.left_shift, add.multiplier_1, add.shift_1)
    return scaled(term_0 + term_1, add.output_multiplier, add.output_shift) + output.zero_point


def _pad(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((_, values),) = operands
    top, left = stage.padding
    bottom, right = output.height - top - values.shape[0], output.width - left - values.shape[1]
    if min(top, left, bottom, right) < 0:
        raise BlockError(f"A PAD stage cannot make {output.name} smaller than its input.")
    return np.pad(values, ((top, bottom), (left, right), (0, 0)), constant_values=stage.pad_value)


def _average_pool(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((_, values),) = operands
    total = sum(seen for _, _, seen in _taps(stage, values, output, fill=0))
    inside = np.ones((*values.shape[:2], 1), np.int64)
    count = sum(seen for _, _, seen in _taps(stage, inside, output, fill=0))
    return rounding_divide(np.asarray(total), np.asarray(count))


def _max_pool(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((_, values),) = operands
    return np.asarray(np.max([seen for _, _, seen in _taps(stage, values, output, fill=-128)], axis=0))


def _global_average(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((tensor, values),) = operands
    total = values.sum(axis=(0, 1), keepdims=True)
    pixels = values.shape[0] * values.shape[1]
    if stage.requantization is None:
        return rounding_divide(total, pixels)
    return _requantize(stage, total - tensor.zero_point * pixels, output)


def _concatenation(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    return np.concatenate([values for _, values in operands], axis=2)


_KERNELS: dict[StageKind, Callable[[Stage, Sequence[Operand], BlockTensor], Int64Array]] = {
    StageKind.CONV: _convolution,
    StageKind.DEPTHWISE: _depthwise,
    StageKind.ADD: _add,
    StageKind.PAD: _pad,
    StageKind.AVERAGE_POOL: _average_pool,
    StageKind.MAX_POOL: _max_pool,
    StageKind.GLOBAL_AVERAGE: _global_average,
    StageKind.FULLY_CONNECTED: _fully_connected,
    StageKind.CONCATENATION: _concatenation,
}
