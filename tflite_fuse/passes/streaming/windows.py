"""What a variable's steps are joined to: windows that end with the newest step, whatever operators make them.

    a variable of 5 steps, one new step: positions 0 … 4 and 5
    CONCATENATION of its last 2 steps and the new one: 3, 4, 5; of all of it and the new one: 0, 1, 2, 3, 4, 5

All such windows are ends of the longest. A variable is a state if it is assigned the last positions of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from tflite_fuse.errors import BlockError
from tflite_fuse.fusion.block.operators.movement import MOST_VALUES, Indices
from tflite_fuse.fusion.block.operators.operands import Activation, read_activation
from tflite_fuse.fusion.block.operators.requantization import NO_ACTIVATION
from tflite_fuse.model.operators import get_options, operator_label, operator_name
from tflite_fuse.model.schema import Operator
from tflite_fuse.passes.streaming.values import Moves
from tflite_fuse.passes.streaming.variables import Variable


@dataclass(frozen=True)
class Windows:
    """The windows on a variable's steps.

    Attributes:
        joins, unread: CONCATENATIONs that make those something reads, in order, and those only the assignment reads.
        longest: the window of which the others are ends.
        new: the tensor of the new steps.
        kept, earlier: values of the variable, and of its end that the longest window begins with.
    """

    joins: tuple[int, ...]
    unread: tuple[int, ...]
    longest: Activation
    new: int
    kept: int
    earlier: int


def find_windows(moves: Moves, variable: Variable) -> Windows:
    """The windows on what a variable holds and the new steps.

    Raises:
        BlockError: why the variable is no state, as a clause.
    """
    model, operators = moves.model, moves.model.main.operators
    if any(prod(tensor.dims) > MOST_VALUES for tensor in model.main.tensors):
        raise BlockError(f"the model has a tensor of more than {MOST_VALUES:,} values")
    if not variable.reads or not variable.assigns:
        raise BlockError(f"it is read {len(variable.reads)} times and assigned {len(variable.assigns)} times")
    if max(variable.reads) > min(variable.assigns):
        raise BlockError("it is assigned before it is read")
    if variable.once > min(variable.reads):
        raise BlockError("it is initialized behind where it is read")
    held = [(operators[read].outputs or (-1,))[0] for read in variable.reads]
    value = (*(operators[variable.assigns[-1]].inputs or ()), -1, -1)[1]
    if value < 0 or min(held) < 0:
        raise BlockError("its operators lack a tensor")
    kept = read_activation(model, held[0])
    if any(replace(read_activation(model, tensor), index=kept.index, name=kept.name) != kept for tensor in held):
        raise BlockError("it is read in two shapes or quantizations")
    new = _new_steps(moves, held)
    positions = _Positions(moves, held, kept.elements, new)
    joins = list(positions.joins())
    live = _read(moves, variable, held, joins)
    windows = [read_activation(model, (operators[index].outputs or (-1,))[0]) for index in live]
    longest = max(windows, key=lambda window: window.elements)
    if (kept.scale, kept.zero_point) != (longest.scale, longest.zero_point):
        raise BlockError("what it holds is quantized differently from what it is joined to")
    if any(len(window.dims) != len(longest.dims) or _axes(window, longest) > 1 for window in windows):
        raise BlockError("it is joined in two shapes")
    everything = kept.elements + positions.new
    if not positions.are(value, everything - kept.elements, everything):
        raise BlockError("what is assigned to it is not the end of what it is joined to")
    unread = tuple(index for index in joins if index not in live)
    return Windows(tuple(live), unread, longest, new, kept.elements, longest.elements - positions.new)


def _axes(a: Activation, b: Activation) -> int:
    return sum(mine != theirs for mine, theirs in zip(a.dims, b.dims, strict=True))


def _new_steps(moves: Moves, held: Sequence[int]) -> int:
    """What is joined behind the end of what a variable holds."""
    for operator in moves.model.main.operators:
        inputs = operator.inputs or ()
        if operator_name(moves.model, operator) == "CONCATENATION" and inputs and moves.origin(inputs[0])[0] in held:
            if len(inputs) != 2:
                raise BlockError(f"it is joined with {len(inputs) - 1} tensors")
            if moves.origin(inputs[1])[0] in held:
                raise BlockError("it is joined with its own steps")
            return inputs[1]
    raise BlockError("no new steps are joined behind what it holds")


@dataclass
class _Positions:
    """Which of a variable's values and the new ones behind them a tensor holds: 0 is the variable's first.

    Attributes:
        moves: of the model.
        held: tensors that hold the variable.
        kept: values of it.
        steps, new: the tensor of the new steps, and its values.
    """

    moves: Moves
    held: Sequence[int]
    kept: int
    steps: int
    new: int = 0
    _known: dict[int, Indices] = field(default_factory=dict)

    def __post_init__(self) -> None:
        model = self.moves.model
        dims = model.main.tensors[self.held[0]].dims
        self._known.update(dict.fromkeys(self.held, np.arange(self.kept, dtype=np.int32).reshape(dims)))
        self.new = read_activation(model, self.steps).elements
        behind = np.arange(self.kept, self.kept + self.new, dtype=np.int32)
        source, indices = self.moves.origin(self.steps)
        dims = model.main.tensors[source].dims
        places = np.full(int(np.prod(dims)), -1, np.int32)  # -1: of another tensor
        places[np.arange(self.new) if indices is None else indices.ravel()] = behind
        self._known[source] = places.reshape(dims)
        for operator in model.main.operators:
            if (joined := self._joined(operator)) is not None:
                self._known[(operator.outputs or (-1,))[0]] = joined

    def of(self, tensor: int) -> Indices | None:
        """The positions a tensor holds, in its shape; None if it holds others."""
        source, indices = self.moves.origin(tensor)
        known = self._known.get(source)
        return known if known is None or indices is None else known.ravel()[indices]

    def are(self, tensor: int, first: int, end: int) -> bool:
        """Whether a tensor holds these positions, in order."""
        found = self.of(tensor)
        return found is not None and np.array_equal(found.ravel(), np.arange(first, end))

    def joins(self) -> Iterator[int]:
        """The CONCATENATIONs that make windows with the newest step at their end."""
        for index, operator in enumerate(self.moves.model.main.operators):
            if operator_name(self.moves.model, operator) == "CONCATENATION":
                output = (operator.outputs or (-1,))[0]
                found, end = self._known.get(output), self.kept + self.new
                if found is not None and found.size > self.new and self.are(output, end - found.size, end):
                    yield index

    def _joined(self, operator: Operator) -> Indices | None:
        model, inputs, outputs = self.moves.model, operator.inputs or (), operator.outputs or ()
        if operator_name(model, operator) != "CONCATENATION" or len(outputs) != 1 or min(inputs, default=-1) < 0:
            return None
        options, parts = get_options(operator), [self.of(tensor) for tensor in inputs]
        axis = options.get("axis", 0)
        if any(part is None for part in parts) or not isinstance(axis, int):
            return None
        if options.get("fused_activation_function", NO_ACTIVATION) != NO_ACTIVATION:
            raise BlockError("the joining has options TFLM refuses")
        output = read_activation(model, outputs[0])
        for part in (read_activation(model, tensor) for tensor in inputs):
            if (part.scale, part.zero_point) != (output.scale, output.zero_point):
                raise BlockError("what is joined is quantized differently, which TFLM refuses")
        try:
            joined: Indices = np.concatenate([part for part in parts if part is not None], axis)
        except ValueError:
            return None
        return joined if joined.shape == output.dims else None


def _read(moves: Moves, variable: Variable, held: Sequence[int], joins: Sequence[int]) -> list[int]:
    """Those of the joins whose windows something reads but the variable's assignment; the last if none is.

    Raises:
        BlockError: something else reads what the variable holds, moved or not.
    """
    if not joins:
        raise BlockError("it is not its end that the new steps are joined to")
    model, gone = moves.model, {*variable.reads, *variable.assigns}
    wanted, live = set(model.main.outputs), list[int]()
    if any(moves.origin(tensor)[0] in held for tensor in wanted):
        raise BlockError(f"{operator_label(model, joins[0])} reads it, too")
    for index, operator in reversed(list(enumerate(model.main.operators))):
        outputs, inputs = operator.outputs or (), operator.inputs or ()
        moving = bool(outputs) and all(moves.origin(tensor)[0] != tensor for tensor in outputs)
        if index in gone or ((moving or index in joins) and not wanted.intersection(outputs)):
            continue
        if index in joins:
            live.append(index)
            continue
        wanted.update(inputs)
        if not moving and any(tensor >= 0 and moves.origin(tensor)[0] in held for tensor in inputs):
            raise BlockError(f"{operator_label(model, index)} reads it, too")
    return live[::-1] or [joins[-1]]
