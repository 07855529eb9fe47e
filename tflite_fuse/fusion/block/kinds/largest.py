"""GLOBAL_MAX and CHANNEL_MAX: the largest value of a map in each channel, and of each pixel over its channels.

REDUCE_MAX is one of them, or over rows or columns alone a MAX_POOL.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.arithmetic import Int64Array
from tflite_fuse.fusion.block.entry import Kernels, Kind, Operand, Runs, StageCheck, Tensors, pixels_of
from tflite_fuse.fusion.block.operators.reduction import read_reduction
from tflite_fuse.fusion.block.operators.view import Fit, Lowered, OperatorView
from tflite_fuse.fusion.block.stages import BlockTensor, Stage, StageKind


def _check_global(check: StageCheck) -> None:
    check.same_channels()
    check.one_pixel()


def _check_channels(check: StageCheck) -> None:
    check.same_shape(check.sources[0], channels=False)
    check.require(check.output.channels == 1, "writes more than one channel")


def _over_pixels(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((_, values),) = operands
    return np.asarray(values.max(axis=(0, 1), keepdims=True))


def _over_channels(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((_, values),) = operands
    return np.asarray(values.max(axis=2, keepdims=True))


def _work_global(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    return {"compared values": tensors[stage.inputs[0]].nbytes, "largest values": tensors[stage.output].channels}


def _work_channels(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    pixels = pixels_of(runs)
    return {"compared values": pixels * tensors[stage.inputs[0]].channels, "largest values": pixels}


def _lower(view: OperatorView) -> Lowered:
    """REDUCE_MAX over the whole map, its rows, its columns or its channels."""
    found = read_reduction(view)
    source, output = found.source, found.output
    if (source.scale, source.zero_point) != (output.scale, output.zero_point):
        raise BlockError("its input and output are quantized differently, which TFLM refuses")
    if found.channels:
        return Lowered(Stage(StageKind.CHANNEL_MAX, (), -1), (source,), output, found.shape, Fit.PIXELS)
    if found.shape[:2] == (1, 1):
        return Lowered(Stage(StageKind.GLOBAL_MAX, (), -1), (source,), output, found.shape, Fit.PIXELS)
    return Lowered(Stage(StageKind.MAX_POOL, (), -1, kernel_size=found.window), (source,), output, found.shape)


GLOBAL_MAX = Kind(
    StageKind.GLOBAL_MAX,
    sum_bytes=lambda source: 1,
    check=_check_global,
    reference=_over_pixels,
    work=_work_global,
    counts=("compared values", "largest values"),
    lowerings={"REDUCE_MAX": _lower},
)

CHANNEL_MAX = Kind(
    StageKind.CHANNEL_MAX,
    check=_check_channels,
    reference=_over_channels,
    work=_work_channels,
    counts=("compared values", "largest values"),
)
