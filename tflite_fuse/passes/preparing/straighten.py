"""One PAD for each of its readers, and one operator for each chain of operators that move values.

    PAD → two convolutions   =   a PAD and a convolution, twice

Converters keep one PAD where several convolutions of a detector's heads read the same padded map. Unless one block
contains all of them, the PAD's output would be stored whole, which is larger than its input. With a PAD each, every
block pads while it reads, and the map is stored without padding.

    TRANSPOSE, RESHAPE, TRANSPOSE, RESHAPE, GATHER, TRANSPOSE   =   GATHER of every other channel
    EXPAND_DIMS, TILE, RESHAPE, EXPAND_DIMS, TILE, RESHAPE      =   RESIZE_NEAREST_NEIGHBOR

Each output of a chain becomes one operator on the tensor where the chain begins, with equal bytes and without the
intermediate tensors. A channel shuffle, expressed channels-first, with five dimensions or by splitting, becomes one
GATHER. An image enlarged by TILE, which TensorFlow Lite Micro lacks, becomes supported. Each output of a SPLIT becomes
an operator of its own, a GATHER of channels or a SLICE, so a fused block can contain it without the others. A PACK or
UNPACK of a single tensor, as in a recurrent network of one step, is a RESHAPE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import Editor, drop_unread, prune, replace_operators
from tflite_fuse.model.operators import make_options, operator_label, operator_name
from tflite_fuse.model.schema import Model, Operator, OptionsTable
from tflite_fuse.notes import note
from tflite_fuse.ops.kinds.resize import PARTS, nearest
from tflite_fuse.ops.lowering.lower import Lowerings, absorb, lower_model
from tflite_fuse.ops.lowering.movement import MOVES, Indices, channels_of, moves_in, places_of
from tflite_fuse.ops.lowering.operands import Activation, read_moved
from tflite_fuse.ops.table import LOWERINGS
from tflite_fuse.passes.base import PassResult

_PADDING = ("PAD", "PADV2")


@dataclass(frozen=True)
class OwnPads:
    """Insert a PAD of its own for every convolution behind a shared PAD."""

    name: ClassVar[str] = "own-pads"

    def run(self, model: Model) -> PassResult:
        """Rewrite a model. If it changes, an offline memory plan is dropped, because operators are added."""
        shared = _shared(model)
        if not shared:
            return PassResult(model, False)
        notes = [
            note("changed", "own padding", operator_label(model, pad), readers=len(readers))
            for pad, readers in shared.items()
        ]
        own = {reader: pad for pad, readers in shared.items() for reader in readers}
        editor = Editor(remove_plan(model))
        for index, operator in enumerate(model.main.operators):
            if index in own:
                pad = model.main.operators[own[index]]
                copy = editor.tensor(model.main.tensors[pad.output])
                editor.operators.append(replace(pad, outputs=(copy,)))
                inputs = tuple(copy if read == pad.output else read for read in operator.inputs or ())
                editor.operators.append(replace(operator, inputs=inputs))
            elif index not in shared:
                editor.operators.append(operator)
        return PassResult(editor.finish(), True, tuple(notes))


def _shared(model: Model) -> dict[int, tuple[int, ...]]:
    """Return PADs with several readers, all of them convolutions that can absorb the padding."""
    operators = model.main.operators
    pads = [index for index, operator in enumerate(operators) if operator_name(model, operator) in _PADDING]
    shared = {
        pad: tuple(dict.fromkeys(model.main.readers.get(operators[pad].output, ())))
        for pad in pads
        if operators[pad].output not in model.main.outputs
    }
    shared = {pad: readers for pad, readers in shared.items() if len(readers) > 1}
    lowerings: Lowerings = lower_model(model) if shared else ()
    return {pad: readers for pad, readers in shared.items() if _all_can(lowerings, pad, readers)}


def _all_can(lowerings: Lowerings, pad: int, readers: tuple[int, ...]) -> bool:
    padding = lowerings[pad]
    if isinstance(padding, str):
        return False
    convolutions = [lowered for reader in readers if not isinstance(lowered := lowerings[reader], str)]
    return len(convolutions) == len(readers) and all(absorb(padding, each) is not None for each in convolutions)


_MOST_LOOKED_UP, _LEAST_LOOKED_UP = 1 << 25, 1 << 12
"""Limit of values looked up between tensors and the starts of their chains; a step counts as some at least."""
_MOVING = frozenset({*MOVES, "RESIZE_NEAREST_NEIGHBOR"})


@dataclass(frozen=True)
class _Move:
    """A tensor as the output of one operator on a tensor further up.

    Attributes:
        source: the tensor further up.
        steps: number of operators between the two.
        name: name of the new operator.
        constants: its other inputs by name, with their numbers.
        options: its options, if any.
    """

    source: Activation
    steps: int
    name: str
    constants: Mapping[str, tuple[int, ...]]
    options: OptionsTable | None = None


@dataclass(frozen=True)
class Straighten:
    """Replace chains of moving operators, and operators with several outputs, by one operator for each output."""

    name: ClassVar[str] = "straighten"

    def run(self, model: Model) -> PassResult:
        """Rewrite a model. If it changes, an offline memory plan is dropped, because tensor indices change."""
        moves = _Moves(model)
        operators = enumerate(model.main.operators)
        chosen = {index: gathers for index, operator in operators if (gathers := _gathers(moves, operator))}
        if not chosen:
            return PassResult(model, False)
        labels = [operator_label(model, index) for index in chosen]
        rewritten = _rewritten(remove_plan(model), chosen)
        removed = len(model.main.operators) + sum(map(len, chosen.values())) - len(chosen)
        removed -= len(rewritten.main.operators)
        kinds = {move.name for replacements in chosen.values() for move in replacements.values()}
        values = "channels" if kinds <= {"GATHER", "RESHAPE"} else "values"
        return PassResult(rewritten, True, (note("changed", "straightened", *labels, values=values, removed=removed),))


@dataclass
class _Moves:
    """For each moved tensor, the previous tensor and the indices of its values in it."""

    model: Model
    by_output: dict[int, tuple[Activation, Indices]] = field(default_factory=dict)
    looked_up: int = 0

    def __post_init__(self) -> None:
        for source, parts in moves_in(self.model):
            self.by_output.update((tensor, (source, indices)) for tensor, indices in parts)

    def _further_up(self, tensor: int) -> list[tuple[Activation, Indices]]:
        """Return the tensors further up, nearest first; only the nearest once the limit of look-ups is reached."""
        moves: list[tuple[Activation, Indices]] = []
        while tensor in self.by_output and self.looked_up <= _MOST_LOOKED_UP:
            source, indices = self.by_output[tensor]
            moves.append((source, indices if not moves else indices.ravel()[moves[-1][1]]))
            self.looked_up += max(moves[-1][1].size, _LEAST_LOOKED_UP)
            tensor = source.index
        return moves

    def furthest(self, tensor: int) -> _Move | None:
        """Return the tensor as one operator on the tensor furthest up, or None.

        Channels are tried first, because a slice or repetition may be part of a selection of channels.
        """
        moves = self._further_up(tensor)
        for find in (_as_channels, _as_part, _as_larger):
            for steps, (source, indices) in sorted(enumerate(moves, 1), key=lambda item: -item[0]):
                try:
                    move = find(source, read_moved(self.model, tensor), indices, steps)
                except BlockError:
                    continue
                if move is not None:
                    return move
        return None


def _as_channels(source: Activation, output: Activation, indices: Indices, steps: int) -> _Move | None:
    """Return a GATHER along the last dimension, or a RESHAPE if all channels keep their places, or None.

    The runtime's GATHER takes all dimensions but the last from its input, regardless of the file.
    """
    channels = channels_of(indices, source.shape, output.shape)
    if channels is None:
        return None
    if channels == tuple(range(source.shape[2])):
        return _as_reshape(source, output, steps)
    if output.dims == (*source.dims[:-1], len(channels)):
        options = make_options("GatherOptions", axis=len(source.dims) - 1)
        return _Move(source, steps, "GATHER", {"channels": channels}, options)
    return None


def _as_reshape(source: Activation, output: Activation, steps: int) -> _Move:
    options = make_options("ReshapeOptions", new_shape=output.dims)
    return _Move(source, steps, "RESHAPE", {"shape": output.dims}, options)


def _as_part(source: Activation, output: Activation, indices: Indices, steps: int) -> _Move | None:
    """Return a SLICE, or a RESHAPE if the slice is whole, or None."""
    if len(source.dims) != len(output.dims) or not 2 <= len(source.dims) <= 4 or not indices.size:
        return None
    begin = tuple(int(place) for place in np.unravel_index(int(indices.flat[0]), source.dims))
    part = tuple(slice(start, start + size) for start, size in zip(begin, output.dims, strict=True))
    values = np.arange(source.elements, dtype=np.int32).reshape(source.dims)[part]
    if not np.array_equal(values, indices.reshape(output.dims)):
        return None
    if output.dims == source.dims:
        return _as_reshape(source, output, steps)
    return _Move(source, steps, "SLICE", {"begin": begin, "size": output.dims})


def _as_larger(source: Activation, output: Activation, indices: Indices, steps: int) -> _Move | None:
    if len(source.dims) != 4 or len(output.dims) != 4:
        return None
    places = places_of(indices, source.shape, output.shape)
    sizes = zip(source.shape[:2], output.shape[:2], strict=True)
    # Centres of pixels are never so close to an edge that rounding moves them across it.
    rows_and_columns = [(nearest(*axis, False, True)[0] // PARTS).tolist() for axis in sizes]
    if places is None or rows_and_columns != list(places):
        return None
    options = make_options("ResizeNearestNeighborOptions", half_pixel_centers=True)
    return _Move(source, steps, "RESIZE_NEAREST_NEIGHBOR", {"size": output.dims[1:3]}, options)


def _gathers(moves: _Moves, operator: Operator) -> dict[int, _Move]:
    """Return a shorter operator for each output with a reader, if there is one for all of them; else nothing."""
    outputs, graph = operator.outputs or (), moves.model.main
    if not moves.by_output.keys() & outputs:
        return {}
    read = {*graph.outputs, *graph.readers}
    candidates = {tensor: moves.furthest(tensor) for tensor in outputs if tensor in read}
    complete = {tensor: move for tensor, move in candidates.items() if move is not None}
    has_all = len(complete) == len(candidates) and all(len(graph.tensors[tensor].dims) > 1 for tensor in complete)
    improves = operator_name(moves.model, operator) not in LOWERINGS or any(
        each.steps > 1 for each in complete.values()
    )
    return complete if has_all and (improves or len(outputs) > 1) else {}


def _rewritten(model: Model, chosen: Mapping[int, Mapping[int, _Move]]) -> Model:
    """Return the model with the selected operators replaced, without operators that no longer have a reader."""
    editor = Editor(model)
    for index, operator in enumerate(model.main.operators):
        if index not in chosen:
            editor.operators.append(operator)
        for tensor, move in chosen.get(index, {}).items():
            constants = (editor.int32(f"{move.source.name}/{name}", each) for name, each in move.constants.items())
            editor.add(move.name, (move.source.index, *constants), tensor, move.options)
    edited = editor.finish()
    return prune(replace_operators(edited, drop_unread(edited, editor.operators, _MOVING)))
