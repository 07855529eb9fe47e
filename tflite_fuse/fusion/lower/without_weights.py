"""Operators without weights as stages: ADD, PAD, pools, MEAN, CONCATENATION, and those that only rename or rescale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.operators.operands import Activation, read_constant, read_quantization, tensor_name
from tflite_fuse.fusion.block.operators.requantization import (
    NO_ACTIVATION,
    RELU,
    RELU6,
    activation_range,
    add_parameters,
    mean_requantization,
    relu_requantization,
    rescale_requantization,
)
from tflite_fuse.fusion.block.operators.view import Fit, Lowered, OperatorView, window_fit, window_padding
from tflite_fuse.fusion.block.stages import Requantization, Stage, StageKind
from tflite_fuse.model.types import TensorType

_POOL_SCALE_TOLERANCE = 1e-6
_MAX_CONCATENATION_INPUTS = 10


def add(view: OperatorView) -> Lowered:
    """ADD of equal shapes."""
    first, second, output = view.read(0), view.read(1), view.write()
    if not first.shape == second.shape == output.shape:
        raise BlockError(f"it broadcasts {list(first.dims)} and {list(second.dims)}")
    low, high = view.clamp(output)
    parameters = add_parameters(first.scale, second.scale, output.scale)
    stage = Stage(StageKind.ADD, (), -1, activation_min=low, activation_max=high, add=parameters)
    return Lowered(stage, (first, second), output, output.shape, Fit.PIXELS)


def pad(view: OperatorView) -> Lowered:
    """PAD and PADV2 of rows and columns; one that adds nothing only renames its input."""
    source, output = view.read(), view.write()
    paddings = read_constant(view.model, view.operand(1), TensorType.INT32, "paddings")
    amounts = paddings.reshape(-1, 2).tolist() if paddings.size == 2 * len(source.dims) else []
    grown = tuple(dim + before + after for dim, (before, after) in zip(source.dims, amounts, strict=False))
    if grown != output.dims:
        raise BlockError(f"its paddings {amounts} do not lead from {list(source.dims)} to {list(output.dims)}")
    if any(amount < 0 for pair in amounts for amount in pair):
        raise BlockError("it cuts its input (negative paddings)")
    value = _pad_value(view, output) if view.operand(2) >= 0 else output.zero_point
    if not any(map(any, amounts)):
        return Lowered(None, (source,), output)
    rows, columns, channels = ([0, 0], [0, 0], [0, 0], *amounts[1:])[-3:]
    if any(amounts[0]) or any(channels):
        raise BlockError("it pads batch or channels")
    stage = Stage(StageKind.PAD, (), -1, padding=(rows[0], columns[0]), pad_value=value)
    return Lowered(stage, (source,), output, output.shape)


def _pad_value(view: OperatorView, output: Activation) -> int:
    index = view.operand(2)
    values = read_constant(view.model, index, TensorType.INT8, "pad value")
    if values.size != 1 or read_quantization(view.model, index) != ((output.scale,), (output.zero_point,)):
        raise BlockError(f"its pad value {tensor_name(view.model, index)} is not quantized as its output is")
    return int(values.ravel()[0])


def pool(kind: StageKind) -> Callable[[OperatorView], Lowered]:
    """AVERAGE_POOL_2D or MAX_POOL_2D; an average over the whole map becomes an accumulator."""

    def lower(view: OperatorView) -> Lowered:
        source, output = view.image()
        difference = abs(float(np.float32(source.scale) - np.float32(output.scale)))
        if source.zero_point != output.zero_point or difference > _POOL_SCALE_TOLERANCE:
            raise BlockError("its input and output are quantized differently, which TFLM refuses")
        if source.shape[2] != output.shape[2]:
            raise BlockError(f"it maps {source.shape[2]} to {output.shape[2]} channels")
        low, high = view.clamp(output)
        stage = Stage(
            kind,
            (),
            -1,
            kernel_size=view.positive("filter_height", "filter_width"),
            stride=view.positive("stride_h", "stride_w"),
            activation_min=low,
            activation_max=high,
        )
        stage = replace(stage, padding=window_padding(view, source, output, stage))
        if kind is StageKind.AVERAGE_POOL and output.shape[:2] == (1, 1) and _covers(stage, source):
            stage = Stage(StageKind.GLOBAL_AVERAGE, (), -1, activation_min=low, activation_max=high)
            return Lowered(stage, (source,), output, output.shape, Fit.PIXELS)
        return Lowered(stage, (source,), output, output.shape, window_fit(stage))

    return lower


def _covers(stage: Stage, source: Activation) -> bool:
    """Whether the stage's first window reaches over the whole map."""
    sides = zip(stage.extent, stage.padding, source.shape[:2], strict=True)
    return all(extent - before >= size for extent, before, size in sides)


