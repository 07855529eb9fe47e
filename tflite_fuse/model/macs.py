"""Multiply-accumulates (MACs) of every operator.

One MAC is one multiplication of an activation by a weight (or by another activation) and its addition. Every tap of a
window counts, including taps on padding. Bias additions, requantization, activations, pooling and element-wise
operators count nothing. Grouped convolutions count the channels of their filters. A depthwise convolution whose int8
weights are all 1 only adds, so it counts nothing: fused blocks run QUANTIZE and similar operators as such a
convolution.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tflite_fuse.model.operators import get_options, operator_name
from tflite_fuse.model.schema import Model, Operator, SubGraph
from tflite_fuse.model.types import TensorType

_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
_LSTM_WEIGHTS = (1, 2, 3, 4, 5, 6, 7, 8)
_LSTM_PEEPHOLES_AND_PROJECTION = (9, 10, 11, 16)


def operator_macs(model: Model) -> tuple[int, ...]:
    """Return the MACs of one inference for each operator of the first subgraph; custom operators count 0."""
    return tuple(_macs(model, model.main, operator) for operator in model.main.operators)


def _macs(model: Model, graph: SubGraph, operator: Operator) -> int:
    name = operator_name(model, operator)
    if name not in _COUNTERS or (name in _CONVOLUTIONS and _only_adds(model, graph, operator)):
        return 0
    return _COUNTERS[name](graph, operator)


def _only_adds(model: Model, graph: SubGraph, operator: Operator) -> bool:
    """Return whether a convolution is depthwise, or has one input channel per group, with int8 weights of 1."""
    weights, source = graph.read_by(operator, 1), graph.read_by(operator, 0)
    if not weights or not source or weights.type != TensorType.INT8 or not weights.dims or not source.dims:
        return False
    data = model.buffers[weights.buffer].data
    depthwise = operator_name(model, operator) == "DEPTHWISE_CONV_2D" or weights.dims[-1] == 1 < source.dims[-1]
    return depthwise and data is not None and bool(data) and data.count(1) == len(data)


def _convolution(graph: SubGraph, operator: Operator) -> int:
    """Count one filter, of [Cout, kh, kw, Cin], for each output element."""
    weights, output = graph.read_by(operator, 1), graph.written_by(operator)
    return prod(output.dims) * prod(weights.dims[1:]) if weights and output else 0


def _depthwise(graph: SubGraph, operator: Operator) -> int:
    """Count the taps of one channel of the filter [1, kh, kw, C] for each output element."""
    weights, output = graph.read_by(operator, 1), graph.written_by(operator)
    return prod(output.dims) * prod(weights.dims[1:3]) if weights and output else 0


def _transposed(graph: SubGraph, operator: Operator) -> int:
    """Count one in ``stride_h * stride_w`` taps of the filter [Cout, kh, kw, Cin] for each output pixel."""
    weights, output = graph.read_by(operator, 1), graph.written_by(operator)
    options = get_options(operator)
    steps = int(prod(step for name in ("stride_h", "stride_w") if isinstance(step := options.get(name, 1), int)))
    return prod(output.dims[:-1]) * (prod(weights.dims) // max(1, steps)) if weights and output else 0


def _fully_connected(graph: SubGraph, operator: Operator) -> int:
    """Count one row of the weights [out, in] for each output element."""
    weights, output = graph.read_by(operator, 1), graph.written_by(operator)
    return prod(output.dims) * weights.dims[-1] if weights and weights.dims and output else 0


def _matrix_product(graph: SubGraph, operator: Operator) -> int:
    left, output = graph.read_by(operator, 0), graph.written_by(operator)
    if not left or not output or len(left.dims) < 2:
        return 0
    return prod(output.dims) * left.dims[-2 if get_options(operator).get("adj_x") else -1]


def _svdf(graph: SubGraph, operator: Operator) -> int:
    """Count feature weights [filters, in] and time weights [filters, memory] for each row of the input [batch, in]."""
    source, feature, time = (graph.read_by(operator, position) for position in range(3))
    if not source or not source.dims or not feature or not time:
        return 0
    return source.dims[0] * (prod(feature.dims) + prod(time.dims))


def _lstm(graph: SubGraph, operator: Operator) -> int:
    """Count every weight for each step of each sequence of the input [batch, time, in] or [time, batch, in]."""
    source = graph.read_by(operator, 0)
    if not source or len(source.dims) < 2:
        return 0
    weights = (graph.read_by(operator, at) for at in (*_LSTM_WEIGHTS, *_LSTM_PEEPHOLES_AND_PROJECTION))
    return source.dims[0] * source.dims[1] * sum(prod(tensor.dims) for tensor in weights if tensor)


_COUNTERS: dict[str, Callable[[SubGraph, Operator], int]] = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _transposed,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _matrix_product,
    "SVDF": _svdf,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
}

WEIGHTED = frozenset(_COUNTERS)
"""Operators that multiply and accumulate."""
