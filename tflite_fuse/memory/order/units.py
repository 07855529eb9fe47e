"""Units: operators that run back to back, their effect on memory, and a fixed order of identical chains.

A *unit* is a sequence of operators run without interruption. Its effect on memory is a profile: its largest working set
above the bytes live before it, and the change of the live bytes. If that depends on whether another reader of a shared
tensor has already run, the profile has several phases. Initially every operator is a unit; ``merging`` joins them.

Two chains are *twins* if they have the same predecessors and successors and their steps have the same effect on memory:
heads of an attention layer, groups of a convolution, equal branches of a cell. The live bytes then depend only on the
number of twins that have completed each step. In any order, the j-th run of step s among the twins can be assigned to
the j-th twin: its step s still precedes its step s + 1 (j runs of step s precede the j-th run of step s + 1), and the
numbers of completed steps do not change. So there is an optimal order in which the first twin is never behind the
second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tflite_fuse.ir.liveness import in_place_saving
from tflite_fuse.ir.program import Program

_Chain = tuple[int, ...]
_Key = tuple[object, ...]


def twin_precedence(graph: Program, before: Sequence[set[int]]) -> list[tuple[int, int]]:
    """Return pairs (earlier, later) of operators whose order may be fixed; the graph's own order already agrees.

    Args:
        graph: operators and tensors.
        before: for each operator its direct predecessors.
    """
    tensors = _Tensors(graph)
    groups: dict[_Key, list[_Chain]] = {}
    for chain in _chains(before, tensors):
        groups.setdefault(tensors.key(chain, before), []).append(chain)
    pairs = []
    for chains in groups.values():
        last = min(chains)
        for chain in sorted(chains)[1:]:
            if all(a < b for a, b in zip(last, chain, strict=True)):
                pairs += list(zip(last, chain, strict=True))
                last = chain
    return pairs


def _chains(before: Sequence[set[int]], tensors: _Tensors) -> Iterator[_Chain]:
    """Yield all maximal chains of plain operators: each has one predecessor, of which it is the only successor."""
    after: list[set[int]] = [set() for _ in before]
    for op, earlier in enumerate(before):
        for other in earlier:
            after[other].add(op)

    def continues(op: int) -> bool:
        if len(before[op]) != 1:
            return False
        (ahead,) = before[op]
        return len(after[ahead]) == 1 and tensors.is_plain(ahead)

    for op in range(len(before)):
        if not tensors.is_plain(op) or continues(op):
            continue
        chain = [op]
        while len(after[chain[-1]]) == 1:
            (following,) = after[chain[-1]]
            if not tensors.is_plain(following) or not continues(following):
                break
            chain.append(following)
        yield tuple(chain)


class _Tensors:
    """Readers and writers of each tensor."""

    def __init__(self, graph: Program) -> None:
        self._graph = graph
        self._readers: dict[int, set[int]] = {}
        self._writers: dict[int, set[int]] = {}
        for index, op in enumerate(graph.steps):
            for tensor in op.inputs:
                self._readers.setdefault(tensor, set()).add(index)
            for tensor in op.outputs:
                self._writers.setdefault(tensor, set()).add(index)
        self._special = {*graph.resident, *(t for t in graph.inputs if t in self._writers)}
        self._special |= {tensor for tensor, ops in self._writers.items() if len(ops) > 1}

    def is_plain(self, op: int) -> bool:
        """Return whether only data constrains an operator's order and each of its tensors is written once."""
        touched = self._graph.steps[op].inputs + self._graph.steps[op].outputs
        return not self._graph.steps[op].ordered and self._special.isdisjoint(touched)

    def key(self, chain: _Chain, before: Sequence[set[int]]) -> _Key:
        """Return a key that is equal for twins: predecessors, and tensors that steps read, write and may share."""
        return (frozenset(before[chain[0]]), *(self._step(chain, step) for step in range(len(chain))))

    def _step(self, chain: _Chain, step: int) -> _Key:
        op = self._graph.steps[chain[step]]
        made = {tensor: self._made(tensor, chain, step) for tensor in op.outputs}
        read = {tensor: self._read(tensor, chain, step) for tensor in op.inputs}
        shared = tuple((read.get(source), made.get(target)) for source, target in op.in_place)
        return tuple(read.values()), tuple(made.values()), shared

    def _made(self, tensor: int, chain: _Chain, step: int) -> _Key:
        readers = self._readers.get(tensor, set())
        inside = bool(readers) and readers == set(chain[step + 1 : step + 2])
        kept = tensor in self._graph.outputs
        return self._graph.sizes[tensor], kept, inside, frozenset() if inside else frozenset(readers)

    def _read(self, tensor: int, chain: _Chain, step: int) -> _Key:
        size = self._graph.sizes[tensor]
        writers = self._writers.get(tensor, set())
        if step and writers == {chain[step - 1]}:
            return "ahead", size, self._graph.steps[chain[step - 1]].outputs.index(tensor)
        if self._readers[tensor] == {chain[step]} and tensor not in self._graph.outputs:
            return "own", size, frozenset(writers)
        return "shared", tensor


