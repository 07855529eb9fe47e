"""Memory that TFLM's ESP-NN kernels request in addition to, or instead of, the reference kernels' requests.

The rules are derived from the behaviour of ESP-NN in April 2026. On ESP32-S3 and ESP32-P4 its kernels copy weights and
padded inputs into scratch; on other cores only SOFTMAX requests scratch. Other versions differ, so arenas of models
with these operators are declared with a margin.
"""

from __future__ import annotations

from tflite_fuse.memory.tflm.kernel_sets import Convolution, Kernels, convolution_of
from tflite_fuse.model.schema import Operator, SubGraph
from tflite_fuse.model.types import TensorType
from tflite_fuse.units import round_up

OPERATORS = frozenset(
    [
        "ADD",
        "AVERAGE_POOL_2D",
        "CONV_2D",
        "DEPTHWISE_CONV_2D",
        "FULLY_CONNECTED",
        "HARD_SWISH",
        "LOGISTIC",
        "MAX_POOL_2D",
        "MEAN",
        "MUL",
        "RELU",
        "RELU6",
        "SOFTMAX",
    ]
)
"""Operators for which ESP-NN has functions, including those that the runtime does not call yet. All others use the
reference kernel, which does not depend on the version of ESP-NN.
"""

STRUCTS = {"CONV_2D": 4, "DEPTHWISE_CONV_2D": 4, "SOFTMAX": 4}
"""Bytes by which a kernel's persistent struct exceeds that of the reference kernel."""

_INT = 4
_S3_SLACK, _P4_SLACK = 64, 32
_LITTLE_INPUT, _LITTLE_WIDE_INPUT = 40 * 1024, 48 * 1024
_CACHE = 32768


def scratch(kernels: Kernels, name: str, graph: SubGraph, operator: Operator) -> tuple[int, ...] | None:
    """Return the bytes of each scratch buffer; None if the reference kernel's requests apply."""
    if name == "SOFTMAX":
        data, output = graph.read_by(operator, 0), graph.written_by(operator)
        if data is None or output is None or {data.type, output.type} != {TensorType.INT8} or len(data.dims) < 2:
            return None
        return (_INT * data.dims[1],)
    if kernels.core == "generic" or name not in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        return None
    convolution = convolution_of(graph, operator)
    if convolution is None or convolution.wide:
        return None
    rule = _RULES.get((kernels.core, name))
    return (rule(convolution),) if rule is not None else None


def _plain(c: Convolution) -> bool:
    """Return whether a convolution has 1x1 taps, stride 1 and no padding."""
    return c.taps == 1 and c.padding == (0, 0) and c.stride == (1, 1)


def _by_pixels(c: Convolution, slack: int) -> int:
    """Return the scratch bytes of a 1x1 convolution: weights and input padded to 8 channels, 8 pixels transposed."""
    eights = round_up(c.channels, 8)
    pixels = c.source[0] * c.source[1]
    copied = pixels * eights if c.channels % 8 else 0
    return copied + eights * c.outputs + (0 if pixels < 8 else 16 * eights) + slack


def _beyond(c: Convolution, axis: int) -> int:
    """Return the rows or columns below or right of the input that windows cover."""
    return max(0, c.output[axis] * c.stride[axis] + c.kernel[axis] - 1 - c.source[axis])


def _s3_convolution(c: Convolution) -> int:
    if _plain(c):
        return _by_pixels(c, _S3_SLACK)
    row, window = c.kernel[1] * c.channels, c.taps * c.channels
    if row < 16 <= window:
        aligned = round_up(window, 16)
        return c.outputs * (_INT + aligned) + aligned + 32 + _S3_SLACK
    height, width = c.source
    size = c.taps * round_up(c.channels, 16) * c.outputs + round_up(row, 16) * c.kernel[0] * c.outputs
    if c.padding != (0, 0):
        size += (width + 2 * c.padding[1]) * (height + 2 * c.padding[0]) * c.channels
    below, right = _beyond(c, 0), _beyond(c, 1)
    if below or right:
        size += (width + right) * (height + below) * c.channels
    return size + _S3_SLACK + _INT * c.outputs


def _s3_depthwise(c: Convolution) -> int:
    (height, width), (out_height, out_width) = c.source, c.output
    filters, pixels = c.taps * c.channels * c.multiplier, height * width
    if c.multiplier == 1 and c.channels % 8 == 0 and c.kernel == (3, 3):
        return _s3_depthwise_3x3(c, filters)
    if c.multiplier == 1 and c.channels % 8 == 0:
        whole = 2 * (filters + pixels * c.channels)
        return 32 + (whole if whole <= _LITTLE_WIDE_INPUT else 2 * (filters + width * c.kernel[0] * c.channels))
    if c.multiplier == 1 and c.channels > 3:
        channels = round_up(c.channels, 8)
        parts = (2 * c.taps * channels, 2 * pixels * channels, out_height * out_width * channels)
        return sum(round_up(part, 16) for part in parts) + 3 * _INT * channels + 16
    if c.multiplier % 4 == 0:
        return 2 * (filters + pixels * c.channels) + 32
    return 32


def _s3_depthwise_3x3(c: Convolution, filters: int) -> int:
    (height, width), (out_height, out_width) = c.source, c.output
    below, right = (c.output[axis] * c.stride[axis] + 2 - c.source[axis] for axis in (0, 1))
    if c.channels % 16 == 0:
        down, across = (2 * c.padding[0], 2 * c.padding[1]) if c.padding != (0, 0) else (below, right)
        if not down and not across:
            return filters + 16
        whole = (width + across) * (height + down) * c.channels
        return filters + 16 + (whole if whole <= _LITTLE_INPUT else (width + across) * c.kernel[0] * c.channels)
    if c.channels >= 12:
        channels = round_up(c.channels, 16)
        rows, columns = height + 2 * c.padding[0] + max(0, below), width + 2 * c.padding[1] + max(0, right)
        return channels * (9 + rows * columns + out_height * out_width) + 64
    return 2 * (filters + height * width * c.channels) + 32


def _p4_convolution(c: Convolution) -> int:
    sums = _INT * c.outputs
    if _plain(c):
        return sums + 16 * c.outputs + 32 + _P4_SLACK if c.channels < 16 else _by_pixels(c, _P4_SLACK)
    row, window = c.kernel[1] * c.channels, c.taps * c.channels
    filters = c.taps * round_up(c.channels, 16) * c.outputs
    if c.padding == (0, 0) and row >= 16:
        return filters + _P4_SLACK + sums
    if window >= 16:
        return sums + window + _P4_SLACK
    channels = round_up(-(-16 // c.kernel[1]), 16)
    filters = max(filters, c.taps * channels * c.outputs)
    height, width = c.source[0] + 2 * c.padding[0], c.source[1] + 2 * c.padding[1]
    # Windows of fewer than 16 values: the larger of two methods, all rows at once or as many as the cache holds.
    return sums + filters + max(height * width * c.channels, min(height * width * channels, 2 * _CACHE)) + _P4_SLACK


_RULES = {
    ("esp32s3", "CONV_2D"): _s3_convolution,
    ("esp32s3", "DEPTHWISE_CONV_2D"): _s3_depthwise,
    ("esp32p4", "CONV_2D"): _p4_convolution,
}
