"""Orders that finish one branch of a network before the next, and all orders of small networks.

A fused block consists of neighbouring operators. If an order interleaves branches (all first operators, then all second
ones), neighbours do not read each other and cannot be fused. A depth-first order keeps each branch together:

    x ─┬─ a ── b ── c        level by level  x a d b e c f
       └─ d ── e ── f        by branch       x a b c d e f

Without fusion such an order may need slightly more memory, and it may differ from the order of least peak.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice
from random import Random

from tflite_fuse.ir.program import Program
from tflite_fuse.memory.order.problem import precedence

Order = tuple[int, ...]
"""Operator indices of a graph in execution order."""


def other_orders(graph: Program, most: int) -> tuple[Order, ...]:
    """Return up to ``most`` further orders in which a graph's operators can run.

    If at most that many exist, all are returned. Otherwise the orders are depth-first: with the branches of a tensor in
    their own order, in reverse order, and in fixed pseudo-random orders. Operators with effects, on variables or on
    tensors written twice keep their relative order.
    """
    kept, before = tuple(range(len(graph.steps))), precedence(graph)
    all_orders = tuple(islice(_every_order(before), most + 2))
    if len(all_orders) <= most + 1:
        return tuple(order for order in all_orders if order != kept)
    orders = dict.fromkeys(_depth_first(before, ranks) for ranks in _rankings(len(kept), most))
    return tuple(order for order in orders if order != kept)[:most]


def _every_order(before: Sequence[set[int]]) -> Iterator[Order]:
    """Yield all topological orders."""
    waiting: list[Order] = [()]
    while waiting:
        order = waiting.pop()
        run = set(order)
        if len(order) == len(before):
            yield order
        able = (index for index in reversed(range(len(before))) if index not in run and before[index] <= run)
        waiting += [(*order, index) for index in able]


def _rankings(count: int, most: int) -> Iterator[Sequence[int]]:
    """Yield ranks of operators: among operators that are ready, the one of lower rank runs first."""
    yield range(count)
    yield range(count, 0, -1)
    for seed in range(most):
        ranks = list(range(count))
        Random(seed).shuffle(ranks)
        yield ranks


def _depth_first(before: Sequence[set[int]], ranks: Sequence[int]) -> Order:
    """Return the order that always runs the ready operator whose last predecessor ran most recently.

    An operator that waits for another branch, for example the addition that joins two branches, runs as soon as that
    branch is complete.
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
