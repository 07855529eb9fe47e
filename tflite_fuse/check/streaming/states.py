"""Variables of the original that hold the last time steps, and the STATE stage that must replace them.

A state is a variable that is read, joined with new time steps, and assigned the end of the result. So it always holds
the last time steps, and the joined tensor is a window on them. Before the first run it holds the value of its
CALL_ONCE, after a reset of the runtime its zero point. Windows are found by numbering values: those of the variable
from 0 on, then the new ones, followed through operators that move or join values.

A rewritten model lacks all operators of a state or none. Depthwise convolutions of parts of a window, joined, are one
depthwise convolution with zeros between its taps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
import numpy.typing as npt

from tflite_fuse.check.moves import MOST_VALUES, add_ends, origin
from tflite_fuse.check.original.layers import depthwise
from tflite_fuse.check.original.meaning import Meaning
from tflite_fuse.check.original.values import Original, Step
from tflite_fuse.check.streaming.recurrent import LSTM, lstm
from tflite_fuse.ir.enums import StageKind
from tflite_fuse.model.operators import get_options, operator_name
from tflite_fuse.model.schema import Model, Operator, OperatorCode, SubGraph

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Window:
    """The result of a CONCATENATION of a variable's newest values and the new ones.

    Attributes:
        joining: the operator.
        new: the tensor of the new values.
        tensor: the window.
        earlier: number of the variable's values in it.
    """

    joining: Step
    new: int
    tensor: int
    earlier: int


def find_windows(original: Original, held: Sequence[int], value: int) -> list[Window]:
    """Return the windows on a variable that ``held`` tensors hold; none unless it is assigned the end of all values.

    Only windows of int8 with one quantization are returned.
    """
    new = next((step.inputs[1] for step in _joinings(original) if origin(original, step.inputs[0])[0] in held), -1)
    if min(*held, value, new) < 0 or origin(original, new)[0] in held:
        return []
    kept, end = (prod(original.tensors[held[0]].dims), prod(original.tensors[new].dims))
    end += kept
    numbers = _numbered(original, held, new, kept, end)
    if not _holds(original, numbers, value, end - kept, end):
        return []
    windows = []
    for step in _joinings(original):
        size = prod(original.tensors[step.outputs[0]].dims)
        alike = _alike(original, (*held, new, value, *step.inputs, step.outputs[0]))
        if alike and end - kept < size <= end and _holds(original, numbers, step.outputs[0], end - size, end):
            windows.append(Window(step, new, step.outputs[0], size - (end - kept)))
    return windows


def _joinings(original: Original) -> Iterator[Step]:
    for step in original.steps[: len(original.model.main.operators)]:
        joins = step.name == "CONCATENATION" and len(step.inputs) > 1 and len(step.outputs) == 1
        if joins and min(step.inputs) >= 0 and not step.number("fused_activation_function"):
            yield step


def _numbered(original: Original, held: Sequence[int], new: int, kept: int, end: int) -> dict[int, Numbers]:
    """Return the numbers of values by tensor, for tensors that are their own origin; -1 for other values."""
    source, places = origin(original, new)
    numbers = np.full(prod(original.tensors[source].dims), -1, np.int64)
    numbers[places.ravel()] = np.arange(kept, end)
    by_tensor = {source: numbers}
    by_tensor.update((tensor, np.arange(kept)) for tensor in held)
    for step in _joinings(original):
        dims, parts = original.tensors[step.outputs[0]].dims, []
        for tensor in step.inputs:
            further, which = origin(original, tensor)
            if further in by_tensor:
                parts.append(by_tensor[further][which])
        axis = step.number("axis")
        if len(parts) < len(step.inputs) or not -len(dims) <= axis < len(dims):
            continue
        sides = [tuple(np.delete(part.shape, axis)) if part.ndim == len(dims) else None for part in parts]
        if None not in sides and len(set(sides)) == 1:
            joined = np.concatenate(parts, axis)
            if joined.shape == dims:
                by_tensor[step.outputs[0]] = joined.ravel()
    return by_tensor


def _holds(original: Original, numbers: dict[int, Numbers], tensor: int, first: int, end: int) -> bool:
    source, which = origin(original, tensor)
    return source in numbers and np.array_equal(numbers[source][which.ravel()], np.arange(first, end))


def _alike(original: Original, tensors: Sequence[int]) -> bool:
    quantized = {original.activation(tensor) for tensor in tensors}
    return len(quantized) == 1 and None not in quantized and not any(map(original.is_unsigned, tensors))


def droppable(states: States) -> frozenset[int]:
    """Return the original's operators that blocks may replace."""
    return frozenset().union(states.once, states.recurrent, *(state.steps for state in states.windowed))


