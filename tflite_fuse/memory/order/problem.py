"""The order problem in the form that the search uses: units numbered from 0, sets of units as bits of an int."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tflite_fuse.memory.order.units import Phase, UnitGraph, fold_phases, profile


@dataclass(frozen=True)
class OrderProblem:
    """Units 0..n-1. Bit u of a *state* is set if unit u has run.

    Attributes:
        ops: operators of each unit, in execution order.
        preds: for each unit its direct predecessors, as bits.
        succs: for each unit its direct successors, as bits.
        before: for each unit all its predecessors, as bits.
        after: for each unit all its successors, as bits.
        start: bytes live before the first unit.
        shared: for each tensor that dies and that several units read: (readers as bits, bytes).
        rise: working set of each unit in bytes above the bytes live before it; a lower bound where ``phases`` is set.
        delta: change of the live bytes by each unit, before ``frees``.
        frees: for each unit, (other readers as bits, bytes) of each shared tensor: freed if all of them have run.
        phases: for each unit whose rise depends on the state its phases, else None.
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
        """Return the state in which all units have run."""
        return (1 << len(self.ops)) - 1

    def effect(self, unit: int, state: int) -> tuple[int, int]:
        """Return (rise, delta) in bytes of a unit that runs in a state."""
        phases = self.phases[unit]
        if phases is None:
            delta = self.delta[unit]
            for others, size in self.frees[unit]:
                if others & state == others:
                    delta -= size
            return self.rise[unit], delta
        masks = self.others[unit]
        return profile(phases, self.sizes, lambda t: masks.get(t, 0) & ~state == 0)


def compile_units(graph: UnitGraph, order: Sequence[int]) -> OrderProblem:
    """Return the problem of a graph whose units are numbered in a topological order."""
    place = {number: bit for bit, number in enumerate(order)}

    def mask(numbers: Iterable[int]) -> int:
        return sum(1 << place[number] for number in numbers)

    units = [graph.units[number] for number in order]
    readers = {tensor: mask(graph.readers[tensor]) for tensor in sorted({t for unit in units for t in unit.reads})}
    dead = {tensor for tensor, some in readers.items() if some.bit_count() == 1}
    shared = {tensor: some for tensor, some in readers.items() if tensor not in dead}
    folded = [fold_phases(unit.phases, graph.sizes, dead) for unit in units]
    others = [
        {t: shared[t] & ~(1 << bit) for t in sorted(unit.reads & shared.keys())} for bit, unit in enumerate(units)
    ]
    preds, succs = ([mask(near) for near in side] for side in zip(*((u.preds, u.succs) for u in units), strict=True))
    after = _closure(succs, range(len(units) - 1, -1, -1))
    return OrderProblem(
        ops=tuple(tuple(unit.ops) for unit in units),
        preds=tuple(preds),
        succs=tuple(succs),
        before=tuple(_closure(preds, range(len(units)))),
        after=tuple(after),
        start=graph.start,
        shared=tuple((some, graph.sizes[tensor]) for tensor, some in shared.items()),
        rise=tuple(_least_rise(*parts, graph.sizes) for parts in zip(folded, others, after, strict=True)),
        delta=tuple(sum(phase.delta for phase in phases) for phases in folded),
        frees=tuple(tuple((some, graph.sizes[tensor]) for tensor, some in masks.items()) for masks in others),
        phases=tuple(None if _is_simple(phases) else tuple(phases) for phases in folded),
        others=tuple(others),
        sizes=graph.sizes,
    )


def _is_simple(phases: Sequence[Phase]) -> bool:
    return len(phases) == 1 and not phases[0].sharing


def _least_rise(phases: Sequence[Phase], others: dict[int, int], after: int, sizes: tuple[int, ...]) -> int:
    """Return the rise of a unit in bytes when all units that may precede it have run."""
    return profile(phases, sizes, lambda tensor: not others.get(tensor, 0) & after)[0]


def _closure(links: Sequence[int], order: Iterable[int]) -> list[int]:
    """Return all units, as bits, reachable by each unit's links, which lead to units earlier in ``order``."""
    reached = [0] * len(links)
    for unit in order:
        for link in bits(links[unit]):
            reached[unit] |= reached[link] | 1 << link
    return reached


def bits(mask: int) -> list[int]:
    """Return the positions of the set bits, lowest first."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
