from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.memory.order.order_graphs import branches, chain, is_valid, small_graphs
from tflite_fuse.ir.program import Program, Step
from tflite_fuse.memory.order.by_branch import other_orders


def two_heads(order: str) -> Program:
    """x feeds a, b, c and d, e, f, in the given order of operators; c and f are results."""
    reads = {"x": 0, "a": 1, "b": 2, "c": 3, "d": 1, "e": 5, "f": 6}
    writes = {"x": 1, "a": 2, "b": 3, "c": 4, "d": 5, "e": 6, "f": 7}
    ops = tuple(Step(name, (reads[name],), (writes[name],)) for name in order)
    return Program((1,) * 8, ops, (0,), (4, 7))


def names(graph: Program, order: tuple[int, ...]) -> str:
    return "".join(graph.steps[index].name for index in order)


def test_a_network_written_level_by_level_is_walked_branch_by_branch() -> None:
    graph = two_heads("xadbecf")
    assert [names(graph, order) for order in other_orders(graph, 2)] == ["xabcdef", "xdefabc"]


def test_the_order_there_is_already_is_no_answer() -> None:
    graph = two_heads("xabcdef")
    assert [names(graph, order) for order in other_orders(graph, 1)] == ["xdefabc"]
    assert other_orders(chain(9), 5) == ()
    assert other_orders(Program((), (), (), ()), 5) == ()


def test_an_operator_that_joins_branches_runs_behind_the_last_of_them() -> None:
    graph = branches(3, 2)
    first, *_ = [tuple(range(7)), *other_orders(graph, 2)]
    assert first == (0, 1, 2, 3, 4, 5, 6)
    assert other_orders(graph, 2)[0] == (4, 5, 2, 3, 0, 1, 6)


def test_operators_with_effects_keep_their_relative_order() -> None:
    ops = tuple(Step(name, (0,), (1 + at,), ordered=True) for at, name in enumerate("abc"))
    assert other_orders(Program((1,) * 4, ops, (0,), (1, 2, 3)), 5) == ()


@settings(max_examples=200)
@given(small_graphs(most_ops=8), st.integers(1, 40))
def test_every_order_is_one_the_graph_allows(graph: Program, most: int) -> None:
    found = other_orders(graph, most)
    assert len(set(found)) == len(found) <= most
    assert all(is_valid(graph, order) and order != tuple(range(len(graph.steps))) for order in found)


@settings(max_examples=100)
@given(small_graphs(most_ops=5))
def test_small_graphs_have_every_order(graph: Program) -> None:
    every = {order for order in permutations(range(len(graph.steps))) if is_valid(graph, order)}
    assert {*other_orders(graph, 120), tuple(range(len(graph.steps)))} == every
