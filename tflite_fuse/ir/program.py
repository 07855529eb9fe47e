"""A program: steps in execution order and the tensors between them, for planners, searches and reports.

A step is an operator of a file or a fused block. A candidate of the search is a program: all candidates share the
original file, and only the selected one becomes a file of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tflite_fuse.errors import ModelError, PlanError
from tflite_fuse.model.edit import replace_main, used_tensors
from tflite_fuse.model.memories import slow_tensors
from tflite_fuse.model.schema import Model, Operator, SubGraph
from tflite_fuse.model.types import TensorType, operator_label, operator_name, tensor_nbytes


@dataclass(frozen=True)
class Step:
    """One operator or fused block.

    Attributes:
        name: name in messages and reports.
        inputs: arena tensors that it reads, in order, indices into ``Program.sizes``; a tensor may repeat.
        outputs: arena tensors that it writes.
        ordered: True for an operator with effects beyond its outputs (variables, control flow, resources). Ordered
            operators keep their relative order.
        in_place: pairs (input tensor, output tensor) that may share memory under the kernel set in use: the kernel
            never reads an input byte after the output byte at the same place was written.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    ordered: bool = False
    in_place: tuple[tuple[int, int], ...] = ()


def readers_of(steps: Sequence[Step], tensors: int) -> tuple[tuple[int, ...], ...]:
    """Return for each of so many tensors the steps that read it, ascending."""
    readers: list[list[int]] = [[] for _ in range(tensors)]
    for index, step in enumerate(steps):
        for tensor in dict.fromkeys(step.inputs):
            readers[tensor].append(index)
    return tuple(map(tuple, readers))


def writers_of(steps: Sequence[Step], tensors: int) -> tuple[int, ...]:
    """Return for each of so many tensors the last step that writes it, −1 for none."""
    writers = [-1] * tensors
    for index, step in enumerate(steps):
        for tensor in step.outputs:
            writers[tensor] = index
    return tuple(writers)


