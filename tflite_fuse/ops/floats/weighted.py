"""Layers with float32 weights: FLOAT_CONV, FLOAT_TRANSPOSE_CONV, FLOAT_DEPTHWISE and FLOAT_FULLY_CONNECTED.

Each output is one sum of products over the window's rows, columns and input channels, in that order, and then of the
bias. Taps outside the image are skipped, because an infinite weight times zero would be NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ir.limits import MAX_AVERAGED
from tflite_fuse.ops.entry import (
    AS_BYTES,
    Kernels,
    Layout,
    Numbers,
    Operand,
    Runs,
    StageCheck,
    StoredTables,
    Tables,
    Tensors,
    Window,
    counted,
    parameters_of,
    pixels_of,
)
from tflite_fuse.ops.floats.common import (
    FLOAT_BYTES,
    Floats,
    FloatWeights,
    bounded,
    float_kind,
)
from tflite_fuse.ops.lowering.view import (
    Lowered,
    OperatorView,
)
from tflite_fuse.ops.weighted.lowering import lower_conv, lower_dense, lower_depthwise, lower_transposed
from tflite_fuse.ops.weighted.sums import taps
from tflite_fuse.units import round_up

Shape = Callable[[Stage, BlockTensor, BlockTensor], tuple[int, ...]]
"""Function from a stage, its input and its output to the shape of its weights."""

_TABLE = Layout(
    FloatWeights,
    (
        Numbers("low", None, "<f4"),
        Numbers("high", None, "<f4"),
        Numbers("bias", lambda output: FLOAT_BYTES * output.channels, AS_BYTES),
    ),
)
_TOGETHER = 4
"""Output channels of a convolution computed together; an incomplete group costs as much as a complete one."""


def _encode(stage: Stage, tensors: Tensors) -> Tables:
    return replace(_TABLE.encode(stage, tensors), weights=parameters_of(stage, FloatWeights).weights)


def _decoded(shape: Shape) -> Callable[[Stage, Tensors, StoredTables], Stage]:
    def decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
        sizes = shape(stage, tensors[stage.inputs[0]], tensors[stage.output])
        if min(sizes) < 1:
            raise BlockError(f"A stage of the fused block has weights of shape {list(sizes)}.")
        stage = _TABLE.decode(stage, tensors, stored)
        weights = stored.weights(FLOAT_BYTES * prod(sizes)).tobytes()
        return replace(stage, parameters=replace(parameters_of(stage, FloatWeights), weights=weights))

    return decode


def _check(check: StageCheck, shape: Shape) -> None:
    found, output = parameters_of(check.stage, FloatWeights), check.output
    wanted = shape(check.stage, check.sources[0], output)
    check.require(len(found.weights) == FLOAT_BYTES * prod(wanted), f"needs float32 weights of shape {list(wanted)}")
    check.require(len(found.bias) == FLOAT_BYTES * output.channels, f"needs {output.channels} biases")


def _weights(stage: Stage, shape: tuple[int, ...]) -> Floats:
    return np.frombuffer(parameters_of(stage, FloatWeights).weights, "<f4").reshape(shape)


def _finish(stage: Stage, sums: Floats) -> Floats:
    """Return sums, [..., Cout], plus the bias, within bounds."""
    found = parameters_of(stage, FloatWeights)
    return bounded(sums + np.frombuffer(found.bias, "<f4"), found.low, found.high)


# ---- FLOAT_CONV ----


def _conv_shape(stage: Stage, source: BlockTensor, output: BlockTensor) -> tuple[int, ...]:
    return output.channels, *stage.kernel_size, source.channels


def _inside(stage: Stage, values: Floats, output: BlockTensor) -> list[np.ndarray]:
    """Return for each tap whether it lies in the image, [Hout, Wout, 1]."""
    everywhere = np.ones((*values.shape[:2], 1), np.int64)
    return [seen > 0 for _, _, seen in taps(stage, everywhere, output, fill=0)]


def _conv(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    ((tensor, values),) = operands
    weights = _weights(stage, _conv_shape(stage, tensor, output))
    return _convolved(stage, values, _inside(stage, values, output), weights, output)


def _convolved(stage: Stage, values: Floats, inside: list[np.ndarray], weights: Floats, output: BlockTensor) -> Floats:
    """Sums over taps, row by row, then input channels; of each tap where it lies on a pixel."""
    sums = _zeros(output)
    with np.errstate(all="ignore"):
        for (ky, kx, seen), there in zip(taps(stage, values, output, fill=0), inside, strict=True):
            for channel in range(values.shape[2]):
                products = seen[:, :, channel, None] * weights[:, ky, kx, channel]
                np.add(sums, products, out=sums, where=there)
        return _finish(stage, sums)


def _zeros(output: BlockTensor) -> Floats:
    return np.zeros((output.height, output.width, output.channels), np.float32)


def _products(stage: Stage, tensors: Tensors) -> int:
    return prod(stage.kernel_size) * tensors[stage.inputs[0]].channels * tensors[stage.output].channels


def _conv_counts(stage: Stage, tensors: Tensors, pixels: int, depth: int) -> dict[str, int]:
    """Return the counts, with the channels that complete the last group of four."""
    groups = round_up(tensors[stage.output].channels, _TOGETHER) // _TOGETHER
    taps_of_groups = pixels * groups * prod(stage.kernel_size)
    outputs = pixels * tensors[stage.output].channels
    return {"float macs": _TOGETHER * taps_of_groups * depth, "float taps": taps_of_groups, "float outputs": outputs}


@counted("float macs", "float taps", "float outputs")
def _conv_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    return _conv_counts(stage, tensors, pixels_of(runs), tensors[stage.inputs[0]].channels)


FLOAT_CONV = float_kind(
    StageKind.FLOAT_CONV,
    window=Window.SLIDING,
    cuts=True,
    check=lambda check: _check(check, _conv_shape),
    reference=_conv,
    encode_table=_encode,
    decode_table=_decoded(_conv_shape),
    macs=_products,
    work=_conv_work,
)

# ---- FLOAT_TRANSPOSE_CONV ----


def _check_transposed(check: StageCheck) -> None:
    _check(check, _conv_shape)
    check.require(check.stage.stride == (1, 1), "steps over its output")


def _transposed(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    """TFLM adds every input pixel into the outputs its filter reaches: a convolution of the pixels spread out."""
    ((tensor, values),) = operands
    (down, across), (height, width, channels) = stage.spread, values.shape
    spread = np.zeros(((height - 1) * down + 1, (width - 1) * across + 1, channels + 1), np.float32)
    spread[::down, ::across, :-1], spread[::down, ::across, -1] = values, 1
    there = [seen[:, :, -1:] > 0 for _, _, seen in taps(stage, spread, output, fill=0)]
    weights = _weights(stage, _conv_shape(stage, tensor, output))[:, ::-1, ::-1]
    return _convolved(stage, spread[:, :, :-1], there, weights, output)


def _mean_macs(stage: Stage, tensors: Tensors) -> int:
    """On average: the filter's taps are shared out among so many neighbouring output pixels."""
    return _products(stage, tensors) // prod(stage.spread)


