"""Small networks of the common families on microcontrollers, for tests and benchmarks.

All functions return the model; sizes are arguments, so tests stay quick.
"""

from __future__ import annotations

from collections.abc import Sequence

from scripts.zoo.builder import ModelBuilder
from scripts.zoo.recording import Ref
from tflite_fuse.model.schema import Model


def inverted_residual_network(
    size: int = 32, channels: int = 8, expansion: int = 4, blocks: int = 3, classes: int = 10, seed: int = 0
) -> Model:
    """Return a stem of stride 2, inverted residual blocks (every second one of stride 2), mean, classifier, softmax.

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
    """Add expand, depthwise, project; the input is added where shapes agree."""
    y = b.conv(x, x.shape[3] * expansion, activation="RELU6")
    y = b.depthwise(y, kernel, stride, padding, "RELU6")
    y = b.conv(y, filters)
    return b.add(x, y) if x.shape == y.shape else y


def one_dimensional_network(
    length: int = 64, channels: int = 8, blocks: int = 3, classes: int = 4, along_rows: bool = False, seed: int = 0
) -> Model:
    """Return separable 1-D convolutions of growing dilation over a signal, mean, classifier, softmax.

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
    """Return a cell whose branches widen before they narrow, breadth first: the order that needs the most memory.

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
    """Return cells of parallel branches, some reading each other's results, concatenated, as in NASNet.

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
    """Return convolutions whose results are multiplied by their own logistic, or by that of another convolution.

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
    """Return a backbone with three outputs of falling resolution, each with a head of its own: a detector.

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


def wide_network(size: int = 20, channels: int = 20, classes: int = 4, seed: int = 0) -> Model:
    """Return residual blocks of 3 x 3 convolutions that double their channels, with pools; each pixel gets a class."""
    b = ModelBuilder(seed)
    x = b.conv(b.input((1, size, size, 3)), channels, 5, 2, activation="RELU6")
    for _ in range(2):
        y = b.conv(x, x.shape[3], 3, activation="RELU")
        x = b.add(b.conv(y, x.shape[3], 3), x)
        x = b.conv(b.average_pool(x, 2, 2), 2 * x.shape[3], 3, activation="RELU")
    x = b.depthwise(x, (3, 1), activation="RELU")
    x = b.fully_connected(b.reshape(x, (1, x.shape[1] * x.shape[2] * x.shape[3])), classes)
    return b.build([b.softmax(x)])


def dense_network(layers: Sequence[int] = (64, 48, 5, 48, 30), seed: int = 0) -> Model:
    """Return an autoencoder of fully connected layers; ``layers``: the input's values and each layer's channels."""
    b = ModelBuilder(seed)
    x = b.input((1, layers[0]))
    for channels in layers[1:]:
        x = b.fully_connected(x, channels)
    return b.build([x])


