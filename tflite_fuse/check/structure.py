"""Comparison of a file's other parts, which a rewrite keeps: further subgraphs, signatures, metadata, buffers.

Blocks and metadata agree on the tensors in a slow memory, which stay whole until their last readers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from tflite_fuse.check.certificate import Finding
from tflite_fuse.check.correspondence import Correspondence
from tflite_fuse.errors import ModelError, PlanError
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.checker import check_plan
from tflite_fuse.memory.tflm.offline_plan import METADATA_NAME
from tflite_fuse.model.memories import MEMORIES_METADATA, slow_tensors
from tflite_fuse.model.outside import OUTSIDE_METADATA
from tflite_fuse.model.schema import Model, Operator, SignatureDef, SubGraph, Tensor, TensorMap
from tflite_fuse.model.types import tensor_nbytes
from tflite_fuse.model.witness import WITNESS_METADATA

_OWN_METADATA = (METADATA_NAME, OUTSIDE_METADATA, MEMORIES_METADATA, WITNESS_METADATA)


def writing_findings(matching: Correspondence) -> Iterator[Finding]:
    """Report inputs that operators write, and written tensors whose buffers hold data: constants would be lost.

    Both models are checked: the result of an original that writes over its constants is undefined.
    """
    for whose, model in ((" of the original", matching.before), ("", matching.after)):
        for number, graph in enumerate(model.subgraphs):
            where = f"subgraph {number}{whose}"
            written = [tensor for operator in graph.operators for tensor in operator.outputs or ()]
            for tensor in sorted(set(graph.inputs).intersection(written)):
                yield Finding(where, f"input {graph.tensors[tensor].name} is written by an operator")
            kept = [tensor for tensor, each in enumerate(graph.tensors) if each.is_variable]
            for tensor in sorted({*graph.inputs, *written, *kept}):
                if model.buffers[graph.tensors[tensor].buffer].data:
                    yield Finding(where, f"tensor {graph.tensors[tensor].name} is written and a constant at once")


def structure_findings(matching: Correspondence) -> Iterator[Finding]:
    """Report differences outside the first subgraph's operators."""
    before, after = matching.before, matching.after
    for what in ("version", "description", "trailing", "external_buffer_groups", "external_buffers"):
        if getattr(before, what) != getattr(after, what):
            yield Finding("file", f"{what.replace('_', ' ')} differ")
    for what in ("name", "debug_metadata_index"):
        if getattr(before.main, what) != getattr(after.main, what):
            yield Finding("first subgraph", what, expected=getattr(before.main, what), actual=getattr(after.main, what))
    if _metadata(before) != _metadata(after):
        yield Finding("metadata", "entries differ")
    for name in _OWN_METADATA:
        (was, now) = (sum(entry.name == name for entry in model.metadata or ()) for model in (before, after))
        if now > max(was, 1):
            yield Finding("metadata", f"several entries {name}: readers may take one or another")
    if _listed(before) != _listed(after):
        yield Finding("metadata", "the list of metadata buffers differs")
    yield from _subgraph_findings(matching)
    yield from _signature_findings(matching)


def _metadata(model: Model) -> list[tuple[str | None, bytes]]:
    return [(e.name, model.buffers[e.buffer].data or b"") for e in model.metadata or () if e.name not in _OWN_METADATA]


def _listed(model: Model) -> list[bytes]:
    return [model.buffers[index].data or b"" for index in model.metadata_buffer or () if index < len(model.buffers)]


def _subgraph_findings(matching: Correspondence) -> Iterator[Finding]:
    """Compare the other subgraphs; those that went with the states they initialize were the last ones."""
    before, after = matching.before, matching.after
    number = len(before.subgraphs) - len(matching.dissolved)
    if number != len(after.subgraphs) or any(graph < number for graph in matching.dissolved):
        yield Finding("subgraphs", "number", expected=number, actual=len(after.subgraphs))
        return
    for number, (a, b) in enumerate(zip(before.subgraphs[1:], after.subgraphs[1:], strict=False), start=1):
        if replace(a, tensors=(), operators=()) != replace(b, tensors=(), operators=()):
            yield Finding(f"subgraph {number}", "name, inputs or outputs differ")
        if _tensors(before, a) != _tensors(after, b):
            yield Finding(f"subgraph {number}", "tensors or constants differ")
        gone = {index for graph, index in matching.uninitialized if graph == number}
        if _operators(before, a, gone) != _operators(after, b):
            yield Finding(f"subgraph {number}", "operators differ")


def _tensors(model: Model, graph: SubGraph) -> list[tuple[Tensor, bytes]]:
    return [(replace(tensor, buffer=0), model.buffers[tensor.buffer].data or b"") for tensor in graph.tensors]


