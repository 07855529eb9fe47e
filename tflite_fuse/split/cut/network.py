"""A model prepared for cutting: stages with their weights, and operators that only run whole, over values with shapes.

The stages are those of fused blocks, so RESHAPEs and PADs before convolutions are merged, and every worker's part is a
block that the device library can run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from math import prod

from tflite_fuse.check import validate
from tflite_fuse.errors import BlockError, ModelError, UsageError
from tflite_fuse.ir.block import BlockTensor, ElementType, Stage, StageKind
from tflite_fuse.ir.program import Step, has_blocks, program_of, readers_of, writers_of
from tflite_fuse.model.operators import operator_label
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import TensorType
from tflite_fuse.ops.entry import Window
from tflite_fuse.ops.kinds.lookup import LookupParameters
from tflite_fuse.ops.lowering.extract import Extraction, extract
from tflite_fuse.ops.lowering.lower import Lowerings, lower_model
from tflite_fuse.ops.lowering.operands import tensor_name
from tflite_fuse.ops.lowering.view import Lowered
from tflite_fuse.ops.table import KINDS
from tflite_fuse.passes.pipeline import tidied
from tflite_fuse.report.wording import sentences_of
from tflite_fuse.runtime.comparing.compare import keeps_state
from tflite_fuse.split.cut.regions import Box, Region, whole

_MOST_NOTES = 8
"""Most sentences about operators that run whole."""


@dataclass(frozen=True)
class Node(Step):
    """One step of a network; its inputs and outputs are values.

    Attributes:
        stage: with ``inputs`` and ``output`` as values; None for an operator that no block holds: it runs whole, at the
            coordinator.
        operator: the prepared model's operator, the last one of those that the stage computes.
        reason: why it has no stage, a clause.
    """

    stage: Stage | None = None
    operator: int = -1
    reason: str = ""


def node_of(name: str, stage: Stage) -> Node:
    """Return the node of a stage."""
    return Node(name, stage.inputs, (stage.output,), stage=stage, operator=stage.operator)


@dataclass(frozen=True)
class Network:
    """Nodes in topological order.

    Attributes:
        model: the given model.
        prepared: the model after the passes that prepare it for cutting; nodes and tensors are of this one.
        changes: sentences about these passes' changes.
        values: extents of every value; values without a stage are one pixel of all their bytes.
        tensors: the prepared model's tensor of each value, −1 for those inside a stage of several operators.
        nodes: each value except inputs is written by one of them.
        inputs, outputs: the model's, as values.
    """

    model: Model
    prepared: Model
    changes: tuple[str, ...]
    values: tuple[BlockTensor, ...]
    tensors: tuple[int, ...]
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """Return for each value the nodes that read it, ascending."""
        return readers_of(self.nodes, len(self.values))

    @cached_property
    def writer(self) -> tuple[int, ...]:
        """Return for each value the node that writes it, −1 for the model's inputs."""
        return writers_of(self.nodes, len(self.values))

    def shape(self, value: int) -> tuple[int, int, int]:
        """Return height, width, channels."""
        tensor = self.values[value]
        return tensor.height, tensor.width, tensor.channels

    def box(self, value: int) -> Box:
        """Return the box of all elements of a value."""
        return whole(self.shape(value))

    def region(self, value: int) -> Region:
        """Return the region of all elements of a value."""
        return (self.box(value),)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return sentences about changes before cutting, and about operators that run whole."""
        whole = [node for node in self.nodes if not node.stage]
        notes = [f"{node.name} runs at the coordinator, in Python: {node.reason}" for node in whole]
        if len(whole) > _MOST_NOTES:
            names = ", ".join(node.name for node in whole[_MOST_NOTES - 1 :])
            notes[_MOST_NOTES - 1 :] = [f"{len(whole) - _MOST_NOTES + 1} more run there: {names}"]
        return self.changes + tuple(notes)


def network_of(model: Model) -> Network:
    """Return the network of a model's first subgraph, prepared as for fusing as far as that is proven.

    Raises:
        ModelError: a tensor has a dynamic shape, or is listed twice among the inputs or outputs; an input is a
            constant; the model keeps state between inferences, or is fused already.
        UsageError: a tensor is read in two shapes without an operator between them.
    """
    if keeps_state(model):
        raise ModelError(
            "the model keeps state between inferences (variables, or an operator that may remember): it cannot be split"
        )
    if has_blocks(model):
        raise ModelError("the model has fused blocks, which no split cuts: split the model that it was rewritten from")
    program_of(model)  # raises for models that it cannot represent
    prepared, notes = tidied(model, lambda before, after: validate(before, after).proven)
    return replace(_network(prepared), model=model, changes=sentences_of(notes))


def _network(model: Model) -> Network:
    """Return the network of a model's operators as they are."""
    memory = program_of(model)
    assembly = _Assembly(model, memory.sizes)
    lowerings = _tables_together(tuple(map(_divisible, lower_model(model))))
    for fusable, run in groupby(range(len(lowerings)), lambda index: not isinstance(lowerings[index], str)):
        operators = list(run)
        for piece in _extractions(model, operators, lowerings) if fusable else operators:
            if isinstance(piece, int):
                assembly.add_whole(piece, lowerings, memory.steps[piece].inputs, memory.steps[piece].outputs)
            else:
                assembly.add_stages(piece)
    return _with_int8_inside(assembly.network(model.main.inputs or (), model.main.outputs or ()))


