"""How the reference looks through windows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tflite_fuse.fusion.block.arithmetic import Int64Array
from tflite_fuse.fusion.block.stages import BlockTensor, Stage


def taps(stage: Stage, source: Int64Array, output: BlockTensor, fill: int) -> Iterator[tuple[int, int, Int64Array]]:
    """Each tap (ky, kx) of a window stage and what it sees: int64 [Hout, Wout, Cin], ``fill`` outside the input."""
    (top, left), (stride_y, stride_x) = stage.padding, stage.stride
    last_row, last_column = (output.height - 1) * stride_y, (output.width - 1) * stride_x
    bottom = max(0, last_row + stage.extent[0] - top - source.shape[0])
    right = max(0, last_column + stage.extent[1] - left - source.shape[1])
    padded = np.pad(source, ((top, bottom), (left, right), (0, 0)), constant_values=fill)
    for ky in range(stage.kernel_size[0]):
        for kx in range(stage.kernel_size[1]):
            y, x = ky * stage.dilation[0], kx * stage.dilation[1]
            yield ky, kx, padded[y : y + last_row + 1 : stride_y, x : x + last_column + 1 : stride_x]
