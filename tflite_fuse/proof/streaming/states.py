"""Variables of the original that hold the last time steps: what a STATE stage of a rewritten model has to compute.

A state is a variable that is read, that new steps are joined to, and that is assigned the end of both behind it. So the
variable always holds the end of all steps there were, and reading and joining is a window on them. Before the first
run that is what a CALL_ONCE assigns, after a reset of the runtime its zero point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
import numpy.typing as npt

from tflite_fuse.fusion.block.enums import StageKind
from tflite_fuse.model.operators import get_options, operator_name
from tflite_fuse.model.schema import Model, Operator, OperatorCode, SubGraph
from tflite_fuse.proof.moves import MOST_VALUES, add_ends, origin
from tflite_fuse.proof.original.meaning import Meaning
from tflite_fuse.proof.original.values import Original, Step
from tflite_fuse.proof.streaming.recurrent import LSTM, lstm
from tflite_fuse.proof.streaming.windows import find_windows

Name = tuple[object, ...]
Numbers = npt.NDArray[np.int64]

_NOT_THE_RUNTIMES = OperatorCode(32, "", 1, 32)
_STATE = "CUSTOM:TFLITE_FUSE_STATE"
_MOST = 1 << 22


@dataclass(frozen=True)
class State:
    """A variable that is a state.

    Attributes:
        steps: the operators that name, read and assign it, by their place among the original's.
        once: the CALL_ONCE that initializes it, -1 for none.
        joining: the operator that joins.
        new, window: the tensor of the new steps, and that of earlier and new ones.
        fill: what a reset leaves.
        first: the earlier steps of the first run; empty if they are all ``fill``.
        step: what a reset leaves of every step, empty if all its values are ``fill``.
        beside: (subgraph, operator) of those that name and assign it where it is initialized.
    """

    steps: frozenset[int]
    once: int
    joining: Step
    new: int
    window: int
    fill: int
    first: bytes
    step: bytes = b""
    beside: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class StateStep(Step):
    """A state as one operator from new steps to window."""

    state: State


@dataclass(frozen=True)
class MixStep(Step):
    """Depthwise convolutions of parts of a window as one operator from the window on; ``joined`` are their results."""

    joined: tuple[int, ...]


@dataclass(frozen=True)
class States:
    """All states of an original.

    Attributes:
        found: them.
        recurrent: operators with states of their own, which a block may keep, by their place.
        once: for each CALL_ONCE that may go when all the states it initializes are in blocks: its subgraph.
    """

    found: tuple[State, ...] = ()
    once: Mapping[int, int] = field(default_factory=dict)
    recurrent: frozenset[int] = frozenset()


def find_states(original: Original) -> States:
    """The states, each added to the original as a step from new steps to window."""
    model = original.model
    lstms = frozenset(
        place for place, step in enumerate(original.steps) if step.name == LSTM and lstm(original, step) is not None
    )
    native = list(_native_states(original))
    for each in native:
        _add_step(original, each)
    variables = any(step.name == "VAR_HANDLE" for step in original.steps)
    if not variables or any(prod(tensor.dims) > MOST_VALUES for tensor in original.tensors):
        return States(tuple(native), recurrent=lstms)
    places = _places(model, model.main)
    beside = [_places(model, graph) for graph in model.subgraphs[1:]]
    once = _initializers(model)
    found: list[State] = []
    only = {place: set[Name]() for place in once}
    for place, graph in once.items():
        only[place] = {name for name, ops in beside[graph - 1].items() if ops["ASSIGN_VARIABLE"]}
    for name, used in places.items():
        elsewhere = [number for number, other in enumerate(beside, start=1) if name in other]
        by = [place for place, graph in once.items() if graph in elsewhere]
        if len(elsewhere) > 1 or len(by) != len(elsewhere):
            continue
        content = _assigned(model, model.subgraphs[once[by[0]]], name) if by else b""
        states = [] if content is None else list(_variable_states(original, used, by[0] if by else -1, content))
        initial = frozenset(
            (number, op) for number in elsewhere for ops in beside[number - 1][name].values() for op in ops
        )
        states = [replace(state, beside=initial) for state in states]
        for state in states:
            _add_step(original, state)
        if states:
            found += states
            add_ends(original, [state.window for state in states])
            for place in by:
                only[place].discard(name)
    return States((*native, *found), {place: graph for place, graph in once.items() if not only[place]}, lstms)


def _add_step(original: Original, state: State) -> None:
    operator = Operator(0, (state.new,), (state.window,))
    original.add_step(StateStep(state.joining.label, "STATE", operator, _NOT_THE_RUNTIMES, state))


def _native_states(original: Original) -> Iterator[State]:
    """States that the original itself speaks of: new steps, and what a reset leaves in all earlier ones."""
    for place, step in enumerate(tuple(original.steps)):
        if step.name != _STATE or len(step.inputs) != 2 or len(step.outputs) != 1:
            continue
        (new, constant), (window,) = step.inputs, step.outputs
        zero, fill = original.activation(window), original.content(constant)
        source, output = original.image(new), original.image(window)
        if zero is None or original.activation(new) != zero or source is None or output is None or not fill:
            continue
        alike = len(set(fill)) == 1
        value = int.from_bytes(fill[:1], "little", signed=True) if alike else zero[1]
        steps = (output[0] if output[0] > source[0] else output[1]) if output[2] else 0
        if alike or len(fill) * steps == prod(output):
            yield State(frozenset({place}), -1, step, new, window, value, b"", b"" if alike else fill)


def state_meaning(original: Original, step: Step) -> Meaning | None:
    """What a step added for a state asks for."""
    if not isinstance(step, StateStep):
        return None
    state = step.state
    source, window = original.image(state.new), original.image(state.window)
    if source is None or window is None or source[2] != window[2]:
        return None
    padding = (window[0] - source[0], window[1] - source[1])
    if min(padding) < 0 or (padding[1] and (padding[0] or window[0] > 1)):
        return None
    return Meaning(
        step, StageKind.STATE, (state.new,), state.window, (source,), window, padding=padding,
        pad=state.fill, first=state.first, left=state.step,
    )  # fmt: skip


_Uses = dict[str, list[int]]


def _places(model: Model, graph: SubGraph) -> dict[Name, _Uses]:
    """For each variable the operators that name, read and assign it."""
    handles: dict[int, Name] = {}
    found: dict[Name, _Uses] = {}
    for index, operator in enumerate(graph.operators):
        kind = operator_name(model, operator)
        if kind == "VAR_HANDLE":
            options = operator.builtin_options  # the runtime compares strings of C, which end at a zero
            vectors = () if options is None else options.vectors
            name = tuple((place, data.split(b"\0")[0]) for place, _, data in vectors)
            handles.update(dict.fromkeys(operator.outputs or (), name))
            uses = found.setdefault(name, {"VAR_HANDLE": [], "READ_VARIABLE": [], "ASSIGN_VARIABLE": []})
            uses[kind].append(index)
            continue
        for position, tensor in enumerate(operator.inputs or ()):
            if tensor in handles:
                known = kind in ("READ_VARIABLE", "ASSIGN_VARIABLE") and position == 0
                found[handles[tensor]].setdefault(kind if known else "other", []).append(index)
    return found


def _initializers(model: Model) -> dict[int, int]:
    """Subgraphs of constant assignments that one CALL_ONCE runs and nobody else names: CALL_ONCE → subgraph."""
    named: list[int] = [signature.subgraph_index for signature in model.signature_defs or ()]
    calls: dict[int, int] = {}
    for number, graph in enumerate(model.subgraphs):
        for index, operator in enumerate(graph.operators):
            for option, value in get_options(operator).items():
                if option.endswith("subgraph_index") and isinstance(value, int):
                    named.append(value)
                    if number == 0 and operator_name(model, operator) == "CALL_ONCE":
                        calls[index] = value
    return {
        index: number
        for index, number in calls.items()
        if named.count(number) == 1 and 0 < number < len(model.subgraphs) and _assigns_alone(model, number)
    }


def _assigns_alone(model: Model, number: int) -> bool:
    graph = model.subgraphs[number]
    kinds = {operator_name(model, operator) for operator in graph.operators}
    names = _places(model, graph)
    constant = all(_assigned(model, graph, name) is not None for name in names)
    return kinds <= {"VAR_HANDLE", "ASSIGN_VARIABLE"} and constant and not graph.outputs


def _assigned(model: Model, graph: SubGraph, name: Name) -> bytes | None:
    """What a subgraph assigns to a variable, once; None if it does not, or what is assigned is no constant."""
    uses = _places(model, graph)[name]
    if len(uses["ASSIGN_VARIABLE"]) != 1 or uses["READ_VARIABLE"] or "other" in uses:
        return None
    inputs = graph.operators[uses["ASSIGN_VARIABLE"][0]].inputs or ()
    return (
        (model.buffers[graph.tensors[inputs[1]].buffer].data or None) if len(inputs) == 2 and inputs[1] >= 0 else None
    )


def _variable_states(original: Original, uses: _Uses, once: int, content: bytes) -> Iterator[State]:
    """A state for each window on a variable, which is read before it is assigned, and assigned its end."""
    reads, assigns = uses["READ_VARIABLE"], uses["ASSIGN_VARIABLE"]
    if not reads or not assigns or not once < min(reads) <= max(reads) < min(assigns) or "other" in uses:
        return
    held = [(*original.steps[read].outputs, -1)[0] for read in reads]
    kept = {prod(original.tensors[tensor].dims) for tensor in held}
    if len(kept) > 1 or (content and len(content) not in kept):
        return
    steps = frozenset(index for kind in ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE") for index in uses[kind])
    for window in find_windows(original, held, original.steps[max(assigns)].operand(1)):
        _, fill = original.activation(window.tensor) or (0.0, 0)
        first = content[len(content) - window.earlier :] if content else b""
        plain = set(first) <= {fill % 256}
        yield State(steps, once, window.joining, window.new, window.tensor, fill, b"" if plain else first)


def mixes(original: Original, states: States) -> Iterator[MixStep]:
    """Windows of states that depthwise convolutions look at in parts: what one of all of the window has to compute."""
    windows = {state.window for state in states.found}
    for step in tuple(original.steps[: len(original.model.main.operators)]):
        joined = (
            step.inputs if step.name == "CONCATENATION" else step.outputs if step.name == "DEPTHWISE_CONV_2D" else ()
        )
        writers = [original.in_file.get(tensor, -1) for tensor in joined]
        if not writers or any(place < 0 or original.steps[place].name != "DEPTHWISE_CONV_2D" for place in writers):
            continue
        sources = {origin(original, original.steps[place].operand(0))[0] for place in writers}
        if len(sources) == 1 and sources <= windows:
            (window,) = sources
            made = Operator(0, (window,), step.outputs)
            yield MixStep(step.label, "MIX", made, _NOT_THE_RUNTIMES, joined)
