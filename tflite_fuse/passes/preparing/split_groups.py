"""CONV_2D of groups as one convolution for each, over its own channels.

    CONV_2D(x, filters of two groups)  =  CONCATENATION(CONV_2D(SLICE(x), …), CONV_2D(SLICE(x), …))

The filters of a group read the channels of that group alone, in the same order and with the same bias and scales.
"""

from __future__ import annotations

from dataclasses import replace

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.operators.operands import is_constant, read_activation
from tflite_fuse.model.edit import add_buffer, add_int32, add_operator_code, add_tensor
from tflite_fuse.model.operators import make_options, operator_name
from tflite_fuse.model.schema import Model, Operator, Tensor
from tflite_fuse.model.types import TensorType, tensor_nbytes

MOST_GROUPS = 10
"""What one CONCATENATION joins at most."""


def groups_of(model: Model, operator: Operator) -> int:
    """How many convolutions a CONV_2D is; 0 where it is one, or no block computes them."""
    inputs, outputs = operator.inputs or (), operator.outputs or ()
    if operator_name(model, operator) != "CONV_2D" or len(outputs) != 1 or not 2 <= len(inputs) <= 3:
        return 0
    constants = [tensor for tensor in inputs[1:] if tensor >= 0]
    if not all(_is_plain_constant(model, tensor) for tensor in constants) or inputs[1] < 0:
        return 0
    try:
        source, output = read_activation(model, inputs[0]), read_activation(model, outputs[0])
    except BlockError:
        return 0
    filters = model.main.tensors[inputs[1]].dims
    if (
        len(source.dims) != 4
        or len(output.dims) != 4
        or len(filters) != 4
        or model.main.tensors[inputs[1]].type != TensorType.INT8
    ):
        return 0
    channels, depth, made = source.dims[3], filters[3], output.dims[3]
    groups = channels // depth if depth > 1 and channels % depth == 0 else 0
    fits = groups > 1 and filters[0] == made and made % groups == 0
    return groups if fits and groups <= MOST_GROUPS and all(_fits(model, tensor, made) for tensor in constants) else 0


def _is_plain_constant(model: Model, tensor: int) -> bool:
    return is_constant(model, tensor) and model.main.tensors[tensor].sparsity is None


def _fits(model: Model, tensor: int, made: int) -> bool:
    """Whether a constant has a part for each output channel, all as long, and one scale for each or for all."""
    found = model.main.tensors[tensor]
    quantization, content = found.quantization, model.buffers[found.buffer].data or b""
    scales = len(quantization.scale or ()) if quantization is not None else 1
    points = len(quantization.zero_point or ()) if quantization is not None else 1
    plain = quantization is None or (quantization.details is None and quantization.quantized_dimension == 0)
    sized = found.dims[:1] == (made,) and len(content) == tensor_nbytes(found)
    return plain and sized and {scales, points} <= {0, 1, made}


def split_groups(model: Model, operator: Operator, groups: int) -> tuple[Model, list[Operator]]:
    """The operators in the place of a CONV_2D of groups, the last of which writes what it wrote."""
    source, output = (operator.inputs or ())[0], (operator.outputs or ())[0]
    image, whole = model.main.tensors[source], model.main.tensors[output]
    model, slicing = add_operator_code(model, builtin="SLICE", version=2)
    model, joining = add_operator_code(model, builtin="CONCATENATION", version=2)
    made, parts = list[Operator](), list[int]()
    depth, channels = image.dims[3] // groups, whole.dims[3] // groups
    for group in range(groups):
        model, begin = add_int32(model, f"{whole.name}/begin", (0, 0, 0, group * depth))
        model, size = add_int32(model, f"{whole.name}/size", (*image.dims[:3], depth))
        model, read = _like(model, image, depth, f"{whole.name}/read {group}")
        made.append(Operator(slicing, (source, begin, size), (read,), make_options("SliceOptions")))
        operands = [read]
        for constant in (operator.inputs or ())[1:]:
            model, own = (model, constant) if constant < 0 else _part(model, constant, group, groups)
            operands.append(own)
        model, part = _like(model, whole, channels, f"{whole.name}/group {group}")
        made.append(replace(operator, inputs=tuple(operands), outputs=(part,)))
        parts.append(part)
    options = make_options("ConcatenationOptions", axis=3)
    return model, [*made, Operator(joining, tuple(parts), (output,), options)]


def _part(model: Model, constant: int, group: int, groups: int) -> tuple[Model, int]:
    """A group's part of filters or of a bias."""
    found = model.main.tensors[constant]
    content, count = model.buffers[found.buffer].data or b"", found.dims[0] // groups
    nbytes = len(content) // groups
    model, buffer = add_buffer(model, content[group * nbytes : (group + 1) * nbytes])
    quantization = found.quantization
    if quantization is not None:
        own = slice(group * count, (group + 1) * count)
        scale, points = quantization.scale or (), quantization.zero_point or ()
        scale, points = (scale[own] if len(scale) > 1 else scale), (points[own] if len(points) > 1 else points)
        quantization = replace(quantization, scale=scale, zero_point=points, min=None, max=None)
    part = replace(found, shape=(count, *found.dims[1:]), shape_signature=None)
    return add_tensor(model, replace(part, buffer=buffer, quantization=quantization))


def _like(model: Model, tensor: Tensor, channels: int, name: str) -> tuple[Model, int]:
    shape = (*tensor.dims[:3], channels)
    return add_tensor(model, replace(tensor, shape=shape, shape_signature=None, buffer=0, name=name))