def _divisible(lowered: Lowered | str) -> Lowered | str:
    """Return a reason for operators that run whole: workers exchange int8, and have no parts of constant images."""
    if isinstance(lowered, str):
        return lowered
    if any(each.constant is not None for each in lowered.inputs):
        return "it reads a constant for each pixel"
    if all(each.type != TensorType.FLOAT32 for each in (*lowered.inputs, lowered.output)):
        return lowered
    return lowered if lowered.unit else "it reads or writes float32"


def _extractions(model: Model, operators: Sequence[int], lowerings: Lowerings) -> Iterator[Extraction | int]:
    """Yield the operators as one piece, or one by one, or with those they form a table with; the rest runs whole."""
    try:
        yield extract(model, operators, lowerings)
    except BlockError:
        for unit, together in groupby(operators, lambda index: _unit(lowerings[index]) or (index,)):
            piece = tuple(together)
            try:
                extraction = extract(model, piece, lowerings) if piece == unit else None
            except BlockError:
                extraction = None
            yield from piece if extraction is None else (extraction,)


def _tables_together(lowerings: Lowerings) -> Lowerings:
    """Return lowerings where operators run whole if an operator between them, with which they form a table, does."""
    runs = groupby(range(len(lowerings)), lambda index: not isinstance(lowerings[index], str))
    together = [set(run) for _, run in runs]
    apart = {index for run in together for index in run if not run.issuperset(_unit(lowerings[index]))}
    if not apart:
        return lowerings
    return _tables_together(tuple(_APART if index in apart else each for index, each in enumerate(lowerings)))


_APART = "it is one table with operators that stand elsewhere"


def _unit(lowered: Lowered | str) -> tuple[int, ...]:
    return () if isinstance(lowered, str) else lowered.unit


# ---- uint8 at the borders ----

_SAME = bytes(value % 256 for value in range(-128, 128))


def _with_int8_inside(network: Network) -> Network:
    """Return the network with an identity LOOKUP behind every uint8 value whose pixels may be read twice.

    A block converts its uint8 inputs to int8 in place. A second block, or overlapping boxes, would convert them twice.
    """
    values, tensors, nodes = list(network.values), list(network.tensors), list[Node]()
    instead: dict[int, int] = {}
    for index, node in enumerate(network.nodes):
        for value in dict.fromkeys(node.inputs):
            if value not in instead and _is_read_twice(network, value, index):
                instead[value] = len(values)
                name = f"{values[value].name} as int8"
                values.append(replace(values[value], name=name, element_type=ElementType.INT8))
                tensors.append(-1)
                parameters = LookupParameters(_SAME)
                stage = Stage(StageKind.LOOKUP, (value,), instead[value], node.operator, parameters=parameters)
                nodes.append(node_of(name, stage))
        nodes.append(_reading(node, instead))
    return replace(network, values=tuple(values), tensors=tuple(tensors), nodes=tuple(nodes)) if instead else network