@dataclass(frozen=True)
class Program:
    """Steps in execution order and the arena tensors between them.

    Constants have size 0, because they are in flash. Programs made from descriptions of graphs have neither ``file``
    nor ``graph``.

    Attributes:
        sizes: bytes of each tensor. Unused tensors have an entry too: indices are those of ``graph``.
        steps: in execution order (a valid topological order).
        inputs: network inputs: live from the start until their last use.
        outputs: network outputs: live from their producer until the end.
        resident: tensors that are always live (variables). They count in every working set.
        names: one name per tensor, for messages.
        file: source of the program: operator codes, constants, further subgraphs.
        graph: operators of the steps, in the same order, over the file's tensors followed by those of blocks.
        absent: tensors of ``graph`` that the program does not have, because blocks replace all their operators.
        slow: tensors in the slow memory; in the arena they have size 0.
    """

    sizes: tuple[int, ...]
    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    resident: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    file: Model | None = field(default=None, repr=False, compare=False)
    graph: SubGraph | None = field(default=None, repr=False, compare=False)
    absent: frozenset[int] = frozenset()
    slow: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if not self.names:
            object.__setattr__(self, "names", tuple(f"t{i}" for i in range(len(self.sizes))))
        if len(self.names) != len(self.sizes):
            raise ModelError(f"the graph has {len(self.names)} names and {len(self.sizes)} sizes of tensors")
        written = set(self.inputs) | set(self.resident)
        for op in self.steps:
            for tensor in (*op.inputs, *op.outputs):
                if not 0 <= tensor < len(self.sizes):
                    raise ModelError(f"operator {op.name} uses tensor {tensor}, the graph has {len(self.sizes)}")
            for tensor in op.inputs:
                if tensor not in written:
                    raise ModelError(f"operator {op.name} reads tensor {self.names[tensor]} before it is written")
            written.update(op.outputs)

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """Return for each tensor the steps that read it, ascending."""
        return readers_of(self.steps, len(self.sizes))

    @cached_property
    def producer(self) -> tuple[int, ...]:
        """Return for each tensor the step that writes it; −1 for network inputs."""
        return writers_of(self.steps, len(self.sizes))

    @cached_property
    def rewritten(self) -> frozenset[int]:
        """Return the tensors whose content changes while steps read them: residents, and those written several times.

        The inputs that a step writes are among them.
        """
        times = Counter(tensor for step in self.steps for tensor in set(step.outputs))
        several = (tensor for tensor, count in times.items() if count > 1 or tensor in self.inputs)
        return frozenset(self.resident).union(several)

    def reordered(self, order: Sequence[int]) -> Program:
        """Return the program with its steps in another order.

        Raises:
            ModelError: a step reads the output of a later one.
        """
        graph = self.graph
        if graph is not None:
            graph = replace(graph, operators=tuple(graph.operators[index] for index in order))
        return replace(self, steps=tuple(self.steps[index] for index in order), graph=graph)

    def with_slow(self, slow: frozenset[int]) -> Program:
        """Return the program with some more tensors in the slow memory."""
        if not slow:
            return self
        sizes = tuple(0 if tensor in slow else size for tensor, size in enumerate(self.sizes))
        return replace(self, sizes=sizes, slow=self.slow | slow)

    def with_steps(self, steps: Sequence[Step], graph: SubGraph, sizes: Sequence[int] = ()) -> Program:
        """Return the program with other steps of the same file. Tensors without use are absent.

        Args:
            steps: in execution order.
            graph: operators of the steps, over the program's tensors followed by those of blocks.
            sizes: bytes of the added tensors.
        """
        assert self.file is not None
        absent = frozenset(range(len(graph.tensors))).difference(used_tensors(replace_main(self.file, graph)))
        return replace(
            self,
            sizes=tuple(0 if tensor in absent else size for tensor, size in enumerate((*self.sizes, *sizes))),
            steps=tuple(steps),
            inputs=tuple(tensor for tensor in self.inputs if tensor not in absent),
            names=(*self.names, *(tensor.name or "" for tensor in graph.tensors[len(self.names) :])),
            graph=graph,
            absent=absent,
        )

    @property
    def origin(self) -> tuple[Model, SubGraph]:
        """Return the file of the program, and its first subgraph in its current form.

        Blocks have no bytes yet, and absent tensors are still present.
        """
        assert self.file is not None and self.graph is not None, "a description of a graph has no file"
        return self.file, self.graph

    @property
    def subgraphs(self) -> tuple[SubGraph, ...]:
        """Return all subgraphs, the program's own first."""
        file, graph = self.origin
        return graph, *file.subgraphs[1:]


@dataclass(frozen=True)
class Overlap:
    """Permission for an output to overlap an input of the operator that writes it.

    The input must not be read after that operator. The permission describes the operator's own behaviour: the order in
    which its kernel reads the input and writes the output.

    Attributes:
        input: tensor read.
        output: tensor written.
        distance: None: the two may start at the same byte and overlap in no other way (in place). A number D of bytes,
            possibly negative: they may overlap wherever ``offset(output) + D <= offset(input)`` ("diagonal"). For a
            kernel that reads and writes both from first to last byte, D is the largest value of (bytes written so far)
            - (first input byte still to be read), taken over the whole run after each write.
    """

    input: int
    output: int
    distance: int | None = None


def graph_overlaps(graph: Program) -> tuple[Overlap, ...]:
    """Return the in-place pairs of the graph's operators as overlaps."""
    return tuple(Overlap(read, written) for op in graph.steps for read, written in op.in_place)


def require_sound(graph: Program, overlaps: tuple[Overlap, ...]) -> None:
    """Check that every overlap joins an input and an output of one operator.

    Raises:
        PlanError: an overlap does not.
    """
    pairs = {(read, written) for op in graph.steps for read in op.inputs for written in op.outputs}
    for overlap in overlaps:
        if (overlap.input, overlap.output) not in pairs:
            raise PlanError(
                f"tensors {_name(graph, overlap.input)} and {_name(graph, overlap.output)} are allowed to overlap but "
                "no operator reads the one and writes the other"
            )


