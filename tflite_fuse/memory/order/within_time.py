"""One piece of the order problem solved within a time budget: the exact search, and what helps it when it is slow.

1. The exact search for a moment: most networks are solved here.
2. *flow bound*: the least working set of each unit over all orders, by minimum cuts; the search need not look below
   it.
3. *probe*, if there is a time limit and much of it is gone: decide "is there an order within B?" for guessed B
   between the proven bound and the best order known, halving the gap. A found order is kept, an exhausted guess
   raises the proven bound, a guess that takes too long is given up and a larger one tried.
4. The exact search again, from where it stopped, until it ends or the time is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tflite_fuse.memory.order.min_cut_bounds import least_working_set
from tflite_fuse.memory.order.pieces import Piece
from tflite_fuse.memory.order.rules import OrderRules
from tflite_fuse.memory.order.two_ended_search import PieceSearch

_QUICK_STATES = 500
_FLOW_SHARE, _EXACT_SHARE, _PROBE_SHARE = 0.15, 0.5, 0.8
_PROBES = 8


class Clock:
    """Time used and time allowed, in seconds."""

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self._start = time.perf_counter()

    def elapsed(self) -> float:
        return time.perf_counter() - self._start

    def left(self) -> float | None:
        return None if self.limit is None else max(self.limit - self.elapsed(), 0.0)

    def is_over(self) -> bool:
        return self.limit is not None and self.elapsed() >= self.limit

    def passed(self, share: float) -> Callable[[], bool]:
        """Tells whether a share of the time allowed has passed."""
        if self.limit is None:
            return lambda: False
        end = self.limit * share
        return lambda: self.elapsed() >= end


@dataclass(frozen=True)
class PieceOrder:
    """What is known about a piece.

    Attributes:
        units: the best order found; None if none is better than the one the caller knows.
        peak: its peak in bytes.
        bound: proven: no order of the piece has a smaller peak.
        states: states expanded.
    """

    units: tuple[int, ...] | None
    peak: int
    bound: int
    states: int


def start_search(piece: Piece, floor: int, ceiling: int, rules: OrderRules, clock: Clock) -> PieceSearch:
    """Search the order of least peak of a piece for a moment, which is enough for most.

    Args:
        piece: the units to order.
        floor: bytes the whole needs anyway; orders below it are as good as orders at it.
        ceiling: peak in bytes of an order the caller knows; only better ones are looked for.
        rules: pruning rules.
        clock: the time allowed.
    """
    search = PieceSearch(piece, floor, ceiling, rules)
    search.run(lambda: search.states >= _QUICK_STATES or clock.is_over())
    return search


def finish_search(search: PieceSearch, clock: Clock) -> PieceOrder:
    """Go on with a search until it ends or the time is over."""
    best: tuple[int, ...] | None = None
    extra = 0
    if not search.ended:
        if search.rules.flow_bound:
            search.raise_bound(_flow_bound(search.piece, clock.passed(_FLOW_SHARE)))
        if search.rules.probe and clock.limit is not None and not search.run(clock.passed(_EXACT_SHARE)):
            best, extra = _probe(search, clock)
        search.run(clock.is_over)
    if search.order is not None:
        return PieceOrder(tuple(search.order), search.bound, search.bound, search.states + extra)
    return PieceOrder(best, search.ceiling, search.bound, search.states + extra)


def peak_of_units(piece: Piece, units: tuple[int, ...]) -> int:
    """The largest working set in bytes of an order of a piece's units."""
    state, live, peak = 0, piece.start, 0
    for unit in units:
        rise, delta = piece.effect(unit, state)
        peak = max(peak, live + rise)
        live += delta
        state |= 1 << unit
    return peak


def _flow_bound(piece: Piece, out_of_time: Callable[[], bool]) -> int:
    bound = 0
    for unit in sorted(range(len(piece.ops)), key=lambda u: -piece.rise[u]):
        if out_of_time():
            break
        bound = max(bound, least_working_set(piece, unit))
    return bound


def _probe(search: PieceSearch, clock: Clock) -> tuple[tuple[int, ...] | None, int]:
    """Lower ``search.ceiling`` and raise its bound by guesses; returns the best order found and the states expanded."""
    best = None
    states = 0
    low = search.bound
    for _ in range(_PROBES):
        guess = (low + search.ceiling) // 2
        if not low <= guess < search.ceiling:
            break
        now = clock.elapsed()
        end = now + ((clock.limit or 0.0) * _PROBE_SHARE - now) / 2
        probe = PieceSearch(search.piece, guess, guess + 1, search.rules)
        ended = probe.run(lambda end=end: clock.elapsed() >= end)  # type: ignore[misc]
        states += probe.states
        if probe.order is not None:
            best = tuple(probe.order)
            search.ceiling = peak_of_units(search.piece, best)
        else:
            low = guess + 1
            if ended:
                search.raise_bound(low)
    return best, states
