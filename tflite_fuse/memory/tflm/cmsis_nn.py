"""Memory that TFLM's CMSIS-NN kernels request in addition to, or instead of, the reference kernels' requests.

The rules are derived from the behaviour of both libraries, as in the Arduino library of July 2024 and in July 2026. If
versions or compilers differ, the larger need counts: packed 4-bit weights count as unpacked, and scratch that some
builds keep in the tail counts there.
"""

from __future__ import annotations

from math import prod

from tflite_fuse.memory.tflm.kernel_sets import Convolution, Kernels, convolution_of
from tflite_fuse.model.operators import get_options
from tflite_fuse.model.schema import Operator, SubGraph
from tflite_fuse.model.types import TensorType
from tflite_fuse.units import round_up

STRUCTS = {
    "CONV_2D": 4,
    "DEPTHWISE_CONV_2D": 4,
    "FULLY_CONNECTED": 24,
    "AVERAGE_POOL_2D": 4,
    "MAX_POOL_2D": 4,
    "SOFTMAX": 8,
    "SVDF": 8,
    "BATCH_MATMUL": 20,
    "TRANSPOSE_CONV": 16,
}
"""Bytes by which a kernel's persistent struct exceeds that of the reference kernel."""

_INT = 4
_INT64 = 8
_LSTM_PARAMETERS, _LSTM_SUMS = 320, 8
_CHANNELS_AT_ONCE = 124
_FEW_OUTPUTS = 1
_EFFICIENT_CHANNELS = 16
_MOST_FAST_TAPS = 512


def scratch(kernels: Kernels, name: str, graph: SubGraph, operator: Operator) -> tuple[int, ...] | None:
    """Return the bytes of each scratch buffer; None if the reference kernel's requests apply."""
    if name in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        convolution = convolution_of(graph, operator)
        if convolution is None:
            return None
        size = (_convolution if name == "CONV_2D" else _depthwise)(kernels, convolution)
        return (*_unpacked(graph, operator), *((size,) if size > 0 else ()))
    if name == "FULLY_CONNECTED":
        return (*_unpacked(graph, operator), *_fully_connected(kernels, graph, operator))
    if name == "AVERAGE_POOL_2D":
        data = graph.read_by(operator, 0)
        if kernels.core == "helium" or data is None or data.type not in (TensorType.INT8, TensorType.INT16):
            return None
        return (_INT * data.dims[-1],) if data.dims else None
    if name == "TRANSPOSE_CONV" and kernels.generation != "2024":
        return _transposed(kernels, graph, operator)
    return None


def kept(kernels: Kernels, name: str, graph: SubGraph, operator: Operator) -> tuple[int, ...]:
    """Return the bytes of each buffer kept in the tail in addition to the reference kernel's."""
    weights, output = graph.read_by(operator, 1), graph.written_by(operator)
    if weights is None or output is None or not output.dims or not weights.dims:
        return ()
    if kernels.generation == "2024":
        has_sums = name == "FULLY_CONNECTED" and _as_convolution(graph, operator)
        return (_INT * output.dims[-1],) * 2 if has_sums else ()
    if kernels.core == "helium" and name in ("FULLY_CONNECTED", "SVDF") and weights.type == TensorType.INT8:
        return (_INT * weights.dims[0],)
    if name == "UNIDIRECTIONAL_SEQUENCE_LSTM":
        return (_LSTM_PARAMETERS, *(_INT64 * output.dims[-1],) * _LSTM_SUMS)
    return ()


def _unpacked(graph: SubGraph, operator: Operator) -> tuple[int, ...]:
    weights = graph.read_by(operator, 1)
    return (prod(weights.dims),) if weights is not None and weights.type == TensorType.INT4 else ()


