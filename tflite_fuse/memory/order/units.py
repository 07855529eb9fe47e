"""Operators that an optimal order may run back to back, merged into units.

A *unit* is a sequence of operators run without interruption. Its effect on memory is a short profile: how far it
rises above what is live before it, and what is live after it. Where that depends on whether another reader of a
shared tensor has already run, the profile has several phases.

Merging rules (``merge_units``). Both keep at least one optimal order. They rest on this: a tensor is freed by its
last reader, so the later a unit runs, the more it frees; ``live(T + x) - live(T) <= live(S + x) - live(S)`` for S
inside T, where ``live(S)`` is what is live after the units of S have run.

- *At once*: y can run as soon as x has, never needs more right behind x than x has just needed, and never leaves more
  live than before it. In any order move y to right behind x: what runs between finds no more live than before.
- *Delayed*: whatever follows x follows y too (or is y), x never lowers what is live, and never needs more right
  before y than y needs. In any order move x to right before y: what runs between finds no more live than before. (A
  tensor that an operator between could overwrite, had x read it earlier, was counted as freed by x when testing that
  x never lowers what is live: the saving lost is no larger than what delaying x saves.)

On a linear chain the two leave the hill-valley decomposition of Liu (1987, An application of generalized tree
pebbling to sparse matrix factorization): first ever deeper valleys behind ever higher hills, then the mirror image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import combinations

from tflite_fuse.memory.graph import MemoryGraph
from tflite_fuse.memory.order.twins import twin_precedence
from tflite_fuse.memory.working_set import in_place_saving

Dies = Callable[[int], bool]

_MOST_OPEN = 5


@dataclass(frozen=True)
class Phase:
    """A stretch of a unit between two points where its effect depends on what else has run.

    Attributes:
        rise: largest working set in bytes, above what is live when the phase starts.
        delta: change of the live bytes over the phase, before ``frees``.
        frees: shared tensors freed at the end of the phase if every other reader has run.
        sharing: in-place pairs of the phase's only operator; their saving is not yet in ``rise``.
    """

    rise: int
    delta: int
    frees: tuple[int, ...] = ()
    sharing: tuple[tuple[int, int], ...] = ()


@dataclass
class Unit:
    """Operators run back to back, in this order."""

    ops: list[int]
    phases: list[Phase]
    preds: set[int]
    succs: set[int]
    reads: set[int]
    mask: int


@dataclass
class UnitGraph:
    """Units by number, and for each tensor that can die the units that read it.

    Attributes:
        sizes: bytes of each tensor.
        units: live units; a merged unit keeps the number of its first part.
        readers: for each tensor shared by several units and freed after its last reader: the units that read it (or
            write it again).
        start: bytes live before the first operator, without inputs nobody reads.
    """

    sizes: tuple[int, ...]
    units: dict[int, Unit]
    readers: dict[int, set[int]]
    start: int

    def other_readers(self, tensor: int, unit: int) -> int:
        """The operators, as bits, of the tensor's readers other than ``unit``."""
        mask = 0
        for reader in self.readers.get(tensor, ()):
            if reader != unit:
                mask |= self.units[reader].mask
        return mask

    def profile(self, unit: int, dies: Dies) -> tuple[int, int]:
        """(rise, delta) of a unit in bytes, given which of its shared tensors die in it."""
        return profile(self.units[unit].phases, self.sizes, dies)


def profile(phases: Iterable[Phase], sizes: tuple[int, ...], dies: Dies) -> tuple[int, int]:
    """(rise, delta) of a sequence of phases in bytes, given which shared tensors die."""
    rise = 0
    live = 0
    for phase in phases:
        needed = live + phase.rise
        if phase.sharing:
            needed -= in_place_saving(sizes, tuple(pair for pair in phase.sharing if dies(pair[0])))
        rise = max(rise, needed)
        live += phase.delta - sum(sizes[tensor] for tensor in phase.frees if dies(tensor))
    return rise, live


def precedence(graph: MemoryGraph) -> list[set[int]]:
    """For each operator those that must run before it.

    Readers follow the writer; operators on a tensor that is written again, or that is resident, and operators flagged
    ``ordered`` keep their relative order.
    """
    before: list[set[int]] = [set() for _ in graph.ops]
    writers: dict[int, int] = {}
    for op in graph.ops:
        for tensor in set(op.outputs):
            writers[tensor] = writers.get(tensor, 0) + 1
    rewritten = {t for t, count in writers.items() if count > 1 or t in graph.inputs} | set(graph.resident)
    last_touch: dict[int, int] = {}
    written: dict[int, int] = {}
    last_ordered: int | None = None
    for index, op in enumerate(graph.ops):
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


def unit_graph(graph: MemoryGraph, *, in_place: bool = False, twins: bool = False) -> UnitGraph:
    """One unit per operator.

    Args:
        graph: operators and tensors.
        in_place: take the operators' in-place pairs into account.
        twins: fix the order of chains that are copies of each other (``order_twins``).
    """
    before = precedence(graph)
    for first, second in twin_precedence(graph, before) if twins else ():
        before[second].add(first)
    resident = set(graph.resident)
    born: dict[int, int] = {}
    readers: dict[int, set[int]] = {}
    fixed = resident | set(graph.inputs)
    for index, op in enumerate(graph.ops):
        for tensor in op.outputs:
            if tensor not in fixed:
                born.setdefault(tensor, index)
        for tensor in (*op.inputs, *op.outputs):
            if tensor not in resident and born.get(tensor) != index:
                readers.setdefault(tensor, set()).add(index)
    stays = resident | set(graph.outputs)
    units = {}
    for index, op in enumerate(graph.ops):
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
        _settle_phases(result, index)
    return result


