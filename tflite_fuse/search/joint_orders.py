"""Several orders of a model's operators in one cut graph.

A cut is a set of operators that have run. If two orders share a cut, a path may change from one to the other there. The
path of least RAM through all orders can therefore be better than through each by itself, with blocks of operators that
are neighbours in none of them.

    one order    a b c d    {} a ab abc abcd
    another      a c b d    {} a ac abc abcd       the cuts a and abc are the same

Blocks are priced once for every order of their own operators, which determines the places of rings and their overlap
with the input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import or_

from tflite_fuse.cost.priced_program import PricedProgram
from tflite_fuse.search.cut_graph import CutGraph, Cuts, Edge, Rules, cut_graph, longest_block, require_end
from tflite_fuse.search.schemes import Restriction

Order = tuple[int, ...]
"""Operators as they run, by their numbers in the first order."""

_Piece = tuple[int, tuple[int, ...]]
"""The cut before some operators, and the operators in their order."""


@dataclass(frozen=True)
class JointCuts:
    """The cut graph of several orders; spans of edges name the order.

    Attributes:
        edges: cuts sorted by the number of operators that have run.
        orders: the cuts of each order, without edges of earlier ones.
        operators: for each order, the number of each operator in the first one.
    """

    edges: CutGraph
    orders: tuple[Cuts, ...]
    operators: tuple[Order, ...]

    def run_by(self, edge: Edge) -> tuple[int, ...]:
        """Return the operators of an edge, in order, as numbered in the first order."""
        first, last, order = edge.span
        return self.operators[order][first : last + 1]


def joint_cuts(
    graph: PricedProgram,
    other_orders: Sequence[Order],
    restricted: Callable[[PricedProgram], Restriction],
    rules: Rules,
) -> JointCuts:
    """Return the cut graph of several orders.

    Args:
        graph: a model in the first order.
        other_orders: the other orders, as numbers of operators in the first one.
        restricted: function from the model in an order to the restriction of the scheme there.
        rules: accounting and permissions.

    Raises:
        BudgetError, LimitError: as ``cut_graph``.
    """
    by_order: list[Cuts] = []
    into: dict[int, list[tuple[int, int, Edge]]] = {}
    seen: set[_Piece] = set()
    orders = (tuple(range(len(graph.steps))), *other_orders)
    first_allows = restricted(graph)
    for number, order in enumerate(orders):
        run = (0, *accumulate((1 << operator for operator in order), or_))
        ordered = graph.reordered(order) if number else graph
        allows = restricted(ordered) if number else first_allows
        cuts = cut_graph(ordered, _without(allows, run, order, seen), rules)
        by_order.append(cuts)
        into.update({cut: [] for cut in run if cut not in into})
        for edge in (edge for edges in cuts.edges.into for edge in edges):
            first, last, _ = edge.span
            if edge.fused or (run[first], order[first : last + 1]) not in seen:
                into[run[last + 1]].append((run[first], number, edge))
        if number + 1 < len(orders):
            seen.update(_pieces(run, order))
            # A block that needs more RAM than a path of the first order is not on the joint front.
            rules = replace(rules, most_ram=by_order[0].most)
    edges = _numbered(into, by_order[0].edges)
    require_end(edges, graph, first_allows.scheme, rules)
    return JointCuts(edges, tuple(by_order), orders)


def _pieces(run: Sequence[int], operators: tuple[int, ...]) -> Iterator[_Piece]:
    """Yield all pieces of an order."""
    for last in range(len(operators)):
        for first in range(max(0, last + 1 - longest_block(len(operators))), last + 1):
            yield run[first], operators[first : last + 1]


def _without(
    restriction: Restriction, run: Sequence[int], operators: tuple[int, ...], seen: Set[_Piece]
) -> Restriction:
    """Return the restriction without blocks of earlier orders."""
    allows = restriction.allows

    def allowed_and_unseen(first: int, last: int) -> bool:
        return (run[first], operators[first : last + 1]) not in seen and allows(first, last)

    return replace(restriction, allows=allowed_and_unseen) if seen else restriction


def _numbered(into: dict[int, list[tuple[int, int, Edge]]], first: CutGraph) -> CutGraph:
    """Return the cut graph of edges by the cut at their end, with cuts numbered by the operators that have run.

    Each edge comes with the cut at its start and the number of its order.
    """
    cuts = sorted(into, key=lambda run: (run.bit_count(), run))
    number = {run: index for index, run in enumerate(cuts)}
    edges = (
        tuple(
            replace(edge, source=number[start], target=number[run], span=edge.span._replace(order=order))
            for start, order, edge in into[run]
        )
        for run in cuts
    )
    return CutGraph(first.start, first.tail, tuple(edges))