def mean(view: OperatorView) -> Lowered:
    """MEAN over the whole map as an accumulator, over its rows or columns alone as a depthwise stage of ones."""
    source, output = view.read(), view.write()
    rank = len(source.dims)
    listed = read_constant(view.model, view.operand(1), TensorType.INT32, "axes").ravel().tolist()
    if not all(-rank <= axis < rank for axis in listed):
        raise BlockError(f"its axes {listed} are outside the {rank} dimensions of its input")
    axes = {axis % rank for axis in listed}
    height, width, channels = source.shape
    if rank - 1 in axes and channels > 1:
        raise BlockError("it averages over channels")
    rows = height if rank == 4 and 1 in axes else 1
    columns = width if rank >= 3 and rank - 2 in axes else 1
    shape = (height // rows, width // columns, channels)
    if output.elements != shape[0] * shape[1] * channels:
        raise BlockError(f"its output {output.name} has the shape {list(output.dims)} after axes {sorted(axes)}")
    table = mean_requantization(source.scale, output.scale, rows * columns)
    if shape[:2] == (1, 1):
        stage = Stage(StageKind.GLOBAL_AVERAGE, (), -1, requantization=table)
        return Lowered(stage, (source,), output, shape, Fit.PIXELS)
    return Lowered(_sum_stage((rows, columns), channels, table), (source,), output, shape)


def concatenation(view: OperatorView) -> Lowered:
    """CONCATENATION along channels."""
    output = view.write()
    parts = tuple(view.read(position) for position in range(len(view.inputs)))
    axis, rank = view.option("axis", default=0), len(output.dims)
    if not 2 <= len(parts) <= _MAX_CONCATENATION_INPUTS:
        raise BlockError(f"it joins {len(parts)} tensors")
    if axis not in (rank - 1, -1) or any(len(part.dims) != rank for part in parts):
        raise BlockError(f"it joins along axis {axis}, not along channels")
    if view.option("fused_activation_function", default=NO_ACTIVATION) != NO_ACTIVATION:
        raise BlockError("it has a fused activation, which TFLM refuses")
    if any((part.scale, part.zero_point) != (output.scale, output.zero_point) for part in parts):
        raise BlockError("its inputs and output are quantized differently, which TFLM refuses")
    channels = sum(part.shape[2] for part in parts)
    if any(part.shape[:2] != output.shape[:2] for part in parts) or channels != output.shape[2]:
        raise BlockError(f"its inputs do not add up to its output {output.name}")
    return Lowered(Stage(StageKind.CONCATENATION, (), -1), parts, output, output.shape, Fit.PIXELS)


def alias(view: OperatorView) -> Lowered:
    """RESHAPE, SQUEEZE, EXPAND_DIMS: the same bytes under another name."""
    source, output = view.read(), view.write()
    if source.elements != output.elements:
        raise BlockError(f"it maps {source.elements} to {output.elements} values")
    return Lowered(None, (source,), output)


def relu(view: OperatorView) -> Lowered:
    """RELU as an operator of its own, which TFLM rescales from its input's to its output's quantization."""
    source, output = _elementwise(view)
    low, high = activation_range(RELU, output.scale, output.zero_point)
    table = relu_requantization(source.scale, output.scale, 1)
    stage = replace(_sum_stage((1, 1), source.shape[2], table), activation_min=low, activation_max=high)
    return Lowered(stage, (source,), output, output.shape, Fit.PIXELS)


def relu6(view: OperatorView) -> Lowered:
    """RELU6 as an operator of its own: TFLM clamps bytes by its input's quantization and ignores its output's."""
    source, output = _elementwise(view)
    low, high = activation_range(RELU6, source.scale, source.zero_point)
    stage = Stage(StageKind.MAX_POOL, (), -1, activation_min=low, activation_max=high)
    return Lowered(stage, (source,), output, output.shape, Fit.PIXELS)


def quantize(view: OperatorView) -> Lowered:
    """QUANTIZE from int8 to int8."""
    source, output = _elementwise(view)
    table = rescale_requantization(source.scale, output.scale, 1)
    return Lowered(_sum_stage((1, 1), source.shape[2], table), (source,), output, output.shape, Fit.PIXELS)


def _elementwise(view: OperatorView) -> tuple[Activation, Activation]:
    source, output = view.read(), view.write()
    if source.shape != output.shape:
        raise BlockError(f"it maps the shape {list(source.dims)} to {list(output.dims)}")
    return source, output


def _sum_stage(window: tuple[int, int], channels: int, table: Requantization) -> Stage:
    """The sum of each window's values without their zero point, rescaled by a table of one entry."""
    return Stage(
        StageKind.DEPTHWISE,
        (),
        -1,
        kernel_size=window,
        weights=np.ones((*window, channels), np.int8),
        requantization=Requantization(np.repeat(table.multiplier, channels), np.repeat(table.shift, channels)),
    )
