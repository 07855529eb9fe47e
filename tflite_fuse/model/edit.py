"""Edits of a model's parts. Each returns a new model; indices stay valid unless the docstring says otherwise."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from tflite_fuse.model.memories import MEMORIES_METADATA, slow_tensors, slow_tensors_entry
from tflite_fuse.model.operators import make_options, operator_name
from tflite_fuse.model.schema import (
    Buffer,
    Metadata,
    Model,
    Operator,
    OperatorCode,
    OptionsTable,
    SignatureDef,
    SubGraph,
    Tensor,
    TensorMap,
)
from tflite_fuse.model.types import BUILTIN_CODES, CUSTOM, TensorType

_LARGEST_BYTE_CODE = 127


def replace_main(model: Model, graph: SubGraph) -> Model:
    """Return the model with another first subgraph."""
    return replace(model, subgraphs=(graph, *model.subgraphs[1:]))


def replace_operators(model: Model, operators: Sequence[Operator]) -> Model:
    """Return the model with other operators in its first subgraph."""
    return replace_main(model, replace(model.main, operators=tuple(operators)))


def add_buffer(model: Model, data: bytes) -> tuple[Model, int]:
    """Append a buffer; return the model and the buffer's index."""
    return replace(model, buffers=(*model.buffers, Buffer(data=data))), len(model.buffers)


def add_tensor(model: Model, tensor: Tensor) -> tuple[Model, int]:
    """Append a tensor to the first subgraph; return the model and the tensor's index."""
    graph = replace(model.main, tensors=(*model.main.tensors, tensor))
    return replace_main(model, graph), len(graph.tensors) - 1


def replace_tensor(model: Model, index: int, tensor: Tensor) -> Model:
    """Return the model with another tensor at an index of the first subgraph."""
    tensors = model.main.tensors
    return replace_main(model, replace(model.main, tensors=(*tensors[:index], tensor, *tensors[index + 1 :])))


def drop_unread(model: Model, operators: Sequence[Operator], kinds: Collection[str]) -> list[Operator]:
    """Return operators for the first subgraph, without those of some kinds whose outputs have no reader."""
    read, kept = set(model.main.outputs), list[Operator]()
    for operator in reversed(operators):
        if operator_name(model, operator) not in kinds or read.intersection(operator.outputs or ()):
            read.update(operator.inputs or ())
            kept.append(operator)
    return kept[::-1]


def add_operator_code(
    model: Model, *, builtin: str | None = None, custom: str | None = None, version: int = 1
) -> tuple[Model, int]:
    """Find or append an operator code; return the model and the code's index."""
    codes = list(model.operator_codes)
    index = _code_in(codes, builtin, custom, version)
    return replace(model, operator_codes=tuple(codes)), index


def _code_in(codes: list[OperatorCode], builtin: str | None, custom: str | None, version: int) -> int:
    """Return the index of an operator code, appended if it is new."""
    number = CUSTOM if custom is not None else BUILTIN_CODES[builtin or ""]
    for index, code in enumerate(codes):
        if code.code == number and code.custom_code == custom and code.version == version:
            return index
    codes.append(OperatorCode(min(number, _LARGEST_BYTE_CODE), custom, version, number))
    return len(codes) - 1


