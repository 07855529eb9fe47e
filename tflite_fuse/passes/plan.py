"""The planner pass: place every tensor of the arena and write the offsets into the file. Always the last pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from tflite_fuse.errors import PlanError
from tflite_fuse.memory.checker import check_plan
from tflite_fuse.memory.from_model import memory_graph
from tflite_fuse.memory.graph import MemoryGraph
from tflite_fuse.memory.overlap import Overlap
from tflite_fuse.memory.place.portfolio import Placement, place
from tflite_fuse.memory.tflm.greedy_planner import head_bytes
from tflite_fuse.memory.tflm.head_requests import Requests, arena_requests
from tflite_fuse.memory.tflm.in_place_kernels import with_in_place
from tflite_fuse.memory.tflm.offline_plan import ONLINE, has_plan, read_plan, remove_plan, tensor_count, write_plan
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model
from tflite_fuse.passes.base import PassResult

_CALLS_SUBGRAPHS = frozenset(
    {"IF", "WHILE", "CALL", "CALL_ONCE", "STABLEHLO_CASE", "STABLEHLO_WHILE", "STABLEHLO_COMPOSITE"}
)


@dataclass(frozen=True)
class Plan:
    """Place every tensor of the first subgraph; write an ``OfflineMemoryAllocation`` where that saves memory.

    The operators' order stays. A plan is written only if the runtime then needs less than with its own planner. A plan
    already in the file is replaced, unless it is sound and better than both. Variables, constants and the tensors of
    other subgraphs are left to the runtime. Models with control flow are not planned.

    Attributes:
        measure_head: bytes of the head that a real runtime uses for a model, or None if it cannot tell. Without it, or
            where it cannot tell, the runtime's planner is recomputed, with its reference kernels' scratch buffers.
        time_limit: seconds for the search.
        in_place: kernel set for which operators may write over their inputs ("reference", "cmsis-nn", "esp-nn").
        overlaps: further permissions for a model's tensors to share memory: what fused blocks guarantee.
        use_cpsat: try CP-SAT (extra ``optimal``) where nothing else meets the lower bound.
    """

    measure_head: Callable[[Model], int | None] | None = None
    time_limit: float = 10.0
    in_place: str | None = None
    overlaps: Callable[[Model], Sequence[Overlap]] | None = None
    use_cpsat: bool = False

    name: ClassVar[str] = "plan"

    def run(self, model: Model) -> PassResult:
        """Plan a model.

        Raises:
            ModelError: an arena tensor has a dynamic shape or elements without a size.
            UsageError: an unknown kernel set.
            RuntimeUnavailableError: ``use_cpsat`` without OR-Tools.
        """
        obstacle = _obstacle(model)
        if obstacle is not None:
            kept = "; the plan in the file was left as it is" if has_plan(model) else ""
            return PassResult(model, False, (f"not planned: {obstacle}{kept}",))
        bare = remove_plan(model)
        requests = arena_requests(bare)
        graph = _sized(memory_graph(bare), requests)
        if self.in_place is not None:
            graph = with_in_place(graph, bare, self.in_place)
        allowed = tuple(self.overlaps(bare)) if self.overlaps is not None else ()
        head = self._meter(bare)
        unplanned = head(bare)
        planned = [self._planned(bare, graph, scratch, allowed, head) for scratch in _scratch_variants(requests)]
        kept_plan, notes = _judge_existing(model, graph, allowed, head, min(unplanned, *(p.head for p in planned)))
        if kept_plan is not None:
            return PassResult(model, False, (*notes, kept_plan))
        if requests.unknown and head is head_bytes:
            notes += (f"scratch buffers of {', '.join(requests.unknown)} are not known: figures leave them out",)
        return _choose(model, bare, unplanned, planned, notes)

    def _meter(self, bare: Model) -> Callable[[Model], int]:
        """What tells the head of a model: the runtime if it can load this one, else its recomputed planner."""
        measure = self.measure_head
        if measure is None or measure(bare) is None:
            return head_bytes

        def measured(model: Model) -> int:
            head = measure(model)
            return head if head is not None else head_bytes(model)

        return measured

    def _planned(
        self,
        bare: Model,
        graph: MemoryGraph,
        scratch: Sequence[tuple[int, int]],
        allowed: tuple[Overlap, ...],
        head: Callable[[Model], int],
    ) -> _Planned:
        extended = _with_scratch(graph, scratch)
        placement = place(extended, allowed, time_limit=self.time_limit, use_cpsat=self.use_cpsat)
        check_plan(extended, placement.offsets, allowed, height=placement.height)
        offsets = [ONLINE] * tensor_count(bare)
        offsets[: len(graph.sizes)] = placement.offsets[: len(graph.sizes)]
        model = write_plan(bare, offsets)
        return _Planned(model, head(model), placement)


@dataclass(frozen=True)
class _Planned:
    model: Model
    head: int
    placement: Placement


def _obstacle(model: Model) -> str | None:
    """Why a model cannot be planned."""
    for operator in model.main.operators:
        name = operator_name(model, operator)
        if name in _CALLS_SUBGRAPHS:
            return f"the model calls other subgraphs ({name})"
    if any(tensor.is_variable for graph in model.subgraphs[1:] for tensor in graph.tensors):
        # The runtime looks up a variable's offset by its index within its subgraph, as if that were the first one.
        return "a subgraph other than the first has variables, which the runtime would take for planned tensors"
    return None


def _sized(graph: MemoryGraph, requests: Requests) -> MemoryGraph:
    """The graph with the runtime's idea of sizes where it is larger: whole bytes for elements of packed types."""
    occupied = {b.tensor: b.size for b in requests.buffers if b.subgraph == 0 and b.tensor is not None}
    sizes = (max(size, occupied.get(tensor, 0)) if size else 0 for tensor, size in enumerate(graph.sizes))
    return replace(graph, sizes=tuple(sizes))