@counted("float dense macs", "float outputs")
def _transposed_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    """One output after the other, as a layer that is fully connected sums."""
    pixels = pixels_of(runs)
    outputs = pixels * tensors[stage.output].channels
    return {"float dense macs": pixels * _mean_macs(stage, tensors), "float outputs": outputs}


FLOAT_TRANSPOSE_CONV = float_kind(
    StageKind.FLOAT_TRANSPOSE_CONV,
    window=Window.SPREAD,
    check=_check_transposed,
    reference=_transposed,
    encode_table=_encode,
    decode_table=_decoded(_conv_shape),
    macs=_mean_macs,
    work=_transposed_work,
)

# ---- FLOAT_DEPTHWISE ----


def _depthwise_shape(stage: Stage, source: BlockTensor, output: BlockTensor) -> tuple[int, ...]:
    return *stage.kernel_size, output.channels


def _check_depthwise(check: StageCheck) -> None:
    channels, multiplier = check.sources[0].channels, check.stage.depth_multiplier
    fits = multiplier >= 1 and channels * multiplier == check.output.channels
    check.require(fits, f"makes {check.output.channels} channels of {channels} with multiplier {multiplier}")
    _check(check, _depthwise_shape)


def _depthwise(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    ((tensor, values),) = operands
    weights, sums = _weights(stage, _depthwise_shape(stage, tensor, output)), _zeros(output)
    with np.errstate(all="ignore"):
        seen_and_inside = zip(taps(stage, values, output, fill=0), _inside(stage, values, output), strict=True)
        for (ky, kx, seen), inside in seen_and_inside:
            products = np.repeat(seen, stage.depth_multiplier, axis=2) * weights[ky, kx]
            np.add(sums, products, out=sums, where=inside)
        return _finish(stage, sums)


def _depthwise_macs(stage: Stage, tensors: Tensors) -> int:
    return prod(stage.kernel_size) * tensors[stage.output].channels


@counted("float depthwise macs", "float outputs")
def _depthwise_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    pixels = pixels_of(runs)
    macs, outputs = pixels * _depthwise_macs(stage, tensors), pixels * tensors[stage.output].channels
    return {"float depthwise macs": macs, "float outputs": outputs}


FLOAT_DEPTHWISE = float_kind(
    StageKind.FLOAT_DEPTHWISE,
    window=Window.SLIDING,
    cuts=True,
    check=_check_depthwise,
    reference=_depthwise,
    encode_table=_encode,
    decode_table=_decoded(_depthwise_shape),
    macs=_depthwise_macs,
    work=_depthwise_work,
)

# ---- FLOAT_FULLY_CONNECTED ----


def _dense_shape(stage: Stage, source: BlockTensor, output: BlockTensor) -> tuple[int, ...]:
    return output.channels, source.pixels * source.channels


def _check_dense(check: StageCheck) -> None:
    check.one_pixel()
    check.require(check.sources[0].pixels <= MAX_AVERAGED, f"reads more than {MAX_AVERAGED} pixels")
    _check(check, _dense_shape)


def _dense(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Floats:
    ((tensor, values),) = operands
    weights, sums = _weights(stage, _dense_shape(stage, tensor, output)), _zeros(output)
    with np.errstate(all="ignore"):
        for value, of_channels in zip(values.ravel(), weights.T, strict=True):
            sums += value * of_channels
        return _finish(stage, sums)


def _dense_macs(stage: Stage, tensors: Tensors) -> int:
    return prod(_dense_shape(stage, tensors[stage.inputs[0]], tensors[stage.output]))


@counted("float macs", "float taps", "float outputs")
def _dense_work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    """Return the counts of a convolution whose taps are the input's pixels."""
    source, output = tensors[stage.inputs[0]], tensors[stage.output]
    counts = _conv_counts(stage, tensors, source.pixels, source.channels)
    return {**counts, "float outputs": output.channels}


FLOAT_FULLY_CONNECTED = float_kind(
    StageKind.FLOAT_FULLY_CONNECTED,
    # With a single pixel it is a 1x1 convolution and keeps no sums.
    sum_bytes=lambda source: FLOAT_BYTES if source.pixels > 1 else 0,
    sums_in_order=True,
    check=_check_dense,
    reference=_dense,
    encode_table=_encode,
    decode_table=_decoded(_dense_shape),
    macs=_dense_macs,
    work=_dense_work,
)

KINDS = (FLOAT_CONV, FLOAT_TRANSPOSE_CONV, FLOAT_DEPTHWISE, FLOAT_FULLY_CONNECTED)

LOWERINGS: dict[str, Callable[[OperatorView], Lowered]] = {
    "CONV_2D": lower_conv,
    "DEPTHWISE_CONV_2D": lower_depthwise,
    "FULLY_CONNECTED": lower_dense,
    "TRANSPOSE_CONV": lower_transposed,
}
"""Operators of these kinds if they compute in float32."""