Dies = Callable[[int], bool]


@dataclass(frozen=True)
class Phase:
    """Part of a unit between two points where its effect depends on other units.

    Attributes:
        rise: largest working set in bytes above the bytes live at the start of the phase.
        delta: change of the live bytes over the phase, before ``frees``.
        frees: shared tensors freed at the end of the phase if all other readers have run.
        sharing: in-place pairs of the phase's only operator; ``rise`` does not include their saving.
    """

    rise: int
    delta: int
    frees: tuple[int, ...] = ()
    sharing: tuple[tuple[int, int], ...] = ()


@dataclass
class Unit:
    """Operators that run back to back, in this order."""

    ops: list[int]
    phases: list[Phase]
    preds: set[int]
    succs: set[int]
    reads: set[int]
    mask: int


@dataclass
class UnitGraph:
    """Units by number, and the reading units of each tensor that can die.

    Attributes:
        sizes: bytes of each tensor.
        units: current units; a merged unit keeps the number of its first part.
        readers: for each tensor shared by units and freed by its last reader: the units that read or rewrite it.
        start: bytes live before the first operator, except inputs without readers.
    """

    sizes: tuple[int, ...]
    units: dict[int, Unit]
    readers: dict[int, set[int]]
    start: int

    def other_readers(self, tensor: int, unit: int) -> int:
        """Return the operators, as bits, of the tensor's readers other than ``unit``."""
        mask = 0
        for reader in self.readers.get(tensor, ()):
            if reader != unit:
                mask |= self.units[reader].mask
        return mask

    def profile(self, unit: int, dies: Dies) -> tuple[int, int]:
        """Return (rise, delta) of a unit in bytes; ``dies`` selects the shared tensors that die in it."""
        return profile(self.units[unit].phases, self.sizes, dies)


def profile(phases: Iterable[Phase], sizes: tuple[int, ...], dies: Dies) -> tuple[int, int]:
    """Return (rise, delta) in bytes of a sequence of phases; ``dies`` selects the shared tensors that die."""
    rise = 0
    live = 0
    for phase in phases:
        needed = live + phase.rise
        if phase.sharing:
            needed -= in_place_saving(sizes, tuple(pair for pair in phase.sharing if dies(pair[0])))
        rise = max(rise, needed)
        live += phase.delta - sum(sizes[tensor] for tensor in phase.frees if dies(tensor))
    return rise, live


def precedence(graph: Program) -> list[set[int]]:
    """Return for each operator the operators that must run before it.

    Readers follow the writer. Operators on a resident or rewritten tensor and operators flagged ``ordered`` keep their
    relative order.
    """
    before: list[set[int]] = [set() for _ in graph.steps]
    writers: dict[int, int] = {}
    for op in graph.steps:
        for tensor in set(op.outputs):
            writers[tensor] = writers.get(tensor, 0) + 1
    rewritten = {t for t, count in writers.items() if count > 1 or t in graph.inputs} | set(graph.resident)
    last_touch: dict[int, int] = {}
    written: dict[int, int] = {}
    last_ordered: int | None = None
    for index, op in enumerate(graph.steps):
        for tensor in {*op.inputs, *op.outputs}:
            if tensor in rewritten:
                if tensor in last_touch:
                    before[index].add(last_touch[tensor])
                last_touch[tensor] = index
            elif tensor in written:
                before[index].add(written[tensor])
        written.update(dict.fromkeys(op.outputs, index))
        if op.ordered:
            if last_ordered is not None:
                before[index].add(last_ordered)
            last_ordered = index
    return before