def _scratch_variants(requests: Requests) -> list[list[tuple[int, int]]]:
    """(operator, bytes) of the scratch buffers to leave room for: none, and all, if there are any.

    The runtime places scratch buffers around the plan. Room left for them is mostly, but not always, what it takes.
    """
    scratch = [(b.operator, b.size) for b in requests.buffers if b.subgraph == 0 and b.operator is not None]
    return [scratch, []] if scratch else [[]]


def _with_scratch(graph: MemoryGraph, scratch: Sequence[tuple[int, int]]) -> MemoryGraph:
    """The graph with one more tensor for each scratch buffer: an output nobody reads lives as long as its operator."""
    ops = list(graph.ops)
    for number, (operator, _) in enumerate(scratch):
        ops[operator] = replace(ops[operator], outputs=(*ops[operator].outputs, len(graph.sizes) + number))
    names = (f"scratch of {graph.ops[operator].name}" for operator, _ in scratch)
    sizes = (*graph.sizes, *(size for _, size in scratch))
    return replace(graph, sizes=sizes, ops=tuple(ops), names=(*graph.names, *names))


def _judge_existing(
    model: Model, graph: MemoryGraph, allowed: tuple[Overlap, ...], head: Callable[[Model], int], best: int
) -> tuple[str | None, tuple[str, ...]]:
    """A note why the plan in the file stays, or None; and notes about it."""
    if not has_plan(model):
        return None, ()
    try:
        offsets = read_plan(model) or ()
        check_plan(graph, offsets[: len(graph.sizes)], allowed)
    except PlanError as error:
        return None, (f"the plan in the file was dropped: {error}",)
    if any(offset != ONLINE for offset in offsets[len(graph.sizes) :]):
        return None, ("the plan in the file was dropped: it places tensors of other subgraphs",)
    existing = head(model)
    if existing < best:
        return f"the plan in the file was kept: it needs {existing:,} B, a new one {best:,} B", ()
    return None, ("the plan in the file was redone",)


def _choose(
    model: Model, bare: Model, unplanned: int, planned: Sequence[_Planned], notes: tuple[str, ...]
) -> PassResult:
    best = min(planned, key=lambda candidate: candidate.head)
    # The first variant knows of all scratch buffers, so its bound is the one that counts.
    reference = planned[0].placement
    least = reference.height if reference.optimal else reference.lower_bound
    optimal = min(best.head, unplanned) <= least
    end = "the least this order of operators allows" if optimal else f"the lower bound is {reference.lower_bound:,} B"
    if best.head >= unplanned:
        reason = (
            f"the runtime's own planner needs {unplanned:,} B already, {end}"
            if optimal
            else f"with it the runtime would need {best.head:,} B, without it {unplanned:,} B; {end}"
        )
        return PassResult(bare, bare is not model, (*notes, f"no plan written: {reason}"), optimal, "plan")
    note = f"planned ({best.placement.method}): the head shrinks from {unplanned:,} to {best.head:,} B, {end}"
    return PassResult(best.model, True, (*notes, note), optimal, "plan")
