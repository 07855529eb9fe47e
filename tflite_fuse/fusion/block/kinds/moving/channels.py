"""CHANNELS: some of the input's channels in any order, and channels of one value between them.

PAD along channels, SLICE, STRIDED_SLICE, GATHER and each output of a SPLIT are this kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.arithmetic import Int64Array
from tflite_fuse.fusion.block.entry import (
    Kernels,
    Kind,
    Operand,
    Runs,
    StageCheck,
    StoredTables,
    Tables,
    Tensors,
    parameters_of,
    pixels_of,
)
from tflite_fuse.fusion.block.kinds.moving.resize import sliced
from tflite_fuse.fusion.block.limits import MAX_WINDOW
from tflite_fuse.fusion.block.operators.movement import channels_of, moved, places_of
from tflite_fuse.fusion.block.operators.view import Fit, Lowered, OperatorView
from tflite_fuse.fusion.block.stages import BlockTensor, Stage, StageKind

FILLED = -1
"""In place of an input channel: the fill."""


@dataclass(frozen=True)
class ChannelParameters:
    """Where output channels come from.

    Attributes:
        sources: the input channel of each output channel, or FILLED.
        fill: int8 value of channels that come from none.
    """

    sources: tuple[int, ...]
    fill: int = 0


def _check(check: StageCheck) -> None:
    check.same_shape(check.sources[0], channels=False)
    channels, found = check.sources[0].channels, parameters_of(check.stage, ChannelParameters)
    check.require(channels <= MAX_WINDOW, f"reads more than {MAX_WINDOW} channels")
    check.require(len(found.sources) == check.output.channels, f"makes {len(found.sources)} channels")
    check.require(all(FILLED <= source < channels for source in found.sources), "reads a channel that is not there")
    check.require(-128 <= found.fill <= 127, f"fills with {found.fill}")


def _reference(stage: Stage, operands: Sequence[Operand], output: BlockTensor) -> Int64Array:
    ((_, values),) = operands
    found = parameters_of(stage, ChannelParameters)
    filled = np.full((*values.shape[:2], 1), found.fill, np.int64)
    return np.concatenate([values, filled], axis=2)[:, :, list(found.sources)]


def _encode(stage: Stage, tensors: Tensors) -> Tables:
    found = parameters_of(stage, ChannelParameters)
    return Tables(table=np.array((found.fill, *found.sources), "<i2").tobytes())


def _decode(stage: Stage, tensors: Tensors, stored: StoredTables) -> Stage:
    fill, *sources = np.frombuffer(stored.table_bytes(2 + 2 * tensors[stage.output].channels), "<i2").tolist()
    return replace(stage, parameters=ChannelParameters(tuple(sources), fill))


def _work(stage: Stage, tensors: Tensors, runs: Runs, kernels: Kernels) -> dict[str, int]:
    values = pixels_of(runs) * tensors[stage.output].channels
    return {"other values": values, "other outputs": values}


def _lowered_by(name: str) -> Callable[[OperatorView], Lowered]:
    """An operator that moves whole channels, or takes every n'th row and column; one that does neither is a name."""

    def lower(view: OperatorView) -> Lowered:
        output = view.write()
        source, (indices,) = moved(name, view, (view.output,))
        sources = channels_of(indices, source.shape, output.shape)
        if sources is None:
            places = places_of(indices, source.shape, output.shape)
            stage = None if places is None else sliced(*places)
            if stage is None:
                raise BlockError(
                    "it moves no whole channels, the same for all pixels, and not every n'th row or column"
                )
            if stage.kind is StageKind.PAD:
                stage = replace(stage, pad_value=source.zero_point)
            return Lowered(stage, (source,), output, output.shape)
        if sources == tuple(range(source.shape[2])):
            return Lowered(None, (source,), output)
        stage = Stage(StageKind.CHANNELS, (), -1, parameters=ChannelParameters(sources))
        return Lowered(stage, (source,), output, output.shape, Fit.PIXELS)

    return lower


CHANNELS = Kind(
    StageKind.CHANNELS,
    check=_check,
    reference=_reference,
    encode_table=_encode,
    decode_table=_decode,
    work=_work,
    lowerings={name: _lowered_by(name) for name in ("GATHER", "SLICE", "STRIDED_SLICE")},
)
