"""Small networks of the families that matter on microcontrollers, for tests and benchmarks.

All functions return the model; sizes are arguments so that tests stay quick.
"""

from __future__ import annotations

from tflite_fuse.model.schema import Model
from tflite_fuse.zoo.builder import ModelBuilder
from tflite_fuse.zoo.recording import Ref


def inverted_residual_network(
    size: int = 32, channels: int = 8, expansion: int = 4, blocks: int = 3, classes: int = 10, seed: int = 0
) -> Model:
    """Stem of stride 2, inverted residual blocks (every second one narrows the image), mean, classifier, softmax.

    Blocks that keep their shape add their input (MobileNetV2, Sandler et al. 2018, section 3.3).
    """
    b = ModelBuilder(seed)
    x = b.conv(b.input((1, size, size, 3)), channels, 3, 2, activation="RELU6")
    for index in range(blocks):
        x = inverted_residual(b, x, x.shape[3], expansion, stride=1 + index % 2)
    return b.build([b.softmax(b.fully_connected(b.mean(x), classes))])


def inverted_residual(
    b: ModelBuilder, x: Ref, filters: int, expansion: int, stride: int = 1, kernel: int = 3, padding: str = "SAME"
) -> Ref:
    """Expand, depthwise, project; the input is added where shapes agree."""
    y = b.conv(x, x.shape[3] * expansion, activation="RELU6")
    y = b.depthwise(y, kernel, stride, padding, "RELU6")
    y = b.conv(y, filters)
    return b.add(x, y) if x.shape == y.shape else y


def one_dimensional_network(
    length: int = 64, channels: int = 8, blocks: int = 3, classes: int = 4, along_rows: bool = False, seed: int = 0
) -> Model:
    """Separable 1-D convolutions of growing dilation over a signal, mean, classifier, softmax.

    Args:
        length: samples of the signal; it has four channels.
        along_rows: the signal runs along height, not width.
    """

    def along(value: int) -> tuple[int, int]:
        return (value, 1) if along_rows else (1, value)

    b = ModelBuilder(seed)
    x = b.input((1, length, 1, 4) if along_rows else (1, 1, length, 4))
    x = b.conv(x, channels, along(5), along(2), activation="RELU")
    for index in range(blocks):
        y = b.depthwise(x, along(3), dilation=along(1 + index), activation="RELU")
        x = b.add(b.conv(y, channels), x, "RELU")
    return b.build([b.softmax(b.fully_connected(b.mean(x), classes))])


