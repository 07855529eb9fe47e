"""States of fused blocks in place of variables that hold the last time steps.

    READ_VARIABLE, CONCATENATION with the new steps, STRIDED_SLICE, ASSIGN_VARIABLE   =   one STATE

The slice may come before or behind the concatenation, by any operator that moves values. If several windows are joined,
the STATE is the longest, and the others are ends of it. A CALL_ONCE is removed if it initializes only states; otherwise
its subgraph keeps the operators that initialize other variables.

A window ends with the newest step. Positions count the variable's values and then the new ones, for example for a
variable of 5 steps and one new step: positions 0 … 4 and 5.

    CONCATENATION of its last 2 steps and the new one: 3, 4, 5; of all of it and the new one: 0, 1, 2, 3, 4, 5

All such windows are ends of the longest. A variable is a state if the last positions of all are assigned to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from math import prod
from typing import ClassVar

import numpy as np

from tflite_fuse.errors import BlockError, ModelError
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.edit import Editor, drop_unread, prune, replace_operators
from tflite_fuse.model.operators import get_options, operator_label, operator_name
from tflite_fuse.model.schema import Model, Operator, SubGraph, Tensor
from tflite_fuse.model.types import TensorType
from tflite_fuse.notes import note
from tflite_fuse.ops.kinds.state import STATE_OPERATOR
from tflite_fuse.ops.lowering.lower import lower_operator
from tflite_fuse.ops.lowering.movement import MOST_VALUES, MOVES, Indices, moves_in
from tflite_fuse.ops.lowering.operands import Activation, read_activation
from tflite_fuse.ops.lowering.requantization import NO_ACTIVATION
from tflite_fuse.passes.base import PassResult


@dataclass(frozen=True)
class Moves:
    """Tensors of a model's first subgraph that operators of ``MOVES`` write, with the origin of their values."""

    model: Model

    @cached_property
    def _origins(self) -> dict[int, tuple[int, Indices]]:
        origins: dict[int, tuple[int, Indices]] = {}
        for source, parts in moves_in(self.model):
            start, way = origins.get(source.index, (source.index, None))
            for tensor, indices in parts:
                origins[tensor] = start, indices if way is None else way.ravel()[indices]
        return origins

    def origin(self, tensor: int) -> tuple[int, Indices | None]:
        """Return the tensor furthest up, and the indices of its values in the tensor's shape; None for all of them."""
        return self._origins.get(tensor, (tensor, None))


Key = tuple[object, ...]
"""Container and name of a VAR_HANDLE, as far as the runtime compares them."""

_ACCESS = ("READ_VARIABLE", "ASSIGN_VARIABLE")


@dataclass
class Variable:
    """One variable.

    Attributes:
        key: its name.
        handles, reads, assigns: operators of the first subgraph that name, read and assign it.
        once: index of the CALL_ONCE of the first subgraph that initializes it, -1 for none.
        first: its initial bytes, empty for none.
        shared: reason why other subgraphs prevent it from being a state, or empty.
    """

    key: Key
    handles: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    assigns: list[int] = field(default_factory=list)
    once: int = -1
    first: bytes = b""
    shared: str = ""


def find_variables(model: Model) -> dict[Key, Variable]:
    """Return the variables that the first subgraph names."""
    variables: dict[Key, Variable] = {}
    for index, name, key in accesses(model, model.main):
        variable = variables.setdefault(key, Variable(key))
        {"VAR_HANDLE": variable.handles, "READ_VARIABLE": variable.reads}.get(name, variable.assigns).append(index)
    once = initializations(model)
    for number, graph in enumerate(model.subgraphs[1:], start=1):
        contents = initial_values(model, graph)
        for _, name, key in accesses(model, graph):
            if key not in variables or name == "VAR_HANDLE":
                continue
            if contents is None or number not in once or variables[key].once >= 0:
                variables[key].shared = f"subgraph {number} uses it, too"
            else:
                variables[key].once, variables[key].first = once[number], contents[key]
    return variables


def initializations(model: Model) -> dict[int, int]:
    """Return, for each subgraph called only by one CALL_ONCE of the first subgraph, that operator."""
    called: dict[int, list[int]] = {}
    for number, graph in enumerate(model.subgraphs):
        for index, operator in enumerate(graph.operators):
            for option, value in get_options(operator).items():
                if option.endswith("subgraph_index") and isinstance(value, int):
                    is_ours = number == 0 and option == "init_subgraph_index"
                    called.setdefault(value, []).append(index if is_ours else -1)
    named = {signature.subgraph_index for signature in model.signature_defs or ()}
    return {number: by[0] for number, by in called.items() if len(by) == 1 and by[0] >= 0 and number not in named}