def unit_graph(graph: Program, *, in_place: bool = False, twins: bool = False) -> UnitGraph:
    """Return a graph with one unit per operator.

    Args:
        graph: operators and tensors.
        in_place: whether to use the operators' in-place pairs.
        twins: whether to fix the order of chains that are copies of each other.
    """
    before = precedence(graph)
    for first, second in twin_precedence(graph, before) if twins else ():
        before[second].add(first)
    resident = set(graph.resident)
    born: dict[int, int] = {}
    readers: dict[int, set[int]] = {}
    fixed = resident | set(graph.inputs)
    for index, op in enumerate(graph.steps):
        for tensor in op.outputs:
            if tensor not in fixed:
                born.setdefault(tensor, index)
        for tensor in (*op.inputs, *op.outputs):
            if tensor not in resident and born.get(tensor) != index:
                readers.setdefault(tensor, set()).add(index)
    stays = resident | set(graph.outputs)
    units = {}
    for index, op in enumerate(graph.steps):
        created = {tensor for tensor in op.outputs if born.get(tensor) == index}
        transient = {tensor for tensor in created if tensor not in readers and tensor not in stays}
        touched = {tensor for tensor in {*op.inputs, *op.outputs} - created if tensor not in stays}
        rise = sum(graph.sizes[tensor] for tensor in created)
        delta = rise - sum(graph.sizes[tensor] for tensor in transient)
        sharing = tuple(p for p in op.in_place if p[0] in touched and p[1] in created) if in_place else ()
        units[index] = Unit(
            ops=[index],
            phases=[Phase(rise, delta, tuple(sorted(touched)), sharing)],
            preds=set(before[index]),
            succs=set(),
            reads=touched,
            mask=1 << index,
        )
    for index, preds in enumerate(before):
        for pred in preds:
            units[pred].succs.add(index)
    used_inputs = {tensor for tensor in graph.inputs if tensor in readers or tensor in stays}
    result = UnitGraph(
        sizes=graph.sizes,
        units=units,
        readers={tensor: users for tensor, users in readers.items() if tensor not in stays},
        start=sum(graph.sizes[tensor] for tensor in used_inputs | resident),
    )
    for index in units:
        settle_phases(result, index)
    return result


def topological(graph: UnitGraph) -> list[int]:
    """Return the units in topological order, each as early as its first operator permits."""
    waiting = {number: len(unit.preds) for number, unit in graph.units.items()}
    ready = sorted((number for number, count in waiting.items() if not count), reverse=True)
    order = []
    while ready:
        number = ready.pop()
        order.append(number)
        for succ in graph.units[number].succs:
            waiting[succ] -= 1
            if not waiting[succ]:
                ready.append(succ)
    return order


def relatives(graph: UnitGraph) -> tuple[dict[int, int], dict[int, int]]:
    """Return for each unit all operators, as bits, that must run before it and that must run after it."""
    order = topological(graph)
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    for number in order:
        mask = 0
        for pred in graph.units[number].preds:
            mask |= before[pred] | graph.units[pred].mask
        before[number] = mask
    for number in reversed(order):
        mask = 0
        for succ in graph.units[number].succs:
            mask |= after[succ] | graph.units[succ].mask
        after[number] = mask
    return before, after


def settle_phases(graph: UnitGraph, number: int) -> None:
    """Fold effects that no longer depend on other units into the numbers of the phases."""
    unit = graph.units[number]
    own = {t for t in unit.reads if graph.readers[t] == {number}}
    unit.phases = fold_phases(unit.phases, graph.sizes, own)
    for tensor in own:
        graph.readers.pop(tensor)
    unit.reads -= own


def fold_phases(phases: Iterable[Phase], sizes: tuple[int, ...], dead: set[int]) -> list[Phase]:
    """Return the phases with the tensors of ``dead`` freed unconditionally; phases without a boundary are joined."""
    joined: list[Phase] = []
    for old in phases:
        phase = Phase(
            old.rise,
            old.delta - sum(sizes[t] for t in old.frees if t in dead),
            tuple(t for t in old.frees if t not in dead),
            old.sharing,
        )
        if all(source in dead for source, _ in old.sharing):
            phase = replace(phase, rise=phase.rise - in_place_saving(sizes, old.sharing), sharing=())
        if joined and not (joined[-1].frees or joined[-1].sharing or phase.sharing):
            last = joined.pop()
            phase = Phase(max(last.rise, last.delta + phase.rise), last.delta + phase.delta, phase.frees)
        joined.append(phase)
    return joined
