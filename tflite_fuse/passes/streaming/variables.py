"""The resource variables of a model: who reads and assigns each, and what an initialization leaves in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tflite_fuse.model.operators import get_options, operator_name
from tflite_fuse.model.schema import Model, SubGraph

Key = tuple[object, ...]
"""What a VAR_HANDLE calls its variable: container and name, as far as the runtime compares them."""

_ACCESS = ("READ_VARIABLE", "ASSIGN_VARIABLE")


@dataclass
class Variable:
    """One variable.

    Attributes:
        key: its name.
        handles, reads, assigns: operators of the first subgraph that name, read and assign it.
        once: the CALL_ONCE of the first subgraph that initializes it, -1 for none.
        first: the bytes it is initialized with, empty for none.
        shared: why other subgraphs make it no state of the first one alone, empty if they do not.
    """

    key: Key
    handles: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    assigns: list[int] = field(default_factory=list)
    once: int = -1
    first: bytes = b""
    shared: str = ""


def find_variables(model: Model) -> dict[Key, Variable]:
    """The variables that the first subgraph names."""
    found: dict[Key, Variable] = {}
    for index, name, key in accesses(model, model.main):
        variable = found.setdefault(key, Variable(key))
        {"VAR_HANDLE": variable.handles, "READ_VARIABLE": variable.reads}.get(name, variable.assigns).append(index)
    once = initializations(model)
    for number, graph in enumerate(model.subgraphs[1:], start=1):
        contents = initial_values(model, graph)
        for _, name, key in accesses(model, graph):
            if key not in found or name == "VAR_HANDLE":
                continue
            if contents is None or number not in once or found[key].once >= 0:
                found[key].shared = f"subgraph {number} uses it, too"
            else:
                found[key].once, found[key].first = once[number], contents[key]
    return found


def initializations(model: Model) -> dict[int, int]:
    """For each subgraph that one CALL_ONCE of the first subgraph runs, and nothing else, that operator."""
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
    """What a subgraph leaves in its variables, None unless all it does is to assign constants to them, each once."""
    found: dict[Key, bytes] = {}
    names = {operator_name(model, operator) for operator in graph.operators}
    if graph.outputs or names - {"VAR_HANDLE", "ASSIGN_VARIABLE"}:
        return None
    for index, name, key in accesses(model, graph):
        if name == "ASSIGN_VARIABLE":
            value = graph.read_by(graph.operators[index], 1)
            data = b"" if value is None else model.buffers[value.buffer].data or b""
            if key in found or not data:
                return None
            found[key] = data
    return found


def accesses(model: Model, graph: SubGraph) -> Iterator[tuple[int, str, Key]]:
    """(operator, its name, variable) of each that names, reads or assigns a variable."""
    names: dict[int, Key] = {}
    for index, operator in enumerate(graph.operators):
        name = operator_name(model, operator)
        if name == "VAR_HANDLE" and operator.outputs:
            given = operator.builtin_options.vectors if operator.builtin_options is not None else ()
            names[operator.outputs[0]] = tuple((field_, data.partition(b"\0")[0]) for field_, _, data in given)
            yield index, name, names[operator.outputs[0]]
        elif name in _ACCESS and operator.inputs and operator.inputs[0] in names:
            yield index, name, names[operator.inputs[0]]