class Editor:
    """Additions to a model: tensors, constants, and the operators of the first subgraph from the first to the last.

    Attributes:
        model: the model without them, whose tensors keep their numbers.
        tensors: its tensors, followed by the added ones.
        operators: the operators so far.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.tensors, self.operators = model, list(model.main.tensors), list[Operator]()
        self._buffers, self._codes = list(model.buffers), list(model.operator_codes)

    def dims(self, tensor: int) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return self.tensors[tensor].dims

    def tensor(self, tensor: Tensor) -> int:
        """Append a tensor; return its index."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def like(self, tensor: int, dims: Sequence[int], name: str | None) -> int:
        """Append a computed tensor like another one, of other dimensions; return its index."""
        shaped = replace(self.tensors[tensor], shape=tuple(dims), shape_signature=None, buffer=0, name=name)
        return self.tensor(shaped)

    def constant(self, tensor: Tensor, data: bytes) -> int:
        """Append a tensor with a buffer of its own; return the tensor's index."""
        self._buffers.append(Buffer(data=data))
        return self.tensor(replace(tensor, buffer=len(self._buffers) - 1))

    def int32(self, name: str, values: Sequence[int], shape: tuple[int, ...] | None = None) -> int:
        """Append a constant, of one dimension unless a shape is given; return its index."""
        described = Tensor((len(values),) if shape is None else shape, TensorType.INT32, 0, name)
        return self.constant(described, struct.pack(f"<{len(values)}i", *values))

    def code(self, name: str, version: int = 1) -> int:
        """Find or append the code of an operator, a built-in one unless its name begins with ``CUSTOM:``."""
        custom = name.removeprefix("CUSTOM:") if name.startswith("CUSTOM:") else None
        return _code_in(self._codes, None if custom else name, custom, version)

    def add(
        self, name: str, inputs: Sequence[int], output: int, options: OptionsTable | None = None, *, version: int = 1
    ) -> int:
        """Append an operator, named as in ``code``; return its output.

        In messages it has the label of the operator that wrote this output before.
        """
        before = self.model.main.writers.get(output, -1)
        label = self.model.main.operators[before].label if before >= 0 else ""
        self.operators.append(Operator(self.code(name, version), tuple(inputs), (output,), options, label=label))
        return output

    def reshape(self, source: int, output: int, name: str) -> int:
        """Append a RESHAPE to the dimensions of its output, with a constant of a name; return its output."""
        dims = self.dims(output)
        options = make_options("ReshapeOptions", new_shape=dims)
        return self.add("RESHAPE", (source, self.int32(name, dims)), output, options)

    def finish(self) -> Model:
        """Return the model with the additions, whose operators are those in ``operators``."""
        graph = replace(self.model.main, tensors=tuple(self.tensors), operators=tuple(self.operators))
        edited = replace(self.model, buffers=tuple(self._buffers), operator_codes=tuple(self._codes))
        return replace_main(edited, graph)


def get_metadata(model: Model, name: str) -> bytes | None:
    """Return the content of a metadata entry, or None."""
    for entry in model.metadata or ():
        if entry.name == name:
            return model.buffers[entry.buffer].data or b""
    return None


def set_metadata(model: Model, name: str, data: bytes) -> Model:
    """Add a metadata entry or replace its content."""
    model = remove_metadata(model, name)
    entry = Metadata(name, len(model.buffers))
    return replace(model, buffers=(*model.buffers, Buffer(data=data)), metadata=(*(model.metadata or ()), entry))


def remove_metadata(model: Model, name: str) -> Model:
    """Drop a metadata entry; its buffer is removed if it is the last one, else emptied, unless it is in use."""
    dropped = [entry for entry in model.metadata or () if entry.name == name]
    if not dropped:
        return model
    model = replace(model, metadata=tuple(entry for entry in model.metadata or () if entry.name != name) or None)
    for index in sorted({entry.buffer for entry in dropped}, reverse=True):
        if index == len(model.buffers) - 1 and index not in _used_buffers(model):
            model = replace(model, buffers=model.buffers[:-1])
        elif index not in _used_buffers(model):
            emptied = (*model.buffers[:index], Buffer(), *model.buffers[index + 1 :])
            model = replace(model, buffers=emptied)
    return model


def _used_buffers(model: Model) -> set[int]:
    used = {entry.buffer for entry in model.metadata or ()} | set(model.metadata_buffer or ())
    return used.union(tensor.buffer for graph in model.subgraphs for tensor in graph.tensors)


def prune(model: Model) -> Model:
    """Drop unreferenced tensors of the first subgraph, then unused buffers and operator codes.

    Indices of tensors, buffers and operator codes change. An offline memory plan is indexed by tensor: drop it first.
    """
    kept, slow_memory = used_tensors(model), slow_tensors(model)
    pruned = _prune_tensors(model, kept)
    if slow_memory is not None:
        offsets = {new: slow_memory.offsets[old] for new, old in enumerate(kept) if old in slow_memory.offsets}
        pruned = set_metadata(pruned, MEMORIES_METADATA, slow_tensors_entry(replace(slow_memory, offsets=offsets)))
    return _prune_operator_codes(_prune_buffers(pruned))


