"""A block's constants: weights unpacked by index arithmetic, tables, padding, and what bytes none of them explains.

Every section starts at a multiple of 16. Between sections lie fewer than 16 bytes, all zero; weights that are packed
are filled up with zeros. Stages that pad with the same value share one pixel of padding, as long as the longest any
stage of the block needs; nothing else is shared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tflite_fuse.emit.structs import ALIGNMENT, StageDesc, TensorDesc
from tflite_fuse.ir.enums import StageKind, WeightLayout
from tflite_fuse.ir.limits import DEPTHWISE_PIXELS, MAX_LISTED_TAPS, MAX_PATCH_VALUES, MAX_ROW_VALUES, STACK_POINTERS

Int8s = npt.NDArray[np.int8]
Int64s = npt.NDArray[np.int64]
Indices = npt.NDArray[np.intp]


class MissingError(Exception):
    """A section lies outside the constants, or where none may start."""


class Constants:
    """The bytes of the constant tensor; remembers which of them were read, and as what."""

    def __init__(self, data: bytes | Int8s) -> None:
        self._data = np.frombuffer(data, np.int8) if isinstance(data, bytes) else data
        self._taken: list[tuple[int, int, str]] = []
        self._pads: dict[int, int] = {}

    def copy(self) -> Constants:
        """The same bytes, of which nothing was read yet."""
        return Constants(self._data)

    def adopt(self, copy: Constants) -> None:
        """What was read of a copy was read of these."""
        self._taken += copy._taken
        for offset, channels in copy._pads.items():
            self._pads[offset] = max(channels, self._pads.get(offset, 0))

    def take(self, offset: int, size: int, what: str) -> Int8s:
        """``size`` bytes that nothing else uses.

        Raises:
            MissingError: they are not there, or do not start where a section may.
        """
        if offset < 0 or offset % ALIGNMENT or offset + size > len(self._data):
            raise MissingError(f"{what} of {size} bytes at byte {offset} of {len(self._data)}")
        self._taken.append((offset, size, what))
        return self._data[offset : offset + size]

    def table(self, offset: int, numbers: int, what: str) -> Int64s:
        """int32 numbers."""
        return self.take(offset, 4 * numbers, what).view("<i4").astype(np.int64)

    def pad(self, offset: int, channels: int) -> Int8s:
        """One pixel of padding, which other stages may share."""
        if offset < 0 or offset % ALIGNMENT or offset + channels > len(self._data):
            raise MissingError(f"padding of {channels} bytes at byte {offset} of {len(self._data)}")
        self._pads[offset] = max(channels, self._pads.get(offset, 0))
        return self._data[offset : offset + channels]

    def problems(self) -> list[str]:
        """What is wrong with the constants as a whole."""
        found: list[str] = []
        sections: dict[int, tuple[int, str]] = {}
        for offset, size, what in self._taken:
            if offset in sections:
                found.append(f"{what} and {sections[offset][1]} lie at the same place, byte {offset}")
            sections[offset] = (size, what)
        longest = max(self._pads.values(), default=0)
        values: dict[int, int] = {}
        for offset in self._pads:
            pixel = self._data[offset : offset + longest]
            if offset in sections:
                found.append(f"padding and {sections[offset][1]} lie at the same place, byte {offset}")
            if len(pixel) < longest or (pixel != pixel[:1]).any():
                found.append(f"the padding at byte {offset} is not {longest} equal bytes")
            elif values.setdefault(int(pixel[0]), offset) != offset:
                found.append(f"the padding at byte {offset} is there twice")
            sections[offset] = (longest, "padding")
        end = 0
        for offset, (size, what) in sorted(sections.items()):
            found += self._gap(end, offset, what)
            end = max(end, offset + size)
        # A tensor cannot be empty: a block without constants has 16 bytes of zeros.
        return found + self._gap(end, max(ALIGNMENT, -(-end // ALIGNMENT) * ALIGNMENT), "the end", at_end=True)

    def _gap(self, end: int, start: int, what: str, *, at_end: bool = False) -> list[str]:
        if at_end and start != len(self._data):
            return [f"the constants have {len(self._data)} bytes, their sections end at byte {end}"]
        if start < end or (start - end >= ALIGNMENT and not (at_end and end == 0)):
            return [f"{what} starts at byte {start}, the section before it ends at byte {end}"]
        filled = np.flatnonzero(self._data[end:start])
        return [f"byte {end + int(filled[0])} in front of {what} has no meaning and is not 0"] if len(filled) else []


# ---- Layouts ----


def layout_of(kind: StageKind, stage: StageDesc, source: TensorDesc, fits_down: bool) -> int:
    """The layout the format asks for: packed wherever the fast kernels can read it, scaling down where they may.

    Args:
        fits_down: whether every channel may be scaled down in one go.
    """
    pixels = source.height * source.width
    if kind not in (StageKind.CONV, StageKind.DEPTHWISE) and not (kind is StageKind.FULLY_CONNECTED and pixels == 1):
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
    """Whether the format leaves it to the encoder to store weights of this layout in halfwords."""
    return layout == WeightLayout.PACKED_DOWN and packed_by_quads(kind, source)


def packed_by_quads(kind: StageKind, source: TensorDesc) -> bool:
    """Whether packed weights are those of the convolution kernel."""
    return kind is not StageKind.DEPTHWISE or source.channels == 1


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


@dataclass(frozen=True)
class Places:
    """Where the weights of a stage lie.

    Attributes:
        index: byte of weight [output channel, tap row, tap column, input channel].
        size: bytes in all; those no index names are zero.
    """

    index: Indices
    size: int


def in_int16(places: Places) -> Places:
    """Packed weights of 8 bits as elements of 16: the middle two of every four change places."""
    place = places.index % 4
    return Places(places.index - place + place % 2 * 2 + place // 2, places.size)


def single_weights(halfwords: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
    """Weights of two channels in a halfword each, as those of 8 bits lie; one of them is 128 if they can be no int8."""
    quads = halfwords.astype(np.int32).reshape(-1, 2, 2)  # values [(0, 2), (1, 3)]
    second = (quads + 128) % 256 - 128
    both = np.stack([(quads - second) // 256, second], axis=1)
    return both.transpose(0, 1, 3, 2).astype(np.int16).ravel()


def weight_places(kind: StageKind, layout: int, shape: tuple[int, int, int, int], source: TensorDesc) -> Places:
    """Byte of each weight within its section.

    Args:
        shape: output channels, tap rows, tap columns, input channels the filter reads.
    """
    channels, rows, columns, depth = shape
    c, y, x, i = np.ogrid[:channels, :rows, :columns, :depth]
    if layout == WeightLayout.PLAIN and kind is StageKind.DEPTHWISE:
        return Places((y * columns + x) * channels + c + i, rows * columns * channels)
    if layout == WeightLayout.PLAIN:
        return Places(((c * rows + y) * columns + x) * depth + i, channels * rows * columns * depth)
    if packed_by_quads(kind, source):
        # Pairs of channels; each row of taps filled up to words of four values, which the two take in turn.
        row = _up(columns * depth, 4)
        value = y * row + x * depth + i
        pair = 2 * rows * row
        return Places(c // 2 * pair + value // 4 * 8 + c % 2 * 4 + value % 4, _up(channels, 2) // 2 * pair)
    # Pairs of rows; a word has two columns of the upper one, then the same of the lower one. The odd row comes last.
    both, last = 2 * _up(columns, 2), _up(columns, 4)
    each = rows // 2 * both + rows % 2 * last
    in_pair = y // 2 * both + x // 2 * 4 + y % 2 * 2 + x % 2
    in_last = rows // 2 * both + x
    return Places(c * each + np.where((y == rows - 1) & (rows % 2 == 1), in_last, in_pair) + i, channels * each)