def merge_units(graph: UnitGraph, out_of_time: Callable[[], bool] = lambda: False) -> None:
    """Merge units in place until no rule applies (see the module's text) or the time is over."""
    while True:
        before, after = relatives(graph)
        merged = 0
        for unit in topological(graph):
            while unit in graph.units and not out_of_time():
                succs = sorted(graph.units[unit].succs)
                partner = next((succ for succ in succs if _mergeable(graph, unit, succ, before, after)), None)
                if partner is None:
                    break
                _merge(graph, unit, partner, before, after)
                merged += 1
        if not merged or out_of_time():
            return


def topological(graph: UnitGraph) -> list[int]:
    """The units in an order that respects precedence, each as early as its first operator allows."""
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
    """For each unit all operators, as bits, that must run before it and that must run after it."""
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


def _mergeable(graph: UnitGraph, x: int, y: int, before: dict[int, int], after: dict[int, int]) -> bool:
    return _at_once(graph, x, y, before, after) or _delayed(graph, x, y, before, after)


def _at_once(graph: UnitGraph, x: int, y: int, before: dict[int, int], after: dict[int, int]) -> bool:
    done = before[x] | graph.units[x].mask
    if any(graph.units[pred].mask & ~done for pred in graph.units[y].preds):
        return False
    cases = _cases(graph, x, y, before[x], after[x])
    for first, second in cases:
        (rise_x, delta_x), (rise_y, delta_y) = graph.profile(x, first), graph.profile(y, second)
        if delta_y > 0 or delta_x + rise_y > rise_x:
            return False
    return bool(cases)


def _delayed(graph: UnitGraph, x: int, y: int, before: dict[int, int], after: dict[int, int]) -> bool:
    later = after[y] | graph.units[y].mask
    if any(graph.units[succ].mask & ~later for succ in graph.units[x].succs):
        return False
    _, delta_x = graph.profile(x, lambda t: not graph.other_readers(t, x) & later)
    if delta_x < 0:
        return False
    cases = _cases(graph, x, y, before[x] | before[y], after[y])
    for first, second in cases:
        (rise_x, delta_x), (rise_y, _) = graph.profile(x, first), graph.profile(y, second)
        if rise_x > delta_x + rise_y:
            return False
    return bool(cases)


def _cases(graph: UnitGraph, x: int, y: int, done: int, later: int) -> list[tuple[Dies, Dies]]:
    """All cases of which tensors die when x and then y run, at a moment when ``done`` has run and ``later`` has not.

    None at all where too many tensors are shared with units that may run before or after.
    """
    reads_y = graph.units[y].reads
    open_ = []
    alive = []
    for tensor in sorted(graph.units[x].reads | reads_y):
        others = graph.other_readers(tensor, x) & ~graph.units[y].mask
        if others & later:
            alive.append(tensor)
        elif others & ~done:
            open_.append(tensor)
    if len(open_) > _MOST_OPEN:
        return []
    choices = [{*alive, *some} for count in range(len(open_) + 1) for some in combinations(open_, count)]
    return [(_all_but(kept | reads_y), _all_but(kept)) for kept in choices]


def _all_but(alive: set[int]) -> Dies:
    return lambda tensor: tensor not in alive


def _merge(graph: UnitGraph, x: int, y: int, before: dict[int, int], after: dict[int, int]) -> None:
    """Append unit y to unit x."""
    first, second = graph.units[x], graph.units.pop(y)
    shared = second.reads
    first.phases = [
        Phase(
            phase.rise,
            phase.delta,
            tuple(t for t in phase.frees if t not in shared),
            tuple(pair for pair in phase.sharing if pair[0] not in shared),
        )
        for phase in first.phases
    ] + second.phases
    first.ops += second.ops
    first.mask |= second.mask
    first.reads |= second.reads
    for pred in second.preds - {x}:
        graph.units[pred].succs.discard(y)
        graph.units[pred].succs.add(x)
    for succ in second.succs:
        graph.units[succ].preds.discard(y)
        graph.units[succ].preds.add(x)
    first.preds = (first.preds | second.preds) - {x}
    first.succs = (first.succs | second.succs) - {y}
    for tensor in second.reads:
        graph.readers[tensor].discard(y)
        graph.readers[tensor].add(x)
    before[x] = (before[x] | before[y]) & ~first.mask
    after[x] = (after[x] | after[y]) & ~first.mask
    _settle_phases(graph, x)


def _settle_phases(graph: UnitGraph, number: int) -> None:
    """Fold what no longer depends on other units into the phases' numbers."""
    unit = graph.units[number]
    own = {t for t in unit.reads if graph.readers[t] == {number}}
    unit.phases = fold_phases(unit.phases, graph.sizes, own, set())
    for tensor in own:
        graph.readers.pop(tensor)
    unit.reads -= own


def fold_phases(phases: Iterable[Phase], sizes: tuple[int, ...], dead: set[int], kept: set[int]) -> list[Phase]:
    """The same phases for tensors known to die where they are freed (``dead``) or to stay live (``kept``).

    Phases that need no boundary any more are joined.
    """
    joined: list[Phase] = []
    for old in phases:
        sharing = tuple(pair for pair in old.sharing if pair[0] not in kept)
        phase = Phase(
            old.rise,
            old.delta - sum(sizes[t] for t in old.frees if t in dead),
            tuple(t for t in old.frees if t not in dead and t not in kept),
            sharing,
        )
        if all(source in dead for source, _ in sharing):
            phase = replace(phase, rise=phase.rise - in_place_saving(sizes, sharing), sharing=())
        if joined and not (joined[-1].frees or joined[-1].sharing or phase.sharing):
            last = joined.pop()
            phase = Phase(max(last.rise, last.delta + phase.rise), last.delta + phase.delta, phase.frees)
        joined.append(phase)
    return joined
