"""FULLY_CONNECTED: every output channel of one pixel sums over all values of the input.

TFLite's operator of this name is that kind for one row of values, and for several rows a CONV of one pixel.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.ir.block import BlockTensor, Stage, StageKind
from tflite_fuse.ir.limits import MAX_AVERAGED
from tflite_fuse.ops.arithmetic import Int64Array
from tflite_fuse.ops.entry import Kernels, Kind, Operand, Runs, StageCheck, StoredTables, Tensors, required
from tflite_fuse.ops.lowering.operands import read_bias, read_filter
from tflite_fuse.ops.lowering.requantization import convolution_requantization, fully_connected_requantization
from tflite_fuse.ops.lowering.view import Fit, Lowered, OperatorView, by_value
from tflite_fuse.ops.weighted.sums import add_bias, check_weights, decode_weighted, encode_weighted, matmul, requantize
from tflite_fuse.ops.weighted.work import CONV_COUNTS, PLAIN_COUNTS, weighted_work


def _sum_bytes(source: BlockTensor) -> int:
    """That of a single pixel is a 1x1 convolution and keeps no sums."""
    return 4 if source.pixels > 1 else 0


def _check(check: StageCheck) -> None:
    check.one_pixel()
    check.require(check.sources[0].pixels <= MAX_AVERAGED, f"reads more than {MAX_AVERAGED} pixels")
    check_weights(check, (check.output.channels, check.sources[0].nbytes))


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((tensor, values),) = operands
    weights = required(stage.weights, stage, "weights")
    sums = matmul(values.reshape(1, 1, -1) - tensor.zero_point, weights)
    return requantize(stage, add_bias(stage, sums), output)


def _decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    shape = (tensors[stage.output].channels, tensors[stage.inputs[0]].nbytes)
    return decode_weighted(stage, tensors, stored, shape)


def _macs(stage: Stage, tensors: Tensors) -> int:
    return tensors[stage.inputs[0]].nbytes * tensors[stage.output].channels


def _work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    """That of a single pixel is a convolution; more are summed up by a kernel of its own."""
    if tensors[stage.inputs[0]].pixels == 1:
        return weighted_work(stage, tensors, runs, kernels, _macs(stage, tensors))
    return {"dense macs": _macs(stage, tensors)}


def _lower(view: OperatorView) -> Lowered:
    """FULLY_CONNECTED of all values of the input, rows then columns then channels, or of those of each pixel alone."""
    source, output = view.read(), view.write()
    weights, scales = read_filter(view.model, view.operand(1), channel_axis=0, rank=2)
    channels, depth = weights.shape
    if view.option("weights_format", default=0) != 0:
        raise BlockError("its weights are stored shuffled")
    whole = (source.elements, output.elements) == (depth, channels)
    if not whole:
        source, output = by_value(source, output)
        fits = source.shape[2] == depth and output.dims[-1:] == (channels,)
        if not fits or output.elements * depth != source.elements * channels:
            sizes = f"{list(source.dims)} to {list(output.dims)}"
            raise BlockError(f"it maps {sizes} with weights of {depth} to {channels}")
    if len(scales) > 1:
        table = convolution_requantization(source.scale, scales, output.scale, channels)
    else:
        bias_scale = _bias_scale(view)
        table = fully_connected_requantization(source.scale, scales[0], bias_scale, output.scale, channels)
    low, high = view.clamp(output)
    stage = Stage(
        StageKind.FULLY_CONNECTED if whole else StageKind.CONV,
        (),
        -1,
        activation_min=low,
        activation_max=high,
        weights=weights if whole else weights[:, None, None, :],
        bias=read_bias(view.model, view.operand(2), channels),
        requantization=table,
    )
    if whole:
        return Lowered(stage, (source,), output, (1, 1, channels), Fit.BYTES)
    return Lowered(stage, (source,), output, (*source.shape[:2], channels), Fit.PIXELS)


def _bias_scale(view: OperatorView) -> float | None:
    """What TFLM reads as the scale of a bias: None without a bias, 0 where the file gives none."""
    if view.operand(2) < 0:
        return None
    quantization = view.model.main.tensors[view.operand(2)].quantization
    if quantization is None or not quantization.scale or not quantization.zero_point:
        return 0.0
    return float(np.float32(quantization.scale[0]))


FULLY_CONNECTED = Kind(
    StageKind.FULLY_CONNECTED,
    sum_bytes=_sum_bytes,
    check=_check,
    reference=_reference,
    encode_table=encode_weighted,
    decode_table=_decode,
    macs=_macs,
    work=_work,
    counts=("dense macs", *CONV_COUNTS, *PLAIN_COUNTS),
    lowerings={"FULLY_CONNECTED": _lower},
    layers=("fc",),
)
