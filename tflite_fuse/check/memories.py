"""What lies in a slow memory: blocks and metadata agree on it, and it stays whole until its last reader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tflite_fuse.check.certificate import Finding
from tflite_fuse.check.correspondence import Correspondence
from tflite_fuse.errors import ModelError, PlanError
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.checker import check_plan
from tflite_fuse.model.memories import slow_tensors
from tflite_fuse.model.types import tensor_nbytes


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
