"""What the layers of a growing block ask of the tensors they read, under many tilings at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tflite_fuse.fusion.block.axes import (
    PIXEL,
    AxisWindow,
    IntArray,
    Ranges,
    Tilings,
    Windows,
    longest,
    needed,
    union,
)
from tflite_fuse.fusion.block.stages import BlockTensor


@dataclass(frozen=True)
class Grid:
    """Every tile height of the driven tensor with every tile width; arrays over both are [heights, widths]."""

    heights: Tilings
    widths: Tilings

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.heights.sizes), len(self.widths.sizes)

    def is_whole(self, driven: BlockTensor) -> npt.NDArray[np.bool_]:
        """Where one tile covers the whole driven tensor, [heights, widths]."""
        return np.logical_and.outer(self.heights.sizes >= driven.height, self.widths.sizes >= driven.width)


class Reach(NamedTuple):
    """Rows (or columns) of a tensor in play while the driven tensor is at p: ``p * scale`` − behind … + ahead.

    All three count parts of a position, ``per`` of which are one: more than one where a stage between makes images
    larger. Then positions lie within these bounds, not at them.
    """

    scale: int = 1
    behind: int = 0
    ahead: int = 0
    per: int = 1

    def through(self, window: AxisWindow) -> Reach:
        """The reach a stage needs of its input, given that of its output."""
        scale, behind = self.scale * window.stride, self.behind * window.stride + window.padding * self.per
        ahead, per = self.ahead * window.stride + window.ahead * self.per, self.per * window.spread
        shared = gcd(scale, behind, ahead, per)
        return Reach(scale // shared, behind // shared, ahead // shared, per // shared)

    @property
    def rate(self) -> tuple[int, int]:
        """Positions per position of the driven tensor, as a fraction in lowest terms."""
        shared = gcd(self.scale, self.per)
        return self.scale // shared, self.per // shared

    def in_units(self, per: int) -> Reach:
        """The same in parts of a position, a multiple of its own."""
        more = per // self.per
        return Reach(self.scale * more, self.behind * more, self.ahead * more, per)


Reaches = tuple[Reach, Reach]
"""Of rows and columns."""


@dataclass(frozen=True)
class Consumer:
    """One stage that reads a tensor.

    Attributes:
        layer: its index.
        windows: how it looks at the tensor's rows and columns.
        reaches: those of what it writes, rows and columns.
    """

    layer: int
    windows: Windows
    reaches: Reaches = (Reach(), Reach())

    @cached_property
    def asked(self) -> Reaches:
        """The reaches it needs of the tensor, rows and columns."""
        (rows, columns), (above, beside) = self.windows, self.reaches
        return above.through(rows), beside.through(columns)

    def behind_padding(self, padding: tuple[int, int]) -> Consumer:
        """The same stage with so many more rows and columns of padding before its input."""
        rows, columns = (window.padded(more) for window, more in zip(self.windows, padding, strict=True))
        return Consumer(self.layer, (rows, columns), self.reaches)


class Demand(NamedTuple):
    """What the layers visited so far ask of one tensor.

    Attributes:
        extent: the tensor's, or that of the view under which a block reads its input.
        rows, columns: what every tile asks for.
        consumers: who asks.
        oldest: for each row of the driven tensor, the first row that it and those below it ask for; None where nobody
            wants to know.
    """

    extent: BlockTensor
    rows: Ranges
    columns: Ranges
    consumers: tuple[Consumer, ...] = ()
    oldest: IntArray | None = None

    def under(self, windows: Windows, source: BlockTensor, *consumers: Consumer) -> Demand:
        """What a stage that writes the tensor asks of a ``source`` it looks at so."""
        if windows == (PIXEL, PIXEL) and (self.extent.height, self.extent.width) == (source.height, source.width):
            return Demand(source, self.rows, self.columns, consumers, self.oldest)
        rows = needed(self.rows, windows[0], source.height)
        oldest = None if self.oldest is None else np.maximum(windows[0].first(self.oldest), 0)
        return Demand(source, rows, needed(self.columns, windows[1], source.width), consumers, oldest)

    def joined(self, other: Demand) -> Demand:
        """What both ask for."""
        rows, columns = union(self.rows, other.rows), union(self.columns, other.columns)
        both = None if self.oldest is None or other.oldest is None else np.minimum(self.oldest, other.oldest)
        return Demand(other.extent, rows, columns, self.consumers + other.consumers, both)

    def largest(self, grid: Grid) -> tuple[IntArray, IntArray]:
        """Rows and columns of the largest region of each tiling, [heights, 1] and [widths]."""
        return longest(self.rows, grid.heights)[:, None], longest(self.columns, grid.widths)