def initial_values(model: Model, graph: SubGraph) -> Mapping[Key, bytes] | None:
    """Return the values that a subgraph assigns to its variables; None unless it only assigns constants, each once."""
    contents: dict[Key, bytes] = {}
    names = {operator_name(model, operator) for operator in graph.operators}
    if graph.outputs or names - {"VAR_HANDLE", "ASSIGN_VARIABLE"}:
        return None
    for index, name, key in accesses(model, graph):
        if name == "ASSIGN_VARIABLE":
            value = graph.read_by(graph.operators[index], 1)
            data = b"" if value is None else model.buffers[value.buffer].data or b""
            if key in contents or not data:
                return None
            contents[key] = data
    return contents


def accesses(model: Model, graph: SubGraph) -> Iterator[tuple[int, str, Key]]:
    """Yield (operator, its name, variable) of each operator that names, reads or assigns a variable."""
    names: dict[int, Key] = {}
    for index, operator in enumerate(graph.operators):
        name = operator_name(model, operator)
        if name == "VAR_HANDLE" and operator.outputs:
            vectors = operator.builtin_options.vectors if operator.builtin_options is not None else ()
            names[operator.outputs[0]] = tuple((field_, data.partition(b"\0")[0]) for field_, _, data in vectors)
            yield index, name, names[operator.outputs[0]]
        elif name in _ACCESS and operator.inputs and operator.inputs[0] in names:
            yield index, name, names[operator.inputs[0]]


@dataclass(frozen=True)
class Windows:
    """Windows on a variable's steps.

    Attributes:
        joins, unread: CONCATENATIONs that make windows with a reader, in order, and those read only by the assignment.
        longest: the window of which the others are ends.
        new: tensor of the new steps.
        kept, earlier: number of values of the variable, and of its end at the start of the longest window.
    """

    joins: tuple[int, ...]
    unread: tuple[int, ...]
    longest: Activation
    new: int
    kept: int
    earlier: int


def find_windows(moves: Moves, variable: Variable) -> Windows:
    """Return the windows on a variable's values and the new steps.

    Raises:
        BlockError: the reason why the variable is no state, as a clause.
    """
    model, operators = moves.model, moves.model.main.operators
    if any(prod(tensor.dims) > MOST_VALUES for tensor in model.main.tensors):
        raise BlockError(f"the model has a tensor of more than {MOST_VALUES:,} values")
    if not variable.reads or not variable.assigns:
        raise BlockError(f"it is read {len(variable.reads)} times and assigned {len(variable.assigns)} times")
    if max(variable.reads) > min(variable.assigns):
        raise BlockError("it is assigned before it is read")
    if variable.once > min(variable.reads):
        raise BlockError("it is initialized after it is read")
    held = [operators[read].output for read in variable.reads]
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
    windows = [read_activation(model, operators[index].output) for index in live]
    longest = max(windows, key=lambda window: window.elements)
    if (kept.scale, kept.zero_point) != (longest.scale, longest.zero_point):
        raise BlockError("it is quantized differently from the steps joined to it")
    if any(len(window.dims) != len(longest.dims) or _axes(window, longest) > 1 for window in windows):
        raise BlockError("it is joined in several shapes")
    everything = kept.elements + positions.new
    if not positions.are(value, everything - kept.elements, everything):
        raise BlockError("the value assigned to it is not the end of the joined steps")
    unread = tuple(index for index in joins if index not in live)
    return Windows(tuple(live), unread, longest, new, kept.elements, longest.elements - positions.new)


def _axes(a: Activation, b: Activation) -> int:
    return sum(size != other for size, other in zip(a.dims, b.dims, strict=True))


def _new_steps(moves: Moves, held: Sequence[int]) -> int:
    """Return the tensor that is joined behind the end of a variable's values."""
    for operator in moves.model.main.operators:
        inputs = operator.inputs or ()
        if operator_name(moves.model, operator) == "CONCATENATION" and inputs and moves.origin(inputs[0])[0] in held:
            if len(inputs) != 2:
                raise BlockError(f"it is joined with {len(inputs) - 1} tensors")
            if moves.origin(inputs[1])[0] in held:
                raise BlockError("it is joined with its own steps")
            return inputs[1]
    raise BlockError("no new steps are joined behind its values")


