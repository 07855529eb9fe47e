"""The networks of the paper on fused inverted residual blocks, at any resolution.

"MobileNetV2-like" is described as one convolution, seven inverted residual blocks and a linear head of about 340 k
parameters; its channel widths are not printed. Here they are MobileNetV2's own, 16, 24, 32, 64, 96 and 160, at its
strides and its expansion (1 for the first block, 6 for the others), the 64 channels twice, as MobileNetV2 repeats them,
too: 310 k weights and biases, and the head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Layers = list[dict[str, Any]]

CLASSES = {128: 10, 256: 43, 320: 5}
"""What the paper's data sets tell apart, by the side of their pictures: CIFAR10, GTSRB, flowers."""

BLOCKS = ((16, 1, 1), (24, 6, 2), (32, 6, 2), (64, 6, 2), (64, 6, 1), (96, 6, 1), (160, 6, 2))
"""Output channels, expansion and stride of the seven blocks."""


def mobilenet_v2_like(side: int) -> dict[str, Any]:
    """Return the paper's first network for square pictures."""
    layers: Layers = [_conv("conv", 3, 2, 32)]
    channels = 32
    for width, expansion, stride in BLOCKS:
        entry = len(layers) - 1
        if expansion > 1:
            layers.append(_conv("pw", 1, 1, channels * expansion))
        layers.append(_conv("dw", 3, stride, channels * expansion))
        layers.append(_conv("pw", 1, 1, width, "none"))
        if stride == 1 and width == channels:
            layers.append({"op": "add", "residual_from": entry, "activation": "none"})
        channels = width
    head: Layers = [{"op": "avgpool"}, {"op": "fc", "cout": CLASSES[side]}]
    return at_resolution({"name": "MobileNetV2-like", "input": [side, side, 3], "layers": [*layers, *head]}, side)


def at_resolution(network: Mapping[str, Any], side: int, classes: int | None = None) -> dict[str, Any]:
    """Return a layer list for square pictures of another side: extents worked out again, a head for so many classes.

    Pooling at the end covers whatever is left of the picture. ``classes`` are the data set's unless given.
    """
    size, layers = [side, side, 3], []
    for layer in network["layers"]:
        described = {"kernel": 1, "stride": 1, "pad": [0, 0, 0, 0], **layer, "cin": size[2], "in": size}
        if layer["op"] == "avgpool":
            described |= {"kernel": size[:2], "stride": size[:2], "pad": [0, 0, 0, 0]}
        if layer["op"] == "fc":
            described |= {"cout": classes or CLASSES[side]}
        size = _output(described, size)
        layers.append({**described, "cout": size[2], "out": size})
    return {**network, "input": [side, side, 3], "layers": layers}


def parameters(network: Mapping[str, Any]) -> int:
    """Return weights and biases, batch norm folded."""
    return sum(_parameters(layer) for layer in network["layers"])


def _parameters(layer: Mapping[str, Any]) -> int:
    if layer["op"] not in ("conv", "pw", "dw", "fc"):
        return 0
    kernel = layer.get("kernel", 1) ** 2
    inputs = 1 if layer["op"] == "dw" else layer["cin"]
    return int((kernel * inputs + 1) * layer["cout"])


def _conv(op: str, kernel: int, stride: int, cout: int, activation: str = "relu6") -> dict[str, Any]:
    pad = [kernel // 2] * 4
    return {"op": op, "kernel": kernel, "stride": stride, "pad": pad, "cout": cout, "activation": activation}


def _output(layer: Mapping[str, Any], size: Sequence[int]) -> list[int]:
    """Return height, width and channels behind a layer."""
    if layer["op"] == "add":
        return list(size)
    if layer["op"] in ("avgpool", "fc"):
        return [1, 1, layer.get("cout", size[2]) if layer["op"] == "fc" else size[2]]
    top, bottom, left, right = layer["pad"]
    kernel, stride = layer["kernel"], layer["stride"]
    height = (size[0] + top + bottom - kernel) // stride + 1
    return [height, (size[1] + left + right - kernel) // stride + 1, layer["cout"]]
