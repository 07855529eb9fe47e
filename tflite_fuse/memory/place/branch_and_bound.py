"""Exact placement of small problems, with proof.

Some optimal placement can be built from the bottom up: items in order of their offsets, each resting on the arena's
floor or on an item placed before it that is alive at the same time. The search tries all such orders and leaves out
those that cannot beat the best height known. Where items may share memory the argument does not hold; such problems
are left to other solvers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.place.fit import UNPLACED, Offsets, height
from tflite_fuse.memory.place.problem import Problem

_MOST_ITEMS = 30


@dataclass
class _Search:
    problem: Problem
    best: int
    nodes_left: int
    budget: Budget
    found: Offsets | None = None
    offsets: Offsets = field(default_factory=list)


def prove(problem: Problem, offsets: Offsets, budget: Budget, *, nodes: int = 20_000) -> tuple[Offsets, bool]:
    """A placement at least as good as the one given, and whether it is proven optimal.

    Args:
        problem: what to place. With sharing, or more than 30 items, nothing is tried.
        offsets: a placement of it.
        budget: what it takes its work from.
        nodes: positions to try before giving up.
    """
    if problem.shares or len(problem.sizes) > _MOST_ITEMS:
        return offsets, False
    search = _Search(problem, height(problem, offsets), nodes, budget, offsets=[UNPLACED] * len(problem.sizes))
    _extend(search, [0] * len(problem.sizes), 0)
    return search.found or offsets, search.nodes_left > 0


def _extend(search: _Search, floors: list[int], lowest: int) -> None:
    """Place one more item. ``floors``: the lowest position of each item above what is placed already."""
    problem = search.problem
    waiting = [item for item, offset in enumerate(search.offsets) if offset == UNPLACED]
    if not waiting:
        search.best, search.found = height(problem, search.offsets), list(search.offsets)
        return
    if any(max(floors[item], lowest) + problem.sizes[item] >= search.best for item in waiting):
        return
    for item in sorted(waiting, key=lambda i: (floors[i], -problem.sizes[i])):
        if floors[item] < lowest:
            continue
        search.nodes_left = search.nodes_left - 1 if search.budget.spend(len(problem.sizes)) else 0
        if search.nodes_left <= 0 or search.best <= problem.lower_bound:
            return
        search.offsets[item] = floors[item]
        raised = list(floors)
        for rule in problem.rules[item]:
            raised[rule.other] = max(raised[rule.other], floors[item] + problem.sizes[item])
        _extend(search, raised, floors[item])
        search.offsets[item] = UNPLACED
