from __future__ import annotations

from hypothesis import given, settings

from tests.memory.order.order_graphs import branches, chain, is_valid, small_graphs
from tflite_fuse.ir.program import Program, Step
from tflite_fuse.memory.order.by_branch import orders_by_branch


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
    assert [names(graph, order) for order in orders_by_branch(graph)] == ["xabcdef", "xdefabc"]


def test_the_order_there_is_already_is_no_answer() -> None:
    graph = two_heads("xabcdef")
    assert [names(graph, order) for order in orders_by_branch(graph)] == ["xdefabc"]
    assert orders_by_branch(chain(9)) == ()
    assert orders_by_branch(Program((), (), (), ())) == ()


def test_what_joins_branches_runs_when_the_last_of_them_is_through() -> None:
    graph = branches(3, 2)
    first, *_ = [tuple(range(7)), *orders_by_branch(graph)]
    assert first == (0, 1, 2, 3, 4, 5, 6)
    assert orders_by_branch(graph) == ((4, 5, 2, 3, 0, 1, 6),)


def test_operators_with_effects_keep_their_relative_order() -> None:
    ops = tuple(Step(name, (0,), (1 + at,), ordered=True) for at, name in enumerate("abc"))
    assert orders_by_branch(Program((1,) * 4, ops, (0,), (1, 2, 3))) == ()


@settings(max_examples=200)
@given(small_graphs(most_ops=8))
def test_every_order_is_one_the_graph_allows(graph: Program) -> None:
    found = orders_by_branch(graph)
    assert len(set(found)) == len(found) <= 2
    assert all(is_valid(graph, order) and order != tuple(range(len(graph.steps))) for order in found)
