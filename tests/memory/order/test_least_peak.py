from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.graphs import read_graph, tangle
from tests.memory.order.order_graphs import (
    SHARED,
    branches,
    chain,
    is_valid,
    least_peak,
    least_peak_by_sets,
    small_graphs,
    twin_graphs,
)
from tflite_fuse.ir.liveness import peak
from tflite_fuse.ir.program import Program, Step
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.order.least_peak import OrderResult, minimal_peak_order
from tflite_fuse.memory.order.two_ended_search import ALL_RULES, OrderRules

rules = st.builds(OrderRules, *[st.booleans()] * 3)
quick = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def check(graph: Program, result: OrderResult, *, in_place: bool = False) -> None:
    """What must hold for every answer, in time or not."""
    assert is_valid(graph, result.order)
    assert peak(graph.reordered(result.order), in_place=in_place) == result.peak
    assert result.lower_bound <= result.peak <= peak(graph, in_place=in_place)
    assert result.optimal == (result.lower_bound == result.peak)
    if result.peak == peak(graph, in_place=in_place):
        assert result.order == tuple(range(len(graph.steps))), "the default order must win ties"


@quick
@given(small_graphs())
def test_the_order_is_optimal(graph: Program) -> None:
    result = minimal_peak_order(graph)
    check(graph, result)
    assert result.optimal
    assert result.peak == least_peak(graph)


@quick
@given(small_graphs(), rules)
def test_every_combination_of_rules_finds_the_same_optimum(graph: Program, some: OrderRules) -> None:
    result = minimal_peak_order(graph, rules=some)
    check(graph, result)
    assert (result.peak, result.optimal) == (least_peak(graph), True)


@quick
@given(small_graphs(in_place=True), rules)
def test_in_place_pairs_are_used_optimally(graph: Program, some: OrderRules) -> None:
    for used in (ALL_RULES, some):
        result = minimal_peak_order(graph, in_place=True, rules=used)
        check(graph, result, in_place=True)
        assert (result.peak, result.optimal) == (least_peak(graph, in_place=True), True)


@quick
@given(twin_graphs(), st.booleans(), rules)
def test_copies_of_a_chain_are_ordered_optimally(graph: Program, in_place: bool, some: OrderRules) -> None:
    for used in (ALL_RULES, some):
        result = minimal_peak_order(graph, in_place=in_place, rules=used)
        check(graph, result, in_place=in_place)
        assert (result.peak, result.optimal) == (least_peak(graph, in_place=in_place), True)


@pytest.mark.parametrize("seed", range(12))
def test_larger_graphs_agree_with_a_search_through_all_sets(seed: int) -> None:
    graph = tangle(14 + seed % 4, 2 + seed % 2, 5 + seed % 3, seed)
    expected = least_peak_by_sets(graph)
    for used in (ALL_RULES, OrderRules(twins=False), OrderRules(run_at_once=False)):
        result = minimal_peak_order(graph, rules=used)
        check(graph, result)
        assert (result.peak, result.optimal) == (expected, True)


@pytest.mark.parametrize("seed", [60, 554, 692, 1124])
def test_units_may_be_in_an_order_that_the_default_one_is_not(seed: int) -> None:
    """Few different sizes make many units, whose operators do not stand together in the default order."""
    graph = tangle(14 + seed % 5, 2 + seed % 2, 4 + seed % 4, seed)
    coarse = replace(graph, sizes=tuple(8 * (1 + size % 3) for size in graph.sizes))
    result = minimal_peak_order(coarse)
    check(coarse, result)
    assert (result.peak, result.optimal) == (least_peak_by_sets(coarse), True)


@quick
@given(small_graphs())
def test_without_time_the_answer_is_the_default_order_and_an_honest_bound(graph: Program) -> None:
    result = minimal_peak_order(graph, Budget(seconds=0.0))
    check(graph, result)
    assert result.lower_bound <= least_peak(graph)


@pytest.mark.parametrize("seed", range(3))
def test_a_short_time_limit_gives_a_valid_order_and_an_honest_bound(seed: int) -> None:
    graph = tangle(300, 3, 25, seed)
    check(graph, minimal_peak_order(graph, Budget(seconds=0.3)))


@pytest.mark.parametrize("flag", ["twins", "run_at_once", "both_ends"])
def test_rules_agree_where_the_search_has_work_to_do(flag: str) -> None:
    graph = tangle(26, 3, 9, 1)
    expected = minimal_peak_order(graph)
    check(graph, expected)
    result = minimal_peak_order(graph, rules=OrderRules(**{flag: False}))
    check(graph, result)
    assert result.optimal and expected.optimal
    assert result.peak == expected.peak < peak(graph)


