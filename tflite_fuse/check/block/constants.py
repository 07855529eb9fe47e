"""Layout of a block's constants: weights by index arithmetic, tables, padding; every byte must belong to one of them.

Every section starts at a multiple of 16. Gaps between sections have fewer than 16 bytes, all zero; packed weights are
filled up with zeros. Stages that pad with the same value share one pixel of padding of the largest length that a
stage of the block needs; nothing else is shared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tflite_fuse.ir.enums import StageKind, WeightLayout
from tflite_fuse.ir.limits import DEPTHWISE_PIXELS, MAX_LISTED_TAPS, MAX_PATCH_VALUES, MAX_ROW_VALUES, STACK_POINTERS
from tflite_fuse.ir.structs import ALIGNMENT, StageDesc, TensorDesc

Int8s = npt.NDArray[np.int8]
Int64s = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]


class MissingError(Exception):
    """A section lies outside the constants or is not aligned."""


class Constants:
    """The bytes of the constant tensor, with a record of the sections that were read."""

    def __init__(self, data: bytes | Int8s) -> None:
        self._data = np.frombuffer(data, np.int8) if isinstance(data, bytes) else data
        self._taken: list[tuple[int, int, str]] = []
        self._pads: dict[int, int] = {}

    def copy(self) -> Constants:
        """Return the same bytes without the record."""
        return Constants(self._data)

    def adopt(self, copy: Constants) -> None:
        """Add the record of a copy."""
        self._taken += copy._taken
        for offset, channels in copy._pads.items():
            self._pads[offset] = max(channels, self._pads.get(offset, 0))

    def take(self, offset: int, size: int, what: str) -> Int8s:
        """Return ``size`` bytes at ``offset``, which no other section may use.

        Raises:
            MissingError: the section is out of range or not aligned.
        """
        if offset < 0 or offset % ALIGNMENT or offset + size > len(self._data):
            raise MissingError(f"{what} of {size} bytes at byte {offset} of {len(self._data)}")
        self._taken.append((offset, size, what))
        return self._data[offset : offset + size]

    def table(self, offset: int, numbers: int, what: str) -> Int64s:
        """Return int32 numbers as int64."""
        return self.take(offset, 4 * numbers, what).view("<i4").astype(np.int64)

    def pad(self, offset: int, channels: int) -> Int8s:
        """Return one pixel of padding, which stages may share."""
        if offset < 0 or offset % ALIGNMENT or offset + channels > len(self._data):
            raise MissingError(f"padding of {channels} bytes at byte {offset} of {len(self._data)}")
        self._pads[offset] = max(channels, self._pads.get(offset, 0))
        return self._data[offset : offset + channels]

    def problems(self) -> list[str]:
        """Return sections that overlap, gaps that are too long or not zero, and padding that is not uniform."""
        problems: list[str] = []
        sections: dict[int, tuple[int, str]] = {}
        for offset, size, what in self._taken:
            if offset in sections:
                problems.append(f"{what} and {sections[offset][1]} lie at the same place, byte {offset}")
            sections[offset] = (size, what)
        longest = max(self._pads.values(), default=0)
        values: dict[int, int] = {}
        for offset in self._pads:
            pixel = self._data[offset : offset + longest]
            if offset in sections:
                problems.append(f"padding and {sections[offset][1]} lie at the same place, byte {offset}")
            if len(pixel) < longest or (pixel != pixel[:1]).any():
                problems.append(f"the padding at byte {offset} is not {longest} equal bytes")
            elif values.setdefault(int(pixel[0]), offset) != offset:
                problems.append(f"the padding at byte {offset} is there twice")
            sections[offset] = (longest, "padding")
        end = 0
        for offset, (size, what) in sorted(sections.items()):
            problems += self._gap(end, offset, what)
            end = max(end, offset + size)
        # TFLite has no empty tensors: a block without constants has 16 bytes of zeros.
        return problems + self._gap(end, max(ALIGNMENT, -(-end // ALIGNMENT) * ALIGNMENT), "the end", at_end=True)

    def _gap(self, end: int, start: int, what: str, *, at_end: bool = False) -> list[str]:
        if at_end and start != len(self._data):
            return [f"the constants have {len(self._data)} bytes, their sections end at byte {end}"]
        if start < end or (start - end >= ALIGNMENT and not (at_end and end == 0)):
            return [f"{what} starts at byte {start}, the section before it ends at byte {end}"]
        filled = np.flatnonzero(self._data[end:start])
        return [f"byte {end + int(filled[0])} in front of {what} is in no section and is not 0"] if len(filled) else []


# ---- Layouts ----


def layout_of(kind: StageKind, stage: StageDesc, source: TensorDesc, fits_down: bool) -> int:
    """Return the ``WeightLayout`` that the format prescribes: packed where the fast kernels support it.

    Args:
        fits_down: whether every channel can be requantized by a shift to the right (see ``expected_table``).
    """
    if kind is StageKind.FULLY_CONNECTED and source.height * source.width > 1:
        # Plain, too, in files of 0.4 and before.
        is_packed = stage.weight_layout == WeightLayout.PACKED and source.channels % 4 == 0
        return WeightLayout.PACKED if is_packed else WeightLayout.PLAIN
    if kind not in (StageKind.CONV, StageKind.DEPTHWISE, StageKind.FULLY_CONNECTED):
        return WeightLayout.PLAIN
    rows, columns = stage.kernel_height, stage.kernel_width
    if packed_by_quads(kind, source):
        row = columns * source.channels
        if source.channels % 4 == 0:
            packs = rows * columns <= MAX_LISTED_TAPS
        else:
            packs = rows * _up(row, 4) <= MAX_PATCH_VALUES and (columns == 1 or row <= MAX_ROW_VALUES)
    else:
        pointers = rows * ((DEPTHWISE_PIXELS - 1) * stage.stride_width + columns) + 1 + DEPTHWISE_PIXELS
        packs = (
            stage.depth_multiplier == 1
            and rows == columns
            and columns in (3, 5, 7)
            and stage.stride_width in (1, 2)
            and stage.dilation_width == 1
            and pointers <= STACK_POINTERS
        )
    return (WeightLayout.PACKED_DOWN if fits_down else WeightLayout.PACKED) if packs else WeightLayout.PLAIN


def may_be_halfwords(kind: StageKind, layout: int, source: TensorDesc) -> bool:
    """Return whether the encoder may store weights of this layout in 16 bits."""
    return layout == WeightLayout.PACKED_DOWN and packed_by_quads(kind, source)


def packed_by_quads(kind: StageKind, source: TensorDesc) -> bool:
    """Return whether packed weights have the layout of the convolution kernel."""
    return kind is not StageKind.DEPTHWISE or source.channels == 1


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


@dataclass(frozen=True)
class Places:
    """Positions of a stage's weights within their section.

    Attributes:
        index: byte of weight [output channel, tap row, tap column, input channel].
        size: bytes of the section; bytes without an index are zero.
    """

    index: Indices
    size: int


def in_int16(places: Places) -> Places:
    """Return the positions of 16-bit weights, in elements: the middle two of every four are swapped."""
    place = places.index % 4
    return Places(places.index - place + place % 2 * 2 + place // 2, places.size)


def single_weights(halfwords: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
    """Return the 8-bit weights of halfwords that hold two channels each.

    A weight is 128 where no pair of int8 gives the halfword.
    """
    quads = halfwords.astype(np.int32).reshape(-1, 2, 2)  # values [(0, 2), (1, 3)]
    second = (quads + 128) % 256 - 128
    both = np.stack([(quads - second) // 256, second], axis=1)
    return both.transpose(0, 1, 3, 2).astype(np.int16).ravel()


def weight_places(kind: StageKind, layout: int, shape: tuple[int, int, int, int], source: TensorDesc) -> Places:
    """Return the byte of each weight within its section.

    Args:
        shape: output channels, tap rows, tap columns, input channels of the filter.
    """
    channels, rows, columns, depth = shape
    c, y, x, i = np.ogrid[:channels, :rows, :columns, :depth]
    if layout == WeightLayout.PLAIN and kind is StageKind.DEPTHWISE:
        return Places((y * columns + x) * channels + c + i, rows * columns * channels)
    if layout == WeightLayout.PLAIN:
        return Places(((c * rows + y) * columns + x) * depth + i, channels * rows * columns * depth)
    if packed_by_quads(kind, source):
        # Pairs of channels take turns in words of four values; each row of taps is filled up to whole words.
        row = _up(columns * depth, 4)
        value = y * row + x * depth + i
        pair = 2 * rows * row
        return Places(c // 2 * pair + value // 4 * 8 + c % 2 * 4 + value % 4, _up(channels, 2) // 2 * pair)
    # Pairs of rows: each word holds two columns of the upper row, then of the lower one. An odd row comes last.
    both, last = 2 * _up(columns, 2), _up(columns, 4)
    each = rows // 2 * both + rows % 2 * last
    in_pair = y // 2 * both + x // 2 * 4 + y % 2 * 2 + x % 2
    in_last = rows // 2 * both + x
    return Places(c * each + np.where((y == rows - 1) & (rows % 2 == 1), in_last, in_pair) + i, channels * each)
