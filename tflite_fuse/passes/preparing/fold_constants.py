"""Constants in place of shape arithmetic on constants, and of sparse and float16 weights.

    SHAPE ── STRIDED_SLICE ── PACK ── RESHAPE   =   RESHAPE with a constant

Shapes do not change at run time, so integer operators on shapes and constants compute the same in every inference.
Their readers get a constant, and operators without a reader are removed together with the runtime's data for them. A
RESHAPE whose result the file leaves open gets the shape that such a constant holds.

    DEQUANTIZE of float16 weights   =   float32 weights

    DENSIFY of sparse weights       =   weights with their zeros

    TILE of a constant once         =   the constant

All are exact. TensorFlow Lite Micro rejects such operators, and other runtimes keep their outputs in RAM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tflite_fuse.ir.program import has_effects
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import add_buffer, prune, replace_operators, replace_tensor
from tflite_fuse.model.operators import get_options, operator_label, operator_name
from tflite_fuse.model.schema import Model, Tensor
from tflite_fuse.model.types import TensorType, element_bits, tensor_nbytes
from tflite_fuse.notes import note
from tflite_fuse.passes.base import PassResult

Integers = npt.NDArray[np.int64]

MOST_VALUES = 64
"""Largest number of values of a folded tensor: shapes are short, and constants take flash."""

MOST_DENSE = 1 << 22
"""Largest number of values of a tensor that was sparse."""

_DTYPES: Mapping[int, npt.DTypeLike] = {TensorType.INT32: "<i4", TensorType.INT64: "<i8"}


@dataclass(frozen=True)
class FoldConstants:
    """Replace integer operators whose results are constant by constants, and drop operators without a reader."""

    name: ClassVar[str] = "fold constants"

    def run(self, model: Model) -> PassResult:
        """Rewrite a model. If it changes, an offline memory plan is dropped, because tensor indices change."""
        values: dict[int, Integers] = {}
        stored: dict[int, bytes] = {}
        original = model
        for index in range(len(model.main.operators)):
            model = _with_resolved_shape(model, index, values)
            results = _result(model, index, values)
            values |= results
            stored |= {tensor: each.astype(_DTYPES[_type(model, tensor)]).tobytes() for tensor, each in results.items()}
            stored |= _expanded(model, index, stored)
        folded = [i for i, op in enumerate(model.main.operators) if any(t in stored for t in op.outputs or ())]
        if not folded:
            return PassResult(model, model is not original)
        rewritten = remove_plan(model)
        for tensor, content in stored.items():
            rewritten = _with_content(rewritten, tensor, content)
        kept = [op for index, op in enumerate(rewritten.main.operators) if index not in folded]
        labels = (operator_label(model, index) for index in folded)
        rewritten = prune(replace_operators(rewritten, kept))
        return PassResult(rewritten, True, (note("changed", "constants", *labels),))


def _type(model: Model, tensor: int) -> int:
    return model.main.tensors[tensor].type


def _with_content(model: Model, tensor: int, content: bytes) -> Model:
    model, buffer = add_buffer(model, content)
    return replace_tensor(model, tensor, replace(model.main.tensors[tensor], buffer=buffer))


def _expanded(model: Model, index: int, stored: Mapping[int, bytes]) -> dict[int, bytes]:
    """Return the result of a DENSIFY, a TILE or a DEQUANTIZE of float16 of a constant, by its tensor; else nothing."""
    operator, graph = model.main.operators[index], model.main
    name, read, written = operator_name(model, operator), operator.inputs or (), operator.outputs or ()
    if name not in ("DENSIFY", "DEQUANTIZE", "TILE") or not read or len(written) != 1 or read[0] < 0:
        return {}
    source, output = graph.tensors[read[0]], graph.tensors[written[0]]
    data = stored.get(read[0]) or model.buffers[source.buffer].data or b""
    if not data or source.is_variable or source.dims != output.dims or written[0] in graph.outputs:
        return {}
    if name == "DENSIFY":
        dense = _dense(source, data) if source.type == output.type else None
        return {} if dense is None else {written[0]: dense}
    if source.sparsity is not None or len(data) != tensor_nbytes(source):
        return {}
    if name == "TILE":
        return {written[0]: data} if source.type == output.type else {}
    if (source.type, output.type) != (TensorType.FLOAT16, TensorType.FLOAT32):
        return {}
    return {written[0]: np.frombuffer(data, "<f2").astype("<f4").tobytes()}


def _dense(tensor: Tensor, data: bytes) -> bytes | None:
    """Return the values of a sparse tensor with the zeros between them, None if its levels are not its dimensions.

    A level leads from a place in the dimensions before it to places in its own: all of them, or those of its indices.
    """
    form, count, width = tensor.sparsity, prod(tensor.dims), element_bits(tensor.type) // 8
    if form is None or form.block_map or form.traversal_order != tuple(range(len(tensor.dims))) or not width:
        return None
    levels = form.dim_metadata or ()
    if len(levels) != len(tensor.dims) or not 0 < count <= MOST_DENSE:
        return None
    places = np.zeros(1, np.int64)
    for dim, level in zip(tensor.dims, levels, strict=True):
        if level.array_segments is None or level.array_indices is None:
            places = (places[:, None] * dim + np.arange(dim)).ravel()
            continue
        arrays = (level.array_segments, level.array_indices)
        ends, indices = (np.array(list(each.values or ()), np.int64) for each in arrays)
        counts = np.diff(ends)
        valid = len(counts) == len(places) and np.all(counts >= 0) and (ends[0], ends[-1]) == (0, len(indices))
        if not valid or np.any(indices < 0) or np.any(indices >= dim):
            return None
        places = np.repeat(places, counts) * dim + indices
    if len(data) != len(places) * width:
        return None
    dense = np.zeros((count, width), np.uint8)
    dense[places] = np.frombuffer(data, np.uint8).reshape(-1, width)
    return dense.tobytes()


def _with_resolved_shape(model: Model, index: int, values: Mapping[int, Integers]) -> Model:
    """Return the model with the shape of a RESHAPE's result, if the file leaves it open and its operand is constant."""
    operator, graph = model.main.operators[index], model.main
    read, written = operator.inputs or (), operator.outputs or ()
    if operator_name(model, operator) != "RESHAPE" or (len(read), len(written)) != (2, 1) or min(read) < 0:
        return model
    count, output, shape = prod(graph.tensors[read[0]].dims), graph.tensors[written[0]], _values(model, read[1], values)
    if -1 not in (output.shape_signature or ()) or shape is None or shape.ndim != 1 or written[0] in graph.outputs:
        return model
    dims = [int(dim) for dim in shape]
    if dims.count(-1) == 1 and (rest := -prod(dims)) > 0:
        dims[dims.index(-1)] = count // rest
    if min(dims, default=0) < 1 or prod(dims) != count or tuple(dims) == output.dims:
        return model
    return replace_tensor(model, written[0], replace(output, shape=tuple(dims), shape_signature=None))


