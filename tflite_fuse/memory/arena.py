"""Bytes that the runtime needs for a program: head, tail and peak while loading. All rooms compute arenas here.

    realise(program, overlaps).head      with the best offsets found for the order of steps
    with_given_offsets(program).head    with the offsets of a file, or without any

The head is the height that the runtime's planner reaches: it keeps offsets fixed in the file and places the remaining
buffers (scratch of its kernels, tensors of other subgraphs) around them. Offsets are therefore compared by the
resulting head, and returned only if it is smaller than without a plan. ``Overlap`` carries the permissions of fused
blocks to share memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tflite_fuse.errors import PlanError
from tflite_fuse.ir.program import Overlap, Program
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.checker import check_plan
from tflite_fuse.memory.place.portfolio import Placement, place
from tflite_fuse.memory.place.problem import build_problem
from tflite_fuse.memory.tflm.greedy_planner import greedy_height
from tflite_fuse.memory.tflm.head_requests import Requests, arena_requests
from tflite_fuse.memory.tflm.in_place_kernels import with_in_place
from tflite_fuse.memory.tflm.offline_plan import ALIGNMENT, ONLINE
from tflite_fuse.memory.tflm.struct_sizes import ARM, Build
from tflite_fuse.memory.tflm.tail import loading_bytes, predict_tail
from tflite_fuse.model.operators import operator_name
from tflite_fuse.notes import Note, note
from tflite_fuse.tuning import TUNING, Tuning
from tflite_fuse.units import round_up

_UNKNOWN_CALLS = frozenset({"CALL", "STABLEHLO_WHILE", "STABLEHLO_COMPOSITE"})
"""Operators that call subgraphs and that the runtime lacks, so that the lifetimes of these subgraphs are unknown."""

Offsets = tuple[int, ...]
"""Bytes from the start of the head, one per tensor of all subgraphs; -1 for tensors that the runtime places."""


@dataclass(frozen=True)
class ArenaOptions:
    """Conditions under which an arena is computed.

    Attributes:
        in_place: kernel set whose operators may write over their inputs ("reference", "cmsis-nn", "esp-nn").
        planned: whether offsets are fixed in the file; otherwise the runtime's planner chooses all of them.
        without_tflm: whether the C library runs the model without TFLM: every tensor has an offset, and no tail exists.
        measure: function from offsets (None for no plan) to the head in bytes that a real runtime uses, or to None if
            unknown. Without a measurement the runtime's planner is recomputed with the scratch of reference kernels.
        build: struct sizes of the runtime.
        tuning: rules of thumb of the searches.
    """

    in_place: str | None = None
    planned: bool = True
    without_tflm: bool = False
    measure: Callable[[Offsets | None], int | None] | None = field(default=None, compare=False)
    build: Build = ARM
    tuning: Tuning = TUNING


DEFAULT_OPTIONS = ArenaOptions()


@dataclass(frozen=True)
class Proof:
    """Lower bound on the head for one order of operators.

    Attributes:
        bound_bytes: no offsets need fewer bytes.
        proven: whether the head found equals the least possible one.
    """

    bound_bytes: int
    proven: bool


@dataclass(frozen=True)
class Arena:
    """Bytes that the runtime needs for a model on a 32-bit target.

    Attributes:
        head: bytes of activations and scratch.
        tail: bytes that the runtime keeps for itself.
        while_loading: peak bytes before the first inference; in small models they exceed head + tail.
        offsets: offsets to fix in the file; None if they would not reduce the head.
        proof: lower bound on the head.
        measured: whether the head was measured in a real runtime.
        unknown: names of operators whose needs are unknown; the figures are exact if it is empty.
        keeps_plan: whether the model should keep its plan: nothing can be planned, or its own offsets are better.
        notes: reasons for the offsets or for their absence.
    """

    head: int
    tail: int
    while_loading: int
    offsets: Offsets | None
    proof: Proof
    measured: bool = False
    unknown: tuple[str, ...] = ()
    keeps_plan: bool = False
    notes: tuple[Note, ...] = ()

    @property
    def total(self) -> int:
        """Return the bytes of head and tail."""
        return self.head + self.tail

    @property
    def needed(self) -> int:
        """Return the bytes of arena that ``AllocateTensors`` requires: a multiple of 16."""
        return round_up(max(self.total, self.while_loading), ALIGNMENT)


def with_given_offsets(
    program: Program,
    overlaps: Sequence[Overlap] = (),
    options: ArenaOptions = DEFAULT_OPTIONS,
    offsets: Sequence[int] | None = None,
) -> Arena:
    """Return the arena with given offsets, or the one of a file without a plan.

    Args:
        program: program of a file.
        overlaps: permissions of fused blocks; they apply only if offsets are given.
        options: conditions.
        offsets: the file's offline plan in bytes, one per tensor of all subgraphs; None for no plan.

    Raises:
        ModelError: a dynamic shape.
    """
    search = _Search(program, options, offsets)
    problem = build_problem(search.graph(), overlaps if offsets is not None else (), ALIGNMENT)
    head = search.head(None if offsets is None else tuple(offsets))
    bound = min(ALIGNMENT * problem.lower_bound, head)
    return search.arena(head, search.offsets, Proof(bound, bound == head), ())


def realise(
    program: Program,
    overlaps: Sequence[Overlap] = (),
    options: ArenaOptions = DEFAULT_OPTIONS,
    budget: Budget | None = None,
    offsets: Sequence[int] | None = None,
) -> Arena:
    """Return the least arena found for a program's order of steps.

    All tensors of the first subgraph get fixed offsets; the runtime places variables, constants and other subgraphs.
    Given offsets are kept if they are sound and lead to a smaller head. Models with calls of subgraphs that the runtime
    lacks keep their plan.

    Args:
        program: program of a file.
        overlaps: permissions of fused blocks to share memory.
        options: conditions.
        budget: work of the searches; None for a new default budget.
        offsets: the file's offline plan in bytes, one per tensor of all subgraphs; None for no plan.

    Raises:
        ModelError: an arena tensor has a dynamic shape or elements without a size.
        UsageError: an unknown kernel set.
    """
    obstacle = _obstacle(program)
    if obstacle is not None:
        reason = "obstacle" if offsets is None else "obstacle, plan kept"
        arena = with_given_offsets(program, overlaps, options, offsets)
        return replace(arena, keeps_plan=True, notes=(note("not planned", reason, why=obstacle),))
    if not options.planned:
        return with_given_offsets(program, overlaps, options)
    search, allowed = _Search(program, options), tuple(overlaps)
    plans = [search.plan(scratch, allowed, budget or Budget()) for scratch in search.scratch_variants()]
    best = min(plans, key=lambda plan: plan.head)
    # The first variant contains all scratch buffers: its bound is valid for the head.
    reference = plans[0].placement
    bound = reference.height if reference.optimal else reference.lower_bound
    if options.without_tflm:
        return search.arena(best.head, best.offsets, Proof(bound, best.head <= bound), ())
    unplanned = search.head(None)
    sound, notes = _sound_plan(search.graph(), allowed, offsets)
    if sound is not None and (head := search.head(sound)) < min(unplanned, best.head):
        kept = note("kept", "plan", head_bytes=head, other_bytes=min(unplanned, best.head))
        arena = search.arena(head, sound, Proof(min(bound, head), head <= bound), (kept,))
        return replace(arena, keeps_plan=True)
    proof = Proof(min(bound, unplanned), min(best.head, unplanned) <= bound)
    notes = (*notes, *search.warnings(), _verdict(unplanned, best, proof))
    head, planned = (best.head, best.offsets) if best.head < unplanned else (unplanned, None)
    return search.arena(head, planned, proof, notes)


@dataclass(frozen=True)
class _Planned:
    head: int
    offsets: Offsets
    placement: Placement


class _Search:
    """A program and the buffers that the runtime requests to run it."""

    def __init__(self, program: Program, options: ArenaOptions, offsets: Sequence[int] | None = None) -> None:
        self.program, self.options = program, options
        self.offsets: Offsets | None = None if offsets is None else tuple(offsets)
        build = options.build
        self.requests = arena_requests(program, offsets, pointer_bytes=build.pointer, kernels=build.kernels)
        self._measure = options.measure

    def graph(self) -> Program:
        """Return the tensors to place, with the in-place pairs of the kernel set."""
        graph = _sized(self.program, self.requests)
        kernels = self.options.in_place
        return graph if kernels is None else with_in_place(graph, kernels)

    def scratch_variants(self) -> list[list[tuple[int, int]]]:
        """Return (operator, bytes) of the scratch buffers to reserve: all of them, and none.

        The runtime places scratch buffers around the plan, usually but not always in the gaps reserved for them.
        """
        buffers = self.requests.buffers if not self.options.without_tflm else ()
        scratch = [(b.operator, b.size) for b in buffers if b.subgraph == 0 and b.operator is not None]
        return [scratch, []] if scratch else [[]]

    def plan(self, scratch: Sequence[tuple[int, int]], allowed: tuple[Overlap, ...], budget: Budget) -> _Planned:
        """Return checked offsets that leave gaps for the scratch buffers."""
        graph = self.graph()
        extended = _with_scratch(graph, scratch)
        placement = place(extended, allowed, budget=budget, tuning=self.options.tuning)
        check_plan(extended, placement.offsets, allowed, height=placement.height)
        offsets = [ONLINE] * sum(len(each.tensors) for each in self.program.subgraphs)
        offsets[: len(graph.sizes)] = placement.offsets[: len(graph.sizes)]
        head = placement.height if self.options.without_tflm else self.head(tuple(offsets))
        return _Planned(head, tuple(offsets), placement)

    def head(self, offsets: Offsets | None) -> int:
        """Return the bytes of head that the runtime uses with these offsets."""
        if self._measure is not None:
            measured = self._measure(offsets)
            if measured is not None:
                return measured
            self._measure = None
        return greedy_height(self.requests.buffers, offsets)

    def warnings(self) -> tuple[Note, ...]:
        """Return notes about scratch that a recomputed head may lack."""
        if self._measure is not None or not self.requests.unknown:
            return ()
        return (note("warned", "unknown scratch", names=", ".join(self.requests.unknown)),)

    def arena(self, head: int, offsets: Offsets | None, proof: Proof, notes: tuple[Note, ...]) -> Arena:
        """Return the arena with this head; the C library alone has no tail."""
        measured, unknown = self._measure is not None, self.requests.unknown
        if self.options.without_tflm:
            return Arena(head, 0, 0, offsets, proof, measured, unknown, notes=notes)
        build = self.options.build
        tail = predict_tail(self.program, build, self.requests, self.offsets)
        loading = loading_bytes(self.program, build, self.requests, tail)
        by_name = (name for name in tail.unknown if not any(label.startswith(f"{name}_") for label in unknown))
        unknown = tuple(dict.fromkeys((*unknown, *by_name)))
        return Arena(head, tail.total, loading, offsets, proof, measured, unknown, notes=notes)


def _obstacle(program: Program) -> str | None:
    """Return the reason why a program cannot be planned, or None."""
    file, graph = program.origin
    names = (operator_name(file, operator) for operator in graph.operators)
    if (unknown := next((name for name in names if name in _UNKNOWN_CALLS), None)) is not None:
        return f"the model calls other subgraphs ({unknown})"
    if any(tensor.is_variable for graph in program.subgraphs[1:] for tensor in graph.tensors):
        # The runtime looks up a variable's offset by its index within its subgraph, but in the plan of the first
        # subgraph.
        return "a subgraph other than the first has variables, which the runtime would take for planned tensors"
    return None


def _sized(graph: Program, requests: Requests) -> Program:
    """Return the graph with the runtime's tensor sizes where they are larger: it rounds packed types to whole bytes."""
    occupied = {b.tensor: b.size for b in requests.buffers if b.subgraph == 0 and b.tensor is not None}
    sizes = (max(size, occupied.get(tensor, 0)) if size else 0 for tensor, size in enumerate(graph.sizes))
    return replace(graph, sizes=tuple(sizes))