def _convolution(kernels: Kernels, c: Convolution) -> int:
    values = c.taps * c.channels
    is_helium, is_2024 = kernels.core == "helium", kernels.generation == "2024"
    if c.wide:
        return 4 * round_up(values, 8) * 2 if is_helium else 2 * values * 2
    pixel_by_pixel = c.taps == 1 and not c.dilated and c.padding == (0, 0)
    if pixel_by_pixel and (c.stride == (1, 1) or not is_2024):
        return 0
    row = c.source[0] == c.kernel[0] == 1 and not c.dilated
    if row and is_helium and not is_2024 and c.stride[1] * c.channels % 4 == 0:
        return max(_row(c), 0)
    if is_helium:
        return 4 * round_up(values, 16) * (2 if is_2024 else 1)
    return 2 * 2 * (values if is_2024 else round_up(values, 4))


def _row(c: Convolution) -> int:
    """Return the scratch bytes of a one-row kernel over one row with Helium: border outputs use padded copies."""
    pad, stride, kernel = c.padding[1], c.stride[1], c.kernel[1]
    odd = ((c.output[1] - 1) * stride + kernel - c.source[1]) % 2
    right = max(1, -(-(pad + odd) // stride)) if pad + odd else 0
    left = max(1, -(-pad // stride)) if pad else 0
    if right + left > c.output[1]:
        return 4 * round_up(c.taps * c.channels, 16)
    beyond = right if odd else pad
    return c.channels * max(kernel + pad, kernel - 1 + beyond)


def _depthwise(kernels: Kernels, c: Convolution) -> int:
    is_helium, is_2024 = kernels.core == "helium", kernels.generation == "2024"
    if c.wide:
        fast = c.multiplier == 1 and not c.dilated and c.taps < _MOST_FAST_TAPS
        values = c.channels * c.taps * 2
        return 0 if not fast else 4 * values + 8 if is_helium else values
    if is_helium and not is_2024 and c.channels == 1 and c.outputs > _FEW_OUTPUTS:
        return _convolution(kernels, c) + c.outputs * c.taps
    if c.channels != c.outputs or c.batches != 1 or c.dilated:
        return 0
    if is_helium:
        return 4 * _CHANNELS_AT_ONCE * c.taps
    small = c.kernel == (3, 3) and max(c.padding) <= 1
    return 0 if small and not is_2024 else c.channels * c.taps * 2


def _as_convolution(graph: SubGraph, operator: Operator) -> bool:
    """Return whether an int8 FULLY_CONNECTED runs as a 1x1 convolution."""
    data, weights, output = graph.read_by(operator, 0), graph.read_by(operator, 1), graph.written_by(operator)
    if data is None or weights is None or output is None or not weights.dims:
        return False
    return data.type == TensorType.INT8 and len(output.dims) > 2 and weights.dims[-1] % 4 == 0


def _fully_connected(kernels: Kernels, graph: SubGraph, operator: Operator) -> tuple[int, ...]:
    weights, output = graph.read_by(operator, 1), graph.written_by(operator)
    if weights is None or output is None or kernels.generation == "2024" or not _as_convolution(graph, operator):
        return ()
    scales = (weights.quantization and weights.quantization.scale) or ()
    return (2 * _INT * output.dims[-1],) if len(scales) <= 1 and weights.type == TensorType.INT8 else ()


def _transposed(kernels: Kernels, graph: SubGraph, operator: Operator) -> tuple[int, ...] | None:
    """Return the scratch of a transposed convolution: sums of output rows, or columns and the reversed filter."""
    weights, data, output = graph.read_by(operator, 1), graph.read_by(operator, 2), graph.written_by(operator)
    if weights is None or data is None or output is None or data.type != TensorType.INT8:
        return None
    if not len(weights.dims) == len(data.dims) == len(output.dims) == 4:
        return None
    options = get_options(operator)
    down, across = (value if isinstance(value := options.get(f"stride_{axis}"), int) else 1 for axis in "hw")
    (outputs, height, width, channels), values = weights.dims, prod(weights.dims[1:])
    if max(down, across) <= 2 and channels > _EFFICIENT_CHANNELS:
        columns = 4 * round_up(values, 16) if kernels.core == "helium" else 2 * 2 * round_up(values, 4)
        return columns, outputs * values
    sums = ((data.dims[2] - 1) * across + max(width, down)) * outputs * max(height, down) * _INT
    return sums, 0
