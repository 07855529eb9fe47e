"""Operators that compute alike on tensors whose axes are in another order.

    RELU(TRANSPOSE(x))  =  TRANSPOSE(RELU(x))    and so for all operators that go value by value, pads and joins

Constants, paddings and the axis of a join are then in that order, too.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from tflite_fuse.model.edit import Editor
from tflite_fuse.model.operators import get_options, make_options, operator_name, with_options
from tflite_fuse.model.schema import Model, Operator
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.kinds.lookup import FUNCTIONS
from tflite_fuse.ops.kinds.real import OF_ONE, OF_TWO
from tflite_fuse.ops.lowering.operands import is_constant, stored_numbers
from tflite_fuse.passes.preparing.sink_transpose import Axes

_BY_VALUE = frozenset({*FUNCTIONS, *OF_ONE, *OF_TWO, "DEQUANTIZE", "PRELU", "QUANTIZE"})
_PADS = ("PAD", "PADV2")
_DTYPES: dict[int, str] = {TensorType.INT8: "i1", TensorType.FLOAT32: "<f4"}


def computed_alike(model: Model, operator: Operator, rank: int) -> tuple[int, ...]:
    """Return the inputs of an operator that computes alike in any order of axes, without constants; else nothing."""
    name, inputs, tensors = operator_name(model, operator), operator.inputs or (), model.main.tensors
    if len(operator.outputs or ()) != 1 or not inputs or min(inputs) < 0:
        return ()
    computed = tuple(tensor for tensor in inputs if not is_constant(model, tensor))
    constants = [tensor for tensor in inputs if tensor not in computed]
    dims = tensors[operator.output].dims
    if len(dims) != rank or not all(is_whole(model, tensor) for tensor in (*computed, operator.output)):
        return ()
    if name in _BY_VALUE:
        fits = all(tensors[tensor].dims == dims for tensor in computed)
        return computed if fits and all(_can_turn(model, tensor, rank) for tensor in constants) else ()
    if name in _PADS:
        amounts = stored_numbers(model, operator, 1)
        plain = computed == inputs[:1] and len(amounts) == 2 * rank
        return computed if plain and all(tensors[tensor].dims in ((), (1,)) for tensor in inputs[2:]) else ()
    axis = get_options(operator).get("axis", 0)
    joins = name == "CONCATENATION" and not constants and isinstance(axis, int) and -rank <= axis < rank
    return computed if joins and all(len(tensors[tensor].dims) == rank for tensor in computed) else ()


def is_whole(model: Model, tensor: int) -> bool:
    """Return whether a computed tensor has one scale at most, so that its values mean the same in any order."""
    described = model.main.tensors[tensor]
    return not described.is_variable and (
        described.quantization is None or len(described.quantization.scale or ()) <= 1
    )


def _can_turn(model: Model, tensor: int, rank: int) -> bool:
    """Return whether a constant has a number alone, or values in an order that can be changed."""
    described = model.main.tensors[tensor]
    scales = 0 if described.quantization is None else len(described.quantization.scale or ())
    stored = len(model.buffers[described.buffer].data or b"")
    sized = described.type in _DTYPES and stored == prod(described.dims) * np.dtype(_DTYPES[described.type]).itemsize
    return (
        sized
        and scales <= 1
        and described.sparsity is None
        and len(described.dims) <= rank
        and not described.is_variable
    )


def turned_operator(editor: Editor, operator: Operator, order: Axes) -> Operator:
    """Return an operator with its constants, which are added, and its axis in the order before a TRANSPOSE."""
    model, back, inputs = editor.model, tuple(np.argsort(order).tolist()), list(operator.inputs or ())
    name = operator_name(model, operator)
    if name == "CONCATENATION":
        axis = get_options(operator).get("axis", 0)
        assert isinstance(axis, int)
        return with_options(model, operator, axis=order[axis])
    if name == "RESHAPE":
        dims = tuple(model.main.tensors[operator.output].dims[axis] for axis in back)
        reshape = make_options("ReshapeOptions", new_shape=dims)
        return replace(operator, inputs=(inputs[0], editor.int32("shape", dims)), builtin_options=reshape)
    if name in _PADS:
        amounts = np.reshape(stored_numbers(model, operator, 1), (-1, 2))[list(back)]
        inputs[1] = editor.int32("paddings", amounts.ravel().tolist(), amounts.shape)
        return replace(operator, inputs=tuple(inputs))
    for place, tensor in enumerate(inputs):
        described = model.main.tensors[tensor]
        if is_constant(model, tensor) and prod(described.dims) > 1:
            dims = (1,) * (len(order) - len(described.dims)) + described.dims
            values = np.frombuffer(model.buffers[described.buffer].data or b"", _DTYPES[described.type]).reshape(dims)
            turned = np.ascontiguousarray(values.transpose(back))
            inputs[place] = editor.constant(replace(described, shape=turned.shape), turned.tobytes())
    return replace(operator, inputs=tuple(inputs))
