"""Independent checker of arena plans.

It shares no code with the planner and computes no lifetimes. It replays the operators in order and records, for every
interval of the arena, the tensor stored there. The inputs of an operator must be intact when it runs, its outputs
overwrite the intervals that they cover, and the network's outputs must be intact at the end. Inside one operator, which
reads inputs while it writes outputs, tensors share bytes only as an ``Overlap`` permits.

``plan_fault`` checks the plan in a file before it is used: the runtime itself checks only its length.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace

from tflite_fuse.errors import PlanError
from tflite_fuse.ir.program import FUSED_OPERATOR, Overlap, Program, Step, program_of, with_placed_variables
from tflite_fuse.memory.tflm.in_place_kernels import KERNEL_SETS, with_in_place
from tflite_fuse.memory.tflm.offline_plan import ONLINE, has_plan, read_plan
from tflite_fuse.model.file import COMPRESSION_METADATA
from tflite_fuse.model.memories import MEMORIES_METADATA
from tflite_fuse.model.operators import operator_name
from tflite_fuse.model.schema import Model

NOWHERE = -1
_NOBODY = -1


def check_plan(
    graph: Program,
    offsets: Sequence[int],
    overlaps: Sequence[Overlap] = (),
    *,
    alignment: int = 16,
    height: int | None = None,
) -> None:
    """Check that a plan keeps every tensor intact from its writer to its last reader.

    Args:
        graph: operators in execution order. Pairs in ``Step.in_place`` may share their first byte.
        offsets: bytes from the start of the arena, one per tensor; -1 for tensors outside the arena: those of size 0,
            residents (in the arena they stay intact between inferences) and unused tensors.
        overlaps: further permissions.
        alignment: bytes; every offset must be a multiple of it.
        height: bytes available to the plan; sizes are rounded up to the alignment. None for no limit.

    Raises:
        PlanError: the plan violates a rule. The message names the tensors and the operator.
    """
    if len(offsets) != len(graph.sizes):
        raise PlanError(f"the plan has {len(offsets)} offsets, the graph {len(graph.sizes)} tensors")
    _check_places(graph, offsets, alignment, height)
    arena = _Arena(graph, offsets)
    _fill_inputs(graph, offsets, arena)
    allowed = tuple(overlaps)
    for op in graph.steps:
        for tensor in op.inputs:
            arena.require(tensor, f"operator {op.name} reads it")
        _check_sharing(graph, offsets, op, allowed)
        for tensor in op.outputs:
            arena.write(tensor, f"operator {op.name}")
        for tensor in op.outputs:
            arena.require(tensor, f"operator {op.name} has written it")
    for tensor in graph.outputs:
        arena.require(tensor, "the network returns it")
    for tensor in graph.resident:
        arena.require(tensor, "the next inference reads it")


def _check_places(graph: Program, offsets: Sequence[int], alignment: int, height: int | None) -> None:
    used = {*graph.inputs, *graph.outputs}
    for op in graph.steps:
        used.update(op.inputs, op.outputs)
    for tensor, offset in enumerate(offsets):
        name, size = graph.names[tensor], graph.sizes[tensor]
        if offset == NOWHERE:
            if size > 0 and tensor in used and tensor not in graph.resident:
                raise PlanError(f"tensor {name} has no place in the plan")
            continue
        if offset < 0:
            raise PlanError(f"tensor {name} lies at the negative offset {offset}")
        if offset % alignment != 0:
            raise PlanError(f"tensor {name} lies at offset {offset}, which is not a multiple of {alignment}")
        end = offset + (size + alignment - 1) // alignment * alignment
        if height is not None and end > height:
            raise PlanError(f"tensor {name} ends at byte {end} of an arena of {height} bytes")


def _fill_inputs(graph: Program, offsets: Sequence[int], arena: _Arena) -> None:
    for tensor in graph.resident:
        if offsets[tensor] != NOWHERE:
            arena.write(tensor, "the start")
    for tensor in graph.inputs:
        arena.write(tensor, "the start")
    for tensor in (*graph.resident, *graph.inputs):
        if offsets[tensor] != NOWHERE:
            arena.require(tensor, "the network starts")


def _check_sharing(graph: Program, offsets: Sequence[int], op: Step, allowed: tuple[Overlap, ...]) -> None:
    """Check inputs against outputs of one operator; ``require`` finds outputs that overlap each other."""
    for read in op.inputs:
        for written in op.outputs:
            if read != written and _touch(graph, offsets, read, written):
                if (read, written) in op.in_place and offsets[read] == offsets[written]:
                    continue
                if any(_permits(overlap, read, written, offsets) for overlap in allowed):
                    continue
                raise PlanError(
                    f"output {graph.names[written]} of operator {op.name} overlaps its input {graph.names[read]}: "
                    f"bytes {offsets[written]} to {offsets[written] + graph.sizes[written]} and "
                    f"{offsets[read]} to {offsets[read] + graph.sizes[read]}"
                )


def _touch(graph: Program, offsets: Sequence[int], a: int, b: int) -> bool:
    if offsets[a] == NOWHERE or offsets[b] == NOWHERE or graph.sizes[a] == 0 or graph.sizes[b] == 0:
        return False
    return offsets[a] < offsets[b] + graph.sizes[b] and offsets[b] < offsets[a] + graph.sizes[a]


def _permits(overlap: Overlap, read: int, written: int, offsets: Sequence[int]) -> bool:
    if (overlap.input, overlap.output) != (read, written):
        return False
    if overlap.distance is None:
        return offsets[read] == offsets[written]
    return offsets[written] + overlap.distance <= offsets[read]


class _Arena:
    """The tensor stored in each interval of the arena, which is divided at every start and end of a tensor."""

    def __init__(self, graph: Program, offsets: Sequence[int]) -> None:
        self._graph = graph
        self._cells: dict[int, slice] = {}
        placed = [t for t, offset in enumerate(offsets) if offset != NOWHERE and graph.sizes[t] > 0]
        cuts = sorted({edge for t in placed for edge in (offsets[t], offsets[t] + graph.sizes[t])})
        for t in placed:
            self._cells[t] = slice(bisect_left(cuts, offsets[t]), bisect_left(cuts, offsets[t] + graph.sizes[t]))
        self._owner = [_NOBODY] * len(cuts)
        self._writer = ["nobody"] * len(cuts)

    def write(self, tensor: int, writer: str) -> None:
        """Record that the tensor's bytes hold it."""
        cells = self._cells.get(tensor)
        if cells is not None:
            length = cells.stop - cells.start
            self._owner[cells] = [tensor] * length
            self._writer[cells] = [writer] * length

    def require(self, tensor: int, occasion: str) -> None:
        """Raise ``PlanError`` unless all bytes of the tensor hold it."""
        cells = self._cells.get(tensor)
        if cells is None:
            return
        for owner, writer in zip(self._owner[cells], self._writer[cells], strict=True):
            if owner != tensor:
                name = self._graph.names[tensor]
                if owner == _NOBODY:
                    raise PlanError(f"tensor {name} was never written when {occasion}")
                raise PlanError(
                    f"tensor {name} was overwritten with {self._graph.names[owner]} by {writer} before {occasion}"
                )


