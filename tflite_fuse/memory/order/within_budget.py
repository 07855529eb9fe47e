"""One piece of the order problem solved within a budget: the exact search, and what helps it when it is slow.

1. The exact search for a moment: most networks are solved here.
2. *flow bound*: the least working set of each unit over all orders, by minimum cuts; the search need not look below
   it.
3. *probe*, if there is a limit and much of it is gone: decide "is there an order within B?" for guessed B
   between the proven bound and the best order known, halving the gap. A found order is kept, an exhausted guess
   raises the proven bound, a guess that takes too long is given up and a larger one tried.
4. The exact search again, from where it stopped, until it ends or the budget is used up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.order.min_cut_bounds import least_working_set
from tflite_fuse.memory.order.pieces import OrderRules, Piece
from tflite_fuse.memory.order.two_ended_search import PieceSearch

_QUICK_STATES = 500
_FLOW_SHARE, _EXACT_SHARE, _PROBE_SHARE = 0.15, 0.5, 0.8
_PROBES = 8
_FLOW_STEPS = 100
"""What a minimum cut takes, in steps for each unit: it looks at every unit many times."""


class Effort:
    """What one search may take of a budget, and how much of it is gone.

    A step is one unit of a state looked at, so that a search ends at the same place on every machine. Seconds have a
    say only where the budget has a brake.
    """

    def __init__(self, budget: Budget | None, steps: float = inf, seconds: float | None = None) -> None:
        """Args: budget: what everything together may take, None for as much as it takes; steps, seconds: of these."""
        self._budget, self._steps, self._seconds = budget, steps, seconds
        self._used, self._begin = 0, time.monotonic()

    @classmethod
    def of(cls, budget: Budget | None, share: float = 1.0) -> Effort:
        """A share of what a budget has left."""
        if budget is None:
            return cls(None)
        seconds = budget.seconds()
        return cls(budget, budget.left * share, None if seconds is None else seconds * share)

    @property
    def limited(self) -> bool:
        """Whether it ends at all."""
        return self._budget is not None

    def progress(self) -> float:
        """How much of it is gone, 1 for all."""
        if self._budget is None:
            return 0.0
        used = self._used / self._steps if self._steps > 0 else 1.0
        if self._seconds is None or used >= 1:
            return used
        passed = self._elapsed() / self._seconds if self._seconds > 0 else 1.0
        if passed >= 1:
            self._budget.braked = True
        return max(used, passed)

    def _elapsed(self) -> float:
        return time.monotonic() - self._begin

    def is_over(self) -> bool:
        return self.progress() >= 1

    def passed(self, share: float, steps: int = 1) -> Callable[[], bool]:
        """Takes steps whenever asked, and tells whether a share of the effort is gone."""

        def ask() -> bool:
            self._used += steps
            if self._budget is not None:
                self._budget.left -= steps
            return self.progress() >= share

        return ask

    def part(self, share: float) -> Effort:
        """A share of what is left."""
        seconds = None if self._seconds is None else max(self._seconds - self._elapsed(), 0.0) * share
        return Effort(self._budget, max(self._steps - self._used, 0.0) * share, seconds)


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


def start_search(piece: Piece, floor: int, ceiling: int, rules: OrderRules, effort: Effort) -> PieceSearch:
    """Search the order of least peak of a piece for a moment, which is enough for most.

    Args:
        piece: the units to order.
        floor: bytes the whole needs anyway; orders below it are as good as orders at it.
        ceiling: peak in bytes of an order the caller knows; only better ones are looked for.
        rules: pruning rules.
        effort: what may be taken.
    """
    search = PieceSearch(piece, floor, ceiling, rules)
    over = _until(search, effort, 1.0)
    search.run(lambda: search.states >= _QUICK_STATES or over())
    return search


def finish_search(search: PieceSearch, effort: Effort) -> PieceOrder:
    """Go on with a search until it ends or the effort is spent."""
    best: tuple[int, ...] | None = None
    extra = 0
    if not search.ended:
        if search.rules.flow_bound:
            search.raise_bound(_flow_bound(search.piece, effort))
        if search.rules.probe and effort.limited and not search.run(_until(search, effort, _EXACT_SHARE)):
            best, extra = _probe(search, effort)
        search.run(_until(search, effort, 1.0))
    if search.order is not None:
        return PieceOrder(tuple(search.order), search.bound, search.bound, search.states + extra)
    return PieceOrder(best, search.ceiling, search.bound, search.states + extra)


def _until(search: PieceSearch, effort: Effort, share: float) -> Callable[[], bool]:
    return effort.passed(share, len(search.piece.ops))


def peak_of_units(piece: Piece, units: tuple[int, ...]) -> int:
    """The largest working set in bytes of an order of a piece's units."""
    state, live, peak = 0, piece.start, 0
    for unit in units:
        rise, delta = piece.effect(unit, state)
        peak = max(peak, live + rise)
        live += delta
        state |= 1 << unit
    return peak


def _flow_bound(piece: Piece, effort: Effort) -> int:
    out_of_effort = effort.passed(_FLOW_SHARE, _FLOW_STEPS * len(piece.ops))
    bound = 0
    for unit in sorted(range(len(piece.ops)), key=lambda u: -piece.rise[u]):
        if out_of_effort():
            break
        bound = max(bound, least_working_set(piece, unit))
    return bound


def _probe(search: PieceSearch, effort: Effort) -> tuple[tuple[int, ...] | None, int]:
    """Lower ``search.ceiling`` and raise its bound by guesses; returns the best order found and the states expanded."""
    best = None
    states = 0
    low = search.bound
    for _ in range(_PROBES):
        guess = (low + search.ceiling) // 2
        if not low <= guess < search.ceiling:
            break
        now = effort.progress()
        probe = PieceSearch(search.piece, guess, guess + 1, search.rules)
        ended = probe.run(_until(probe, effort, now + (_PROBE_SHARE - now) / 2))
        states += probe.states
        if probe.order is not None:
            best = tuple(probe.order)
            search.ceiling = peak_of_units(search.piece, best)
        else:
            low = guess + 1
            if ended:
                search.raise_bound(low)
    return best, states
