"""The table of stage kinds and of lowerings, collected from the entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain

from tflite_fuse.ir.axes import Windows, stage_windows, whole_windows
from tflite_fuse.ir.block import Stage, StageKind
from tflite_fuse.model.operators import RENAMING
from tflite_fuse.ops.entry import Kind, Tensors
from tflite_fuse.ops.floats import elementwise as float_elementwise
from tflite_fuse.ops.floats import library as float_library
from tflite_fuse.ops.floats import pools as float_pools
from tflite_fuse.ops.floats import reductions as float_reductions
from tflite_fuse.ops.floats import resize as float_resize
from tflite_fuse.ops.floats import weighted as float_weighted
from tflite_fuse.ops.kinds import (
    arg_max,
    blocks,
    by_channel,
    lookup,
    matrices,
    moves,
    pairs,
    pools,
    real,
    resize,
    softmax,
    state,
)
from tflite_fuse.ops.lowering.view import Lowered, OperatorView, rename
from tflite_fuse.ops.weighted import convolutions, lstm, sums

_FLOATS = (
    *(arg_max, matrices),
    *(float_elementwise, float_library, float_pools, float_reductions, float_resize, float_weighted),
)
_FAMILIES = (
    *(blocks, by_channel, lookup, moves, pairs, pools, real, resize, softmax, state),
    *(convolutions, lstm, sums),
    *_FLOATS,
)

KINDS: Mapping[StageKind, Kind] = {
    kind.number: kind
    for kind in sorted(chain.from_iterable(family.KINDS for family in _FAMILIES), key=lambda kind: kind.number)
}

LOWERINGS: Mapping[str, Callable[[OperatorView], Lowered]] = {
    **dict.fromkeys(RENAMING, rename),
    **dict(chain.from_iterable(kind.lowerings.items() for kind in KINDS.values())),
}
"""Lowering of each operator that a block can contain, by its name in TFLite's schema."""

FLOAT_LOWERINGS: Mapping[str, Callable[[OperatorView], Lowered]] = {
    **real.REAL_LOWERINGS,
    **dict(chain.from_iterable(family.LOWERINGS.items() for family in _FLOATS)),
}
"""Lowerings of operators that read or write float32; those that only move or rename values are in LOWERINGS."""

FLOAT_OPERATORS: frozenset[str] = frozenset(
    {
        *chain.from_iterable(family.LOWERINGS for family in _FLOATS),
        *(name for kind in KINDS.values() if kind.moves for name in kind.lowerings if not name.startswith("CUSTOM:")),
        *RENAMING,
    }
)
"""Operators that blocks compute in float32."""

COUNTS: tuple[str, ...] = tuple(dict.fromkeys(chain.from_iterable(kind.work.counts for kind in KINDS.values())))
"""Names of all counts of work."""


def input_windows(stage: Stage, tensors: Tensors) -> tuple[Windows, ...]:
    """Return the windows of a stage on the rows and columns of each of its inputs."""
    kind, usual = KINDS[stage.kind], stage_windows(stage)
    output = tensors[stage.output]
    return tuple(
        whole_windows(tensors[index]) if kind.needs_all(number, tensors[index], output) else usual
        for number, index in enumerate(stage.inputs)
    )


def remembers(stage: Stage, tensors: Tensors) -> bool:
    """Return whether its last input is its memory."""
    return KINDS[stage.kind].memory_bytes(tensors[stage.output]) > 0


def accumulates(stage: Stage, tensors: Tensors) -> bool:
    """Return whether a stage sums its whole input before it writes its one pixel."""
    return sum_bytes(stage, tensors) > 0


def sum_bytes(stage: Stage, tensors: Tensors) -> int:
    """Return the bytes of a stage's sums, 0 without sums."""
    each = KINDS[stage.kind].sum_bytes(tensors[stage.inputs[0]]) if stage.inputs else 0
    return each * tensors[stage.output].channels


def macs_per_pixel(stage: Stage, tensors: Tensors) -> int:
    """Return the multiply-accumulates per output pixel, taps on padding included; 0 for additions, pools, copies."""
    return KINDS[stage.kind].macs(stage, tensors)