@dataclass
class _Positions:
    """Positions of a tensor's values among a variable's values (from 0) and the new ones behind them.

    Attributes:
        moves: moves of the model.
        held: tensors that hold the variable.
        kept: number of its values.
        steps, new: tensor of the new steps, and the number of its values.
    """

    moves: Moves
    held: Sequence[int]
    kept: int
    steps: int
    new: int = 0
    _positions: dict[int, Indices] = field(default_factory=dict)

    def __post_init__(self) -> None:
        model = self.moves.model
        dims = model.main.tensors[self.held[0]].dims
        self._positions.update(dict.fromkeys(self.held, np.arange(self.kept, dtype=np.int32).reshape(dims)))
        self.new = read_activation(model, self.steps).elements
        behind = np.arange(self.kept, self.kept + self.new, dtype=np.int32)
        source, indices = self.moves.origin(self.steps)
        dims = model.main.tensors[source].dims
        places = np.full(int(np.prod(dims)), -1, np.int32)  # -1: a value of another tensor
        places[np.arange(self.new) if indices is None else indices.ravel()] = behind
        self._positions[source] = places.reshape(dims)
        for operator in model.main.operators:
            if (joined := self._joined(operator)) is not None:
                self._positions[operator.output] = joined

    def of(self, tensor: int) -> Indices | None:
        """Return the positions of a tensor's values, in its shape; None if it has other values."""
        source, indices = self.moves.origin(tensor)
        positions = self._positions.get(source)
        return positions if positions is None or indices is None else positions.ravel()[indices]

    def are(self, tensor: int, first: int, end: int) -> bool:
        """Return whether a tensor holds these positions, in order."""
        positions = self.of(tensor)
        return positions is not None and np.array_equal(positions.ravel(), np.arange(first, end))

    def joins(self) -> Iterator[int]:
        """Yield the CONCATENATIONs that make windows with the newest step at their end."""
        for index, operator in enumerate(self.moves.model.main.operators):
            if operator_name(self.moves.model, operator) == "CONCATENATION":
                output = operator.output
                positions, end = self._positions.get(output), self.kept + self.new
                if positions is not None and positions.size > self.new and self.are(output, end - positions.size, end):
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
            raise BlockError("the concatenation has options that TFLM refuses")
        output = read_activation(model, outputs[0])
        for part in (read_activation(model, tensor) for tensor in inputs):
            if (part.scale, part.zero_point) != (output.scale, output.zero_point):
                raise BlockError("the joined tensors are quantized differently, which TFLM refuses")
        try:
            joined: Indices = np.concatenate([part for part in parts if part is not None], axis)
        except ValueError:
            return None
        return joined if joined.shape == output.dims else None


def _read(moves: Moves, variable: Variable, held: Sequence[int], joins: Sequence[int]) -> list[int]:
    """Return the joins whose windows have a reader besides the variable's assignment; the last one if none has.

    Raises:
        BlockError: another operator reads the variable's values, moved or not.
    """
    if not joins:
        raise BlockError("the new steps are not joined to its end")
    model, gone = moves.model, {*variable.reads, *variable.assigns}
    needed, live = set(model.main.outputs), list[int]()
    if any(moves.origin(tensor)[0] in held for tensor in needed):
        raise BlockError(f"{operator_label(model, joins[0])} reads it, too")
    for index, operator in reversed(list(enumerate(model.main.operators))):
        outputs, inputs = operator.outputs or (), operator.inputs or ()
        moving = bool(outputs) and all(moves.origin(tensor)[0] != tensor for tensor in outputs)
        if index in gone or ((moving or index in joins) and not needed.intersection(outputs)):
            continue
        if index in joins:
            live.append(index)
            continue
        needed.update(inputs)
        if not moving and any(tensor >= 0 and moves.origin(tensor)[0] in held for tensor in inputs):
            raise BlockError(f"{operator_label(model, index)} reads it, too")
    return live[::-1] or [joins[-1]]


