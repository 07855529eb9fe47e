"""The arena plan in a rewritten model: every tensor whole until its last reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tflite_fuse.errors import ModelError, PlanError
from tflite_fuse.memory.checker import check_plan
from tflite_fuse.memory.from_model import memory_graph, with_placed_variables
from tflite_fuse.memory.overlap import Overlap
from tflite_fuse.memory.tflm.in_place_kernels import KERNEL_SETS, with_in_place
from tflite_fuse.memory.tflm.offline_plan import ONLINE, read_plan
from tflite_fuse.proof.certificate import Finding
from tflite_fuse.proof.correspondence import Correspondence


def plan_findings(known: Correspondence) -> Iterator[Finding]:
    """A plan in the file keeps every tensor whole until its last reader; blocks write as their replay says."""
    model = known.after
    try:
        offsets = read_plan(model)
        if offsets is None:
            return
        graph = with_placed_variables(memory_graph(model), model, offsets)
    except (PlanError, ModelError) as error:
        yield Finding("arena plan", str(error))
        return
    inside = len(model.main.tensors)
    if any(offset != ONLINE for offset in offsets[inside:]):
        yield Finding("arena plan", "it places tensors of other subgraphs")
    permitted = _strictest(known.overlaps)
    problems: list[str] = []
    for kernels in (None, *KERNEL_SETS):
        try:
            check_plan(graph if kernels is None else with_in_place(graph, model, kernels), offsets[:inside], permitted)
        except PlanError as error:
            problems.append(str(error))
            continue
        if kernels is not None:
            known.notes.append(
                f"the arena plan lets operators write over their inputs: it is sound with {kernels} kernels"
            )
        return
    yield Finding("arena plan", problems[0])


def _strictest(overlaps: Sequence[Overlap]) -> tuple[Overlap, ...]:
    """A tensor may be several inputs of one block: the most demanding one counts."""
    found: dict[tuple[int, int], int] = {}
    for overlap in overlaps:
        pair = overlap.input, overlap.output
        found[pair] = max(overlap.distance or 0, found.get(pair, overlap.distance or 0))
    return tuple(Overlap(a, b, distance) for (a, b), distance in found.items())
