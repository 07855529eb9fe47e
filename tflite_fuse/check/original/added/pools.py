"""Largest values under a window as those of columns, then of rows.

    MAX_POOL_2D(x, h × w)  =  MAX_POOL_2D(MAX_POOL_2D(x, 1 × w), h × 1)

The runtime starts with the least number and takes a value that is larger: of equal ones the first, row by row, and NaN
never. So does the right side, whose padding is that of each axis alone. Its first pool has no activation. On int8,
where equal values are the same, rows may come first as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tflite_fuse.check.original.values import Original, Step
from tflite_fuse.model.options import Value, make_options
from tflite_fuse.model.types import TensorType

Changes = Mapping[str, Value]


def add_pools_by_axes(original: Original) -> None:
    """Add to the original its MAX_POOL_2Ds over both axes as one over columns and one over rows."""
    for step in tuple(original.steps):
        if step.name != "MAX_POOL_2D" or len(step.outputs) != 1 or step.operand(0) < 0:
            continue
        source, output = original.tensors[step.inputs[0]], original.tensors[step.outputs[0]]
        if len(source.dims) != 4 or len(output.dims) != 4:
            continue
        columns, rows = ({f"stride_{axis}": 1, f"filter_{size}": 1} for axis, size in (("h", "height"), ("w", "width")))
        _add(original, step, (*source.dims[:2], *output.dims[2:]), columns, rows)
        if output.type == TensorType.INT8:
            _add(original, step, (source.dims[0], output.dims[1], *source.dims[2:]), rows, columns)


def _add(original: Original, step: Step, shape: tuple[int, ...], first: Changes, second: Changes) -> None:
    """Add two pools in place of one: the first with no activation, to a tensor of this shape."""
    between = original.add_tensor(replace(original.tensors[step.outputs[0]], shape=shape, shape_signature=None))
    first = {**step.options, **first, "fused_activation_function": 0}
    for tensor, result, options in (
        (step.inputs[0], between, first),
        (between, step.outputs[0], {**step.options, **second}),
    ):
        made = make_options("Pool2DOptions", **options)
        original.add_operator(step, "MAX_POOL_2D", (tensor,), result, made, step.code.version)
