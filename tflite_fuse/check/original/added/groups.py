"""Grouped convolutions as one convolution for each group.

    y = CONV_2D(x, W), W of fewer channels than x:   y of group g = CONV_2D(x's channels of group g, W of group g)

As in the runtime's kernel, output channel o reads only the channels of group o // (outputs / groups).
"""

from __future__ import annotations

from dataclasses import replace

from tflite_fuse.check.original.values import Original, Step
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Tensor
from tflite_fuse.model.types import TensorType, tensor_nbytes


def add_groups(original: Original) -> None:
    """Add to the original one convolution for each group, its SLICE, and the CONCATENATION of all."""
    for step in tuple(original.steps):
        filters = _filters(original, step) if step.name == "CONV_2D" and len(step.outputs) == 1 else None
        image, output = (original.image(t) if t >= 0 else None for t in (step.operand(0), (step.outputs or (-1,))[0]))
        if filters is None or image is None or output is None or len(filters) != 4 or filters[3] < 2:
            continue
        groups, rest = divmod(image[2], filters[3])
        if groups > 1 and not rest and filters[0] == output[2] and output[2] % groups == 0:
            _add(original, step, groups)


def _filters(original: Original, step: Step) -> tuple[int, ...] | None:
    """Return the shape of constant filters of the type of the output; None for others."""
    tensor = original.tensors[step.operand(1)]
    stored = step.operand(1) >= 0 and len(original.content(step.operand(1))) == tensor_nbytes(tensor)
    types = (TensorType.INT8, TensorType.FLOAT32)
    plain = stored and tensor.sparsity is None and min(tensor.dims, default=1) > 0 and tensor.type in types
    return tensor.dims if plain and original.tensors[step.outputs[0]].type == tensor.type else None


def _add(original: Original, step: Step, groups: int) -> None:
    source, (result,) = step.operand(0), step.outputs
    image, whole = original.tensors[source], original.tensors[result]
    depth, channels = image.dims[-1] // groups, whole.dims[-1] // groups
    written: list[int] = []
    for group in range(groups):
        constants: list[int] = []
        for tensor in step.inputs[1:]:
            own = tensor if tensor < 0 else of_group(original, tensor, group, groups)
            if own is None:
                return
            constants.append(own)
        begin = original.add_numbers([*[0] * (len(image.dims) - 1), group * depth])
        size = original.add_numbers([*image.dims[:-1], depth])
        read = original.add_tensor(_narrow(image, depth))
        original.add_operator(step, "SLICE", (source, begin, size), read, make_options("SliceOptions"), 2)
        written.append(original.add_tensor(_narrow(whole, channels)))
        operator = replace(step.operator, inputs=(read, *constants), outputs=(written[-1],))
        original.add_step(Step(step.label, step.name, operator, step.code))
    joining = make_options("ConcatenationOptions", axis=len(whole.dims) - 1)
    original.add_operator(step, "CONCATENATION", written, result, joining, 2)


def of_group(original: Original, tensor: int, group: int, groups: int) -> int | None:
    """Return a group's part of filters, of a bias or another constant; None if it does not divide."""
    found, content = original.tensors[tensor], original.content(tensor)
    count, rest = divmod(found.dims[0], groups) if found.dims else (0, 1)
    if rest or not content or len(content) % groups:
        return None
    nbytes = len(content) // groups
    begin, end = group * count, (group + 1) * count
    quantization = found.quantization
    if quantization is not None:
        scales, points = quantization.scale or (), quantization.zero_point or ()
        scales = scales[begin:end] if len(scales) > 1 else scales
        points = points[begin:end] if len(points) > 1 else points
        quantization = replace(quantization, scale=scales, zero_point=points, min=None, max=None)
    own = replace(found, shape=(count, *found.dims[1:]), quantization=quantization, shape_signature=None)
    return original.add_tensor(own, content[group * nbytes : (group + 1) * nbytes])


def _narrow(tensor: Tensor, channels: int) -> Tensor:
    return replace(tensor, shape=(*tensor.dims[:-1], channels), shape_signature=None)
