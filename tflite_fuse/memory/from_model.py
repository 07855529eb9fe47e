"""A model's first subgraph as memory sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tflite_fuse.errors import ModelError
from tflite_fuse.memory.graph import MemoryGraph, MemoryOp
from tflite_fuse.model.schema import Model, Operator, SubGraph
from tflite_fuse.model.types import TensorType, operator_label, operator_name, tensor_nbytes

FUSED_OPERATOR = "CUSTOM:TFLITE_FUSE"
"""``operator_name`` of this project's own custom operator, which has no effect beyond its outputs."""

_EFFECTS = frozenset(
    {
        "ASSIGN_VARIABLE",
        "CALL",
        "CALL_ONCE",
        "HASHTABLE",
        "HASHTABLE_FIND",
        "HASHTABLE_IMPORT",
        "HASHTABLE_SIZE",
        "IF",
        "MULTINOMIAL",
        "RANDOM_STANDARD_NORMAL",
        "RANDOM_UNIFORM",
        "READ_VARIABLE",
        "STABLEHLO_CASE",
        "STABLEHLO_WHILE",
        "VAR_HANDLE",
        "WHILE",
    }
)

_UNSIZED = frozenset({TensorType.STRING, TensorType.RESOURCE, TensorType.VARIANT})


def is_constant(model: Model, graph: SubGraph, tensor: int) -> bool:
    """True where the tensor's content is stored in the file (it lives in flash, not in the arena)."""
    return bool(model.buffers[graph.tensors[tensor].buffer].data)


def arena_tensors(model: Model, graph: SubGraph) -> frozenset[int]:
    """Tensors the runtime's planner places in the arena's head: neither constants nor variables nor handles."""
    return frozenset(
        index
        for index, tensor in enumerate(graph.tensors)
        if not is_constant(model, graph, index) and not tensor.is_variable and tensor.type not in _UNSIZED
    )


def has_effects(model: Model, graph: SubGraph, operator: Operator) -> bool:
    """True for operators that must keep their order: control flow, variables, resources, foreign custom operators.

    So must operators that meet in a string or a handle: it lies outside the arena, the memory graph does not show it.
    """
    name = operator_name(model, operator)
    if name.startswith("CUSTOM:"):
        return name != FUSED_OPERATOR
    touched = [graph.tensors[t] for t in (*(operator.inputs or ()), *(operator.outputs or ())) if t >= 0]
    return name in _EFFECTS or any(tensor.is_variable or tensor.type in _UNSIZED for tensor in touched)


def with_placed_variables(graph: MemoryGraph, model: Model, offsets: Sequence[int]) -> MemoryGraph:
    """The graph with the variables that a plan places: these lie in the arena, too, and outlive the inference."""
    placed = [t for t, tensor in enumerate(model.main.tensors) if tensor.is_variable and offsets[t] >= 0]
    sizes = list(graph.sizes)
    for tensor in placed:
        sizes[tensor] = tensor_nbytes(model.main.tensors[tensor])
    return replace(graph, sizes=tuple(sizes), resident=(*graph.resident, *placed))


MOST_PARTS = 8192
"""Operators and tensors of a model that its memory is worked out for: planners look at all pairs of tensors."""


def memory_graph(model: Model) -> MemoryGraph:
    """The first subgraph's operators and arena tensors; tensor indices are the model's.

    Tensors outside the arena have size 0. A tensor that is read but that nothing writes counts as a network input.

    Raises:
        ModelError: an arena tensor has a dynamic shape or elements without a size; or there are too many.
    """
    graph = model.main
    if max(len(graph.operators), sum(len(each.tensors) for each in model.subgraphs)) > MOST_PARTS:
        raise ModelError(f"it has more than {MOST_PARTS:,} operators or tensors, too many to work its memory out")
    arena = arena_tensors(model, graph)
    ops = tuple(
        MemoryOp(
            name=operator_label(model, index),
            inputs=tuple(t for t in operator.inputs or () if t in arena),
            outputs=tuple(t for t in operator.outputs or () if t in arena),
            ordered=has_effects(model, graph, operator),
        )
        for index, operator in enumerate(graph.operators)
    )
    written = {t for op in ops for t in op.outputs}
    unwritten = {t for op in ops for t in op.inputs} - written - set(graph.inputs)
    held = arena & (written | unwritten | set(graph.inputs) | set(graph.outputs))
    return MemoryGraph(
        sizes=tuple(tensor_nbytes(t) if i in held else 0 for i, t in enumerate(graph.tensors)),
        ops=ops,
        inputs=tuple(dict.fromkeys(t for t in (*graph.inputs, *sorted(unwritten)) if t in arena)),
        outputs=tuple(dict.fromkeys(t for t in graph.outputs if t in arena)),
        names=tuple(tensor.name or f"tensor {index}" for index, tensor in enumerate(graph.tensors)),
    )
