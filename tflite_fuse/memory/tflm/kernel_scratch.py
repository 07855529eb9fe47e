"""Scratch buffers that TensorFlow Lite Micro's kernels request while a model loads.

A scratch buffer is live in the head of the arena while its operator runs. This module has the rules of the reference
kernels. Optimised sets request other buffers, mainly for unrolled input columns of convolutions: see ``cmsis_nn`` and
``esp_nn``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tflite_fuse.ir.program import FUSED_OPERATOR
from tflite_fuse.memory.tflm import cmsis_nn, esp_nn
from tflite_fuse.memory.tflm.kernel_sets import REFERENCE, Kernels
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model, Operator, SubGraph, Tensor
from tflite_fuse.model.types import TensorType, element_bits

_INT = 4
_FLOAT = 4
_INT64 = 8

_HIDDEN_STATE, _CELL_STATE = 18, 19
_LSTM_BUFFERS = 4
_BOX_COORDINATES = 4

_UNKNOWN_TYPES = frozenset({TensorType.INT2, TensorType.UINT4, TensorType.FLOAT8_E4M3FN, TensorType.FLOAT8_E5M2})

_QUANTIZED = (TensorType.INT8, TensorType.INT16)

WITHOUT_SCRATCH = frozenset({FUSED_OPERATOR, "CUSTOM:CIRCULAR_BUFFER"})
"""Custom operators that request no scratch: this project's (its scratch is an output tensor) and one of TFLM's."""


def scratch_requests(
    model: Model, graph: SubGraph, operator: Operator, *, pointer_bytes: int = 4, kernels: Kernels = REFERENCE
) -> tuple[int, ...] | None:
    """Return the bytes of each scratch buffer of the operator's kernel, in the order of the requests.

    None for a custom operator whose requests are unknown. Sizes are as requested, not rounded to 16.
    """
    name = operator_name(model, operator)
    if kernels.name in _OPTIMISED:
        sizes = _OPTIMISED[kernels.name](kernels, name, graph, operator)
        if sizes is not None:
            return sizes
    if name in _REQUESTS:
        return _REQUESTS[name](graph, operator, pointer_bytes)
    if name.startswith("CUSTOM:") and name not in WITHOUT_SCRATCH:
        return None
    return ()


def kept_requests(kernels: Kernels, name: str, graph: SubGraph, operator: Operator) -> tuple[int, tuple[int, ...]]:
    """Return the tail bytes beyond the reference kernels' of 2026: of the kernel's struct, and of each buffer."""
    if kernels.generation == "2024" and name == "CONCATENATION":
        return 0, _scales_and_zero_points(graph, operator)
    if kernels.name == "cmsis-nn":
        return cmsis_nn.STRUCTS.get(name, 0), cmsis_nn.kept(kernels, name, graph, operator)
    return (esp_nn.STRUCTS.get(name, 0) if kernels.name == "esp-nn" else 0), ()


def _scales_and_zero_points(graph: SubGraph, operator: Operator) -> tuple[int, ...]:
    """Return the two tables that an int8 CONCATENATION kept in 2024: a scale and a zero point for each input."""
    output, inputs = graph.written_by(operator), len(operator.inputs or ())
    return (_FLOAT * inputs, _INT * inputs) if output is not None and output.type == TensorType.INT8 else ()


def element_bytes(number: int) -> int:
    """Return the bytes that the runtime counts for an element: packed 4-bit elements count a whole byte.

    0 for types that the runtime does not support.
    """
    return 0 if number in _UNKNOWN_TYPES else -(-element_bits(number) // 8)


def _elements(tensor: Tensor | None) -> int:
    return prod(tensor.dims) if tensor is not None else 0


def _unpacked_filter(graph: SubGraph, operator: Operator, pointer_bytes: int) -> tuple[int, ...]:
    weights = graph.read_by(operator, 1)
    if weights is None or weights.type != TensorType.INT4:
        return ()
    return (_elements(weights),)


def _input_pointers(graph: SubGraph, operator: Operator, pointer_bytes: int) -> tuple[int, ...]:
    return (pointer_bytes * len(operator.inputs or ()),)


def _dimension_counters(graph: SubGraph, operator: Operator, pointer_bytes: int) -> tuple[int, ...]:
    data = graph.read_by(operator, 0)
    return (_INT * len(data.dims),) * 2 if data is not None else ()


def _reduction(graph: SubGraph, operator: Operator, pointer_bytes: int) -> tuple[int, ...]:
    data, axis = graph.read_by(operator, 0), graph.read_by(operator, 1)
    return (_INT * len(data.dims), _INT * _elements(axis)) if data is not None else ()


def _accumulated_reduction(graph: SubGraph, operator: Operator, pointer_bytes: int) -> tuple[int, ...]:
    data = graph.read_by(operator, 0)
    sums = (_INT * _elements(graph.written_by(operator)),) if data is not None and data.type in _QUANTIZED else ()
    return sums + _reduction(graph, operator, pointer_bytes)


def _svdf(graph: SubGraph, operator: Operator, pointer_bytes: int) -> tuple[int, ...]:
    data, weights, output = graph.read_by(operator, 0), graph.read_by(operator, 1), graph.written_by(operator)
    if data is None or weights is None or not data.dims or not weights.dims:
        return ()
    per_filter = _INT * data.dims[0] * weights.dims[0]
    return (per_filter, _INT * _elements(output)) if data.type == TensorType.INT8 else (per_filter,)


def _transposed_convolution(graph: SubGraph, operator: Operator, pointer_bytes: int) -> tuple[int, ...]:
    data, bias, output = graph.read_by(operator, 2), graph.read_by(operator, 3), graph.written_by(operator)
    if data is not None and data.type == TensorType.INT8:
        return (_INT * _elements(output),)
    if data is not None and data.type == TensorType.INT16:
        narrow_bias = bias is not None and bias.type == TensorType.INT16
        return (_INT64 * _elements(output), *((_INT64 * _elements(bias),) if narrow_bias else ()))
    return ()


def _lstm(graph: SubGraph, operator: Operator, pointer_bytes: int) -> tuple[int, ...]:
    hidden, cell = graph.read_by(operator, _HIDDEN_STATE), graph.read_by(operator, _CELL_STATE)
    if hidden is None or cell is None or len(hidden.dims) < 2:
        return ()
    return (hidden.dims[0] * hidden.dims[1] * element_bytes(cell.type),) * _LSTM_BUFFERS


def _detections(graph: SubGraph, operator: Operator, pointer_bytes: int) -> tuple[int, ...] | None:
    boxes, scores = graph.read_by(operator, 0), graph.read_by(operator, 1)
    options = _flexbuffer_map(operator.custom_options or b"")
    if boxes is None or scores is None or len(boxes.dims) < 2 or len(scores.dims) < 3 or options is None:
        return None
    count, detections, classes = boxes.dims[1], options.get("max_detections"), options.get("num_classes")
    if not isinstance(detections, int) or not isinstance(classes, int) or detections < 0 or classes < 0:
        return None
    return (
        count,
        count * _BOX_COORDINATES * _FLOAT,
        scores.dims[1] * scores.dims[2] * _FLOAT,
        count * _FLOAT,
        count * _FLOAT,
        detections * count * _FLOAT,
        detections * count * _FLOAT,
        count * _INT,
        detections * count * _INT,
        max(classes, detections) * count * _INT,
        min(count, detections) * count * _INT,
    )


def _flexbuffer_map(data: bytes) -> dict[str, Any] | None:
    from flatbuffers import flexbuffers  # one kind of operator has such options

    try:
        value = flexbuffers.Loads(bytearray(data))
    except Exception:  # the reader does not validate: damaged bytes raise arbitrary exceptions
        return None
    return value if isinstance(value, dict) else None


_OPTIMISED: dict[str, Callable[[Kernels, str, SubGraph, Operator], tuple[int, ...] | None]] = {
    "cmsis-nn": cmsis_nn.scratch,
    "esp-nn": esp_nn.scratch,
}

_REQUESTS: dict[str, Callable[[SubGraph, Operator, int], tuple[int, ...] | None]] = {
    "CONV_2D": _unpacked_filter,
    "DEPTHWISE_CONV_2D": _unpacked_filter,
    "FULLY_CONNECTED": _unpacked_filter,
    "ADD_N": _input_pointers,
    "MIRROR_PAD": _dimension_counters,
    "REDUCE_MAX": _reduction,
    "REDUCE_MIN": _reduction,
    "REDUCE_ALL": _reduction,
    "MEAN": _accumulated_reduction,
    "SUM": _accumulated_reduction,
    "SVDF": _svdf,
    "TRANSPOSE_CONV": _transposed_convolution,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
    "CUSTOM:TFLite_Detection_PostProcess": _detections,
}