def _name(graph: Program, tensor: int) -> str:
    return graph.names[tensor] if 0 <= tensor < len(graph.names) else f"number {tensor}"


CUSTOM_CODE = "TFLITE_FUSE"
"""Custom code of this project's operator, a fused block."""

FUSED_OPERATOR = f"CUSTOM:{CUSTOM_CODE}"
"""``operator_name`` of this project's custom operator, which has no effect beyond its outputs."""


def has_blocks(model: Model) -> bool:
    """Return whether a model has fused blocks."""
    return any(operator_name(model, operator) == FUSED_OPERATOR for operator in model.main.operators)


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


def arena_tensors(model: Model, graph: SubGraph) -> frozenset[int]:
    """Return the tensors that the runtime's planner places in the arena's head: no constants, variables or handles."""
    return frozenset(
        index
        for index, tensor in enumerate(graph.tensors)
        if not model.buffers[tensor.buffer].data and not tensor.is_variable and tensor.type not in _UNSIZED
    )


def has_effects(model: Model, graph: SubGraph, operator: Operator) -> bool:
    """Return whether an operator must keep its order: control flow, variables, resources, custom operators of others.

    Operators that share a string or a handle must keep it, too: these lie outside the arena, so no step shows them.
    """
    name = operator_name(model, operator)
    if name.startswith("CUSTOM:"):
        return name != FUSED_OPERATOR
    touched = [graph.tensors[t] for t in (*(operator.inputs or ()), *(operator.outputs or ())) if t >= 0]
    return name in _EFFECTS or any(tensor.is_variable or tensor.type in _UNSIZED for tensor in touched)


def with_placed_variables(graph: Program, model: Model, offsets: Sequence[int]) -> Program:
    """Return the graph with the variables that a plan places: they lie in the arena and outlive the inference."""
    placed = [t for t, tensor in enumerate(model.main.tensors) if tensor.is_variable and offsets[t] >= 0]
    sizes = list(graph.sizes)
    for tensor in placed:
        sizes[tensor] = tensor_nbytes(model.main.tensors[tensor])
    return replace(graph, sizes=tuple(sizes), resident=(*graph.resident, *placed))


MOST_PARTS = 8192
"""Largest number of operators or tensors in a model: planners compare all pairs of tensors."""


def program_of(model: Model) -> Program:
    """Return the program of a model's first subgraph; tensor indices are the model's.

    Tensors outside the arena have size 0. A tensor that is read but never written counts as a network input.

    Raises:
        ModelError: an arena tensor has a dynamic shape or elements without a size, or the model is too large.
    """
    graph = model.main
    if max(len(graph.operators), sum(len(each.tensors) for each in model.subgraphs)) > MOST_PARTS:
        raise ModelError(f"it has more than {MOST_PARTS:,} operators or tensors, too many to plan its memory")
    arena = arena_tensors(model, graph)
    ops = tuple(
        Step(
            name=operator_label(model, index),
            inputs=tuple(t for t in operator.inputs or () if t in arena),
            outputs=tuple(t for t in operator.outputs or () if t in arena),
            ordered=has_effects(model, graph, operator),
        )
        for index, operator in enumerate(graph.operators)
    )
    written = {t for op in ops for t in op.outputs}
    unwritten = {t for op in ops for t in op.inputs} - written - set(graph.inputs)
    slow_memory = slow_tensors(model)
    slow = frozenset() if slow_memory is None else frozenset(slow_memory.offsets)
    stored = (arena & (written | unwritten | set(graph.inputs) | set(graph.outputs))) - slow
    return Program(
        sizes=tuple(tensor_nbytes(t) if i in stored else 0 for i, t in enumerate(graph.tensors)),
        steps=ops,
        inputs=tuple(dict.fromkeys(t for t in (*graph.inputs, *sorted(unwritten)) if t in arena)),
        outputs=tuple(dict.fromkeys(t for t in graph.outputs if t in arena)),
        names=tuple(tensor.name or f"tensor {index}" for index, tensor in enumerate(graph.tensors)),
        file=model,
        graph=graph,
        slow=slow,
    )
