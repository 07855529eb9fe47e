"""Rows and columns of every tensor that each tile of a block computes.

A tile is a rectangle of the driven tensor. From the last stage to the first, the region of a stage's output is the
union of its readers' windows, rows and columns apart, clipped to the tensor. In a block of one tile all tensors outside
scratch are computed as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tflite_fuse.check.block.options import Options
from tflite_fuse.ir.enums import ElementType, StageKind, Storage
from tflite_fuse.ir.structs import BlockHeader, StageDesc, TensorDesc

Ints = npt.NDArray[np.int64]

NOWHERE = 1 << 40
"""Start of an empty span; its end is 0."""


def pixel_bytes(tensor: TensorDesc) -> int:
    """Return the bytes of a pixel: channels times 4 for float32, else times 1."""
    return tensor.channels << (2 if tensor.element_type == ElementType.FLOAT32 else 0)


@dataclass(frozen=True)
class BlockProgram:
    """A block's options in the form that the replay reads.

    Attributes:
        header, tensors, stages: as stored.
        inputs: tensors that each stage reads.
    """

    header: BlockHeader
    tensors: tuple[TensorDesc, ...]
    stages: tuple[StageDesc, ...]
    inputs: tuple[tuple[int, ...], ...]

    @property
    def one_tile(self) -> bool:
        """Return whether one tile covers the driven tensor."""
        driven = self.tensors[self.header.driven]
        return self.header.tile_height >= driven.height and self.header.tile_width >= driven.width

    def sums(self, stage: int) -> bool:
        """Return whether a stage sums all pixels of its input before it writes one."""
        if not self.inputs[stage]:
            return False
        source = self.tensors[self.inputs[stage][0]]
        several = source.height * source.width > 1
        kind = self.stages[stage].kind
        return kind in SUMMED or (kind in FULLY_CONNECTED and several)

    def sums_driven(self, stage: int) -> bool:
        """Return whether a stage sums the driven tensor while the tiles run."""
        return self.sums(stage) and self.inputs[stage][0] == self.header.driven

    def overwritten(self, stage: int) -> int:
        """Return the tensor in whose ring a stage writes its output, -1 if the output has a ring of its own."""
        return self.tensors[self.stages[stage].output].overwrites - 1 if stage in self.spatial else -1

    @property
    def tail(self) -> range:
        return range(self.header.spatial_stages, len(self.stages))

    @property
    def spatial(self) -> range:
        return range(self.header.spatial_stages)


def block_program(options: Options) -> BlockProgram:
    """Return the options with the list of inputs divided among the stages."""
    inputs = tuple(
        options.stage_inputs[stage.first_input : stage.first_input + stage.input_count] for stage in options.stages
    )
    return BlockProgram(options.header, options.tensors, options.stages, inputs)


FLOATS = tuple(kind for kind in StageKind if kind.name.startswith("FLOAT_"))
"""Kinds that read and write float32."""


def both_types(*names: str) -> tuple[StageKind, ...]:
    """Return the kinds of these names, on int8 and on float32 where both exist."""
    return tuple(kind for kind in StageKind if kind.name.removeprefix("FLOAT_") in names)


MOVES = both_types("PAD", "CONCATENATION", "CHANNELS", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "TRANSPOSE")
"""Kinds whose output has the type of their inputs."""

FULLY_CONNECTED = both_types("FULLY_CONNECTED")
"""Kinds that sum over all pixels if their input has several."""

SUMMED = both_types("GLOBAL_AVERAGE", "GLOBAL_MAX", "GLOBAL_REDUCE")
"""Kinds that always do."""

SPREADING = both_types("RESIZE", "TRANSPOSE_CONV", "DEPTH_TO_SPACE")
"""Kinds whose dilation is the distance between input pixels, not between taps."""

WINDOWED = both_types("CONV", "DEPTHWISE", "AVERAGE_POOL", "MAX_POOL", "SPACE_TO_DEPTH") + SPREADING
"""Kinds with windows of several pixels."""

PAIRS = both_types("ADD", "MULTIPLY", "SQUARED_DIFFERENCE", "MAXIMUM", "MINIMUM", "REAL_PAIR", "PAIR")
"""Kinds of two inputs, one of which may be a single pixel that is combined with all pixels of the other."""

BY_VALUE = PAIRS + both_types("LOOKUP", "OFFSET", "SCALE", "BY_CHANNEL", "CURVE", "LIBRARY_CURVE")
"""Kinds that compute each value from the values at its place, in the order of the channels."""

MATRICES = both_types("MATRIX_PRODUCT")
"""Kinds of two inputs, the second of which is needed whole for every output pixel."""


def needs_all(kind: int, number: int, source: TensorDesc, output: TensorDesc) -> bool:
    """Return whether every output pixel needs all of input ``number``: a matrix, an image whose rows become
    columns, or a single pixel beside an image."""
    if kind in MATRICES:
        return number == 1
    if kind == StageKind.TRANSPOSE:
        return True
    goes_with_all = kind in PAIRS or (kind == StageKind.LSTM and source.storage == Storage.PERSISTENT)
    return goes_with_all and source.height * source.width == 1 < output.height * output.width


def looks(program: BlockProgram, s: int, number: int, axis: int) -> tuple[int, int, int, int]:
    """Return ``reach`` for input ``number`` of stage ``s``; (0, 0, its length, 1) if every pixel needs all of it."""
    stage, source = program.stages[s], program.tensors[program.inputs[s][number]]
    if needs_all(stage.kind, number, source, program.tensors[stage.output]):
        return 0, 0, (source.height, source.width)[axis], 1
    return reach(stage, axis)


def reach(stage: StageDesc, axis: int) -> tuple[int, int, int, int]:
    """Return (stride, padding, extent, step) of a stage's windows along rows (axis 0) or columns (axis 1).

    ``step`` is the distance of neighbouring input pixels; the others are in the same units.
    """
    stride, pad, kernel, apart = (
        (stage.stride_height, stage.pad_top, stage.kernel_height, stage.dilation_height),
        (stage.stride_width, stage.pad_left, stage.kernel_width, stage.dilation_width),
    )[axis]
    if stage.kind in SPREADING:
        return stride, pad, kernel, apart
    return stride, pad, (kernel - 1) * apart + 1, 1


@dataclass(frozen=True)
class Axis:
    """Spans along one axis: ``low[t][i]`` to ``high[t][i]`` of tensor t in band (strip) i; empty where low >= high."""

    low: tuple[Ints, ...]
    high: tuple[Ints, ...]

    def covers(self, tensor: int, length: int) -> bool:
        """Return whether the spans of a tensor leave out no position."""
        seen = np.zeros(length + 1, np.int64)
        full = self.low[tensor] < self.high[tensor]
        np.add.at(seen, self.low[tensor][full], 1)
        np.add.at(seen, self.high[tensor][full], -1)
        return bool((np.cumsum(seen)[:length] > 0).all())


def _up(units: Ints, apart: int) -> Ints:
    """Return the first input pixel at or behind a position in units."""
    return np.asarray(-(-units // apart))


def spans(program: BlockProgram, axis: int) -> Axis:
    """Return the spans of all bands (axis 0) or strips (axis 1), in order."""
    lengths = [(tensor.height, tensor.width)[axis] for tensor in program.tensors]
    step = (program.header.tile_height, program.header.tile_width)[axis]
    driven = program.header.driven
    starts = np.arange(0, lengths[driven], step, dtype=np.int64)
    low = [np.full_like(starts, NOWHERE) for _ in program.tensors]
    high = [np.zeros_like(starts) for _ in program.tensors]
    low[driven], high[driven] = starts, np.minimum(starts + step, lengths[driven])
    if program.one_tile:
        for t, tensor in enumerate(program.tensors):
            if tensor.storage != Storage.SCRATCH:
                low[t], high[t] = np.zeros_like(starts), np.full_like(starts, lengths[t])
    for s in reversed(program.spatial):
        stage = program.stages[s]
        below, above = low[stage.output], high[stage.output]
        for number, t in enumerate(program.inputs[s]):
            stride, pad, extent, apart = looks(program, s, number, axis)
            first = np.maximum(_up(below * stride - pad, apart), 0)
            last = np.minimum(_up((above - 1) * stride - pad + extent, apart), lengths[t])
            seen = (below < above) & (first < last)
            low[t] = np.where(seen, np.minimum(low[t], first), low[t])
            high[t] = np.where(seen, np.maximum(high[t], last), high[t])
    return Axis(tuple(low), tuple(high))


@dataclass(frozen=True)
class Tile:
    """A class of tiles that differ only in their position.

    Attributes:
        extents: rows and columns computed of every tensor; (0, 0) for none.
        origins: for every spatial stage and each of its inputs, row and column of the first window relative to the
            input's region, in the units of ``reach``; negative on padding.
        count: number of tiles of this class.
    """

    extents: tuple[tuple[int, int], ...]
    origins: tuple[tuple[tuple[int, int], ...], ...]
    count: int

    def pixels(self, tensor: int) -> int:
        return self.extents[tensor][0] * self.extents[tensor][1]


def tiles(program: BlockProgram, rows: Axis, columns: Axis) -> Iterator[Tile]:
    """Return the classes of tiles of a block."""
    bands, strips = _kinds(program, rows, 0), _kinds(program, columns, 1)
    for (heights, tops), bands_alike in bands.items():
        for (widths, lefts), strips_alike in strips.items():
            extents = tuple((h, w) if h and w else (0, 0) for h, w in zip(heights, widths, strict=True))
            origins = tuple(tuple(zip(y, x, strict=True)) for y, x in zip(tops, lefts, strict=True))
            yield Tile(extents, origins, bands_alike * strips_alike)


_Kind = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]


def _kinds(program: BlockProgram, axis: Axis, number: int) -> dict[_Kind, int]:
    """Return the number of bands (strips) for each combination of tensors' extents and windows' origins."""
    counts: dict[_Kind, int] = {}
    for i in range(len(axis.low[0])):
        low, high = [int(span[i]) for span in axis.low], [int(span[i]) for span in axis.high]
        extents = tuple(max(0, b - a) for a, b in zip(low, high, strict=True))
        origins = []
        for s in program.spatial:
            written, starts = program.stages[s].output, []
            for place, t in enumerate(program.inputs[s]):
                stride, pad, _, apart = looks(program, s, place, number)
                seen = extents[written] and extents[t]
                starts.append(low[written] * stride - pad - low[t] * apart if seen else 0)
            origins.append(tuple(starts))
        kind = (extents, tuple(origins))
        counts[kind] = counts.get(kind, 0) + 1
    return counts
