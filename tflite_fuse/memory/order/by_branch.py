"""Orders that walk a network branch by branch, and all orders of a small one.

A fused block takes operators that stand next to each other. Where a network branches, an order that goes from level to
level (all first operators of the branches, then all second ones) leaves no two neighbours that read each other, and
nothing can be fused. Depth first, each branch stands in one piece:

    x ─┬─ a ── b ── c        level by level  x a d b e c f
       └─ d ── e ── f        by branch       x a b c d e f

That may need a little more memory as long as nothing is fused, so the order of least peak need not be one of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice
from random import Random

from tflite_fuse.ir.program import Program
from tflite_fuse.memory.order.units import precedence

Order = tuple[int, ...]
"""Operator indices of a graph in the order to run them."""

_SHUFFLES = 2
"""Shuffles of branches that are tried for each order wanted: many lead to the same one."""


def other_orders(graph: Program, most: int) -> tuple[Order, ...]:
    """Return up to ``most`` orders a graph's operators can run in, without the one the graph has already.

    All of them where there are no more. Else depth-first ones: the branches of a tensor in their own order, in the
    opposite one, then shuffled, always the same ways. What must keep its relative order (effects, variables, tensors
    written twice) keeps it.
    """
    kept, before = tuple(range(len(graph.steps))), precedence(graph)
    every = tuple(islice(_every_order(before), most + 2))
    if len(every) <= most + 1:
        return tuple(order for order in every if order != kept)
    found = dict.fromkeys(_depth_first(before, ranks) for ranks in _rankings(len(kept), _SHUFFLES * most))
    return tuple(order for order in found if order != kept)[:most]


def _every_order(before: Sequence[set[int]]) -> Iterator[Order]:
    """Yield all orders in which operators come behind those before them."""
    waiting: list[Order] = [()]
    while waiting:
        order = waiting.pop()
        run = set(order)
        if len(order) == len(before):
            yield order
        able = (index for index in reversed(range(len(before))) if index not in run and before[index] <= run)
        waiting += [(*order, index) for index in able]


def _rankings(count: int, most: int) -> Iterator[Sequence[int]]:
    """Yield ranks of operators: of two that can both run, the one of less rank runs first."""
    yield range(count)
    yield range(count, 0, -1)
    for seed in range(most):
        ranks = list(range(count))
        Random(seed).shuffle(ranks)
        yield ranks


def _depth_first(before: Sequence[set[int]], ranks: Sequence[int]) -> Order:
    """Return the order in which, of the operators that can run, the one runs whose newest predecessor ran last.

    An operator that waits for another branch, such as the addition that joins two, runs as soon as that branch is
    through.
    """
    after: list[list[int]] = [[] for _ in before]
    for index, earlier in enumerate(before):
        for other in earlier:
            after[other].append(index)
    waits_for = [len(earlier) for earlier in before]
    ready: list[tuple[int, int, int]] = []
    for index, count in enumerate(waits_for):
        if not count:
            heappush(ready, (1, ranks[index], index))
    order: list[int] = []
    while ready:
        *_, index = heappop(ready)
        order.append(index)
        for reader in after[index]:
            waits_for[reader] -= 1
            if not waits_for[reader]:
                heappush(ready, (-len(order), ranks[reader], reader))
    return tuple(order)
