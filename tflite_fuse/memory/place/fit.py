"""Placement of items in a given order (first fit, best fit, fit from both ends), and local search over orders.

The local search is squeaky wheel optimization: an item that ends above the target height was placed too late, so it
moves forward in the order and all items are placed again. A number of steps and a seeded generator make the result the
same on every machine. Source: Joslin and Clements, "Squeaky wheel" optimization, Journal of Artificial Intelligence
Research 10 (1999).
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
    """Rule that selects one of the free positions of an item."""

    LOWEST = "first fit"
    """The lowest position."""
    TIGHTEST = "best fit"
    """The lowest position of the shortest free range; above all other items only if no range is free."""
    ENDS = "fit from both ends"
    """The floor, else the ceiling, else the highest position below the ceiling: items stack up from both ends."""


def fit(
    problem: Problem,
    order: Sequence[int],
    choice: Choice = Choice.LOWEST,
    *,
    ceiling: int | None = None,
    share: bool = False,
    fixed: tuple[int, Offsets] | None = None,
) -> Offsets:
    """Return the offsets, in units of the alignment, of a placement in a given order.

    Args:
        problem: items to place.
        order: all items, each once.
        choice: rule that selects a free position.
        ceiling: target height in units, for ``Choice.ENDS``; None for the lower bound.
        share: prefer positions in which an item shares memory with a placed one.
        fixed: (count, offsets): the first ``count`` items of the order keep these offsets.
    """
    offsets = [UNPLACED] * len(problem.sizes)
    top = problem.lower_bound if ceiling is None else ceiling
    count, earlier = fixed or (0, offsets)
    for item in order[:count]:
        offsets[item] = earlier[item]
    for item in order[count:]:
        forbidden = _forbidden(problem.forbidden[item], offsets)
        position = _shared_position(problem.sharing[item], offsets, forbidden) if share else None
        if position is None:
            position = _position(forbidden, choice, top - problem.sizes[item])
        offsets[item] = position
    return offsets


def in_common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the number of leading items that two orders have in common."""
    differ = (number for number, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])
    return next(differ, len(one))


def height(problem: Problem, offsets: Sequence[int]) -> int:
    """Return the height of a placement in units."""
    return max(map(add, offsets, problem.sizes), default=0)


def _forbidden(rules: Sequence[tuple[int, int, int, bool]], offsets: Offsets) -> list[tuple[int, int]]:
    """Return the open ranges in which the item may not start, lowest first."""
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
    """Return a free position; ``ceiling`` is the highest start at which the item ends within the target height."""
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
    """Return the closed ranges between the forbidden ones, lowest first, and the position above all of them."""
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
    candidates = {offsets[other] + away for other, places in sharing if offsets[other] != UNPLACED for away in places}
    for position in sorted(candidates):
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
    """Return the best placement found by local search from an order.

    Args:
        problem: items to place.
        order: initial order: all items, each once.
        target: target height in units; the search ends when it is reached.
        steps: placements to try.
        seed: seed of the random generator.
        budget: work; the search stops early when it is used up.
        choice: rule that selects a free position.
        share: place by ``fit(share=True)``.
        moved: mean number of positions by which an item above the target moves forward.
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
        offsets = fit(problem, order, choice, ceiling=target, share=share, fixed=(alike, offsets))
        if (top := height(problem, offsets)) < least:
            best, least = offsets, top
    return best


def _promote(
    problem: Problem, order: list[int], offsets: Offsets, target: int, moved: float, generator: random.Random
) -> None:
    """Move every item that ends above the target forward in the order."""
    for item in [item for item in order if offsets[item] + problem.sizes[item] > target]:
        position = order.index(item)
        del order[position]
        order.insert(max(0, position - 1 - int(generator.expovariate(1 / moved))), item)


def _swap(order: list[int], generator: random.Random) -> None:
    a, b = generator.randrange(len(order)), generator.randrange(len(order))
    order[a], order[b] = order[b], order[a]
