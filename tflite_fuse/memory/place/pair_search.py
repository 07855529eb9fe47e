"""Exact placement of small problems whose items may share memory, with proof.

Every placement decides, for each pair alive together, which of the two starts how far above the other, or that both
start at the same place. The search decides pairs one at a time. What is decided are inequalities between starts: from
them follow how far above the floor each item starts at least, and how far from its start it is at least to the top.
If the lowest starts break no rule, nothing lower follows from the same decisions; else a broken rule names the next
pair to decide. Ways to keep it that leave no room below the best placement known are dropped, so that an exhausted
search is a proof. Where a broken rule has no way left, nothing else needs to be tried; where it has one, nothing else
needs to be tried first. Source: heads, tails and immediate selections, Carlier and Pinson, "An algorithm for solving
the job-shop problem", Management Science 35 (1989).
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

Way = tuple[Bound, ...]
"""One way to keep a rule."""

_MOST_DECIDED = 500
"""Pairs decided at once, because each takes a call within the last one's."""

_Links = list[list[tuple[int, int]]]
"""By item, (another, gap) of what is decided."""


@dataclass
class _Search:
    """What is known while pairs are decided.

    Attributes:
        best: height of the best placement known.
        found: it, if it is not the one given.
        above, below: for each item, those that start above it and below it by what is decided, and how far.
    """

    problem: Problem
    best: int
    nodes_left: int
    budget: Budget
    found: Offsets | None = None
    above: _Links = field(init=False)
    below: _Links = field(init=False)

    def __post_init__(self) -> None:
        self.above, self.below = [[] for _ in self.problem.sizes], [[] for _ in self.problem.sizes]

    @contextmanager
    def decided(self, way: Way) -> Iterator[None]:
        """With one more pair decided."""
        for low, high, gap in way:
            self.above[low].append((high, gap))
            self.below[high].append((low, gap))
        yield
        for low, high, _ in way:
            self.above[low].pop()
            self.below[high].pop()


def settle(problem: Problem, offsets: Offsets, budget: Budget, *, nodes: int = 4_000) -> tuple[Offsets, bool]:
    """A placement at least as good as the one given, and whether it is proven optimal.

    Args:
        problem: what to place.
        offsets: a placement of it.
        budget: what it takes its work from.
        nodes: decisions to try before giving up.
    """
    search = _Search(problem, height(problem, offsets), nodes, budget)
    _decide(search, [0] * len(problem.sizes), list(problem.sizes))
    return search.found or offsets, search.nodes_left > 0


def _decide(search: _Search, starts: Offsets, rests: Offsets, decided: int = 0) -> None:
    """Decides one more pair. ``rests``: how far it is at least from the start of each item to the top."""
    if decided == _MOST_DECIDED:
        search.nodes_left = 0
    if search.best <= search.problem.lower_bound or search.nodes_left <= 0:
        return
    ways = _next_ways(search, starts, rests)
    if ways is None:
        search.best, search.found = height(search.problem, starts), starts
        return
    options = []
    for way in ways:
        with search.decided(way):
            raised = _raised(starts, search.above, [low for low, _, _ in way], rests, search.best)
            if raised is None:
                continue
            longer = _raised(rests, search.below, [high for _, high, _ in way], raised, search.best)
        if longer is not None:
            options.append((height(search.problem, raised), sum(raised), way, raised, longer))
    for top, _, way, raised, longer in sorted(options, key=lambda option: option[:2]):
        search.nodes_left = search.nodes_left - 1 if search.budget.spend(search.problem.pairs) else 0
        if top >= search.best or search.nodes_left <= 0:
            continue
        with search.decided(way):
            _decide(search, raised, longer, decided + 1)


def _next_ways(search: _Search, starts: Offsets, rests: Offsets) -> list[Way] | None:
    """The ways left to keep a rule that is broken; None if none is.

    Of the first pair that has fewer than two left, else of the one that overlaps most.
    """
    chosen: list[Way] | None = None
    most = 0
    for item, other, below, above, rule in search.problem.each_pair:
        distance = starts[item] - starts[other]
        if not below < distance < above or (rule.same_start and distance == 0):
            continue
        ways = [way for way in _ways(item, rule) if _fits(way, starts, rests, search.best)]
        if len(ways) < 2:
            return ways
        overlap = min(distance - below, above - distance)
        if overlap > most:
            chosen, most = ways, overlap
    return chosen


def _ways(item: int, rule: Rule) -> list[Way]:
    """All ways to keep a rule: the item at or below one end of the forbidden range, above the other, or level."""
    ways: list[Way] = [((item, rule.other, -rule.below),), ((rule.other, item, rule.above),)]
    if rule.same_start:
        ways.append(((item, rule.other, 0), (rule.other, item, 0)))
    return ways


def _fits(way: Way, starts: Offsets, rests: Offsets, best: int) -> bool:
    """Whether there is room left for a way below the best height known."""
    return all(starts[low] + gap + rests[high] < best for low, high, gap in way)


def _raised(least: Offsets, links: _Links, changed: Sequence[int], others: Offsets, best: int) -> Offsets | None:
    """The smallest distances from one end that follow from those of ``changed``; None if an item no longer fits.

    Args:
        least: starts, or rests.
        links: what is decided, leading away from that end.
        changed: items behind which something was decided.
        others: least distances from the other end.
        best: the height to stay below.
    """
    raised = list(least)
    waiting = list(changed)
    while waiting:
        near = waiting.pop()
        for far, gap in links[near]:
            if raised[near] + gap > raised[far]:
                raised[far] = raised[near] + gap
                if raised[far] + others[far] >= best:
                    return None
                waiting.append(far)
    return raised
