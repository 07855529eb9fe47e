"""Which rules the order search may use. All of them keep the optimum; switching one off shows what it buys.

Operators that an optimal order may run back to back, merged into units.

Both rules keep at least one optimal order. They rest on this: a tensor is freed by its
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

The order problem cut where every order must pass, each piece made ready for the search.

A set D of units is *forced* if everything outside D must run after all of D: then every order runs D first, whatever
else it does. Between two forced sets lies a piece that can be ordered by itself; the peak of the whole is the largest
peak of a piece. An operator that every path goes through makes two forced sets, before and behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from tflite_fuse.memory.order.units import (
    Dies,
    Phase,
    UnitGraph,
    fold_phases,
    profile,
    relatives,
    settle_phases,
    topological,
)


@dataclass(frozen=True)
class OrderRules:
    """Flags of the order search.

    Attributes:
        merge: run operators back to back where an optimal order may (``merging``).
        twins: fix the order of chains of operators that are copies of each other (``twins``).
        split: solve the pieces between forced sets one by one (``pieces``).
        run_at_once: never branch on a unit that fits under the bound and leaves no more live (``two_ended_search``).
        valley: commit to the first state with no more live than at the last committed one (``two_ended_search``).
        both_ends: search from the end too; the end that is exhausted first proves the bound (``two_ended_search``).
        flow_bound: raise the bound by minimum cuts if the search does not end quickly (``min_cut_bounds``).
        probe: if half the effort is spent, look for good orders under guessed bounds (``within_budget``).
    """

    merge: bool = True
    twins: bool = True
    split: bool = True
    run_at_once: bool = True
    valley: bool = True
    both_ends: bool = True
    flow_bound: bool = True
    probe: bool = True


ALL_RULES = OrderRules()


_MOST_OPEN = 5
"""Tensors whose last reader is unknown, of which a rule looks at all cases."""


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
    settle_phases(graph, x)


@dataclass(frozen=True)
class Piece:
    """Units 0..n-1 of one piece. A *state* is an int whose bit u tells whether unit u has run.

    Attributes:
        ops: the operators of each unit, in the order they run.
        preds: for each unit the units, as bits, that it directly follows.
        succs: for each unit the units, as bits, that directly follow it.
        before: for each unit all units, as bits, that must have run.
        after: for each unit all units, as bits, that can only run later.
        start: bytes live before the piece.
        shared: for each tensor that several units of the piece read and that dies in it: (readers as bits, bytes).
        rise: bytes each unit needs above what is live before it; a lower bound where ``phases`` is set.
        delta: change of the live bytes over each unit, before ``frees``.
        frees: for each unit, (other readers as bits, bytes) of each shared tensor: freed if they all have run.
        phases: for units whose rise depends on the state their phases, else None.
        others: for each unit and shared tensor the other readers, as bits.
        sizes: bytes of each tensor.
    """

    ops: tuple[tuple[int, ...], ...]
    preds: tuple[int, ...]
    succs: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    start: int
    shared: tuple[tuple[int, int], ...]
    rise: tuple[int, ...]
    delta: tuple[int, ...]
    frees: tuple[tuple[tuple[int, int], ...], ...]
    phases: tuple[tuple[Phase, ...] | None, ...]
    others: tuple[dict[int, int], ...]
    sizes: tuple[int, ...]

    @property
    def full(self) -> int:
        """The state in which everything has run."""
        return (1 << len(self.ops)) - 1

    def effect(self, unit: int, state: int) -> tuple[int, int]:
        """(rise, delta) in bytes of a unit run in a state."""
        phases = self.phases[unit]
        if phases is None:
            delta = self.delta[unit]
            for others, size in self.frees[unit]:
                if others & state == others:
                    delta -= size
            return self.rise[unit], delta
        masks = self.others[unit]
        return profile(phases, self.sizes, lambda t: masks.get(t, 0) & ~state == 0)


def forced_sets(graph: UnitGraph) -> list[list[int]]:
    """The units between consecutive forced sets, in order; their concatenation is a topological order."""
    before, _ = relatives(graph)
    position = {number: place for place, number in enumerate(topological(graph))}
    order = sorted(graph.units, key=lambda number: (before[number].bit_count(), position[number]))
    done_before = [0]
    for number in order:
        done_before.append(done_before[-1] | graph.units[number].mask)
    common = -1
    cuts = [len(order)]
    for place in range(len(order) - 1, 0, -1):
        common &= before[order[place]]
        if done_before[place] & ~common == 0:
            cuts.append(place)
    cuts.append(0)
    return [order[start:end] for end, start in zip(cuts[-2::-1], cuts[:0:-1], strict=True)]


def compile_pieces(graph: UnitGraph, groups: Sequence[Sequence[int]]) -> list[Piece]:
    """One ``Piece`` per group of units; the groups follow one another, each in a topological order."""
    place = {number: (index, bit) for index, group in enumerate(groups) for bit, number in enumerate(group)}
    unread = {tensor: len(readers) for tensor, readers in graph.readers.items()}
    live = graph.start
    pieces = []
    for index, group in enumerate(groups):
        pieces.append(_compile(graph, group, _Places(graph, place, index), live))
        for number in group:
            live += sum(phase.delta for phase in graph.units[number].phases)
            for tensor in graph.units[number].reads:
                unread[tensor] -= 1
                if not unread[tensor]:
                    live -= graph.sizes[tensor]
    return pieces


@dataclass(frozen=True)
class _Places:
    """Where units are: (piece, bit in it)."""

    graph: UnitGraph
    place: dict[int, tuple[int, int]]
    piece: int

    def bits(self, numbers: Iterable[int]) -> int:
        """The units of this piece among some units."""
        mask = 0
        for number in numbers:
            piece, bit = self.place[number]
            if piece == self.piece:
                mask |= 1 << bit
        return mask

    def read_later(self, tensor: int) -> bool:
        """Whether a later piece still reads the tensor."""
        return any(self.place[reader][0] > self.piece for reader in self.graph.readers[tensor])


def _compile(graph: UnitGraph, group: Sequence[int], places: _Places, live: int) -> Piece:
    units = [graph.units[number] for number in group]
    tensors = sorted({tensor for unit in units for tensor in unit.reads})
    kept = {tensor for tensor in tensors if places.read_later(tensor)}
    readers = {tensor: places.bits(graph.readers[tensor]) for tensor in tensors if tensor not in kept}
    dead = {tensor for tensor, mask in readers.items() if mask.bit_count() == 1}
    shared = {tensor: mask for tensor, mask in readers.items() if tensor not in dead}
    folded = [fold_phases(unit.phases, graph.sizes, dead, kept) for unit in units]
    others = [
        {t: shared[t] & ~(1 << bit) for t in sorted(unit.reads & shared.keys())} for bit, unit in enumerate(units)
    ]
    preds = [places.bits(unit.preds) for unit in units]
    succs = [places.bits(unit.succs) for unit in units]
    before = _closure(preds, range(len(units)))
    after = _closure(succs, range(len(units) - 1, -1, -1))
    return Piece(
        ops=tuple(tuple(unit.ops) for unit in units),
        preds=tuple(preds),
        succs=tuple(succs),
        before=tuple(before),
        after=tuple(after),
        start=live,
        shared=tuple((mask, graph.sizes[tensor]) for tensor, mask in shared.items()),
        rise=tuple(_least_rise(*parts, graph.sizes) for parts in zip(folded, others, after, strict=True)),
        delta=tuple(sum(phase.delta for phase in phases) for phases in folded),
        frees=tuple(tuple((mask, graph.sizes[tensor]) for tensor, mask in masks.items()) for masks in others),
        phases=tuple(None if _is_simple(phases) else tuple(phases) for phases in folded),
        others=tuple(others),
        sizes=graph.sizes,
    )


def _is_simple(phases: Sequence[Phase]) -> bool:
    return len(phases) == 1 and not phases[0].sharing


def _least_rise(phases: Sequence[Phase], others: dict[int, int], after: int, sizes: tuple[int, ...]) -> int:
    """The rise of a unit where everything that can have run has."""
    return profile(phases, sizes, lambda tensor: not others.get(tensor, 0) & after)[0]


def _closure(links: Sequence[int], order: Iterable[int]) -> list[int]:
    """All units, as bits, that a unit's links lead to; each link leads to a unit earlier in ``order``."""
    reached = [0] * len(links)
    for unit in order:
        for link in bits(links[unit]):
            reached[unit] |= reached[link] | 1 << link
    return reached


def bits(mask: int) -> list[int]:
    """The positions of the set bits, lowest first."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