def _is_read_twice(network: Network, value: int, reader: int) -> bool:
    """Return whether a stage may read a pixel that it, or another stage, has read before."""
    stage = network.nodes[reader].stage
    if stage is None or network.values[value].element_type is not ElementType.UINT8:
        return False
    return (
        len(network.readers[value]) > 1 or KINDS[stage.kind].window is not Window.PIXEL or stage.inputs.count(value) > 1
    )


def _reading(node: Node, instead: dict[int, int]) -> Node:
    if node.stage is None:
        return node
    inputs = tuple(instead.get(value, value) for value in node.inputs)
    return node_of(node.name, replace(node.stage, inputs=inputs))


# ---- From operators to nodes ----


class _Assembly:
    """Collects values and nodes."""

    def __init__(self, model: Model, sizes: Sequence[int]) -> None:
        self.model, self.sizes = model, sizes
        self.values: list[BlockTensor] = []
        self.tensors: list[int] = []
        self.nodes: list[Node] = []
        self.value_of: dict[int, int] = {}
        self.shaped: set[int] = set()

    def add_stages(self, extraction: Extraction) -> None:
        block = extraction.block
        tensors = dict(zip((*block.inputs, *block.outputs), (*extraction.inputs, *extraction.outputs), strict=True))
        place = {index: self._value(tensors.get(index, -1), tensor) for index, tensor in enumerate(block.tensors)}
        for stage in block.stages:
            inputs, output = tuple(place[index] for index in stage.inputs), place[stage.output]
            label = operator_label(self.model, stage.operator)
            self.nodes.append(node_of(label, replace(stage, inputs=inputs, output=output)))

    def add_whole(self, index: int, lowerings: Lowerings, inputs: Iterable[int], outputs: Iterable[int]) -> None:
        result = lowerings[index]
        why = _APART if _unit(result) else "it only renames bytes"
        reason = result if isinstance(result, str) else why
        sources, results = tuple(map(self._plain, inputs)), tuple(map(self._plain, outputs))
        self.nodes.append(Node(operator_label(self.model, index), sources, results, operator=index, reason=reason))

    def _plain(self, tensor: int) -> int:
        """Return the value of a tensor without a stage so far: one pixel of all its bytes."""
        if tensor not in self.value_of:
            name = tensor_name(self.model, tensor)
            self.value_of[tensor] = self._append(tensor, BlockTensor(name, 1, 1, self.sizes[tensor], 0))
        return self.value_of[tensor]

    def _value(self, tensor: int, shape: BlockTensor) -> int:
        if tensor < 0:
            return self._append(tensor, shape)
        if tensor not in self.value_of:
            self.value_of[tensor] = self._append(tensor, shape)
        value = self.value_of[tensor]
        before = self.values[value]
        extents = [(each.height, each.width, each.channels) for each in (before, shape)]
        if value in self.shaped and (extents[0] != extents[1] or before.zero_point != shape.zero_point):
            raise UsageError(f"{shape.name} is read in the shapes {extents[0]} and {extents[1]}: it cannot be split")
        if prod(extents[0]) != prod(extents[1]):
            raise UsageError(f"{shape.name} has {prod(extents[0])} bytes and is read as {prod(extents[1])}")
        self.values[value] = shape
        self.shaped.add(value)
        return value

    def _append(self, tensor: int, shape: BlockTensor) -> int:
        self.values.append(shape)
        self.tensors.append(tensor)
        return len(self.values) - 1

    def network(self, inputs: Sequence[int], outputs: Sequence[int]) -> Network:
        graph = self.model.main
        if fixed := [each for each in inputs if self.model.buffers[graph.tensors[each].buffer].data]:
            raise ModelError(f"the model's input {graph.tensors[fixed[0]].name} is a constant: it cannot be split")
        ends = tuple(self._plain(index) for index in inputs), tuple(self._plain(index) for index in outputs)
        written = {value for node in self.nodes for value in node.outputs} | set(ends[0])
        if missing := [self.values[value].name for value in ends[1] if value not in written]:
            raise ModelError(f"the model's output {missing[0]} is computed by no operator")
        for kind, values in zip(("inputs", "outputs"), ends, strict=True):
            if repeated := [self.values[value].name for value in values if values.count(value) > 1]:
                raise ModelError(f"the model lists {repeated[0]} among its {kind} more than once: it cannot be split")
        return Network(self.model, self.model, (), tuple(self.values), tuple(self.tensors), tuple(self.nodes), *ends)
