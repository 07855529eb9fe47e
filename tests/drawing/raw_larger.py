"""Models that resize images or convolve them transposed, and hypothesis strategies over them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tests.drawing.raw_models import (
    ACTIVATIONS,
    SAME,
    VALID,
    RawModel,
    activation_scales,
    add_convolution,
    edgy_int8,
    filter_scales,
    seeds,
    zero_points,
)
from tflite_fuse.errors import BlockError
from tflite_fuse.model.options import make_options
from tflite_fuse.model.schema import Model
from tflite_fuse.ops.kinds.resize import bilinear

RESIZES = {"RESIZE_BILINEAR": "ResizeBilinearOptions", "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions"}


def _reads_inside(lengths: tuple[int, ...], sizes: tuple[int, ...], corners: bool, centres: bool) -> bool:
    try:
        for length, size in zip(lengths, sizes, strict=True):
            bilinear(length, size, corners, centres)
    except BlockError:
        return False
    return True


def add_resize(model: RawModel, draw: st.DrawFn, tensor: int, sizes: tuple[int, int] | None = None) -> int:
    """Append a RESIZE to these rows and columns, or to any; its output."""
    _, height, width, channels = model.tensors[tensor].dims
    name = draw(st.sampled_from(sorted(RESIZES)))
    corners = draw(st.booleans())
    centres = draw(st.booleans()) if name == "RESIZE_NEAREST_NEIGHBOR" else not corners and draw(st.booleans())
    if sizes is None:
        rates = st.sampled_from([1, 2, 2, 2, 3, 4])
        exact = (height * draw(rates), width * draw(rates))
        sizes = exact if draw(st.booleans()) else (draw(st.integers(1, 24)), draw(st.integers(1, 24)))
    if name == "RESIZE_BILINEAR" and not _reads_inside((height, width), sizes, corners, centres):
        name = "RESIZE_NEAREST_NEIGHBOR"
    quantization = model.tensors[tensor].quantization
    assert quantization is not None and quantization.scale and quantization.zero_point
    output = model.tensor((1, *sizes, channels), quantization.scale[0], quantization.zero_point[0])
    options = make_options(RESIZES[name], align_corners=corners, half_pixel_centers=centres)
    model.operator(name, [tensor, model.constant(np.array(sizes, np.int32))], [output], options)
    return output


def add_transposed(model: RawModel, draw: st.DrawFn, tensor: int) -> int:
    """Append a TRANSPOSE_CONV of any filter; its output."""
    _, height, width, depth = model.tensors[tensor].dims
    rng, channels = np.random.default_rng(draw(seeds)), draw(st.integers(1, 6))
    kernel, stride = ((draw(st.integers(1, high)), draw(st.integers(1, high))) for high in (5, 3))
    padding = draw(st.sampled_from([SAME, VALID]))
    sizes = []
    for length, taps, step in zip((height, width), kernel, stride, strict=True):
        least = (length - 1) * step + (1 if padding == SAME else taps)
        sizes.append(least + draw(st.integers(0, step - 1)))
    scales = draw(filter_scales(channels))
    weights = model.constant(edgy_int8(rng, (channels, *kernel, depth)), scales)
    operands = [model.constant(np.array([1, *sizes, channels], np.int32)), weights, tensor]
    if draw(st.booleans()):
        limit = draw(st.sampled_from([100, 20_000, 2**24]))
        operands.append(model.constant(rng.integers(-limit, limit, channels).astype(np.int32), scales))
    output = model.tensor((1, *sizes, channels), draw(activation_scales), draw(zero_points))
    options = make_options(
        "TransposeConvOptions",
        padding=padding,
        stride_h=stride[0],
        stride_w=stride[1],
        fused_activation_function=draw(st.sampled_from(ACTIVATIONS)),
    )
    model.operator("TRANSPOSE_CONV", operands, [output], options)
    return output


def add_mirror(model: RawModel, draw: st.DrawFn, tensor: int) -> int:
    """Append a MIRROR_PAD of rows and columns; its output."""
    mode, dims = draw(st.integers(0, 1)), model.tensors[tensor].dims
    quantization = model.tensors[tensor].quantization
    assert quantization is not None and quantization.scale and quantization.zero_point
    most = [min(4, size - 1 + mode) for size in dims[1:-1]]
    pads = [[draw(st.integers(0, each)) for _ in range(2)] for each in most]
    shape = (1, *(size + sum(pad) for size, pad in zip(dims[1:-1], pads, strict=True)), dims[-1])
    output = model.tensor(shape, quantization.scale[0], quantization.zero_point[0])
    amounts = model.constant(np.array([[0, 0], *pads, [0, 0]], np.int32))
    model.operator("MIRROR_PAD", [tensor, amounts], [output], make_options("MirrorPadOptions", mode=mode))
    return output


def _image(model: RawModel, draw: st.DrawFn) -> int:
    shape = (1, draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.integers(1, 5)))
    return model.tensor(shape, draw(activation_scales), draw(zero_points))


@st.composite
def resizes(draw: st.DrawFn) -> Model:
    """One RESIZE."""
    model = RawModel()
    source = _image(model, draw)
    return model.build([source], [add_resize(model, draw, source)])


@st.composite
def mirrored(draw: st.DrawFn) -> Model:
    """One MIRROR_PAD, of an image or a row."""
    model = RawModel()
    shape = draw(st.sampled_from([(1, 4, 5, 3), (1, 1, 6, 2), (1, 7, 1, 4), (1, 8, 3)]))
    source = model.tensor(shape, draw(activation_scales), draw(zero_points))
    return model.build([source], [add_mirror(model, draw, source)])


@st.composite
def transposed_convolutions(draw: st.DrawFn) -> Model:
    """One TRANSPOSE_CONV."""
    model = RawModel()
    source = _image(model, draw)
    return model.build([source], [add_transposed(model, draw, source)])


def _join(model: RawModel, tensors: list[int]) -> int:
    """CONCATENATION along channels of tensors quantized alike."""
    shapes = [model.tensors[tensor].dims for tensor in tensors]
    output = model.tensor((*shapes[0][:-1], sum(shape[-1] for shape in shapes)), 0.3, -7)
    options = make_options("ConcatenationOptions", axis=3)
    model.operator("CONCATENATION", tensors, [output], options)
    return output


@st.composite
def larger_everywhere(draw: st.DrawFn) -> Model:
    """Images made larger first, inside and last, and joined with what they were made smaller from."""
    model = RawModel()
    shape = (1, 2 * draw(st.integers(2, 7)), 2 * draw(st.integers(2, 7)), draw(st.integers(1, 4)))
    source = newest = model.tensor(shape, draw(activation_scales), draw(zero_points))
    for step in draw(
        st.lists(st.sampled_from(["convolution", "mirror", "resize", "transposed", "skip"]), min_size=1, max_size=4)
    ):
        _, height, width, channels = model.tensors[newest].dims
        if step == "convolution":
            newest = add_convolution(model, newest, (1, height, width, draw(st.integers(1, 4))), kernel=3)
        elif step == "mirror":
            newest = add_mirror(model, draw, newest)
        elif step == "resize" and height * width < 300:
            newest = add_resize(model, draw, newest)
        elif step == "transposed" and height * width < 300:
            newest = add_transposed(model, draw, newest)
        elif step == "skip" and height % 2 == 0 == width % 2:
            skip = add_convolution(model, newest, (1, height, width, channels), kernel=3)
            smaller = add_convolution(model, skip, (1, height // 2, width // 2, channels + 1), kernel=3, stride=2)
            deep = add_convolution(model, smaller, (1, height // 2, width // 2, channels), kernel=3)
            newest = _join(model, [skip, add_resize(model, draw, deep, (height, width))])
    _, height, width, _ = model.tensors[newest].dims
    if draw(st.booleans()):
        newest = add_convolution(model, newest, (1, height, width, 2), kernel=3)
    return model.build([source], [newest])