def _result(model: Model, index: int, values: Mapping[int, Integers]) -> dict[int, Integers]:
    """Return the value of an operator's single output by its tensor; empty if it is no constant."""
    operator, graph = model.main.operators[index], model.main
    name, outputs = operator_name(model, operator), operator.outputs or ()
    if name not in _FOLDS or len(outputs) != 1 or outputs[0] in graph.outputs or has_effects(model, graph, operator):
        return {}
    output = graph.tensors[outputs[0]]
    if output.type not in _DTYPES or any(dim < 1 for dim in output.dims) or int(np.prod(output.dims)) > MOST_VALUES:
        return {}
    inputs = [tensor for tensor in operator.inputs or () if tensor >= 0]
    if name == "SHAPE":
        dims = graph.tensors[inputs[0]].dims if inputs and not graph.tensors[inputs[0]].is_open else ()
        result: Integers | None = np.array(dims, np.int64) if dims and min(dims) > 0 else None
    else:
        operands = [_values(model, tensor, values) for tensor in inputs]
        types = {graph.tensors[tensor].type for tensor in inputs}
        if not operands or any(operand is None for operand in operands) or not types <= set(_DTYPES):
            return {}
        try:
            result = _FOLDS[name](get_options(operator), [operand for operand in operands if operand is not None])
        except (IndexError, ValueError):  # the runtime rejects it, too
            return {}
    if result is None or result.size != np.prod(output.dims) or np.any(result.astype(_DTYPES[output.type]) != result):
        return {}
    return {outputs[0]: result.reshape(output.dims)}