def _operators(model: Model, graph: SubGraph, gone: Collection[int] = ()) -> list[tuple[Operator, object]]:
    kept = (op for index, op in enumerate(graph.operators) if index not in gone)
    return [(replace(op, opcode_index=0), model.operator_codes[op.opcode_index]) for op in kept]


def _signature_findings(matching: Correspondence) -> Iterator[Finding]:
    before, after = matching.before.signature_defs, matching.after.signature_defs
    if (before is None) != (after is None) or len(before or ()) != len(after or ()):
        yield Finding("signatures", "number", expected=len(before or ()), actual=len(after or ()))
        return
    for a, b in zip(before or (), after or (), strict=True):
        same = replace(a, inputs=None, outputs=None) == replace(b, inputs=None, outputs=None)
        if not same or (a.subgraph_index != 0 and a != b):
            yield Finding("signatures", f"signature {a.signature_key} differs")
        elif a.subgraph_index == 0:
            yield from _entry_findings(matching, a, b)


def _entry_findings(matching: Correspondence, a: SignatureDef, b: SignatureDef) -> Iterator[Finding]:
    """Require names to stay at the values they named; an input outside the arena has no tensor to name any more."""
    for what in ("inputs", "outputs"):
        old, new = _by_name(getattr(a, what)), _by_name(getattr(b, what))
        ends = {tensor: _named_end(matching, tensor, what) for tensors in old.values() for tensor in tensors}
        gone = {ends[tensor] for name in old.keys() - new.keys() for tensor in old[name]}
        if new.keys() - old.keys() or not gone <= matching.gone:
            yield Finding("signatures", f"{what} of {a.signature_key}", "", None, (), sorted(old), sorted(new))
        for name in new.keys() & old.keys():
            pairs = zip(new[name], old[name], strict=False)
            same = all(matching.same(own, their) or matching.same(own, ends[their]) for own, their in pairs)
            if len(new[name]) != len(old[name]) or not same:
                yield Finding("signatures", f"{name} among the {what} of {a.signature_key} is another tensor")


def _named_end(matching: Correspondence, tensor: int, what: str) -> int:
    """Return the input or output that an entry of a signature means, or the int8 tensor in its place.

    Converters name the tensor inside that a QUANTIZE or DEQUANTIZE makes of an input, or makes an output of.
    """
    ends = getattr(matching.before.main, what)
    for step in matching.original.steps[: len(matching.before.main.operators)] if tensor not in ends else ():
        near, far = (step.outputs, step.inputs) if what == "inputs" else (step.inputs, step.outputs)
        if step.name in ("DEQUANTIZE", "QUANTIZE") and near == (tensor,) and far and far[0] in ends:
            tensor = far[0]
            break
    return matching.replaced.get(tensor, tensor)


def _by_name(entries: Iterable[TensorMap] | None) -> dict[str, list[int]]:
    """The tensors of each name of a signature; a sound one has one for each."""
    tensors: dict[str, list[int]] = {}
    for entry in entries or ():
        tensors.setdefault(entry.name or "", []).append(entry.tensor_index)
    return tensors


def buffer_findings(matching: Correspondence) -> Iterator[Finding]:
    """Report data that is in no buffer of the original, in no tensor of the first subgraph and no own metadata."""
    after = matching.after
    own = {entry.buffer for entry in after.metadata or () if entry.name in _OWN_METADATA}
    own |= {tensor.buffer for tensor in after.main.tensors}
    theirs = {buffer.data for buffer in matching.before.buffers}
    for index, buffer in enumerate(after.buffers):
        if index not in own and buffer.data and buffer.data not in theirs:
            yield Finding("buffers", f"buffer {index} of {len(buffer.data)} bytes is not the original's")


def memory_findings(matching: Correspondence) -> Iterator[Finding]:
    """Require that blocks place every tensor of the metadata alike, and that no two overlap while both are needed."""
    try:
        slow = slow_tensors(matching.after)
    except ModelError as error:
        yield Finding("slow memory", str(error))
        return
    offsets = {} if slow is None else slow.offsets
    for tensor in sorted(offsets.keys() | matching.placed.keys()):
        expected = offsets.get(tensor)
        for place in matching.placed.get(tensor, {None}):
            if place != expected:
                name = matching.after.main.tensors[tensor].name
                yield Finding("slow memory", f"place of tensor {name}", expected=expected, actual=place)
    if slow is None:
        return
    graph, tensors = program_of(matching.after), matching.after.main.tensors
    sizes = tuple(tensor_nbytes(each) if index in offsets else 0 for index, each in enumerate(tensors))
    places = [offsets.get(index, -1) for index in range(len(tensors))]
    try:
        check_plan(replace(graph, sizes=sizes), places, height=slow.memories.slow.nbytes)
    except PlanError as error:
        yield Finding("slow memory", str(error))
