"""How many pixels a block's FIFO holds, from windows alone.

One reader: a k x k window sliding over rows of w pixels needs the last ``(k − 1) * w + k`` of them, more by the chunk.

Several readers (a residual's skip) keep pixels until the slowest has read them. How far apart they are follows from the
windows too. While the driven tensor is computed at row p, a tensor reaches from row ``p * scale − behind``, where the
first window of a tile begins, to row ``p * scale + ahead``, up to which it is filled. What separates two readers then
does not depend on p. It is largest in one of two moments: in mid-tile, when one reader is about to catch up with what
another has pulled; or at the start of a tile, when one reader has pulled all it needs and another has not begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tflite_fuse.fusion.block.axes import AxisWindow, IntArray, Windows


@dataclass(frozen=True)
class Reach:
    """Rows (or columns) of a tensor in play while the driven tensor is at p: ``p * scale`` − behind … + ahead."""

    scale: int = 1
    behind: int = 0
    ahead: int = 0

    def through(self, window: AxisWindow) -> Reach:
        """The reach a stage needs of its input, given that of its output."""
        return Reach(
            self.scale * window.stride,
            self.behind * window.stride + window.padding,
            window.end(self.ahead + 1) - 1,
        )


Reaches = tuple[Reach, Reach]
"""Of rows and columns."""


@dataclass(frozen=True)
class Reader:
    """One stage that reads a tensor.

    Attributes:
        layer: its index.
        windows: how it looks at the tensor's rows and columns.
        reaches: those of what it writes, rows and columns.
        asked: those it needs of the tensor, rows and columns.
    """

    layer: int
    windows: Windows
    reaches: Reaches
    asked: Reaches

    def next_needed(self, axis: int, join: Reach, step: int) -> int:
        """Relative to p, the oldest position it still needs in mid-tile.

        The stage where all paths meet moves on by ``step``; this reader's output is about to.
        """
        reach, window = self.reaches[axis], self.windows[axis]
        return window.first(reach.ahead - step * (reach.scale // join.scale) + 1)


def make_reader(layer: int, windows: Windows, reaches: Reaches) -> Reader:
    """A reader whose output has the given reaches."""
    return Reader(layer, windows, reaches, (reaches[0].through(windows[0]), reaches[1].through(windows[1])))


def add_padding(reader: Reader, padding: tuple[int, int]) -> Reader:
    """The same stage with so many more rows and columns of padding before its input."""
    (rows, columns), (top, left) = reader.windows, padding
    windows = replace(rows, padding=rows.padding + top), replace(columns, padding=columns.padding + left)
    return make_reader(reader.layer, windows, reader.reaches)


def joint_reaches(readers: Sequence[Reader]) -> Reaches:
    """The reaches of a tensor: what all its readers need."""
    if len(readers) == 1:
        return readers[0].asked
    rows, columns = (
        Reach(asked[0].scale, max(each.behind for each in asked), max(each.ahead for each in asked))
        for asked in zip(*(reader.asked for reader in readers), strict=True)
    )
    return rows, columns


def fifo_pixels(readers: Sequence[Reader], join: Reaches, height: IntArray, width: IntArray, chunk: int) -> IntArray:
    """Capacity of a FIFO in pixels.

    Args:
        readers: every stage that reads it.
        join: reaches of the tensor where all readers' paths meet again, rows and columns (one reader: unused).
        height, width: extent of its region, arrays that broadcast against each other.
        chunk: output pixels a stage computes per step.
    """
    region: IntArray = height * width
    if len(readers) == 1:
        rows, columns = readers[0].windows
        lag, span = rows.extent - 1, (chunk - 1) * columns.stride + columns.extent
        return np.minimum(region, lag * width + np.minimum(width, span), out=region)
    if any(len({reader.asked[axis].scale for reader in readers}) > 1 for axis in (0, 1)):
        return region
    separations = [_in_mid_tile(readers, join, chunk), _at_the_start(readers, join, chunk)]
    return np.minimum(region, np.maximum.reduce([lag * width + np.minimum(width, span) for lag, span in separations]))


def _in_mid_tile(readers: Sequence[Reader], join: Reaches, chunk: int) -> tuple[int, int]:
    """Full rows between the slowest reader and the newest pixel, and pixels in the row."""
    (lag, span) = (
        max(reader.asked[axis].ahead for reader in readers)
        - min(reader.next_needed(axis, join[axis], step) for reader in readers)
        for axis, step in ((0, 1), (1, chunk))
    )
    return lag, span + 1


def _at_the_start(readers: Sequence[Reader], join: Reaches, chunk: int) -> tuple[int, int]:
    """The same when one reader has pulled all it needs for the first step and another has not begun."""
    pairs = [(quick, slow) for quick in readers for slow in readers if quick is not slow]
    (lag, span) = (
        max(quick.asked[axis].ahead + slow.asked[axis].behind for quick, slow in pairs)
        - (join[axis].ahead + join[axis].behind) * (readers[0].asked[axis].scale // join[axis].scale)
        for axis in (0, 1)
    )
    return lag, span + (chunk - 1) * (readers[0].asked[1].scale // join[1].scale) + 1
