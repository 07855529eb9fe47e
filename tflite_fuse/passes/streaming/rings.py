"""Variables that hold the last time steps, as states of fused blocks.

    READ_VARIABLE, CONCATENATION with the new steps, STRIDED_SLICE, ASSIGN_VARIABLE   =   one STATE

The cut may come before the joining or behind it, by any operator that moves values; where several windows are joined,
the STATE makes the longest and the others are ends of it. A CALL_ONCE goes, too, when all it initializes are states;
else its subgraph keeps what initializes the other variables.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import ClassVar

from tflite_fuse.errors import BlockError, ModelError
from tflite_fuse.fusion.block.kinds.moving.state import STATE_OPERATOR
from tflite_fuse.fusion.block.operators.movement import MOVES
from tflite_fuse.fusion.lower.operators import lower_operator
from tflite_fuse.memory.tflm.offline_plan import has_plan, remove_plan
from tflite_fuse.model.edit import (
    add_buffer,
    add_int32,
    add_operator_code,
    add_tensor,
    drop_unread,
    prune,
    replace_operators,
)
from tflite_fuse.model.operators import operator_label
from tflite_fuse.model.schema import Model, Operator, SubGraph, Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.passes.base import PassResult
from tflite_fuse.passes.streaming.values import Moves
from tflite_fuse.passes.streaming.variables import Key, Variable, accesses, find_variables, initializations
from tflite_fuse.passes.streaming.windows import Windows, find_windows


@dataclass(frozen=True)
class _Ring:
    """A variable that is a state.

    Attributes:
        variable: it.
        windows: what it holds is joined to new steps to.
        fill: what a reset leaves in it.
        first: what the earlier steps hold in the first run, empty if that is ``fill``.
    """

    variable: Variable
    windows: Windows
    fill: int
    first: bytes


@dataclass(frozen=True)
class Rings:
    """Replace variables that hold the last time steps by states, which fused blocks keep."""

    name: ClassVar[str] = "rings"

    def run(self, model: Model) -> PassResult:
        """Rewrite a model. An offline memory plan is dropped where something changed: tensor indices move.

        Raises:
            ModelError: a variable is read that nothing assigns.
        """
        variables = list(find_variables(model).values())
        if not variables:
            return PassResult(model, False)
        _check_assigned(model, variables)
        moves = Moves(model)
        found: dict[int, _Ring] = {}
        reasons: dict[int, str] = {}
        for number, variable in enumerate(variables):
            try:
                found[number] = _find_ring(moves, variable)
            except BlockError as error:
                reasons[number] = str(error)
        reasons.update(_kept_by_others(model, variables, reasons))
        chosen = [ring for number, ring in found.items() if number not in reasons]
        notes = [
            f"{operator_label(model, variables[number].handles[0])} is no state of a block: {reason}"
            for number, reason in sorted(reasons.items())
        ]
        if not chosen:
            return PassResult(model, False, tuple(notes))
        labels = [operator_label(model, ring.windows.joins[0]) for ring in chosen]
        listed = labels[0] if len(labels) == 1 else f"{labels[0]} and {len(labels) - 1} more"
        notes.insert(0, f"{listed}: the earlier steps are states of fused blocks, no longer copied")
        return PassResult(_rewritten(model, chosen), True, tuple(notes))


def _check_assigned(model: Model, variables: Sequence[Variable]) -> None:
    """The runtime copies nothing for such a READ_VARIABLE: what it reads is what its memory happened to hold."""
    for each in variables:
        if each.reads and not each.assigns and each.once < 0 and not each.shared:
            label = operator_label(model, each.reads[0])
            raise ModelError(f"{label} reads a variable that nothing assigns, so that its values are left to chance")


def _find_ring(moves: Moves, variable: Variable) -> _Ring:
    """Raises BlockError: why the variable is no state, as a clause."""
    if variable.shared:
        raise BlockError(variable.shared)
    windows = find_windows(moves, variable)
    if variable.first and len(variable.first) != windows.kept:
        raise BlockError("it is initialized with another number of values")
    fill = windows.longest.zero_point
    first = variable.first[windows.kept - windows.earlier :]
    ring = _Ring(variable, windows, fill, b"" if set(first) <= {fill % 256} else first)
    trial, operators = _operators(moves.model, ring)
    lower_operator(replace_operators(trial, operators[:1]), 0)  # raises what a block would say
    return ring


def _kept_by_others(model: Model, variables: Sequence[Variable], reasons: dict[int, str]) -> dict[int, str]:
    """Variables whose initialization has to stay, and why."""
    called = {operator: graph for graph, operator in initializations(model).items()}
    stays = {variable.once for number, variable in enumerate(variables) if number in reasons}
    gone = {called[variable.once] for variable in variables if variable.once >= 0 and variable.once not in stays}
    behind = set(takewhile(gone.__contains__, range(len(model.subgraphs) - 1, 0, -1)))
    return {
        number: "the subgraph that initializes it stands before others"
        for number, variable in enumerate(variables)
        if number not in reasons and variable.once >= 0 and called[variable.once] in gone - behind
    }


def _operators(model: Model, ring: _Ring) -> tuple[Model, list[Operator]]:
    """The STATE, then for each of the joins, in order, what makes its window of the longest; none for that one."""
    model, code = add_operator_code(model, custom=STATE_OPERATOR)
    longest = ring.windows.longest
    inputs = [ring.windows.new]
    for what, data in (("reset", bytes([ring.fill % 256])), ("first", ring.first)):
        if data:
            model, buffer = add_buffer(model, data)
            model, constant = add_tensor(model, Tensor((len(data),), TensorType.INT8, buffer, f"{longest.name}/{what}"))
            inputs.append(constant)
    made = [Operator(code, tuple(inputs), (longest.index,))]
    for index in ring.windows.joins:
        (output,) = model.main.operators[index].outputs or (-1,)
        if output != longest.index:
            model, end = _end(model, longest.index, output)
            made.append(end)
    return model, made


def _end(model: Model, longest: int, window: int) -> tuple[Model, Operator]:
    """A window as the end of the longest."""
    whole, dims = model.main.tensors[longest], model.main.tensors[window].dims
    model, code = add_operator_code(model, builtin="SLICE")
    inputs = [longest]
    for what, values in (("begin", tuple(a - b for a, b in zip(whole.dims, dims, strict=True))), ("size", dims)):
        model, constant = add_int32(model, f"{whole.name}/{what}", values)
        inputs.append(constant)
    return model, Operator(code, tuple(inputs), (window,))


def _rewritten(model: Model, rings: Sequence[_Ring]) -> Model:
    called = {operator: graph for graph, operator in initializations(model).items()}
    states = {ring.variable.key for ring in rings}
    others = {each.once for key, each in find_variables(model).items() if key not in states}
    emptied = {ring.variable.once for ring in rings if ring.variable.once >= 0} - others
    model = remove_plan(model) if has_plan(model) else model
    replaced: dict[int, list[Operator]] = {once: [] for once in emptied}
    for ring in rings:
        model, made = _operators(model, ring)
        variable, windows = ring.variable, ring.windows
        gone = (*variable.handles, *variable.reads, *variable.assigns, *windows.unread, *windows.joins)
        replaced.update({index: [] for index in gone})
        replaced[windows.joins[0]] = made  # where the new steps are there, before any window is read
    operators = [made for index, op in enumerate(model.main.operators) for made in replaced.get(index, [op])]
    model = replace_operators(model, drop_unread(model, operators, MOVES))
    graphs = {called[once] for once in emptied}
    initializing = {called[once] for once in others if once >= 0}
    kept = tuple(
        _without(model, graph, states) if number in initializing else graph
        for number, graph in enumerate(model.subgraphs)
        if number not in graphs
    )
    return prune(replace(model, subgraphs=kept))


def _without(model: Model, graph: SubGraph, states: Collection[Key]) -> SubGraph:
    """What initializes other variables, too, without what names and assigns states."""
    gone = {index for index, _, key in accesses(model, graph) if key in states}
    return replace(graph, operators=tuple(op for index, op in enumerate(graph.operators) if index not in gone))
