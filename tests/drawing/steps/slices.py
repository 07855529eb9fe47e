"""Models that take some rows and columns of an image, as detectors with a focus layer do."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.drawing.raw_models import RawModel, activation_scales, add_convolution, zero_points
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Model


def add_slice(
    model: RawModel, tensor: int, starts: tuple[int, int], steps: tuple[int, int], sizes: tuple[int, int]
) -> int:
    """Append a SLICE, or a STRIDED_SLICE where it takes steps, of so many rows and columns; its output."""
    *_, channels = model.tensors[tensor].dims
    quantization = model.tensors[tensor].quantization
    assert quantization is not None and quantization.scale and quantization.zero_point
    output = model.tensor((1, *sizes, channels), quantization.scale[0], quantization.zero_point[0])
    begin = model.constant(np.array([0, *starts, 0], np.int32))
    if steps == (1, 1):
        size = model.constant(np.array([1, *sizes, -1], np.int32))
        model.operator("SLICE", [tensor, begin, size], [output], make_options("SliceOptions"))
        return output
    ends = [start + step * (size - 1) + 1 for start, step, size in zip(starts, steps, sizes, strict=True)]
    end, by = model.constant(np.array([1, *ends, 0], np.int32)), model.constant(np.array([1, *steps, 1], np.int32))
    model.operator("STRIDED_SLICE", [tensor, begin, end, by], [output], make_options("StridedSliceOptions", end_mask=9))
    return output


def add_any_slice(model: RawModel, draw: st.DrawFn, tensor: int) -> int:
    """Append one that a block can hold, if it does not start too far down or right."""
    _, *extent, _ = model.tensors[tensor].dims
    steps = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    starts = tuple(draw(st.integers(0, min(3, length - 1))) for length in extent)
    most = [(length - start - 1) // step + 1 for length, start, step in zip(extent, starts, steps, strict=True)]
    return add_slice(model, tensor, starts, steps, (draw(st.integers(1, most[0])), draw(st.integers(1, most[1]))))


def add_squares(model: RawModel, draw: st.DrawFn, tensor: int) -> int:
    """Append a SPACE_TO_DEPTH or DEPTH_TO_SPACE that fits, with any quantization behind it; its output."""
    _, height, width, channels = model.tensors[tensor].dims
    size = draw(st.sampled_from([2, 3]))
    if channels % size**2 == 0:
        name, shape = "DEPTH_TO_SPACE", (1, height * size, width * size, channels // size**2)
    elif height % size == width % size == 0:
        name, shape = "SPACE_TO_DEPTH", (1, height // size, width // size, channels * size**2)
    else:
        return tensor
    output = model.tensor(shape, draw(activation_scales), draw(zero_points))
    options = "SpaceToDepthOptions" if name == "SPACE_TO_DEPTH" else "DepthToSpaceOptions"
    model.operator(name, [tensor], [output], make_options(options, block_size=size))
    return output


@st.composite
def squares(draw: st.DrawFn) -> Model:
    """One SPACE_TO_DEPTH or DEPTH_TO_SPACE."""
    model = RawModel()
    shape = draw(
        st.sampled_from([(1, 4, 6, 3), (1, 6, 9, 1), (1, 3, 2, 4), (1, 1, 1, 12), (1, 2, 5, 9), (1, 1, 3, 36)])
    )
    source = model.tensor(shape, draw(activation_scales), draw(zero_points))
    output = add_squares(model, draw, source)
    return model.build([source], [output])


@st.composite
def channels_first(draw: st.DrawFn) -> Model:
    """An input whose channels come first, brought last, and perhaps convolutions behind; rows may be left out."""
    model, channels = RawModel(), draw(st.integers(2, 5))
    rows = [draw(st.integers(2, 9)), *(draw(st.integers(1, 9)) for _ in range(draw(st.integers(0, 1))))]
    quantization = draw(activation_scales), draw(zero_points)
    source = model.tensor((1, channels, *rows), *quantization)
    newest = model.tensor((1, *rows, channels), *quantization)
    order = model.constant(np.array((0, *range(2, 2 + len(rows)), 1), np.int32))
    model.operator("TRANSPOSE", [source, order], [newest], None)
    for kernel in draw(st.lists(st.sampled_from([1, 3]), max_size=2)) if len(rows) == 2 else ():
        shape = (*model.tensors[newest].dims[:3], draw(st.integers(1, 4)))
        newest = add_convolution(model, newest, shape, kernel=kernel)
    return model.build([source], [newest])


@st.composite
def slices(draw: st.DrawFn) -> Model:
    """One slice of rows and columns."""
    model, shape = RawModel(), (1, draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.integers(1, 5)))
    source = model.tensor(shape, draw(activation_scales), draw(zero_points))
    return model.build([source], [add_any_slice(model, draw, source)])


@st.composite
def slices_everywhere(draw: st.DrawFn) -> Model:
    """Slices, squares of pixels as channels, and convolutions in any order, perhaps behind a focus of four slices."""
    shape = (1, 2 * draw(st.integers(2, 6)), 2 * draw(st.integers(2, 6)), draw(st.integers(1, 3)))
    model = RawModel()
    source = newest = model.tensor(shape, draw(activation_scales), draw(zero_points))
    if draw(st.booleans()):
        half = (shape[1] // 2, shape[2] // 2)
        corners = [(top, left) for left in (0, 1) for top in (0, 1)]
        parts = [add_slice(model, source, corner, (2, 2), half) for corner in corners]
        quantization = model.tensors[source].quantization
        assert quantization is not None and quantization.scale and quantization.zero_point
        newest = model.tensor((1, *half, 4 * shape[3]), quantization.scale[0], quantization.zero_point[0])
        model.operator("CONCATENATION", parts, [newest], make_options("ConcatenationOptions", axis=3))
    for step in draw(st.lists(st.sampled_from(["convolution", "slice", "squares"]), min_size=1, max_size=4)):
        if step == "slice":
            newest = add_any_slice(model, draw, newest)
        elif step == "squares":
            newest = add_squares(model, draw, newest)
        else:
            shape = (*model.tensors[newest].dims[:3], draw(st.integers(1, 4)))
            newest = add_convolution(model, newest, shape, kernel=draw(st.sampled_from([1, 3])))
    shape = (*model.tensors[newest].dims[:3], 2)
    return model.build([source], [add_convolution(model, newest, shape)])
