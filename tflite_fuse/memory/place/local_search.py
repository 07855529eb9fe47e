"""Local search over placement orders.

The order in which items are placed decides where they land. An item that ends above the height aimed at was placed too
late: it is moved forward, a little mostly, anywhere sometimes, and everything is placed again. Source: squeaky wheel
optimization, Joslin and Clements, Journal of Artificial Intelligence Research 10 (1999). Bounded by a number of steps
and driven by a seeded generator: the same problem gives the same answer on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.place.fit import Choice, Offsets, fit, height, in_common
from tflite_fuse.memory.place.problem import Problem

_LONG_MOVES = 0.3
_MEAN_SHORT_MOVE = 8


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
    """
    generator = random.Random(seed)
    order = list(order)
    best = fit(problem, order, choice, ceiling=target, share=share)
    offsets, seen, least = best, {tuple(order)}, height(problem, best)
    for _ in range(steps):
        if least <= target or budget.is_over():
            break
        before = tuple(order)
        _promote(problem, order, offsets, target, generator)
        if tuple(order) in seen:
            _swap(order, generator)
        seen.add(tuple(order))
        alike = in_common(order, before)
        budget.spend(problem.pairs * (len(order) - alike) // len(order))
        offsets = fit(problem, order, choice, ceiling=target, share=share, known=(alike, offsets))
        if (top := height(problem, offsets)) < least:
            best, least = offsets, top
    return best


def _promote(problem: Problem, order: list[int], offsets: Offsets, target: int, generator: random.Random) -> None:
    """Move every item that reaches above the target forward."""
    for item in [item for item in order if offsets[item] + problem.sizes[item] > target]:
        position = order.index(item)
        if generator.random() < _LONG_MOVES:
            moved = generator.randrange(position + 1)
        else:
            moved = max(0, position - 1 - int(generator.expovariate(1 / _MEAN_SHORT_MOVE)))
        del order[position]
        order.insert(moved, item)


def _swap(order: list[int], generator: random.Random) -> None:
    a, b = generator.randrange(len(order)), generator.randrange(len(order))
    order[a], order[b] = order[b], order[a]