def used_tensors(model: Model) -> tuple[int, ...]:
    """Return the tensors of the first subgraph that ``prune`` keeps, ascending: all that are referenced."""
    graph = model.main
    used = {*graph.inputs, *graph.outputs}
    for operator in graph.operators:
        used.update(operator.inputs or (), operator.outputs or (), operator.intermediates or ())
    for signature in model.signature_defs or ():
        if signature.subgraph_index == 0:
            used.update(entry.tensor_index for entry in (*(signature.inputs or ()), *(signature.outputs or ())))
    return tuple(sorted(used.intersection(range(len(graph.tensors)))))


def _prune_tensors(model: Model, kept: Sequence[int]) -> Model:
    graph = model.main
    new = {old: index for index, old in enumerate(kept)} | {-1: -1}

    def moved(indices: tuple[int, ...] | None) -> tuple[int, ...] | None:
        return None if indices is None else tuple(new[index] for index in indices)

    operators = tuple(
        replace(op, inputs=moved(op.inputs), outputs=moved(op.outputs), intermediates=moved(op.intermediates))
        for op in graph.operators
    )
    graph = replace(
        graph,
        tensors=tuple(graph.tensors[index] for index in kept),
        inputs=tuple(new[i] for i in graph.inputs),
        outputs=tuple(new[i] for i in graph.outputs),
        operators=operators,
    )
    return renumber_signatures(replace_main(model, graph), new)


def renumber_signatures(model: Model, new: Mapping[int, int], outputs: Mapping[int, int] | None = None) -> Model:
    """Return the model with other tensor indices in the signatures of the first subgraph; others stay.

    Args:
        model: the model.
        new: index → new index.
        outputs: the same for outputs if they differ.
    """

    def renumbered(entries: tuple[TensorMap, ...] | None, new: Mapping[int, int]) -> tuple[TensorMap, ...] | None:
        return entries and tuple(replace(e, tensor_index=new.get(e.tensor_index, e.tensor_index)) for e in entries)

    ends = new, new if outputs is None else outputs
    return with_signatures(
        model,
        lambda each: replace(each, inputs=renumbered(each.inputs, ends[0]), outputs=renumbered(each.outputs, ends[1])),
    )


def with_signatures(model: Model, changed: Callable[[SignatureDef], SignatureDef]) -> Model:
    """Return the model with the signatures of its first subgraph changed; others stay."""
    if model.signature_defs is None:
        return model
    signatures = tuple(changed(each) if each.subgraph_index == 0 else each for each in model.signature_defs)
    return replace(model, signature_defs=signatures)


def _prune_buffers(model: Model) -> Model:
    kept = sorted((_used_buffers(model) | {0}).intersection(range(len(model.buffers))))
    new = {old: index for index, old in enumerate(kept)}
    graphs = tuple(
        replace(graph, tensors=tuple(replace(tensor, buffer=new[tensor.buffer]) for tensor in graph.tensors))
        for graph in model.subgraphs
    )
    metadata = model.metadata and tuple(replace(entry, buffer=new[entry.buffer]) for entry in model.metadata)
    return replace(
        model,
        buffers=tuple(model.buffers[index] for index in kept),
        subgraphs=graphs,
        metadata=metadata,
        metadata_buffer=model.metadata_buffer and tuple(new[index] for index in model.metadata_buffer),
    )


def _prune_operator_codes(model: Model) -> Model:
    kept = sorted({operator.opcode_index for graph in model.subgraphs for operator in graph.operators})
    new = {old: index for index, old in enumerate(kept)}
    graphs = tuple(
        replace(graph, operators=tuple(replace(op, opcode_index=new[op.opcode_index]) for op in graph.operators))
        for graph in model.subgraphs
    )
    return replace(model, operator_codes=tuple(model.operator_codes[index] for index in kept), subgraphs=graphs)
