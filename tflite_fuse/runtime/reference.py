"""Slow, clear numpy reference of a fused block: every stage is computed on whole tensors.

It is the first witness of a block's result. It shares no code with the C executor and uses no tiles, rings or runs; its
arithmetic is that of TFLM's reference int8 kernels, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import Block, BlockTensor, Stage, StageKind, Storage
from tflite_fuse.ops.entry import Operand
from tflite_fuse.ops.table import KINDS

Values = npt.NDArray[Any]
"""int8, or float32 for float32 tensors."""


def run_block_reference(
    block: Block, inputs: Sequence[npt.ArrayLike], external: npt.ArrayLike | None = None
) -> list[Values]:
    """Run a block and return its outputs.

    Args:
        block: any valid block.
        inputs: one int8 array per ``block.inputs``, NHWC with N = 1; any shape with the right number of values.
        external: the int8 image of EXTERNAL tensors and SOURCE stages, if the block has one.

    Returns:
        One int8 array [1, H, W, C] per ``block.outputs``.

    Raises:
        BlockError: an input is missing, has the wrong size or type, or a stage contradicts its tensors.
    """
    values = run_block_tensors(block, inputs, external)
    return [values[index] for index in block.outputs]


def run_block_tensors(
    block: Block, inputs: Sequence[npt.ArrayLike], external: npt.ArrayLike | None = None
) -> dict[int, Values]:
    """Run a block as ``run_block_reference`` does, but return every tensor by its index: int8 [1, H, W, C]."""
    if len(inputs) != len(block.inputs):
        raise BlockError(f"The block has {len(block.inputs)} inputs but {len(inputs)} arrays were given.")
    values = {index: _whole(block.tensors[index], array) for index, array in zip(block.inputs, inputs, strict=True)}
    for index, tensor in enumerate(block.tensors):
        if tensor.storage is Storage.EXTERNAL:
            values[index] = _whole(tensor, external)
        elif tensor.storage is Storage.PERSISTENT:  # LSTM memories start at zero; STATE stages overwrite the others.
            values[index] = np.zeros((1, tensor.height, tensor.width, tensor.channels), np.int8)
    for stage in block.stages:
        output = block.tensors[stage.output]
        if stage.kind is StageKind.SOURCE:
            values[stage.output] = _whole(output, external)
        else:
            operands = [(block.tensors[index], _operand(values[index][0])) for index in stage.inputs]
            values[stage.output] = run_stage(stage, operands, output)[np.newaxis]
    return values


def run_stage(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Values:
    """Return the int8 [H, W, C] result of one stage (any kind but SOURCE).

    Raises:
        BlockError: the result's shape differs from the output tensor's, or the stage lacks a parameter.
    """
    result = KINDS[stage.kind].reference(stage, operands, output)
    if result.shape != (output.height, output.width, output.channels):
        raise BlockError(
            f"Tensor {output.name} is {output.height}x{output.width}x{output.channels} but its {stage.kind.name} "
            f"stage computes {'x'.join(map(str, result.shape))}."
        )
    if output.is_real:
        return result
    return np.clip(result, stage.activation_min, stage.activation_max).astype(np.int8)


def _operand(values: Values) -> Values:
    return values if values.dtype == np.float32 else values.astype(np.int64)


def _whole(tensor: BlockTensor, array: npt.ArrayLike | None) -> Values:
    if array is None:
        raise BlockError(f"Tensor {tensor.name} is read from outside the arena but no external array was given.")
    values = np.asarray(array)
    dtype, elements = np.dtype(np.float32 if tensor.is_real else np.int8), tensor.pixels * tensor.channels
    if values.dtype != dtype or values.size != elements:
        raise BlockError(
            f"Tensor {tensor.name} needs {elements} {dtype} values but got {values.size} of type {values.dtype}."
        )
    return values.reshape(1, tensor.height, tensor.width, tensor.channels)
