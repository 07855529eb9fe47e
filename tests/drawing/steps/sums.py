"""Convolutions cut by input channels, as the devices of a split compute them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from tflite_fuse.ir.block import Stage, StageKind

if TYPE_CHECKING:
    from tests.drawing.random_blocks import BlockMaker


def draw_sums(maker: BlockMaker) -> None:
    """Parts of a convolution, each with weights of its own, and their sum as int8, now and then of three."""
    stage, (height, width) = maker.window(StageKind.CONV)
    channels, out, newest = maker.source.channels, maker.rng.choice([1, 2, 3, 5, 8]), maker.newest
    part = replace(stage, kind=StageKind.CONV_SUMS)
    table, bias = maker.requantization(out, channels * math.prod(stage.kernel_size)), maker.bias(out)

    def summed(of: Stage) -> int:
        """Every byte is one: nothing is clamped."""
        maker.add_stage(of, (height, width, 4 * out))
        maker.stages[-1] = replace(maker.stages[-1], activation_min=-128, activation_max=127)
        return maker.newest

    def another() -> int:
        maker.newest = newest
        return summed(replace(part, weights=maker.weights(out, *stage.kernel_size, channels)))

    found = another()
    if maker.rng.random() < 0.3:
        found = summed(Stage(StageKind.ADD_SUMS, (found, another()), -1))
    inputs = found, another()
    last = Stage(StageKind.ADD_SUMS, inputs, -1, requantization=table, bias=bias)
    maker.add_stage(last, (height, width, out))
