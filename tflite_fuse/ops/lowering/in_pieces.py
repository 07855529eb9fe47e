"""Flat inputs as a row of pixels, for a FULLY_CONNECTED or a copy, or as the map that a RESHAPE makes of them.

An input [1, N] is one pixel of N channels. A FULLY_CONNECTED of all values depends only on their order, and sums the
pixels of a map as they arrive. As a row of N / C pixels of C channels, such an input is never stored whole, and one
that is copied into the arena is not stored twice. Where a RESHAPE to a map follows a QUANTIZE of the input, a block
computes both pixel by pixel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import prod

from tflite_fuse.ir.block import StageKind
from tflite_fuse.ir.limits import MAX_EXTENT
from tflite_fuse.model.outside import InputMode
from tflite_fuse.model.schema import Model
from tflite_fuse.ops.lowering.lower import Lowerings
from tflite_fuse.ops.lowering.operands import Shape
from tflite_fuse.ops.lowering.view import Fit, Lowered

MOST_CHANNELS = 32
"""Most values of a pixel. It defines this form, beside which the whole input is searched: a block stores at least one
pixel, and larger ones save at most 2 % of the work.
"""

_SUMS = (StageKind.FULLY_CONNECTED, StageKind.FLOAT_FULLY_CONNECTED)
_OF_ONE_VALUE = (StageKind.LOOKUP, StageKind.QUANTIZE)


def whole_and_in_pieces(model: Model, lowerings: Lowerings, mode: InputMode) -> tuple[Lowerings, ...]:
    """Return the operators with flat inputs whole and, where blocks may also read them in pieces, with those.

    An input in the arena is whole: a QUANTIZE of its pieces would save a fifth of it, for twice the instructions.
    """
    pieces = lowerings if mode is InputMode.RESIDENT else in_pieces(model, lowerings)
    return (lowerings,) if pieces is lowerings else (lowerings, pieces)


def in_pieces(model: Model, lowerings: Lowerings) -> Lowerings:
    """Return the operators with each flat input that only a FULLY_CONNECTED or a copy reads as a row of pixels.

    RESHAPEs, a QUANTIZE and other functions of one value may lie between them. Without such an input, or where it would
    have too many pixels, the result is ``lowerings`` itself.
    """
    pieces, readers = list(lowerings), model.main.readers
    paths = [_path(model, lowerings, readers, tensor) for tensor in model.main.inputs]
    for index, lowered in chain.from_iterable(paths):
        image = _row(lowered.inputs[0].elements)
        summed = lowered.stage is None or lowered.stage.kind in _SUMS
        pieces[index] = replace(lowered, sees=image, output_shape=lowered.output_shape if summed else image)
    return tuple(pieces) if any(paths) else lowerings


def as_maps(model: Model, lowerings: Lowerings) -> Lowerings:
    """Return the operators; functions of one value read a flat input as the map that a RESHAPE behind them makes.

    QUANTIZE of [1, 637], RESHAPE to [1, 49, 13, 1]   =   QUANTIZE of a map of 49 x 13 pixels
    """
    shaped, readers = list(lowerings), model.main.readers
    for tensor in model.main.inputs:
        functions = dict[int, Lowered]()
        while len(readers.get(tensor, ())) == 1 and tensor not in model.main.outputs:
            (index,) = readers[tensor]
            lowered = lowerings[index]
            if isinstance(lowered, str) or lowered.unit or prod(lowered.inputs[0].flattened[:2]) > 1:
                break
            tensor = lowered.output.index
            if lowered.stage is not None and lowered.stage.kind in _OF_ONE_VALUE:
                functions[index] = lowered
            elif lowered.stage is not None:
                break
            elif prod((seen := lowered.output.flattened)[:2]) > 1 and max(seen) <= MAX_EXTENT:
                for place, each in functions.items():
                    shaped[place] = replace(each, sees=seen, output_shape=seen)
    return tuple(shaped)


def _row(values: int) -> Shape:
    sizes = (size for size in range(1, MOST_CHANNELS + 1) if values % size == 0)
    channels = max(sizes, key=lambda size: (size % 4 == 0, size))  # packed weights come in words of four
    return (1, values // channels, channels)


def _copies(lowered: Lowered) -> bool:
    """Return whether a stage copies an input into the arena, as it is."""
    return lowered.fit is Fit.BYTES and lowered.stage is not None and lowered.stage.kind is StageKind.PAD


def _path(
    model: Model, lowerings: Lowerings, readers: Mapping[int, Sequence[int]], tensor: int
) -> list[tuple[int, Lowered]]:
    """Return the operators from a flat input to the one that sums or copies it; none if another one reads it."""
    path = list[tuple[int, Lowered]]()
    while len(readers.get(tensor, ())) == 1 and tensor not in model.main.outputs:
        (index,) = readers[tensor]
        lowered = lowerings[index]
        if isinstance(lowered, str) or lowered.unit or [each.index for each in lowered.inputs] != [tensor]:
            break
        height, width, values = lowered.inputs[0].flattened
        if height * width > 1 or not 1 < _row(values)[1] <= MAX_EXTENT:
            break
        path.append((index, lowered))
        if lowered.stage is not None and (lowered.stage.kind in _SUMS or _copies(lowered)):
            return path
        if lowered.stage is not None and lowered.stage.kind not in _OF_ONE_VALUE:
            break
        tensor = lowered.output.index
    return []
