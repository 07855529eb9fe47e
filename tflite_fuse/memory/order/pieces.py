"""The order problem cut where every order must pass, each piece made ready for the search.

A set D of units is *forced* if everything outside D must run after all of D: then every order runs D first, whatever
else it does. Between two forced sets lies a piece that can be ordered by itself; the peak of the whole is the largest
peak of a piece. An operator that every path goes through makes two forced sets, before and behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tflite_fuse.memory.order.units import Phase, UnitGraph, fold_phases, profile, relatives, topological


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