def _with_scratch(graph: Program, scratch: Sequence[tuple[int, int]]) -> Program:
    """Return the graph with one tensor per scratch buffer: an output without readers, live during its operator only."""
    ops = list(graph.steps)
    for number, (operator, _) in enumerate(scratch):
        ops[operator] = replace(ops[operator], outputs=(*ops[operator].outputs, len(graph.sizes) + number))
    names = (f"scratch of {graph.steps[operator].name}" for operator, _ in scratch)
    sizes = (*graph.sizes, *(size for _, size in scratch))
    return replace(graph, sizes=sizes, steps=tuple(ops), names=(*graph.names, *names))


def _sound_plan(
    graph: Program, allowed: tuple[Overlap, ...], offsets: Sequence[int] | None
) -> tuple[Offsets | None, tuple[Note, ...]]:
    """Return the given offsets if they keep every tensor intact, else None, with a note."""
    if offsets is None:
        return None, ()
    try:
        check_plan(graph, offsets[: len(graph.sizes)], allowed)
    except PlanError as error:
        return None, (note("removed", "plan", why=str(error)),)
    if any(offset != ONLINE for offset in offsets[len(graph.sizes) :]):
        return None, (note("removed", "plan", why="it places tensors of other subgraphs"),)
    return tuple(offsets), (note("changed", "plan"),)


def _verdict(unplanned: int, best: _Planned, proof: Proof) -> Note:
    fate, reason = "not planned", "least already" if proof.proven else "larger head"
    if best.head < unplanned:
        fate, reason = "planned", "smaller head"
    return note(
        fate,
        reason,
        head_before_bytes=unplanned,
        head_bytes=best.head,
        method=best.placement.method,
        proven=proof.proven,
        bound_bytes=proof.bound_bytes,
    )
