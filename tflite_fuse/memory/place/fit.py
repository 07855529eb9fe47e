"""Place items one after another, each at a free position: first fit, best fit, and fit from both ends.

Local search over placement orders.

The order in which items are placed decides where they land. An item that ends above the height aimed at was placed too
late: it is moved forward, and everything is placed again. Source: squeaky wheel
optimization, Joslin and Clements, Journal of Artificial Intelligence Research 10 (1999). Bounded by a number of steps
and driven by a seeded generator: the same problem gives the same answer on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import Enum
from operator import add

from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.place.problem import Problem

UNPLACED = -1

Offsets = list[int]


class Choice(Enum):
    """Which of the free positions an item takes."""

    LOWEST = "first fit"
    """The lowest one."""
    TIGHTEST = "best fit"
    """The lowest one of the shortest range of free positions; above everything only if nothing else is free."""
    ENDS = "fit from both ends"
    """The floor; else the ceiling; else the highest one below the ceiling. Chains alternate between the two ends."""


def fit(
    problem: Problem,
    order: Sequence[int],
    choice: Choice = Choice.LOWEST,
    *,
    ceiling: int | None = None,
    share: bool = False,
    known: tuple[int, Offsets] | None = None,
) -> Offsets:
    """Offsets in units of a placement in a given order.

    Args:
        problem: what to place.
        order: all items, each once.
        choice: which free position an item takes.
        ceiling: height to aim at, for ``Choice.ENDS``; None = the lower bound.
        share: where an item may share memory with one already placed, try to before anything else.
        known: how many of the first items lie where another placement, under the same conditions, has them.
    """
    offsets = [UNPLACED] * len(problem.sizes)
    top = problem.lower_bound if ceiling is None else ceiling
    alike, there = known or (0, offsets)
    for item in order[:alike]:
        offsets[item] = there[item]
    for item in order[alike:]:
        forbidden = _forbidden(problem.forbidden[item], offsets)
        position = _shared_position(problem.sharing[item], offsets, forbidden) if share else None
        if position is None:
            position = _position(forbidden, choice, top - problem.sizes[item])
        offsets[item] = position
    return offsets


def in_common(one: Sequence[int], other: Sequence[int]) -> int:
    """Items with which two orders of the same begin."""
    differ = (number for number, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])
    return next(differ, len(one))


def height(problem: Problem, offsets: Sequence[int]) -> int:
    """Units the placement needs."""
    return max(map(add, offsets, problem.sizes), default=0)


def _forbidden(rules: Sequence[tuple[int, int, int, bool]], offsets: Offsets) -> list[tuple[int, int]]:
    """Open ranges in which the item may not start, lowest first."""
    ranges = []
    for other, below, above, between in rules:
        start = offsets[other]
        if start == UNPLACED:
            continue
        if between:
            ranges.append((start + below, start))
            ranges.append((start, start + above))
        else:
            ranges.append((start + below, start + above))
    ranges.sort()
    return ranges


def _position(forbidden: Sequence[tuple[int, int]], choice: Choice, ceiling: int) -> int:
    """``ceiling``: the highest start at which the item still ends below the height aimed at."""
    if choice is Choice.LOWEST:
        return _lowest(forbidden)
    ranges, top = _free_ranges(forbidden)
    if choice is Choice.TIGHTEST:
        return min(ranges, key=lambda free: free[1] - free[0])[0] if ranges else top
    if (ranges and ranges[0][0] == 0) or top == 0:
        return 0
    if top <= ceiling:
        return ceiling
    below = [min(end, ceiling) for start, end in ranges if start <= ceiling]
    return below[-1] if below else _lowest(forbidden)


def _lowest(forbidden: Sequence[tuple[int, int]]) -> int:
    position = 0
    for start, end in forbidden:
        if position <= start:
            break
        position = max(position, end)
    return position


def _free_ranges(forbidden: Sequence[tuple[int, int]]) -> tuple[list[tuple[int, int]], int]:
    """Closed ranges of free positions between forbidden ones, lowest first, and the position above everything."""
    ranges = []
    position = 0
    for start, end in forbidden:
        if position <= start:
            ranges.append((position, start))
        position = max(position, end)
    return ranges, position


def _shared_position(
    sharing: Sequence[tuple[int, Sequence[int]]], offsets: Offsets, forbidden: Sequence[tuple[int, int]]
) -> int | None:
    wanted = {offsets[other] + away for other, places in sharing if offsets[other] != UNPLACED for away in places}
    for position in sorted(wanted):
        if position >= 0 and not any(start < position < end for start, end in forbidden):
            return position
    return None


def search(
    problem: Problem,
    order: Sequence[int],
    *,
    target: int,
    steps: int,
    seed: int,
    budget: Budget,
    choice: Choice = Choice.LOWEST,
    share: bool = False,
    moved: float = 8.0,
) -> Offsets:
    """The best placement found from an order.

    Args:
        problem: what to place.
        order: where to start: all items, each once.
        target: height to aim at; the search ends when it is reached.
        steps: placements to try.
        seed: of the random generator.
        budget: what it takes its work from; it may stop even earlier.
        choice: which free position an item takes.
        share: place by ``fit(share=True)``.
        moved: places by which an item that is too high moves forward in the order, in the mean.
    """
    generator = random.Random(seed)
    order = list(order)
    best = fit(problem, order, choice, ceiling=target, share=share)
    offsets, seen, least = best, {tuple(order)}, height(problem, best)
    for _ in range(steps):
        if least <= target or budget.is_over():
            break
        before = tuple(order)
        _promote(problem, order, offsets, target, moved, generator)
        if tuple(order) in seen:
            _swap(order, generator)
        seen.add(tuple(order))
        alike = in_common(order, before)
        budget.spend(problem.pairs * (len(order) - alike) // len(order))
        offsets = fit(problem, order, choice, ceiling=target, share=share, known=(alike, offsets))
        if (top := height(problem, offsets)) < least:
            best, least = offsets, top
    return best


def _promote(
    problem: Problem, order: list[int], offsets: Offsets, target: int, moved: float, generator: random.Random
) -> None:
    """Move every item that reaches above the target forward."""
    for item in [item for item in order if offsets[item] + problem.sizes[item] > target]:
        position = order.index(item)
        del order[position]
        order.insert(max(0, position - 1 - int(generator.expovariate(1 / moved))), item)


def _swap(order: list[int], generator: random.Random) -> None:
    a, b = generator.randrange(len(order)), generator.randrange(len(order))
    order[a], order[b] = order[b], order[a]
