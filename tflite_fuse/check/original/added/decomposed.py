"""Single operators of the original as several: of each group, of each part that is joined, of each axis.

    y = CONV_2D(x, W), W of fewer channels than x:   y of group g = CONV_2D(x's channels of group g, W of group g)

As in the runtime's kernel, output channel o reads only the channels of group o // (outputs / groups).

    CONCATENATION(a, b, …)[p]  =  max(A[p], B[p], …)    where A is a in its place and -128 everywhere else

Each byte of the result is in one of the inputs; the others hold -128 there, the least int8. On float32 A is 0
elsewhere, without a bit set, and an exclusive or of bits is in the place of the maximum. This is for joined rows and
columns; joined channels are a stage.

    MAX_POOL_2D(x, h × w)  =  MAX_POOL_2D(MAX_POOL_2D(x, 1 × w), h × 1)

The runtime starts with the least number and takes a value that is larger: of equal ones the first, row by row, and NaN
never. So does the right side, whose padding is that of each axis alone. Its first pool has no activation. On int8,
where equal values are the same, rows may come first as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tflite_fuse.check.original.values import Original, Step
from tflite_fuse.model.options import Value, make_options
from tflite_fuse.model.schema import Tensor
from tflite_fuse.model.types import TensorType, tensor_nbytes

Changes = Mapping[str, Value]

# ---- Groups of a convolution ----


def add_groups(original: Original) -> None:
    """Add to the original one convolution for each group, its SLICE, and the CONCATENATION of all."""
    for step in tuple(original.steps):
        filters = _filters(original, step) if step.name == "CONV_2D" and len(step.outputs) == 1 else None
        image, output = (original.image(t) if t >= 0 else None for t in (step.operand(0), (step.outputs or (-1,))[0]))
        if filters is None or image is None or output is None or len(filters) != 4 or filters[3] < 2:
            continue
        groups, rest = divmod(image[2], filters[3])
        if groups > 1 and not rest and filters[0] == output[2] and output[2] % groups == 0:
            _add_each_group(original, step, groups)


def _filters(original: Original, step: Step) -> tuple[int, ...] | None:
    """Return the shape of constant filters of the type of the output; None for others."""
    tensor = original.tensors[step.operand(1)]
    stored = step.operand(1) >= 0 and len(original.content(step.operand(1))) == tensor_nbytes(tensor)
    types = (TensorType.INT8, TensorType.FLOAT32)
    plain = stored and tensor.sparsity is None and min(tensor.dims, default=1) > 0 and tensor.type in types
    return tensor.dims if plain and original.tensors[step.outputs[0]].type == tensor.type else None


def _add_each_group(original: Original, step: Step, groups: int) -> None:
    source, (result,) = step.operand(0), step.outputs
    image, output = original.tensors[source].dims, original.tensors[result].dims
    depth, channels = image[-1] // groups, output[-1] // groups
    written: list[int] = []
    for group in range(groups):
        own = [tensor if tensor < 0 else of_group(original, tensor, group, groups) for tensor in step.inputs[1:]]
        constants = [each for each in own if each is not None]
        if len(constants) < len(own):
            return
        begin = original.add_numbers([*[0] * (len(image) - 1), group * depth])
        size = original.add_numbers([*image[:-1], depth])
        read = original.add_like(source, (*image[:-1], depth))
        original.add_operator(step, "SLICE", (source, begin, size), read, make_options("SliceOptions"), 2)
        written.append(original.add_like(result, (*output[:-1], channels)))
        original.add_copy(step, (read, *constants), written[-1:])
    joining = make_options("ConcatenationOptions", axis=len(output) - 1)
    original.add_operator(step, "CONCATENATION", written, result, joining, 2)


def of_group(original: Original, tensor: int, group: int, groups: int) -> int | None:
    """Return a group's part of filters, of a bias or another constant; None if it does not divide."""
    stored, content = original.tensors[tensor], original.content(tensor)
    count, rest = divmod(stored.dims[0], groups) if stored.dims else (0, 1)
    if rest or not content or len(content) % groups:
        return None
    nbytes = len(content) // groups
    begin, end = group * count, (group + 1) * count
    quantization = stored.quantization
    if quantization is not None:
        scales, points = quantization.scale or (), quantization.zero_point or ()
        scales = scales[begin:end] if len(scales) > 1 else scales
        points = points[begin:end] if len(points) > 1 else points
        quantization = replace(quantization, scale=scales, zero_point=points, min=None, max=None)
    own = replace(stored, shape=(count, *stored.dims[1:]), quantization=quantization, shape_signature=None)
    return original.add_tensor(own, content[group * nbytes : (group + 1) * nbytes])


