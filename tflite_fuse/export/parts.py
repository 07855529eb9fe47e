"""Parts of the device library that a project's blocks use: kinds of stages, and loops of convolutions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tflite_fuse.emit.options import Options, read_options
from tflite_fuse.emit.structs import StageDesc
from tflite_fuse.ir.enums import StageKind, WeightLayout


@dataclass(frozen=True)
class Parts:
    """The used parts; the numbers are those of ``tflite_fuse_loops.h``.

    Attributes:
        kinds: of stages.
        convolutions: a bit for each layout of weights that loops of convolutions read.
        depthwise: bit 0 for plain weights, bit ``width - 3 + stride`` for packed ones.
    """

    kinds: frozenset[StageKind]
    convolutions: int
    depthwise: int


def parts_of(blocks: Iterable[bytes]) -> Parts:
    """Return the parts that blocks with these options use.

    Raises:
        BlockError: options are damaged.
    """
    kinds = set[StageKind]()
    convolutions = depthwise = 0
    for options in map(read_options, blocks):
        for stage in options.stages:
            kind = StageKind(stage.kind)
            kinds.add(kind)
            convolutions |= _convolution(kind, stage, options)
            depthwise |= _depthwise(kind, stage, options)
    return Parts(frozenset(kinds), convolutions, depthwise)


def _input_extent(stage: StageDesc, options: Options) -> tuple[int, int]:
    """Return pixels and channels of a stage's first input."""
    tensor = options.tensors[options.stage_inputs[stage.first_input]]
    return tensor.height * tensor.width, tensor.channels


def _convolution(kind: StageKind, stage: StageDesc, options: Options) -> int:
    """Return the bit of a convolution's layout.

    Packed weights of a depthwise convolution of one input channel have the convolution's layout. A fully connected
    layer of several pixels sums pixels as they arrive.
    """
    layout = stage.weight_layout
    if kind not in (StageKind.CONV, StageKind.DEPTHWISE, StageKind.FULLY_CONNECTED):
        return 0
    pixels, channels = _input_extent(stage, options)
    if kind is StageKind.DEPTHWISE and (layout == WeightLayout.PLAIN or channels != 1):
        return 0
    if kind is StageKind.FULLY_CONNECTED and layout == WeightLayout.PLAIN and pixels > 1:
        return 0
    return 1 << layout


def _depthwise(kind: StageKind, stage: StageDesc, options: Options) -> int:
    if kind is not StageKind.DEPTHWISE:
        return 0
    if stage.weight_layout == WeightLayout.PLAIN:
        return 1
    return 0 if _input_extent(stage, options)[1] == 1 else 1 << (stage.kernel_width - 3 + stage.stride_width)