@pytest.mark.parametrize(
    ("name", "default", "least"),
    [
        ("swiftnet_vww224", 351_232, 301_056),
        ("fig1_seed003", 5_216, 4_960),
        ("mem_algorithm_counterexample", 4_864, 4_864),
        ("nasnet_a_normal_x3", 451_584, 326_144),
        ("darts_v2_normal_x3", 451_584, 338_688),
        ("randwire_ws16_4_075_s0", 73_728, 65_536),
        ("randwire_ws32_4_075_s0", 147_456, 114_688),
    ],
)
def test_published_networks(name: str, default: int, least: int) -> None:
    path = SHARED / "graphs" / f"{name}.json"
    if not path.exists():
        pytest.skip(f"no {path.name} beside the project")
    graph = read_graph(path)
    result = minimal_peak_order(graph, Budget(seconds=60.0))
    check(graph, result)
    assert (peak(graph), result.peak, result.optimal) == (default, least, True)


def test_the_figure_of_the_reordering_paper() -> None:
    sizes = (1568, 3136, 1568, 512, 512, 256, 256, 512)
    edges = (((0,), 1), ((1,), 2), ((2,), 3), ((1,), 4), ((3,), 5), ((4,), 6), ((5, 6), 7))
    graph = Program(sizes, tuple(Step(f"op{o}", i, (o,)) for i, o in edges), (0,), (7,))
    result = minimal_peak_order(graph)
    check(graph, result)
    assert (peak(graph), result.peak, result.optimal) == (5216, 4960, True)


def test_an_input_with_several_readers_is_counted_once() -> None:
    """The recursion of the reordering paper claims 7,680 here."""
    sizes = (3264, 1216, 384, 1152, 960, 1920, 1152)
    edges = (((0,), 1), ((1,), 2), ((0,), 3), ((3,), 4), ((2, 4), 5), ((5,), 6))
    graph = Program(sizes, tuple(Step(f"op{o}", i, (o,)) for i, o in edges), (0,), (6,))
    result = minimal_peak_order(graph)
    assert (result.order, result.peak, result.optimal) == (tuple(range(6)), 4864, True)


def test_a_chain_of_two_thousand_operators() -> None:
    result = minimal_peak_order(chain(2000))
    assert result.order == tuple(range(2000))
    assert result.optimal


@pytest.mark.parametrize(("length", "proven"), [(200, True), (1000, False)])
def test_two_long_branches_that_must_be_reordered(length: int, proven: bool) -> None:
    graph = branches(2, length, 1)
    result = minimal_peak_order(graph, Budget(seconds=60.0))
    check(graph, result)
    assert result.peak < peak(graph)
    assert result.optimal >= proven


@pytest.mark.parametrize("seed", range(4))
def test_five_branches_of_thirty_operators(seed: int) -> None:
    graph = branches(5, 30, seed)
    result = minimal_peak_order(graph, Budget(seconds=60.0))
    check(graph, result)
    assert result.optimal
    assert result.peak < peak(graph)


def test_many_equal_branches() -> None:
    """That no order of 40 equal branches is better takes 2 to the 40 states without knowing that they are equal."""
    graph = branches(40, 2, sizes=(1000, 30, 10, 5))
    result = minimal_peak_order(graph, Budget(seconds=60.0))
    check(graph, result)
    assert (result.peak, result.optimal) == (1000 + 39 * 10 + 30, True)


def test_scratch_outputs_count_only_while_their_operator_runs() -> None:
    ops = (
        Step("wide", (0,), (1, 5)),
        Step("narrow", (0,), (2,)),
        Step("join", (1, 2), (3,)),
    )
    graph = Program((50, 10, 20, 5, 0, 100), ops, (0,), (3,))
    result = minimal_peak_order(graph)
    assert (result.peak, result.order) == (160, (0, 1, 2))


def test_operators_that_need_no_change_keep_the_default_order() -> None:
    harmless = [Step("a", (0,), (1,)), Step("b", (0,), (2,)), Step("c", (1, 2), (3,))]
    costly = [
        Step("d", (3,), (4,)),
        Step("e", (3,), (5,)),
        Step("f", (5,), (6,)),
        Step("g", (4, 6), (7,)),
    ]
    graph = Program((1, 5, 1, 10, 50, 100, 5, 1), (*harmless, *costly), (0,), (7,))
    result = minimal_peak_order(graph)
    check(graph, result)
    assert result.order == (0, 1, 2, 4, 5, 3, 6)


def test_a_graph_without_operators() -> None:
    result = minimal_peak_order(Program((7,), (), (0,), (0,)))
    assert (result.order, result.peak, result.optimal) == ((), 7, True)
