"""Variables that hold the last time steps, as states of fused blocks.

    READ_VARIABLE, CONCATENATION with the new steps, STRIDED_SLICE, ASSIGN_VARIABLE   =   one STATE

The cut may come before the joining or behind it, by any operator that moves values. A CALL_ONCE goes, too, when all it
initializes are states: a subgraph that stays would keep every variable a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import prod
from typing import ClassVar

from tflite_fuse.errors import BlockError, ModelError
from tflite_fuse.fusion.block.kinds.moving.state import STATE_OPERATOR
from tflite_fuse.fusion.block.operators.movement import MOVES
from tflite_fuse.fusion.block.operators.operands import read_activation
from tflite_fuse.fusion.block.operators.requantization import NO_ACTIVATION
from tflite_fuse.fusion.lower.operators import lower_operator
from tflite_fuse.memory.tflm.offline_plan import has_plan, remove_plan
from tflite_fuse.model.edit import add_buffer, add_operator_code, add_tensor, prune, replace_operators
from tflite_fuse.model.operators import get_options, operator_label, operator_name
from tflite_fuse.model.schema import Model, Operator, Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.passes.base import PassResult
from tflite_fuse.passes.streaming.values import Moves
from tflite_fuse.passes.streaming.variables import Variable, find_variables, initializations


@dataclass(frozen=True)
class _Ring:
    """A variable that is a state.

    Attributes:
        variable: it.
        joins: the CONCATENATION.
        new: the tensor of the new steps.
        fill: what a reset leaves in it.
        first: what the earlier steps hold in the first run, empty if that is ``fill``.
    """

    variable: Variable
    joins: int
    new: int
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
        labels = [operator_label(model, ring.joins) for ring in chosen]
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
    model, operators = moves.model, moves.model.main.operators
    if variable.shared:
        raise BlockError(variable.shared)
    if len(variable.reads) != 1 or len(variable.assigns) != 1:
        raise BlockError(f"it is read {len(variable.reads)} times and assigned {len(variable.assigns)} times")
    read, assign = operators[variable.reads[0]], operators[variable.assigns[0]]
    if variable.reads[0] > variable.assigns[0]:
        raise BlockError("it is assigned before it is read")
    held, value = (read.outputs or (-1,))[0], (*(assign.inputs or ()), -1, -1)[1]
    if value < 0 or held < 0:
        raise BlockError("its operators lack a tensor")
    if variable.once > variable.reads[0]:
        raise BlockError("it is initialized behind where it is read")
    index = _joining(moves, held)
    new = _new_steps(moves, operators[index])
    if (fault := _read_elsewhere(moves, held, index)) is not None:
        raise BlockError(f"{operator_label(model, fault)} reads it, too")
    return _checked(moves, variable, index, held, value, new)


def _joining(moves: Moves, held: int) -> int:
    """The CONCATENATION that puts new steps behind what the variable holds. Raises BlockError: there is none."""
    for index, operator in enumerate(moves.model.main.operators):
        first = (operator.inputs or (-1,))[0]
        if operator_name(moves.model, operator) == "CONCATENATION" and moves.origin(first)[0] == held:
            return index
    raise BlockError("no new steps are joined behind what it holds")


def _new_steps(moves: Moves, joining: Operator) -> int:
    """The tensor that a CONCATENATION puts behind the earlier steps."""
    output = read_activation(moves.model, (joining.outputs or (-1,))[0])
    options, inputs = get_options(joining), joining.inputs or ()
    axis = options.get("axis", 0)
    rank = len(output.dims)
    if len(inputs) != 2:
        raise BlockError(f"it is joined with {len(inputs) - 1} tensors")
    if options.get("fused_activation_function", NO_ACTIVATION) != NO_ACTIVATION or not isinstance(axis, int):
        raise BlockError("the joining has options TFLM refuses")
    if not -rank <= axis < rank or prod(output.dims[: axis % rank]) != 1:
        raise BlockError(f"it is joined along axis {axis}, which is not the outermost")
    for part in (read_activation(moves.model, tensor) for tensor in inputs):
        if (part.scale, part.zero_point) != (output.scale, output.zero_point):
            raise BlockError("what is joined is quantized differently, which TFLM refuses")
    return inputs[1]


def _checked(moves: Moves, variable: Variable, joins: int, held: int, value: int, new: int) -> _Ring:
    """That earlier steps stand before the new ones, and that what is assigned is the end of both."""
    model = moves.model
    joining = model.main.operators[joins]
    history, result = (joining.inputs or (-1,))[0], (joining.outputs or (-1,))[0]
    kept, whole = read_activation(model, held), read_activation(model, result)
    if (kept.scale, kept.zero_point) != (whole.scale, whole.zero_point):
        raise BlockError("what it holds is quantized differently from what it is joined to")
    earlier = whole.elements - read_activation(model, new).elements
    if not moves.is_end(history, held) or earlier < 1:
        raise BlockError("it is not its end that the new steps are joined to")
    if not (moves.is_end(value, result) or moves.is_end(value, new)):
        raise BlockError("what is assigned to it is not the end of what it is joined to")
    if variable.first and len(variable.first) != kept.elements:
        raise BlockError("it is initialized with another number of values")
    fill = whole.zero_point
    first = variable.first[kept.elements - earlier :]
    ring = _Ring(variable, joins, new, fill, b"" if set(first) <= {fill % 256} else first)
    trial, operator = _state_operator(model, ring)
    lower_operator(replace_operators(trial, (operator,)), 0)  # raises what a block would say
    return ring


def _read_elsewhere(moves: Moves, held: int, joins: int) -> int | None:
    """An operator that reads what the variable holds, moved or not, but for the joining as its first input."""
    model = moves.model
    for index, operator in enumerate(model.main.operators):
        inputs = (operator.inputs or ())[index == joins :]  # of the joining all but the first
        reads = [tensor for tensor in inputs if tensor >= 0 and moves.origin(tensor)[0] == held]
        if reads and operator_name(model, operator) not in MOVES:
            return index
    if any(moves.origin(tensor)[0] == held for tensor in model.main.outputs):
        return joins
    return None


def _kept_by_others(model: Model, variables: Sequence[Variable], reasons: dict[int, str]) -> dict[int, str]:
    """Variables whose initialization has to stay, and why."""
    called = {operator: graph for graph, operator in initializations(model).items()}
    stays = {variable.once for number, variable in enumerate(variables) if number in reasons}
    gone = {called[variable.once] for variable in variables if variable.once >= 0 and variable.once not in stays}
    behind = set(takewhile(gone.__contains__, range(len(model.subgraphs) - 1, 0, -1)))
    found: dict[int, str] = {}
    for number, variable in enumerate(variables):
        if number in reasons or variable.once < 0:
            continue
        if called[variable.once] not in gone:
            found[number] = "it is initialized together with a variable that is none"
        elif called[variable.once] not in behind:
            found[number] = "the subgraph that initializes it stands before others"
    return found


def _state_operator(model: Model, ring: _Ring) -> tuple[Model, Operator]:
    model, code = add_operator_code(model, custom=STATE_OPERATOR)
    result = (model.main.operators[ring.joins].outputs or (-1,))[0]
    inputs = [ring.new]
    for what, data in (("reset", bytes([ring.fill % 256])), ("first", ring.first)):
        if data:
            model, buffer = add_buffer(model, data)
            name = f"{model.main.tensors[result].name}/{what}"
            model, constant = add_tensor(model, Tensor((len(data),), TensorType.INT8, buffer, name))
            inputs.append(constant)
    return model, Operator(code, tuple(inputs), (result,))


def _rewritten(model: Model, rings: Sequence[_Ring]) -> Model:
    called = {operator: graph for graph, operator in initializations(model).items()}
    emptied = {ring.variable.once for ring in rings if ring.variable.once >= 0}
    model = remove_plan(model) if has_plan(model) else model
    replaced: dict[int, Operator | None] = dict.fromkeys(emptied)
    for ring in rings:
        model, made = _state_operator(model, ring)
        variable = ring.variable
        replaced.update(dict.fromkeys((*variable.handles, *variable.reads, *variable.assigns)))
        replaced[ring.joins] = made
    operators = [replaced.get(index, operator) for index, operator in enumerate(model.main.operators)]
    model = replace_operators(model, list(drop_unread(model, [op for op in operators if op is not None])))
    graphs = {called[once] for once in emptied}
    kept = tuple(graph for number, graph in enumerate(model.subgraphs) if number not in graphs)
    return prune(replace(model, subgraphs=kept))


def drop_unread(model: Model, operators: Sequence[Operator]) -> Iterator[Operator]:
    """The operators without those that move what nobody reads."""
    wanted, kept = set(model.main.outputs), []
    for operator in reversed(operators):
        if operator_name(model, operator) not in MOVES or wanted.intersection(operator.outputs or ()):
            wanted.update(operator.inputs or ())
            kept.append(operator)
    return reversed(kept)