def dropped_graphs(original: Original, states: States, dropped: Collection[int]) -> tuple[set[int], list[str]]:
    """Return the subgraphs that are gone with dropped operators, and labels of operators that may not be dropped.

    A read without its assignment, or the other way round, would use another variable. A CALL_ONCE may be missing only
    with all the states it initializes.
    """
    wrong = [index for index in dropped if index not in droppable(states)]
    wrong += list(_halves(states, set(dropped)))
    graphs = {graph for index, graph in states.once.items() if index in dropped}
    return graphs, [original.steps[index].label for index in sorted(set(wrong))]


def uninitialized(states: States, dropped: Collection[int]) -> frozenset[tuple[int, int]]:
    """Return (subgraph, operator) of dropped initializers in subgraphs that stay because they initialize others."""
    gone = [state for state in states.windowed if state.steps <= set(dropped) and state.once not in dropped]
    return frozenset().union(*(state.beside for state in gone))


def _halves(states: States, dropped: set[int]) -> Iterator[int]:
    for state in states.windowed:
        if state.steps & dropped and not state.steps <= dropped:
            yield from state.steps & dropped
        if state.once in dropped and not state.steps <= dropped:
            yield state.once


Name = tuple[object, ...]

_NOT_THE_RUNTIMES = OperatorCode(32, "", 1, 32)
_STATE = "CUSTOM:TFLITE_FUSE_STATE"


@dataclass(frozen=True)
class State:
    """A variable that is a state.

    Attributes:
        steps: numbers of the original's operators that name, read and assign it.
        once: the CALL_ONCE that initializes it, -1 for none.
        joining: the operator that joins.
        new, window: the tensor of the new time steps, and that of earlier and new ones.
        fill: value after a reset.
        first: the earlier time steps of the first run; empty if they are all ``fill``.
        step: one time step after a reset; empty if all its values are ``fill``.
        beside: (subgraph, operator) of those that name and assign it in its initializer.
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
    """A state as one operator from new time steps to window."""

    state: State


@dataclass(frozen=True)
class MixStep(Step):
    """Depthwise convolutions of parts of a window as one operator on the window; ``joined`` are their results."""

    joined: tuple[int, ...]


@dataclass(frozen=True)
class States:
    """All states of an original.

    Attributes:
        windowed: those of which operators read a window of earlier and new time steps.
        recurrent: numbers of operators with states of their own, which a block may keep.
        once: CALL_ONCE → its subgraph, for those that may be dropped with all the states they initialize.
    """

    windowed: tuple[State, ...] = ()
    once: Mapping[int, int] = field(default_factory=dict)
    recurrent: frozenset[int] = frozenset()


def find_states(original: Original) -> States:
    """Find the states and add each to the original as a step from new time steps to window."""
    model = original.model
    lstms = frozenset(
        place for place, step in enumerate(original.steps) if step.name == LSTM and lstm(original, step) is not None
    )
    native = list(_native_states(original))
    for each in native:
        _add_step(original, each)
    variables = any(step.name == "VAR_HANDLE" for step in original.steps)
    shapes = [tensor.dims for tensor in original.tensors]
    if not variables or any(prod(dims) > MOST_VALUES or min(dims, default=0) < 0 for dims in shapes):
        return States(tuple(native), recurrent=lstms)
    places = _places(model, model.main)
    beside = [_places(model, graph) for graph in model.subgraphs[1:]]
    once = _initializers(model)
    of_variables: list[State] = []
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
            of_variables += states
            add_ends(original, [state.window for state in states])
            for place in by:
                only[place].discard(name)
    return States((*native, *of_variables), {place: graph for place, graph in once.items() if not only[place]}, lstms)


def _add_step(original: Original, state: State) -> None:
    operator = Operator(0, (state.new,), (state.window,))
    original.add_step(StateStep(state.joining.label, "STATE", operator, _NOT_THE_RUNTIMES, state))


def _native_states(original: Original) -> Iterator[State]:
    """Return the states of the original's own STATE operators: new time steps, and the value of earlier ones after a
    reset."""
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
    """Return the stage of a step that was added for a state."""
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
    """Return for each variable the operators that name, read and assign it."""
    handles: dict[int, Name] = {}
    uses_of: dict[Name, _Uses] = {}
    for index, operator in enumerate(graph.operators):
        kind = operator_name(model, operator)
        if kind == "VAR_HANDLE":
            options = operator.builtin_options  # the runtime compares C strings, which end at a zero byte
            vectors = () if options is None else options.vectors
            name = tuple((place, data.split(b"\0")[0]) for place, _, data in vectors)
            handles.update(dict.fromkeys(operator.outputs or (), name))
            uses = uses_of.setdefault(name, {"VAR_HANDLE": [], "READ_VARIABLE": [], "ASSIGN_VARIABLE": []})
            uses[kind].append(index)
            continue
        for position, tensor in enumerate(operator.inputs or ()):
            if tensor in handles:
                is_access = kind in ("READ_VARIABLE", "ASSIGN_VARIABLE") and position == 0
                uses_of[handles[tensor]].setdefault(kind if is_access else "other", []).append(index)
    return uses_of


def _initializers(model: Model) -> dict[int, int]:
    """Return CALL_ONCE → subgraph for subgraphs that only assign constants and that no other operator or signature
    names."""
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
    """Return the constant that a subgraph assigns once to a variable; None for anything else."""
    uses = _places(model, graph)[name]
    if len(uses["ASSIGN_VARIABLE"]) != 1 or uses["READ_VARIABLE"] or "other" in uses:
        return None
    inputs = graph.operators[uses["ASSIGN_VARIABLE"][0]].inputs or ()
    return (
        (model.buffers[graph.tensors[inputs[1]].buffer].data or None) if len(inputs) == 2 and inputs[1] >= 0 else None
    )


def _variable_states(original: Original, uses: _Uses, once: int, content: bytes) -> Iterator[State]:
    """Return a state for each window on a variable that is read before it is assigned its end."""
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
    """Return a single step for depthwise convolutions that each read a part of a state's window and are joined."""
    windows = {state.window for state in states.windowed}
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
            operator = Operator(0, (window,), step.outputs)
            yield MixStep(step.label, "MIX", operator, _NOT_THE_RUNTIMES, joined)