# ---- Joins of rows and columns ----


def add_joins(original: Original) -> None:
    """Add to the original its CONCATENATIONs along rows or columns as pads, and MAXIMUMs or BITWISE_XORs."""
    for step in tuple(original.steps):
        if step.name == "CONCATENATION" and len(step.outputs) == 1 and step.inputs and not _refused(original, step):
            _add_join(original, step)


def _refused(original: Original, step: Step) -> bool:
    """Return whether a CONCATENATION joins other axes, has an activation, or has other types or shapes."""
    output = original.tensors[step.outputs[0]]
    dims, axis = output.dims, _axis(original, step)
    if len(dims) not in (3, 4) or not 0 < axis < len(dims) - 1 or step.number("fused_activation_function"):
        return True
    encoding = original.encoding(step.outputs[0])
    if output.type not in (TensorType.INT8, TensorType.FLOAT32) or encoding is None:
        return True
    length = 0
    for tensor in step.inputs:
        part = original.tensors[tensor] if tensor >= 0 else None
        same = original.encoding(tensor) == encoding
        if part is None or not same or part.type != output.type or len(part.dims) != len(dims):
            return True
        if [d for a, d in enumerate(part.dims) if a != axis] != [d for a, d in enumerate(dims) if a != axis]:
            return True
        length += part.dims[axis]
    return length != dims[axis]


def _axis(original: Original, step: Step) -> int:
    axis = step.number("axis")
    return axis if axis >= 0 else axis + len(original.tensors[step.outputs[0]].dims)


def _add_join(original: Original, step: Step) -> None:
    (result,) = step.outputs
    whole, axis, before = replace(original.tensors[result], shape_signature=None), _axis(original, step), 0
    pad, join, fill = "PAD", "BITWISE_XOR", list[int]()
    if whole.type == TensorType.INT8:
        lowest = Tensor((), TensorType.INT8, 0, "lowest", whole.quantization)
        pad, join, fill = "PADV2", "MAXIMUM", [original.add_tensor(lowest, b"\x80")]
    so_far = -1
    for tensor in step.inputs:
        length = original.tensors[tensor].dims[axis]
        amounts = np.zeros((len(whole.dims), 2), np.int32)
        amounts[axis] = before, whole.dims[axis] - before - length
        in_place = original.add_tensor(whole)
        original.add_operator(step, pad, (tensor, original.add_numbers(amounts), *fill), in_place, version=2)
        before += length
        if so_far >= 0:
            larger = original.add_tensor(whole)
            original.add_operator(step, join, (so_far, in_place), larger, version=2)
            in_place = larger
        so_far = in_place
    original.unite(result, so_far)


# ---- Axes of a pool ----


def add_pools_by_axes(original: Original) -> None:
    """Add to the original its MAX_POOL_2Ds over both axes as one over columns and one over rows."""
    for step in tuple(original.steps):
        if step.name != "MAX_POOL_2D" or len(step.outputs) != 1 or step.operand(0) < 0:
            continue
        source, output = original.tensors[step.inputs[0]], original.tensors[step.outputs[0]]
        if len(source.dims) != 4 or len(output.dims) != 4:
            continue
        columns, rows = ({f"stride_{axis}": 1, f"filter_{size}": 1} for axis, size in (("h", "height"), ("w", "width")))
        _add_pools(original, step, (*source.dims[:2], *output.dims[2:]), columns, rows)
        if output.type == TensorType.INT8:
            _add_pools(original, step, (source.dims[0], output.dims[1], *source.dims[2:]), rows, columns)


def _add_pools(original: Original, step: Step, shape: tuple[int, ...], first: Changes, second: Changes) -> None:
    """Add two pools in place of one: the first with no activation, to a tensor of this shape."""
    between = original.add_like(step.outputs[0], shape)
    first = {**step.options, **first, "fused_activation_function": 0}
    for tensor, result, options in (
        (step.inputs[0], between, first),
        (between, step.outputs[0], {**step.options, **second}),
    ):
        builtin_options = make_options("Pool2DOptions", **options)
        original.add_operator(step, "MAX_POOL_2D", (tensor,), result, builtin_options, step.code.version)
