"""Orders that walk a network branch by branch.

A fused block takes operators that stand next to each other. Where a network branches, an order that goes from level to
level (all first operators of the branches, then all second ones) leaves no two neighbours that read each other, and
nothing can be fused. Depth first, each branch stands in one piece:

    x ─┬─ a ── b ── c        level by level  x a d b e c f
       └─ d ── e ── f        by branch       x a b c d e f

That may need a little more memory as long as nothing is fused, so the order of least peak need not be one of these.
"""

from __future__ import annotations

from heapq import heappop, heappush

from tflite_fuse.ir.program import Program
from tflite_fuse.memory.order.units import precedence

Order = tuple[int, ...]
"""Operator indices of a graph in the order to run them."""


def orders_by_branch(graph: Program) -> tuple[Order, ...]:
    """The graph's operators depth first, the branches of a tensor once in their own and once in the opposite order.

    Of the operators that can run, the one runs whose newest predecessor ran last. An operator that waits for another
    branch, such as the addition that joins two, runs as soon as that branch is through. What must keep its relative
    order (effects, variables, tensors written twice) keeps it.

    Returns:
        At most two orders, none of them the one the graph has already.
    """
    kept = tuple(range(len(graph.steps)))
    found = dict.fromkeys(_depth_first(graph, sign) for sign in (1, -1))
    return tuple(order for order in found if order != kept)


def _depth_first(graph: Program, sign: int) -> Order:
    """One such order; of the branches that leave a tensor that of the lowest index first if ``sign`` is 1."""
    before = precedence(graph)
    after: list[list[int]] = [[] for _ in graph.steps]
    for index, earlier in enumerate(before):
        for other in earlier:
            after[other].append(index)
    waits_for = [len(earlier) for earlier in before]
    ready: list[tuple[int, int, int]] = []
    for index, count in enumerate(waits_for):
        if not count:
            heappush(ready, (1, sign * index, index))
    order: list[int] = []
    while ready:
        *_, index = heappop(ready)
        order.append(index)
        for reader in after[index]:
            waits_for[reader] -= 1
            if not waits_for[reader]:
                heappush(ready, (-len(order), sign * reader, reader))
    return tuple(order)