def _values(model: Model, tensor: int, values: Mapping[int, Integers]) -> Integers | None:
    if tensor in values:
        return values[tensor]
    described = model.main.tensors[tensor]
    data = model.buffers[described.buffer].data
    dtype = _DTYPES.get(described.type)
    if not data or dtype is None or described.is_variable or described.sparsity is not None:
        return None
    if len(data) > 8 * MOST_VALUES or len(data) % np.dtype(dtype).itemsize:
        return None
    content: Integers = np.frombuffer(data, dtype).astype(np.int64)
    return content.reshape(described.dims) if content.size == np.prod(described.dims) else None


# ---- Operators: from options and operands to a result, None where it is none of the usual forms ----

Options = Mapping[str, Any]


def _strided_slice(options: Options, operands: Sequence[Integers]) -> Integers | None:
    """Return a slice of a list, or a single element if the axis is dropped."""
    values, begin, end, stride = operands
    if values.ndim != 1 or not begin.size == end.size == stride.size == 1 or stride[0] < 1:
        return None
    if any(options.get(mask) for mask in ("ellipsis_mask", "new_axis_mask", "offset")):
        return None
    start = None if options.get("begin_mask") else int(begin.flat[0])
    if options.get("shrink_axis_mask"):
        return np.array(values[start or 0])
    return values[slice(start, None if options.get("end_mask") else int(end.flat[0]), int(stride.flat[0]))]


def _pack(options: Options, operands: Sequence[Integers]) -> Integers | None:
    return np.stack(operands) if all(operand.ndim == 0 for operand in operands) else None


def _concatenation(options: Options, operands: Sequence[Integers]) -> Integers | None:
    return np.concatenate(operands) if all(operand.ndim == 1 for operand in operands) else None


def _gather(options: Options, operands: Sequence[Integers]) -> Integers | None:
    values, indices = operands
    if values.ndim != 1 or np.any(indices < 0) or options.get("batch_dims") or options.get("axis"):
        return None
    return np.asarray(values[indices])


def _slice(options: Options, operands: Sequence[Integers]) -> Integers | None:
    values, begin, size = operands
    if values.ndim != 1 or not begin.size == size.size == 1 or not 0 <= begin.flat[0] <= values.size:
        return None
    rest = values[int(begin.flat[0]) :]
    return rest[: int(size.flat[0])] if -1 < size.flat[0] <= rest.size else rest if size.flat[0] == -1 else None


def _product(options: Options, operands: Sequence[Integers]) -> Integers | None:
    """Return the product of a list."""
    values, axes = operands
    product = prod(values.tolist())
    if values.ndim != 1 or axes.size != 1 or axes.flat[0] not in (0, -1) or abs(product) >= 1 << 31:
        return None
    return np.array([product] if options.get("keep_dims") else product, np.int64)


def _same(options: Options, operands: Sequence[Integers]) -> Integers | None:
    return operands[0]


def _of_two(
    function: Callable[[Integers, Integers], Integers],
) -> Callable[[Options, Sequence[Integers]], Integers | None]:
    def fold(options: Options, operands: Sequence[Integers]) -> Integers | None:
        first, second = operands
        # For 32-bit numbers, sums and products are exact here.
        small = np.all(np.abs(first) < 2**31) and np.all(np.abs(second) < 2**31)
        return None if options.get("fused_activation_function") or not small else np.asarray(function(first, second))

    return fold


_FOLDS: Mapping[str, Callable[[Options, Sequence[Integers]], Integers | None]] = {
    "ADD": _of_two(np.add),
    "CAST": _same,
    "CONCATENATION": _concatenation,
    "EXPAND_DIMS": _same,
    "GATHER": _gather,
    "MAXIMUM": _of_two(np.maximum),
    "MINIMUM": _of_two(np.minimum),
    "MUL": _of_two(np.multiply),
    "PACK": _pack,
    "REDUCE_PROD": _product,
    "RESHAPE": _same,
    "SHAPE": _same,
    "SLICE": _slice,
    "SQUEEZE": _same,
    "STRIDED_SLICE": _strided_slice,
    "SUB": _of_two(np.subtract),
}