def mix_meaning(original: Original, step: Step) -> Meaning | None:
    """Return one DEPTHWISE with all taps of all parts, each in its rows and channels, zeros elsewhere."""
    if not isinstance(step, MixStep):
        return None
    window, result = step.inputs[0], step.outputs[0]
    image, output = original.image(window), original.image(result)
    if image is None or output is None or output[2] != image[2]:
        return None
    placed: list[tuple[int, Meaning]] = []
    for tensor in step.joined:
        if original.activation(tensor) != original.activation(result):
            return None
        meaning = depthwise(original, original.steps[original.in_file[tensor]])
        if meaning is None or meaning.weights is None:
            return None
        row = _first_row(original, meaning, image, sum(_depth(part) for _, part in placed))
        if row is None:
            return None
        placed.append((row, meaning))
    first = placed[0][1]
    alike = [(p.stride, p.dilation, p.clamp, p.kernel[1], p.padding, p.multiplier_of_depth) for _, p in placed]
    if set(alike) != {alike[0]} or first.padding != (0, 0) or first.multiplier_of_depth != 1:
        return None
    apart = first.dilation[0]
    if sum(_depth(part) for _, part in placed) != image[2] or any(row % apart for row, _ in placed):
        return None
    taps = max(row // apart + part.kernel[0] for row, part in placed)
    if (image[0] - (taps - 1) * apart - 1) // first.stride[0] + 1 != output[0]:
        return None
    weights, begin = np.zeros((image[2], taps, first.kernel[1], 1), np.int8), 0
    for row, part in placed:
        assert part.weights is not None
        weights[begin : begin + _depth(part), row // apart : row // apart + part.kernel[0]] = part.weights
        begin += _depth(part)
    bias, multiplier, shift = (
        np.concatenate([getattr(part, name) for _, part in placed]) for name in ("bias", "multiplier", "shift")
    )
    return replace(
        first, step=step, sources=(window,), result=result, images=(image,), output=output,
        kernel=(taps, first.kernel[1]), weights=weights, bias=bias, multiplier=multiplier, shift=shift, folds=False,
    )  # fmt: skip


def _depth(part: Meaning) -> int:
    return 0 if part.weights is None else len(part.weights)


def _first_row(original: Original, part: Meaning, image: tuple[int, int, int], channel: int) -> int | None:
    """Return the window's row where a part's input begins; None if the input is not all rows from there in its
    channels."""
    source, numbers = origin(original, part.sources[0])
    seen, all_ = original.image(part.sources[0]), original.image(source)
    if seen is None or all_ is None or prod(image) != prod(all_) or prod(image) > MOST_VALUES:
        return None
    whole = np.arange(prod(image)).reshape(image)
    row = image[0] - seen[0]
    expected = whole[row:, :, channel : channel + seen[2]]
    return row if row >= 0 and np.array_equal(expected.ravel(), numbers.ravel()) else None
