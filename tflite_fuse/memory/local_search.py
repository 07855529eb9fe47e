"""Local search over placement orders.

The order in which items are placed decides where they land. From the best order known, an item that reaches to the top,
or one that lives beside it below, is moved forward; the new order is kept if it is no worse. Bounded by a number of
steps and driven by a seeded generator: the same problem gives the same answer on every machine.

The idea, moving the items at the bottleneck and those that hold them up, is that of the hill climbing allocator in
Arm's Ethos-U Vela compiler.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from tflite_fuse.memory.fit import Choice, Offsets, fit, height
from tflite_fuse.memory.problem import Problem

_PATIENCE = 60


def search(
    problem: Problem,
    order: Sequence[int],
    *,
    steps: int,
    seed: int,
    deadline: float,
    choice: Choice = Choice.LOWEST,
    share: bool = False,
) -> Offsets:
    """The best placement found from an order.

    Args:
        problem: what to place.
        order: where to start: all items, each once.
        steps: placements to try.
        seed: of the random generator.
        deadline: ``time.monotonic()`` at which to stop even earlier.
        choice: which free position an item takes.
        share: place by ``fit(share=True)``.
    """
    generator = random.Random(seed)
    current = list(order)
    offsets = fit(problem, current, choice, share=share)
    score = _score(problem, offsets)
    best, best_order, idle = (score, offsets), list(current), 0
    for step in range(steps):
        if best[0][0] <= problem.lower_bound or (step % 16 == 0 and time.monotonic() > deadline):
            break
        candidate = _moved(problem, current, offsets, generator)
        candidate_offsets = fit(problem, candidate, choice, share=share)
        candidate_score = _score(problem, candidate_offsets)
        idle += 1
        if candidate_score <= score:
            idle = 0 if candidate_score < score else idle
            current, offsets, score = candidate, candidate_offsets, candidate_score
        if score < best[0]:
            best, best_order = (score, offsets), list(current)
        if idle > _PATIENCE:
            current, idle = _shaken(best_order, generator), 0
            offsets = fit(problem, current, choice, share=share)
            score = _score(problem, offsets)
    return best[1]


def _score(problem: Problem, offsets: Offsets) -> tuple[int, int]:
    """Height, then how much lies above the lower bound: a way down even where the height stays."""
    above = sum(
        max(0, offset + size - problem.lower_bound) for offset, size in zip(offsets, problem.sizes, strict=True)
    )
    return height(problem, offsets), above


def _moved(problem: Problem, order: list[int], offsets: Offsets, generator: random.Random) -> list[int]:
    """The order with one item of the bottleneck placed earlier."""
    top = height(problem, offsets)
    highest = [item for item in order if offsets[item] + problem.sizes[item] == top]
    pillar = generator.choice(highest)
    group = [pillar, *(rule.other for rule in problem.rules[pillar])]
    item = pillar if generator.random() < 0.5 else generator.choice(group)
    position = order.index(item)
    target = generator.randrange(position) if position else generator.randrange(len(order))
    moved = order[:position] + order[position + 1 :]
    moved.insert(target, item)
    return moved


def _shaken(order: Sequence[int], generator: random.Random) -> list[int]:
    shaken = list(order)
    for _ in range(3):
        a, b = generator.randrange(len(shaken)), generator.randrange(len(shaken))
        shaken[a], shaken[b] = shaken[b], shaken[a]
    return shaken