_FARTHEST = 2**31 - 1
_ANYWHERE = -(2**32)


def fault_for_kernels(
    graph: Program, offsets: Sequence[int], allowed: Sequence[Overlap]
) -> tuple[str | None, str | None]:
    """Return the fault of a plan, None if some kernel set may run it; and that set, None if every kernel may."""
    fault = None
    for kernels in (None, *KERNEL_SETS):
        try:
            check_plan(graph if kernels is None else with_in_place(graph, kernels), offsets, allowed)
        except PlanError as error:
            fault = fault or str(error)
        else:
            return None, kernels
    return fault, None


def plan_fault(model: Model, overlaps: Sequence[Overlap] = ()) -> str | None:
    """Return the reason why a file's offsets do not keep every tensor intact, or None if they do.

    The runtime keeps tensors without offsets apart. An operator may write over its input if any kernel set does,
    because the file does not name its kernel set; a fused block may if ``overlaps`` permit the distance; other custom
    operators may overlap freely, because their rules are unknown, and their working memory may lie anywhere. Variables
    stay intact between inferences. Only the first subgraph is checked.

    Raises:
        ModelError: a dynamic shape.
    """
    if not has_plan(model):
        return None
    try:
        graph = program_of(model)
        offsets = (read_plan(model) or ())[: len(graph.sizes)]
        graph = with_placed_variables(graph, model, offsets)
        free = _memory_of_strangers(model)
        placed = enumerate(zip(graph.sizes, offsets, strict=True))
        sizes = tuple(0 if at == ONLINE or tensor in free else size for tensor, (size, at) in placed)
        graph = replace(graph, sizes=sizes)
        for size, at, name in zip(sizes, offsets, graph.names, strict=True):
            if at + size > _FARTHEST:
                raise PlanError(f"tensor {name} ends at byte {at + size:,}, behind any arena")
    except PlanError as error:
        return str(error)
    return fault_for_kernels(graph, offsets, (*overlaps, *_of_strangers(model)))[0]


def why_untouchable(model: Model) -> str | None:
    """Return the reason why a model must not be rewritten, or None.

    Custom operators may address memory by the offsets of the file's plan, for example the command streams of an
    accelerator. Compressed constants are found by the numbers of their tensors.
    """
    if any(entry.name == COMPRESSION_METADATA for entry in model.metadata or ()):
        return "its compressed constants are found by the numbers of their tensors, which a rewrite changes"
    if any(entry.name == MEMORIES_METADATA for entry in model.metadata or ()):
        return "it keeps tensors in a slow memory: rewrite the model that it was made from"
    strangers = {name for operator in model.main.operators if _is_stranger(name := operator_name(model, operator))}
    if not has_plan(model) or not strangers:
        return None
    names = ", ".join(sorted(name.removeprefix("CUSTOM:") for name in strangers))
    return f"it brings its own offline memory plan, on which its custom operators ({names}) may depend"


def _is_stranger(name: str) -> bool:
    return name.startswith("CUSTOM:") and name != FUSED_OPERATOR


def _memory_of_strangers(model: Model) -> set[int]:
    """Return tensors that hold nothing before or after other custom operators: no other reads them, none writes them.

    An accelerator's compiler lists the memory of its command stream as operands; it contains the network's input.
    """
    graph = model.main
    kept = {*graph.inputs, *graph.outputs}
    free = set[int]()
    for operator in graph.operators:
        own = _is_stranger(operator_name(model, operator))
        (free if own else kept).update(operator.inputs or ())
        kept.update(operator.outputs or ())
    return free - kept


def _of_strangers(model: Model) -> list[Overlap]:
    overlaps = []
    for operator in model.main.operators:
        name = operator_name(model, operator)
        if _is_stranger(name):
            pairs = [(read, written) for read in operator.inputs or () for written in operator.outputs or ()]
            overlaps += [Overlap(read, written, _ANYWHERE) for read, written in pairs if read != written]
    return overlaps