def branching_network(size: int = 16, channels: int = 8, branches: int = 3, wide: int = 2, seed: int = 0) -> Model:
    """A cell whose branches widen before they narrow, written breadth first: the order that needs the most memory.

    Run depth first, only one wide tensor is live at a time.
    """
    b = ModelBuilder(seed)
    x = b.conv(b.input((1, size, size, 3)), channels, 3, activation="RELU6")
    widened = [b.conv(x, channels * wide, 1 + 2 * (i % 2), activation="RELU6") for i in range(branches)]
    narrowed = [b.depthwise(y, 3, 2, activation="RELU6") for y in widened]
    projected = [b.conv(y, channels // 2) for y in narrowed]
    y = b.concat(projected)
    return b.build([b.softmax(b.fully_connected(b.mean(y), 5))])


def cell_network(size: int = 32, channels: int = 8, cells: int = 2, classes: int = 4, seed: int = 0) -> Model:
    """Cells of parallel branches, some reading each other's results, concatenated: what architecture search finds.

    Between the cells the image narrows (NASNet, Zoph et al. 2018, figure 2; SwiftNet, Cheng et al. 2019).
    """
    b = ModelBuilder(seed)
    x = b.conv(b.input((1, size, size, 3)), channels, 3, 2, activation="RELU6")
    for cell in range(cells):
        if cell:
            channels += channels // 2
            x = b.conv(x, channels, 3, 2, activation="RELU6")
        separable = b.conv(b.depthwise(x, 5, activation="RELU6"), channels)
        expanded = b.depthwise(b.conv(x, channels, activation="RELU6"), 3, activation="RELU6")
        bottleneck = b.conv(b.depthwise(b.conv(x, 2 * channels, activation="RELU6"), 3, activation="RELU6"), channels)
        x = b.concat([separable, b.add(expanded, bottleneck), expanded])
    return b.build([b.softmax(b.fully_connected(b.mean(x), classes))])


def gated_network(size: int = 32, channels: int = 8, blocks: int = 2, seed: int = 0) -> Model:
    """Convolutions whose results are multiplied by their own logistic, or by that of another convolution.

    (SiLU as in YOLOv5; gates as in Gated Linear Units, Dauphin et al. 2017.)
    """
    b = ModelBuilder(seed)
    x = b.conv(b.input((1, size, size, 3)), channels, 3, 2)
    for _ in range(blocks):
        x = b.mul(x, b.logistic(x))
        x = b.mul(b.conv(x, channels), b.logistic(b.depthwise(x, 3)))
        x = b.conv(x, channels + 2, 3, 2)
        channels += 2
    return b.build([b.logistic(x)])


def pyramid_network(size: int = 48, channels: int = 8, seed: int = 0) -> Model:
    """A backbone with three outputs of falling resolution, each with a head of its own: a detector.

    (Feature Pyramid Networks, Lin et al. 2017; no operator resizes, so that all of it can be fused.)
    """
    b = ModelBuilder(seed)
    x = b.conv(b.input((1, size, size, 3)), channels, 3, 2, activation="RELU6")
    heads = []
    for _ in range(3):
        x = inverted_residual(b, x, channels, 4, stride=2)
        x = inverted_residual(b, x, channels, 4)
        heads.append(b.conv(b.depthwise(x, 3, activation="RELU6"), 6))
    return b.build(heads)


def u_network(
    size: int = 96,
    channels: tuple[int, ...] = (8, 16, 32, 64),
    *,
    transposed: bool = True,
    classes: int = 2,
    seed: int = 0,
) -> Model:
    """Two convolutions and a pool per level down, and up again beside what each level began with: segmentation.

    (U-Net, Ronneberger et al. 2015; with SAME padding, so that nothing is cropped.)

    Args:
        size: rows and columns of the image, a multiple of two for every level but the last.
        channels: of the levels.
        transposed: images are made larger by TRANSPOSE_CONV, else by RESIZE_BILINEAR and a convolution.
        classes: channels of the result.
    """
    b = ModelBuilder(seed)
    x = b.input((1, size, size, 3))
    skips = []
    for width in channels[:-1]:
        x = _two_convolutions(b, x, width)
        skips.append(x)
        x = b.max_pool(x, 2, 2)
    x = _two_convolutions(b, x, channels[-1])
    for width, skip in zip(reversed(channels[:-1]), reversed(skips), strict=True):
        if transposed:
            x = b.transpose_conv(x, width, activation="RELU")
        else:
            x = b.conv(b.resize(x, (2 * x.shape[1], 2 * x.shape[2]), bilinear=True), width, activation="RELU")
        x = _two_convolutions(b, b.concat([x, skip]), width)
    return b.build([b.conv(x, classes)])


def _two_convolutions(b: ModelBuilder, x: Ref, filters: int) -> Ref:
    return b.conv(b.conv(x, filters, 3, activation="RELU"), filters, 3, activation="RELU")


def neck_network(size: int = 64, channels: int = 8, *, bilinear: bool = False, seed: int = 0) -> Model:
    """A detector whose coarser maps are made larger and joined with the finer ones (as in YOLO's necks)."""
    b = ModelBuilder(seed)
    x = b.conv(b.input((1, size, size, 3)), channels, 3, 2, activation="RELU6")
    maps = []
    for _ in range(3):
        x = inverted_residual(b, x, x.shape[3] + channels, 3, stride=2)
        maps.append(x)
    x, heads = maps.pop(), []
    heads.append(b.conv(x, 6))
    for finer in reversed(maps):
        larger = b.resize(b.conv(x, channels), (finer.shape[1], finer.shape[2]), bilinear=bilinear)
        x = b.conv(b.concat([larger, finer]), channels, 3, activation="RELU6")
        heads.append(b.conv(x, 6))
    return b.build(heads)
