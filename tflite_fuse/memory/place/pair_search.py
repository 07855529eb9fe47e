"""Exact placement, with proof, of small problems whose items may share memory.

In every placement, of two items live together one starts a minimum distance above the other, or both start at the same
place. The search decides one pair at a time. A decision is an inequality between starts; from all decisions follow the
least distance of each item's start to the floor and to the top. If the lowest starts violate no rule, they are the best
placement for these decisions; otherwise a violated rule names the next pair to decide. Decisions that leave no room
below the best height known are pruned, so an exhausted search is a proof. A violated rule without alternatives ends the
branch; one with a single alternative is decided first. Source: heads, tails and immediate selections, Carlier and
Pinson, "An algorithm for solving the job-shop problem", Management Science 35 (1989).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.place.fit import Offsets, height
from tflite_fuse.memory.place.problem import Problem, Rule

Bound = tuple[int, int, int]
"""(low, high, gap): item ``high`` starts at least ``gap`` units above the start of item ``low``."""

Alternative = tuple[Bound, ...]
"""One of the alternatives that satisfy a rule."""

_MOST_DECIDED = 500
"""Largest number of pairs decided at once: each takes one level of recursion."""

_Links = list[list[tuple[int, int]]]
"""For each item, (other item, gap) of the decisions."""


@dataclass
class _Search:
    """State of the search.

    Attributes:
        best: least height so far, in units.
        placement: its offsets, unless it is the initial one.
        above, below: for each item, the items decided to start above and below it, with their distances.
    """

    problem: Problem
    best: int
    nodes_left: int
    budget: Budget
    placement: Offsets | None = None
    above: _Links = field(init=False)
    below: _Links = field(init=False)

    def __post_init__(self) -> None:
        self.above, self.below = [[] for _ in self.problem.sizes], [[] for _ in self.problem.sizes]

    @contextmanager
    def decided(self, alternative: Alternative) -> Iterator[None]:
        """Apply one more decision inside this context."""
        for low, high, gap in alternative:
            self.above[low].append((high, gap))
            self.below[high].append((low, gap))
        yield
        for low, high, _ in alternative:
            self.above[low].pop()
            self.below[high].pop()


def settle(problem: Problem, offsets: Offsets, budget: Budget, *, nodes: int = 4_000) -> tuple[Offsets, bool]:
    """Return a placement no higher than the given one, and whether it is proven optimal.

    Args:
        problem: items to place.
        offsets: an initial placement, in units.
        budget: work of the search.
        nodes: decisions to try before giving up.
    """
    search = _Search(problem, height(problem, offsets), nodes, budget)
    _decide(search, [0] * len(problem.sizes), list(problem.sizes))
    return search.placement or offsets, search.nodes_left > 0


def _decide(search: _Search, starts: Offsets, rests: Offsets, decided: int = 0) -> None:
    """Decide one more pair. ``rests``: least distance from the start of each item to the top."""
    if decided == _MOST_DECIDED:
        search.nodes_left = 0
    if search.best <= search.problem.lower_bound or search.nodes_left <= 0:
        return
    alternatives = _next_alternatives(search, starts, rests)
    if alternatives is None:
        search.best, search.placement = height(search.problem, starts), starts
        return
    options = []
    for alternative in alternatives:
        with search.decided(alternative):
            raised = _raised(starts, search.above, [low for low, _, _ in alternative], rests, search.best)
            if raised is None:
                continue
            longer = _raised(rests, search.below, [high for _, high, _ in alternative], raised, search.best)
        if longer is not None:
            options.append((height(search.problem, raised), sum(raised), alternative, raised, longer))
    for top, _, alternative, raised, longer in sorted(options, key=lambda option: option[:2]):
        search.nodes_left = search.nodes_left - 1 if search.budget.spend(search.problem.pairs) else 0
        if top >= search.best or search.nodes_left <= 0:
            continue
        with search.decided(alternative):
            _decide(search, raised, longer, decided + 1)


def _next_alternatives(search: _Search, starts: Offsets, rests: Offsets) -> list[Alternative] | None:
    """Return the remaining alternatives to satisfy a violated rule, or None if no rule is violated.

    The rule is the first one with fewer than two alternatives, else the one with the largest overlap.
    """
    chosen: list[Alternative] | None = None
    most = 0
    for item, other, below, above, rule in search.problem.each_pair:
        distance = starts[item] - starts[other]
        if not below < distance < above or (rule.same_start and distance == 0):
            continue
        alternatives = [each for each in _alternatives(item, rule) if _fits(each, starts, rests, search.best)]
        if len(alternatives) < 2:
            return alternatives
        overlap = min(distance - below, above - distance)
        if overlap > most:
            chosen, most = alternatives, overlap
    return chosen


def _alternatives(item: int, rule: Rule) -> list[Alternative]:
    """Return all alternatives to satisfy a rule: below the forbidden range, above it, or at the same start."""
    alternatives: list[Alternative] = [((item, rule.other, -rule.below),), ((rule.other, item, rule.above),)]
    if rule.same_start:
        alternatives.append(((item, rule.other, 0), (rule.other, item, 0)))
    return alternatives


def _fits(alternative: Alternative, starts: Offsets, rests: Offsets, best: int) -> bool:
    """Return whether an alternative leaves room below the least height so far."""
    return all(starts[low] + gap + rests[high] < best for low, high, gap in alternative)


def _raised(least: Offsets, links: _Links, changed: Sequence[int], opposite: Offsets, best: int) -> Offsets | None:
    """Return the least distances from one end after changes at ``changed``; None if an item no longer fits.

    Args:
        least: distances from that end: starts or rests.
        links: decisions, leading away from that end.
        changed: items with new decisions behind them.
        opposite: least distances from the other end.
        best: height to stay below.
    """
    raised = list(least)
    waiting = list(changed)
    while waiting:
        near = waiting.pop()
        for far, gap in links[near]:
            if raised[near] + gap > raised[far]:
                raised[far] = raised[near] + gap
                if raised[far] + opposite[far] >= best:
                    return None
                waiting.append(far)
    return raised