def u_network(
    size: int = 96,
    channels: tuple[int, ...] = (8, 16, 32, 64),
    *,
    transposed: bool = True,
    classes: int = 2,
    seed: int = 0,
) -> Model:
    """Return two convolutions and a pool per level down, and up again beside what each level began with: segmentation.

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
    """Return a detector whose coarser maps are made larger and joined with the finer ones (as in YOLO's necks)."""
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


EFFICIENT_STAGES = (
    (1, 8, 1, 1, 3),
    (6, 12, 2, 2, 3),
    (6, 20, 2, 2, 5),
    (6, 40, 3, 2, 3),
    (6, 56, 3, 1, 5),
    (6, 96, 2, 2, 5),
)
"""Of EfficientNet-B0 at half its width: expansion, channels, repeats, stride, kernel."""


def efficient_network(
    size: int = 128,
    stages: Sequence[tuple[int, int, int, int, int]] = EFFICIENT_STAGES,
    *,
    stem: int = 16,
    classes: int = 10,
    seed: int = 0,
) -> Model:
    """Return inverted residuals with squeeze-and-excite and HARD_SWISH, mean, classifier, softmax.

    (EfficientNet, Tan and Le 2019, table 1; Squeeze-and-Excitation Networks, Hu et al. 2018; Searching for MobileNetV3,
    Howard et al. 2019.)

    Args:
        size: rows and columns of the image.
        stages: expansion, channels, repeats, stride of the first, kernel.
        stem: channels of the first convolution.
    """
    b = ModelBuilder(seed)
    x = b.hard_swish(b.conv(b.input((1, size, size, 3)), stem, 3, 2))
    for expansion, channels, repeats, stride, kernel in stages:
        for index in range(repeats):
            y = b.hard_swish(b.conv(x, x.shape[3] * expansion)) if expansion > 1 else x
            y = b.hard_swish(b.depthwise(y, kernel, stride if index == 0 else 1))
            y = b.conv(squeeze_excite(b, y, max(1, x.shape[3] // 4)), channels)
            x = b.add(x, y) if x.shape == y.shape else y
    x = b.hard_swish(b.conv(x, 4 * x.shape[3]))
    return b.build([b.softmax(b.fully_connected(b.mean(x), classes))])


def squeeze_excite(b: ModelBuilder, x: Ref, squeezed: int) -> Ref:
    """Add every channel times a factor between 0 and 1 that two layers make of all channels' means."""
    gate = b.conv(b.mean(x, keep_dims=True), squeezed, activation="RELU")
    return b.mul(x, b.logistic(b.conv(gate, x.shape[3])))


def yolo_network(size: int = 224, channels: int = 16, *, classes: int = 1, seed: int = 0) -> Model:
    """Return a detector of three scales with SiLU convolutions, spatial pyramid pooling and a neck of both ways.

    (YOLOv5, version 6, at a third of its depth: its smallest has 16 channels first.)

    Args:
        size: rows and columns of the image, a multiple of 32.
        channels: of the first convolution.
        classes: what is told apart; every scale has three boxes of 5 numbers and these.
    """
    b = ModelBuilder(seed)
    x = _silu(b, b.input((1, size, size, 3)), channels, 6, 2, 2)
    maps = []
    for width, depth in ((2, 1), (4, 2), (8, 3), (16, 1)):
        x = _partial(b, _silu(b, x, width * channels, 3, 2, 1), width * channels, depth)
        maps.append(x)
    x = _silu(b, _pyramid_pooling(b, maps[3]), 8 * channels)
    joints = [x]
    for finer, width in ((maps[2], 8), (maps[1], 4)):
        x = b.concat([b.resize(x, (2 * x.shape[1], 2 * x.shape[2])), finer])
        x = _partial(b, x, width * channels, 1, residual=False)
        if width > 4:
            x = _silu(b, x, width // 2 * channels)
            joints.append(x)
    heads = [x]
    for coarser, width in zip(reversed(joints), (8, 16), strict=True):
        x = b.concat([_silu(b, x, width // 2 * channels, 3, 2, 1), coarser])
        x = _partial(b, x, width * channels, 1, residual=False)
        heads.append(x)
    return b.build([b.logistic(b.conv(head, 3 * (5 + classes))) for head in heads])


def _silu(b: ModelBuilder, x: Ref, filters: int, kernel: int = 1, stride: int = 1, pad: int | None = None) -> Ref:
    x = b.conv(x, filters, kernel, stride, "SAME" if pad is None else (pad, pad, pad, pad))
    return b.mul(x, b.logistic(x))


def _partial(b: ModelBuilder, x: Ref, filters: int, depth: int, *, residual: bool = True) -> Ref:
    """Add half of the channels through bottlenecks, the other half past them (CSPNet, Wang et al. 2020)."""
    y, past = _silu(b, x, filters // 2), _silu(b, x, filters // 2)
    for _ in range(depth):
        z = _silu(b, _silu(b, y, filters // 2), filters // 2, 3)
        y = b.add(y, z) if residual else z
    return _silu(b, b.concat([y, past]), filters)


def _pyramid_pooling(b: ModelBuilder, x: Ref) -> Ref:
    """Add a map beside its maxima over windows of growing size."""
    maps = [_silu(b, x, x.shape[3] // 2)]
    for _ in range(3):
        maps.append(b.max_pool(maps[-1], 5, 1, "SAME"))
    return _silu(b, b.concat(maps), x.shape[3])


def mobile_network(size: int = 96, width: float = 0.25, classes: int = 10, seed: int = 0) -> Model:
    """Return MobileNetV1 (Howard et al. 2017, table 1): depthwise and pointwise convolutions in turn, softmax."""
    b = ModelBuilder(seed)
    x = b.conv(b.input((1, size, size, 3)), int(32 * width), 3, 2, activation="RELU6")
    separable = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
    for filters, stride in separable:
        x = b.conv(b.depthwise(x, 3, stride, activation="RELU6"), int(filters * width), activation="RELU6")
    return b.build([b.softmax(b.fully_connected(b.mean(x), classes))])


def keyword_network(
    steps: int = 49, features: int = 10, channels: int = 64, blocks: int = 4, classes: int = 12, seed: int = 0
) -> Model:
    """Return depthwise separable convolutions over a window of features, padded along features and not along time.

    The DS-CNN of Zhang et al. 2017, "Hello Edge", with windows that stay inside the image's rows.
    """
    b = ModelBuilder(seed)
    beside = (0, 0, 1, 1)
    x = b.conv(b.input((1, steps, features, 1)), channels, (10, 4), 2, beside, "RELU")
    for _ in range(blocks):
        x = b.depthwise(x, 3, 1, beside, "RELU")
        x = b.conv(x, channels, activation="RELU")
    image = x.shape[1], x.shape[2]
    x = b.reshape(b.average_pool(x, image, image, "VALID"), (1, channels))
    return b.build([b.softmax(b.fully_connected(x, classes))])


def spectrogram_network(
    bands: int = 40, steps: int = 98, channels: int = 64, blocks: int = 4, classes: int = 12, seed: int = 0
) -> Model:
    """Return depthwise separable convolutions over a spectrogram of bands by time, which is wider than high."""
    b = ModelBuilder(seed)
    x = b.conv(b.input((1, bands, steps, 1)), channels, (4, 10), 2, "SAME", "RELU")
    for _ in range(blocks):
        x = b.conv(b.depthwise(x, 3, 1, "SAME", "RELU"), channels, activation="RELU")
    return b.build([b.softmax(b.fully_connected(b.mean(x), classes))])


def temporal_network(
    dilations: Sequence[int] = (1, 2, 4, 8, 1, 2, 4, 8), kernel: int = 3, channels: int = 64, seed: int = 0
) -> Model:
    """Return a temporal convolutional network: dilated convolutions over the steps that the last output needs."""
    b = ModelBuilder(seed)
    x = b.input((1, 1 + (kernel - 1) * sum(dilations), 1, channels))
    for dilation in dilations:
        x = b.conv(x, channels, (kernel, 1), 1, "VALID", "RELU", dilation=(dilation, 1))
    return b.build([x])
