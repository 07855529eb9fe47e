"""The float32 network of an int8 one: the same operators with the numbers that the integers represent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tflite_fuse.errors import ModelError
from tflite_fuse.model.edit import add_buffer, add_operator_code, add_tensor, prune, replace_tensor
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Buffer, Model, Operator, Tensor
from tflite_fuse.model.types import TensorType

_DTYPES = {TensorType.INT8: np.int8, TensorType.UINT8: np.uint8, TensorType.INT32: np.dtype("<i4")}
_BETWEEN_TYPES = ("QUANTIZE", "DEQUANTIZE")


def float_twin(model: Model) -> Model:
    """Return the float32 twin of a quantized model: weights and biases are what their integers stand for.

    Operators between two scales or types are gone; all others keep their options.

    Raises:
        ModelError: an operator between types writes a model output that it reads, too, so that none of it is left.
    """
    graph, buffers, tensors = model.main, list(model.buffers), list[Tensor]()
    for tensor in graph.tensors:
        quantization = tensor.quantization
        if tensor.type not in _DTYPES or quantization is None or not quantization.scale:
            tensors.append(tensor)
            continue
        index, data = 0, model.buffers[tensor.buffer].data
        if data:
            index = len(buffers)
            buffers.append(Buffer(data=_dequantized(tensor, data)))
        tensors.append(replace(tensor, type=TensorType.FLOAT32, buffer=index, quantization=None))
    operators, instead = _joined(model)
    inputs = tuple(instead.get(index, index) for index in graph.inputs)
    outputs = tuple(instead.get(index, index) for index in graph.outputs)
    if set(inputs) & set(outputs):
        raise ModelError("the model does nothing but change types")
    twin = replace(graph, tensors=tuple(tensors), operators=operators, inputs=inputs, outputs=outputs)
    return prune(replace(model, subgraphs=(twin,), buffers=tuple(buffers), signature_defs=None, metadata=None))


def with_float16_weights(model: Model) -> Model:
    """Return a float32 model whose fully connected layers have weights that float16 holds exactly."""
    for operator in model.main.operators:
        if operator_name(model, operator) == "FULLY_CONNECTED":
            weights = (operator.inputs or ())[1]
            tensor = model.main.tensors[weights]
            values = np.frombuffer(model.buffers[tensor.buffer].data or b"", "<f4")
            model, buffer = add_buffer(model, values.astype("<f2").astype("<f4").tobytes())
            model = replace_tensor(model, weights, replace(tensor, buffer=buffer))
    return prune(model)


def _dequantized(tensor: Tensor, data: bytes) -> bytes:
    quantization = tensor.quantization
    assert quantization is not None and quantization.scale
    values = np.frombuffer(data, _DTYPES[TensorType(tensor.type)]).reshape(tensor.dims).astype(np.float64)
    points = quantization.zero_point or (0,)
    scales, zeros = np.array(quantization.scale, np.float64), np.array(points, np.float64)
    if len(scales) > 1:
        shape = [1] * values.ndim
        shape[min(quantization.quantized_dimension, values.ndim - 1)] = len(scales)
        scales, zeros = scales.reshape(shape), np.broadcast_to(zeros, scales.shape).reshape(shape)
    return np.asarray((values - zeros) * scales, "<f4").tobytes()


def _joined(model: Model) -> tuple[tuple[Operator, ...], dict[int, int]]:
    """Return operators without those between types, and for each tensor these write the one they read."""
    instead: dict[int, int] = {}
    kept = list[Operator]()
    for operator in model.main.operators:
        inputs = tuple(instead.get(index, index) for index in operator.inputs or ())
        if operator_name(model, operator) in _BETWEEN_TYPES:
            instead[(operator.outputs or ())[0]] = inputs[0]
        else:
            kept.append(replace(operator, inputs=inputs))
    return tuple(kept), instead


def float_from(model: Model, first: int) -> Model:
    """Return a quantized model whose operators from number ``first`` on compute on float32, behind DEQUANTIZEs.

    Operators between two scales or types are gone among those.
    """
    model, code = add_operator_code(model, builtin="DEQUANTIZE", version=2)
    graph, operators, real = model.main, list(model.main.operators[:first]), dict[int, int]()
    for operator in graph.operators[first:]:
        for index in operator.inputs or ():
            described = graph.tensors[max(index, 0)]
            if index < 0 or index in real or described.type not in _DTYPES or described.quantization is None:
                continue
            data = model.buffers[described.buffer].data
            model, buffer = add_buffer(model, _dequantized(described, data)) if data else (model, 0)
            model, real[index] = _as_float(model, described, buffer)
            if not data:
                operators.append(Operator(code, (index,), (real[index],)))
        inputs, written = tuple(real.get(index, index) for index in operator.inputs or ()), operator.outputs or ()
        if operator_name(model, operator) in _BETWEEN_TYPES:
            real[written[0]] = inputs[0]
            continue
        for index in written:
            model, real[index] = _as_float(model, graph.tensors[index], 0)
        operators.append(replace(operator, inputs=inputs, outputs=tuple(real[index] for index in written)))
    outputs = tuple(real.get(index, index) for index in graph.outputs)
    mixed = replace(model.main, operators=tuple(operators), outputs=outputs)
    return prune(replace(model, subgraphs=(mixed,), signature_defs=None, metadata=None))


def _as_float(model: Model, tensor: Tensor, buffer: int) -> tuple[Model, int]:
    return add_tensor(model, replace(tensor, type=TensorType.FLOAT32, buffer=buffer, quantization=None))
