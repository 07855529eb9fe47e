"""Numbers of the original that are the same in every inference: shapes and results computed from them, and weights.

A rewritten model may hold such a tensor as a constant. Its numbers are computed here, one tensor at a time. They also
determine the shapes of RESHAPEs that the file leaves open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tflite_fuse.check.moves import Numbers, parts_of
from tflite_fuse.check.original.values import Original, Step
from tflite_fuse.model.edit import replace_main
from tflite_fuse.model.schema import Model, Tensor
from tflite_fuse.model.types import TensorType, element_bits

_FORMS: dict[int, str] = {TensorType.INT32: "<i4", TensorType.INT64: "<i8"}
_MOST = 1 << 10
"""Most numbers of a tensor; repeated joins in a hostile file would grow without bound."""

_MOST_DENSE = 1 << 22
"""Most numbers of a constant that was sparse."""

_OF_TWO: dict[str, Callable[..., Any]] = {
    "ADD": np.add,
    "SUB": np.subtract,
    "MUL": np.multiply,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
}


def with_open_shapes(model: Model) -> Model:
    """Return a model with the shapes of RESHAPEs that its file leaves open, as far as they are known."""
    if not any(tensor.is_open for tensor in model.main.tensors):
        return model  # batches that are left open have one image
    original = Original(model)
    add_known_numbers(original)
    return replace_main(model, replace(model.main, tensors=tuple(original.tensors[: len(model.main.tensors)])))


def add_known_numbers(original: Original) -> None:
    """Give tensors whose numbers are known their content, as if they were constants in the file."""
    for step in list(original.steps):
        if len(step.outputs) != 1 or step.outputs[0] in original.model.main.outputs:
            continue
        output = original.tensors[step.outputs[0]]
        if step.name == "RESHAPE" and (dims := _left_open(original, step)) not in ((), output.dims):
            original.tensors[step.outputs[0]] = output = replace(output, shape=dims, shape_signature=None)
        if step.name in ("DENSIFY", "DEQUANTIZE", "TILE") and (content := _expanded(original, step)):
            original.know(step.outputs[0], content)
        numbers = _numbers(original, step) if output.type in _FORMS and not output.is_variable else None
        if numbers is None or numbers.size != prod(output.dims) or not 0 < numbers.size <= _MOST:
            continue
        stored = numbers.astype(_FORMS[output.type])
        if np.array_equal(stored, numbers):
            original.know(step.outputs[0], stored.tobytes())


def _left_open(original: Original, step: Step) -> tuple[int, ...]:
    """Return the shape of a RESHAPE's result that the file leaves open; empty if it does not, or it is not known."""
    shape = _read(original, step.operand(1)) if len(step.inputs) == 2 else None
    output = original.tensors[step.outputs[0]]
    if shape is None or shape.ndim != 1 or step.operand(0) < 0 or -1 not in (output.shape_signature or ()):
        return ()
    sizes = [int(number) for number in shape if number != -1]
    count, product, left = prod(original.tensors[step.inputs[0]].dims), prod(sizes), shape.size - len(sizes)
    if min(sizes, default=1) < 1 or count < 1 or count % product or left > 1 or (left == 0 and count != product):
        return ()
    return tuple(count // product if number == -1 else int(number) for number in shape)


def _read(original: Original, tensor: int) -> Numbers | None:
    described = original.tensors[tensor]
    form, content = _FORMS.get(described.type), original.content(tensor)
    if form is None or not content or described.sparsity is not None or described.is_variable:
        return None
    size = prod(described.dims)
    if min(described.dims, default=1) < 1 or size > _MOST or len(content) != size * np.dtype(form).itemsize:
        return None
    return np.frombuffer(content, form).astype(np.int64).reshape(described.dims)


def _expanded(original: Original, step: Step) -> bytes:
    """Return a constant with the zeros its sparse form omits, as float32 or tiled once; empty for other operands."""
    source = original.tensors[step.operand(0)] if step.operand(0) >= 0 else None
    content, output = original.content(step.operand(0)), original.tensors[step.outputs[0]]
    if source is None or source.is_variable or output.dims != source.dims or not content:
        return b""
    if step.name == "DENSIFY":
        return _dense(source, content) if output.type == source.type else b""
    if step.name == "TILE" and source.type == output.type and source.sparsity is None:
        return content
    widens = (source.type, output.type) == (TensorType.FLOAT16, TensorType.FLOAT32)
    if not widens or source.sparsity is not None or len(content) != 2 * prod(output.dims):
        return b""
    return np.frombuffer(content, "<f2").astype("<f4").tobytes()


def _dense(tensor: Tensor, content: bytes) -> bytes:
    """Return a constant with the zeros that its sparse form omits; empty if it has other levels than its dimensions."""
    form, width, count = tensor.sparsity, element_bits(tensor.type) // 8, prod(tensor.dims)
    levels = (form and form.dim_metadata) or ()
    if form is None or form.block_map or not 0 < count <= _MOST_DENSE or len(levels) != len(tensor.dims) or not width:
        return b""
    if list(form.traversal_order or ()) != list(range(len(levels))):
        return b""
    nodes = [0]
    for size, level in zip(tensor.dims, levels, strict=True):
        if level.array_segments is None and level.array_indices is None:
            nodes = [node * size + each for node in nodes for each in range(size)]
            continue
        bounds, chosen = (list((part and part.values) or ()) for part in (level.array_segments, level.array_indices))
        ascending = bounds == sorted(bounds) and len(bounds) == len(nodes) + 1
        if not ascending or bounds[0] != 0 or bounds[-1] != len(chosen) or not set(chosen) <= set(range(size)):
            return b""
        spans = zip(nodes, bounds, bounds[1:], strict=False)
        nodes = [node * size + each for node, start, end in spans for each in chosen[start:end]]
    if len(content) != width * len(nodes):
        return b""
    dense = bytearray(width * count)
    for number, node in enumerate(nodes):
        dense[width * node : width * (node + 1)] = content[width * number : width * (number + 1)]
    return bytes(dense)


def _numbers(original: Original, step: Step) -> Numbers | None:
    """Return the numbers that an operator writes, None if they are not known."""
    tensors = [tensor for tensor in step.inputs if tensor >= 0]
    if step.name == "SHAPE" and tensors:
        shaped = original.tensors[tensors[0]]
        return None if shaped.is_open or min(shaped.dims, default=0) < 1 else np.array(shaped.dims, np.int64)
    read = [_read(original, tensor) for tensor in tensors]
    values = [each for each in read if each is not None]
    if not values or len(values) != len(read):
        return None
    if step.name == "CAST":
        return values[0]
    if step.name in ("PACK", "CONCATENATION"):
        rank = 0 if step.name == "PACK" else 1
        return np.concatenate([each.ravel() for each in values]) if {each.ndim for each in values} == {rank} else None
    if step.name == "REDUCE_PROD":
        return _product(values)
    if step.name in _OF_TWO:
        return _arithmetic(step, values)
    parts = parts_of(original, step, values[0])
    return parts[0] if parts is not None and len(parts) == 1 else None


def _product(values: list[Numbers]) -> Numbers | None:
    """Return the product of the numbers of a list, which fits 32 bits."""
    if len(values) != 2 or values[0].ndim != 1 or values[1].size != 1 or values[1].item() not in (0, -1):
        return None
    product = prod(values[0].tolist())
    return np.array(product, np.int64) if abs(product) < 1 << 31 else None


def _arithmetic(step: Step, values: list[Numbers]) -> Numbers | None:
    """Return sums or products of 32-bit numbers, which fit 64 bits."""
    if step.number("fused_activation_function") or max(int(np.abs(each).max(initial=0)) for each in values) >= 1 << 31:
        return None
    try:
        results: Numbers = _OF_TWO[step.name](*values)
    except (TypeError, ValueError):  # wrong number of operands, or shapes that do not broadcast
        return None
    return results
