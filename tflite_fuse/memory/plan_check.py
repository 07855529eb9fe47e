"""The plan a file brings along, looked at before anything relies on it: the runtime itself checks only its length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tflite_fuse.errors import PlanError
from tflite_fuse.memory.checker import check_plan
from tflite_fuse.memory.from_model import FUSED_OPERATOR, memory_graph, with_placed_variables
from tflite_fuse.memory.graph import MemoryGraph
from tflite_fuse.memory.overlap import Overlap
from tflite_fuse.memory.tflm.in_place_kernels import KERNEL_SETS, with_in_place
from tflite_fuse.memory.tflm.offline_plan import ONLINE, has_plan, read_plan
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model
from tflite_fuse.model.validate import COMPRESSION_METADATA

_FARTHEST = 2**31 - 1
_ANYWHERE = -(2**32)


def plan_fault(model: Model, overlaps: Sequence[Overlap] = ()) -> str | None:
    """What is wrong with the offsets in a file, or None: every tensor stays whole for as long as it is needed.

    Tensors left to the runtime are kept apart by it. An operator may write over its input where some kernel set does
    (which one the file does not say), a fused block where ``overlaps`` allow it at the distance its schedule needs,
    another custom operator anywhere: it has rules of its own. A variable stays whole for ever. Subgraphs behind the
    first are not looked at.

    Raises:
        ModelError: a dynamic shape.
    """
    if not has_plan(model):
        return None
    try:
        graph = memory_graph(model)
        offsets = (read_plan(model) or ())[: len(graph.sizes)]
        graph = with_placed_variables(graph, model, offsets)
        sizes = tuple(0 if at == ONLINE else size for size, at in zip(graph.sizes, offsets, strict=True))
        graph = replace(graph, sizes=sizes)
        for size, at, name in zip(sizes, offsets, graph.names, strict=True):
            if at + size > _FARTHEST:
                raise PlanError(f"tensor {name} ends at byte {at + size:,}, behind any arena")
        allowed = (*overlaps, *_of_strangers(model))
        faults = [_fault(graph, offsets, allowed)]
        for kernels in KERNEL_SETS:
            if faults[-1] is not None:
                faults.append(_fault(with_in_place(graph, model, kernels), offsets, allowed))
    except PlanError as error:
        return str(error)
    return None if None in faults else faults[0]


def why_untouchable(model: Model) -> str | None:
    """Why a model must stay as it is, in words, or None.

    Custom operators may address memory by the offsets of the file's plan, as command streams of an accelerator do; and
    compressed constants are found by their tensor's number.
    """
    if any(entry.name == COMPRESSION_METADATA for entry in model.metadata or ()):
        return "its compressed constants are found by the numbers of their tensors, which a rewrite changes"
    strangers = {name for operator in model.main.operators if _is_stranger(name := operator_name(model, operator))}
    if not has_plan(model) or not strangers:
        return None
    names = ", ".join(sorted(name.removeprefix("CUSTOM:") for name in strangers))
    return f"it brings its own offline memory plan, on which its custom operators ({names}) may depend"


def _is_stranger(name: str) -> bool:
    return name.startswith("CUSTOM:") and name != FUSED_OPERATOR


def _fault(graph: MemoryGraph, offsets: Sequence[int], allowed: Sequence[Overlap]) -> str | None:
    try:
        check_plan(graph, offsets, allowed)
    except PlanError as error:
        return str(error)
    return None


def _of_strangers(model: Model) -> list[Overlap]:
    found = []
    for operator in model.main.operators:
        name = operator_name(model, operator)
        if _is_stranger(name):
            pairs = [(read, written) for read in operator.inputs or () for written in operator.outputs or ()]
            found += [Overlap(read, written, _ANYWHERE) for read, written in pairs if read != written]
    return found