@dataclass(frozen=True)
class _Ring:
    """A variable that is a state.

    Attributes:
        variable: the variable.
        windows: windows of its values and the new steps.
        fill: value of its elements after a reset.
        first: values of the earlier steps in the first inference, empty if they equal ``fill``.
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
        """Rewrite a model. If it changes, an offline memory plan is dropped, because tensor indices change.

        Raises:
            ModelError: a variable is read but never assigned.
        """
        variables = list(find_variables(model).values())
        if not variables:
            return PassResult(model, False)
        _check_assigned(model, variables)
        moves = Moves(model)
        rings: dict[int, _Ring] = {}
        reasons: dict[int, str] = {}
        for number, variable in enumerate(variables):
            try:
                rings[number] = _find_ring(moves, variable)
            except BlockError as error:
                reasons[number] = str(error)
        reasons.update(_kept_by_others(model, variables, reasons))
        chosen = [ring for number, ring in rings.items() if number not in reasons]
        notes = [
            note("kept", "variable", operator_label(model, variables[number].handles[0]), why=reason)
            for number, reason in sorted(reasons.items())
        ]
        if not chosen:
            return PassResult(model, False, tuple(notes))
        labels = [operator_label(model, ring.windows.joins[0]) for ring in chosen]
        notes.insert(0, note("changed", "state", *labels))
        return PassResult(_rewritten(model, chosen), True, tuple(notes))


def _check_assigned(model: Model, variables: Sequence[Variable]) -> None:
    """Raise ModelError for a READ_VARIABLE without assignment: the runtime leaves its output uninitialized."""
    for each in variables:
        if each.reads and not each.assigns and each.once < 0 and not each.shared:
            label = operator_label(model, each.reads[0])
            raise ModelError(f"{label} reads a variable that is never assigned, so its values are undefined")


def _find_ring(moves: Moves, variable: Variable) -> _Ring:
    """Return a variable's state. Raises BlockError with the reason why it is none, as a clause."""
    if variable.shared:
        raise BlockError(variable.shared)
    windows = find_windows(moves, variable)
    if variable.first and len(variable.first) != windows.kept:
        raise BlockError("it is initialized with another number of values")
    fill = windows.longest.zero_point
    first = variable.first[windows.kept - windows.earlier :]
    ring = _Ring(variable, windows, fill, b"" if set(first) <= {fill % 256} else first)
    trial = Editor(moves.model)
    _add_operators(trial, ring)
    lower_operator(trial.finish(), 0)  # raises BlockError if no block supports it
    return ring


def _kept_by_others(model: Model, variables: Sequence[Variable], reasons: dict[int, str]) -> dict[int, str]:
    """Return variables whose initialization must stay, with the reasons."""
    called = {operator: graph for graph, operator in initializations(model).items()}
    stays = {variable.once for number, variable in enumerate(variables) if number in reasons}
    gone = {called[variable.once] for variable in variables if variable.once >= 0 and variable.once not in stays}
    behind = set(takewhile(gone.__contains__, range(len(model.subgraphs) - 1, 0, -1)))
    return {
        number: "the subgraph that initializes it stands before others"
        for number, variable in enumerate(variables)
        if number not in reasons and variable.once >= 0 and called[variable.once] in gone - behind
    }


def _add_operators(editor: Editor, ring: _Ring) -> None:
    """Add the STATE, followed by the operators that cut the other windows from the longest one."""
    longest = ring.windows.longest
    inputs = [ring.windows.new]
    for what, data in (("reset", bytes([ring.fill % 256])), ("first", ring.first)):
        if data:
            described = Tensor((len(data),), TensorType.INT8, 0, f"{longest.name}/{what}")
            inputs.append(editor.constant(described, data))
    editor.add(f"CUSTOM:{STATE_OPERATOR}", inputs, longest.index)
    for index in ring.windows.joins:
        window = editor.model.main.operators[index].output
        if window != longest.index:  # an end of the longest
            dims = editor.dims(window)
            begin = [a - b for a, b in zip(editor.dims(longest.index), dims, strict=True)]
            part = editor.int32(f"{longest.name}/begin", begin), editor.int32(f"{longest.name}/size", dims)
            editor.add("SLICE", (longest.index, *part), window)


def _rewritten(model: Model, rings: Sequence[_Ring]) -> Model:
    called = {operator: graph for graph, operator in initializations(model).items()}
    states = {ring.variable.key for ring in rings}
    still_called = {each.once for key, each in find_variables(model).items() if key not in states}
    emptied = {ring.variable.once for ring in rings if ring.variable.once >= 0} - still_called
    editor, gone = Editor(remove_plan(model)), set(emptied)
    placed = {ring.windows.joins[0]: ring for ring in rings}  # here new steps are computed, and no window is read yet
    for ring in rings:
        variable, windows = ring.variable, ring.windows
        gone.update((*variable.handles, *variable.reads, *variable.assigns, *windows.unread, *windows.joins))
    for index, operator in enumerate(model.main.operators):
        if index in placed:
            _add_operators(editor, placed[index])
        elif index not in gone:
            editor.operators.append(operator)
    model = editor.finish()
    model = replace_operators(model, drop_unread(model, editor.operators, MOVES))
    graphs = {called[once] for once in emptied}
    initializing = {called[once] for once in still_called if once >= 0}
    kept = tuple(
        _without(model, graph, states) if number in initializing else graph
        for number, graph in enumerate(model.subgraphs)
        if number not in graphs
    )
    return prune(replace(model, subgraphs=kept))


def _without(model: Model, graph: SubGraph, states: Collection[Key]) -> SubGraph:
    """Return an initializing subgraph without the operators that name and assign states."""
    gone = {index for index, _, key in accesses(model, graph) if key in states}
    return replace(graph, operators=tuple(op for index, op in enumerate(graph.operators) if index not in gone))
