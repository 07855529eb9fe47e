"""Largest values under a window as those of columns, then of rows.

    MAX_POOL_2D(x, h × w)  =  MAX_POOL_2D(MAX_POOL_2D(x, 1 × w), h × 1)

The runtime starts with the least number and takes a value that is larger: of equal ones the first, row by row, and NaN
never. So does the right side, whose padding is that of each axis alone. Its first pool has no activation.
"""

from __future__ import annotations

from dataclasses import replace

from tflite_fuse.check.original.values import Original
from tflite_fuse.model.options import make_options


def add_pools_by_axes(original: Original) -> None:
    """Add to the original its MAX_POOL_2Ds over both axes as one over columns and one over rows."""
    for step in tuple(original.steps):
        if step.name != "MAX_POOL_2D" or len(step.outputs) != 1 or step.operand(0) < 0:
            continue
        source, output = original.tensors[step.inputs[0]], original.tensors[step.outputs[0]]
        if len(source.dims) != 4 or len(output.dims) != 4:
            continue
        shape = (*source.dims[:2], *output.dims[2:])
        between = original.add_tensor(replace(output, shape=shape, shape_signature=None))
        columns = {**step.options, "stride_h": 1, "filter_height": 1, "fused_activation_function": 0}
        rows = {**step.options, "stride_w": 1, "filter_width": 1}
        for source_of, result, options in ((step.inputs[0], between, columns), (between, step.outputs[0], rows)):
            original.add_operator(
                step, "MAX_POOL_2D", (source_of,), result, make_options("Pool2DOptions", **options), step.code.version
            )
