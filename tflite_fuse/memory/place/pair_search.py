"""Exact placement of small problems whose items may share memory, with proof.

Every placement decides, for each pair alive together, which of the two starts how far above the other, or that both
start at the same place. The search decides pairs one at a time. What is decided are inequalities between starts; their
smallest solution is found by relaxing them. If that solution breaks no rule, nothing lower follows from the same
decisions; else a broken rule names the next pair to decide. Decisions whose smallest solution is as high as the best
placement known are dropped, so that an exhausted search is a proof.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.place.fit import Offsets, height
from tflite_fuse.memory.place.problem import Problem, Rule

Bound = tuple[int, int, int]
"""(low, high, gap): item ``high`` starts at least ``gap`` units above the start of item ``low``."""

_MOST_DECIDED = 500
"""Pairs decided at once, because each takes a call within the last one's."""


@dataclass
class _Search:
    problem: Problem
    best: int
    nodes_left: int
    budget: Budget
    found: Offsets | None = None
    above: list[list[tuple[int, int]]] = field(default_factory=list)


def settle(problem: Problem, offsets: Offsets, budget: Budget, *, nodes: int = 4_000) -> tuple[Offsets, bool]:
    """A placement at least as good as the one given, and whether it is proven optimal.

    Args:
        problem: what to place.
        offsets: a placement of it.
        budget: what it takes its work from.
        nodes: decisions to try before giving up.
    """
    search = _Search(problem, height(problem, offsets), nodes, budget, above=[[] for _ in problem.sizes])
    _decide(search, [0] * len(problem.sizes))
    return search.found or offsets, search.nodes_left > 0


def _decide(search: _Search, starts: Offsets, decided: int = 0) -> None:
    if decided == _MOST_DECIDED:
        search.nodes_left = 0
    if search.best <= search.problem.lower_bound or search.nodes_left <= 0:
        return
    broken = _broken(search.problem, starts)
    if broken is None:
        search.best, search.found = height(search.problem, starts), starts
        return
    options = []
    for bounds in _ways(*broken):
        raised = _raise(search, starts, bounds)
        if raised is not None:
            options.append((height(search.problem, raised), sum(raised), bounds, raised))
    for top, _, bounds, raised in sorted(options, key=lambda option: option[:2]):
        search.nodes_left = search.nodes_left - 1 if search.budget.spend(search.problem.pairs) else 0
        if top >= search.best or search.nodes_left <= 0:
            continue
        for low, high, gap in bounds:
            search.above[low].append((high, gap))
        _decide(search, raised, decided + 1)
        for low, _, _ in bounds:
            search.above[low].pop()


def _broken(problem: Problem, starts: Offsets) -> tuple[int, Rule] | None:
    """The pair that overlaps most of those that must not, as an item and its rule about the other."""
    worst: tuple[int, Rule] | None = None
    most = 0
    for item, other, below, above, rule in problem.each_pair:
        distance = starts[item] - starts[other]
        if below + most < distance < above - most and not (rule.same_start and distance == 0):
            worst, most = (item, rule), min(distance - below, above - distance)
    return worst


def _ways(item: int, rule: Rule) -> list[tuple[Bound, ...]]:
    """All ways to keep a rule: the item at or below one end of the forbidden range, above the other, or level."""
    ways: list[tuple[Bound, ...]] = [((item, rule.other, -rule.below),), ((rule.other, item, rule.above),)]
    if rule.same_start:
        ways.append(((item, rule.other, 0), (rule.other, item, 0)))
    return ways


def _raise(search: _Search, starts: Offsets, bounds: tuple[Bound, ...]) -> Offsets | None:
    """The smallest starts that keep everything decided and ``bounds``; None if that is no better than the best."""
    raised = list(starts)
    more: dict[int, list[tuple[int, int]]] = {}
    for low, high, gap in bounds:
        more.setdefault(low, []).append((high, gap))
    waiting = list(more)
    while waiting:
        low = waiting.pop()
        for high, gap in (*search.above[low], *more.get(low, ())):
            if raised[low] + gap > raised[high]:
                raised[high] = raised[low] + gap
                if raised[high] + search.problem.sizes[high] >= search.best:
                    return None
                waiting.append(high)
    return raised
