"""Layers with float32 weights: FLOAT_CONV, FLOAT_TRANSPOSE_CONV, FLOAT_DEPTHWISE and FLOAT_FULLY_CONNECTED.

Each output is one sum of products over the window's rows, columns and input channels, in that order, and then of the
bias. Taps outside the image are skipped, because an infinite weight times zero would be NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ir.limits import MAX_COPIED_FLOATS
from tflite_fuse.ops.entry import (
    AS_BYTES,
    Coding,
    Kernels,
    Kind,
    Layout,
    Numbers,
    Operand,
    Runs,
    StoredTables,
    Tables,
    Tensors,
    Work,
    counted,
    parameters_of,
    pixels_of,
)
from tflite_fuse.ops.floats.common import FLOAT_BYTES, Floats, FloatWeights, bounded
from tflite_fuse.ops.lowering.view import Lowered, OperatorView
from tflite_fuse.ops.packing import WeightLayout
from tflite_fuse.ops.weighted.convolutions import (
    CONV,
    DEPTHWISE,
    FULLY_CONNECTED,
    TRANSPOSE_CONV,
    Shape,
    conv_shape,
    dense_shape,
    depthwise_shape,
    reads_own_pixel,
)
from tflite_fuse.ops.weighted.lowering import lower_conv, lower_dense, lower_depthwise, lower_transposed
from tflite_fuse.ops.weighted.sums import taps
from tflite_fuse.units import round_up

_TABLE = Layout.of(FloatWeights, Numbers("bias", lambda output: FLOAT_BYTES * output.channels, AS_BYTES))
_TOGETHER = 4
"""Output channels of a convolution computed together; an incomplete group costs as much as a complete one."""


def _encode(stage: Stage, tensors: Tensors) -> Tables:
    parameters, table = parameters_of(stage, FloatWeights), _TABLE.encode(stage, tensors)
    if not parameters.in_float16:
        return replace(table, weights=parameters.weights)
    narrow = np.frombuffer(parameters.weights, "<f4").astype("<f2")
    return replace(table, layout=WeightLayout.FLOAT16, weights=narrow.tobytes())


def _decoded(shape: Shape) -> Callable[[Stage, Tensors, StoredTables], Stage]:
    def decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
        sizes = shape(stage, tensors[stage.inputs[0]], tensors[stage.output])
        if min(sizes) < 1:
            raise BlockError(f"A stage of the fused block has weights of shape {list(sizes)}.")
        stage = _TABLE.decode(stage, tensors, stored)
        narrow = stored.layout is WeightLayout.FLOAT16
        weights = stored.weights(FLOAT_BYTES // (1 + narrow) * prod(sizes)).view("<f2" if narrow else "<f4")
        if narrow and not np.isfinite(weights).all():
            raise BlockError("A stage of the fused block has weights in float16 that are infinite or no numbers.")
        constants = parameters_of(stage, FloatWeights)
        return replace(stage, parameters=replace(constants, weights=weights.astype("<f4").tobytes(), in_float16=narrow))

    return decode


def _weights(stage: Stage, shape: tuple[int, ...]) -> Floats:
    return np.frombuffer(parameters_of(stage, FloatWeights).weights, "<f4").reshape(shape)


def _finish(stage: Stage, sums: Floats) -> Floats:
    """Return sums, [..., Cout], plus the bias, within bounds."""
    parameters = parameters_of(stage, FloatWeights)
    return bounded(sums + np.frombuffer(parameters.bias, "<f4"), parameters.low, parameters.high)


def _holds_pixel(stage: Stage, source: BlockTensor) -> bool:
    """Return whether a stage reads one pixel, and its kernel copies it before it writes the result."""
    return reads_own_pixel(stage) and source.channels <= MAX_COPIED_FLOATS


def _on_floats(
    int8: Kind,
    number: StageKind,
    shape: Shape,
    reference: Callable[[Stage, Sequence[Operand], BlockTensor], Floats],
    work: Work,
    **changes: Any,
) -> Kind:
    """Return a layer on float32: its counterpart on int8 with other numbers, constants and work, and ``changes``."""
    return replace(
        int8,
        number=number,
        reads_real=True,
        writes_real=True,
        reference=reference,
        constants=Coding(_encode, _decoded(shape)),
        work=work,
        lowerings={},
        **changes,
    )


# ---- FLOAT_CONV ----


def _inside(stage: Stage, values: Floats, output: BlockTensor) -> list[np.ndarray]:
    """Return for each tap whether it lies in the image, [Hout, Wout, 1]."""
    everywhere = np.ones((*values.shape[:2], 1), np.int64)
    return [seen > 0 for _, _, seen in taps(stage, everywhere, output, fill=0)]


def _conv(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    ((tensor, values),) = operands
    weights = _weights(stage, conv_shape(stage, tensor, output))
    return _convolved(stage, values, _inside(stage, values, output), weights, output)


def _convolved(stage: Stage, values: Floats, inside: list[np.ndarray], weights: Floats, output: BlockTensor) -> Floats:
    """Sums over taps, row by row, then input channels; of each tap where it lies on a pixel."""
    sums = _zeros(output)
    with np.errstate(all="ignore"):
        for (ky, kx, seen), on_pixel in zip(taps(stage, values, output, fill=0), inside, strict=True):
            for channel in range(values.shape[2]):
                products = seen[:, :, channel, None] * weights[:, ky, kx, channel]
                np.add(sums, products, out=sums, where=on_pixel)
        return _finish(stage, sums)


def _zeros(output: BlockTensor) -> Floats:
    return np.zeros((output.height, output.width, output.channels), np.float32)


def _conv_counts(stage: Stage, tensors: Tensors, pixels: int, depth: int) -> dict[str, int]:
    """Return the counts, with the channels that complete the last group of four."""
    groups = round_up(tensors[stage.output].channels, _TOGETHER) // _TOGETHER
    taps_of_groups = pixels * groups * prod(stage.kernel_size)
    outputs = pixels * tensors[stage.output].channels
    return {"float macs": _TOGETHER * taps_of_groups * depth, "float taps": taps_of_groups, "float outputs": outputs}


@counted("float macs", "float taps", "float outputs")
def _conv_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    return _conv_counts(stage, tensors, pixels_of(runs), tensors[stage.inputs[0]].channels)


FLOAT_CONV = _on_floats(CONV, StageKind.FLOAT_CONV, conv_shape, _conv, _conv_work, writes_over=_holds_pixel)

# ---- FLOAT_TRANSPOSE_CONV ----


def _transposed(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    """TFLM adds every input pixel into the outputs its filter reaches: a convolution of the pixels spread out."""
    ((tensor, values),) = operands
    (down, across), (height, width, channels) = stage.spread, values.shape
    spread = np.zeros(((height - 1) * down + 1, (width - 1) * across + 1, channels + 1), np.float32)
    spread[::down, ::across, :-1], spread[::down, ::across, -1] = values, 1
    on_pixel = [seen[:, :, -1:] > 0 for _, _, seen in taps(stage, spread, output, fill=0)]
    weights = _weights(stage, conv_shape(stage, tensor, output))[:, ::-1, ::-1]
    return _convolved(stage, spread[:, :, :-1], on_pixel, weights, output)


@counted("float dense macs", "float outputs")
def _transposed_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    """One output after the other, as a layer that is fully connected sums."""
    pixels = pixels_of(runs)
    outputs = pixels * tensors[stage.output].channels
    return {"float dense macs": pixels * TRANSPOSE_CONV.macs(stage, tensors), "float outputs": outputs}


FLOAT_TRANSPOSE_CONV = _on_floats(
    TRANSPOSE_CONV, StageKind.FLOAT_TRANSPOSE_CONV, conv_shape, _transposed, _transposed_work
)

# ---- FLOAT_DEPTHWISE ----


def _depthwise(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    ((tensor, values),) = operands
    weights, sums = _weights(stage, depthwise_shape(stage, tensor, output)), _zeros(output)
    with np.errstate(all="ignore"):
        seen_and_inside = zip(taps(stage, values, output, fill=0), _inside(stage, values, output), strict=True)
        for (ky, kx, seen), inside in seen_and_inside:
            products = np.repeat(seen, stage.depth_multiplier, axis=2) * weights[ky, kx]
            np.add(sums, products, out=sums, where=inside)
        return _finish(stage, sums)


@counted("float depthwise macs", "float outputs")
def _depthwise_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    pixels = pixels_of(runs)
    macs, outputs = pixels * DEPTHWISE.macs(stage, tensors), pixels * tensors[stage.output].channels
    return {"float depthwise macs": macs, "float outputs": outputs}


FLOAT_DEPTHWISE = _on_floats(DEPTHWISE, StageKind.FLOAT_DEPTHWISE, depthwise_shape, _depthwise, _depthwise_work)

# ---- FLOAT_FULLY_CONNECTED ----


def _dense(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    ((tensor, values),) = operands
    weights, sums = _weights(stage, dense_shape(stage, tensor, output)), _zeros(output)
    with np.errstate(all="ignore"):
        for value, of_channels in zip(values.ravel(), weights.T, strict=True):
            sums += value * of_channels
        return _finish(stage, sums)


@counted("float macs", "float taps", "float outputs", "float widened")
def _dense_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    """Return the counts of a convolution whose taps are the input's pixels, and of weights in float16."""
    source, output = tensors[stage.inputs[0]], tensors[stage.output]
    counts = _conv_counts(stage, tensors, source.pixels, source.channels)
    widened = counts["float macs"] * parameters_of(stage, FloatWeights).in_float16
    return {**counts, "float outputs": output.channels, "float widened": widened}


FLOAT_FULLY_CONNECTED = _on_floats(
    FULLY_CONNECTED,
    StageKind.FLOAT_FULLY_CONNECTED,
    dense_shape,
    _dense,
    _dense_work,
    sums_in_order=True,
    writes_over=_holds_pixel,
)

KINDS = (FLOAT_CONV, FLOAT_TRANSPOSE_CONV, FLOAT_DEPTHWISE, FLOAT_FULLY_CONNECTED)

LOWERINGS: dict[str, Callable[[OperatorView], Lowered]] = {
    "CONV_2D": lower_conv,
    "DEPTHWISE_CONV_2D": lower_depthwise,
    "FULLY_CONNECTED": lower_dense,
    "TRANSPOSE_CONV": lower_transposed,
}
"""Operators of these kinds if they compute in float32."""
