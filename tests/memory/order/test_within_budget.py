from __future__ import annotations

import pytest

from scripts.graphs import tangle
from tflite_fuse.ir.liveness import peak
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.order.least_peak import minimal_peak_order
from tflite_fuse.memory.order.pieces import ALL_RULES, OrderRules, Piece, compile_pieces, forced_sets, merge_units
from tflite_fuse.memory.order.units import unit_graph
from tflite_fuse.memory.order.within_budget import Effort, PieceOrder, finish_search, peak_of_units, start_search


def solve(piece: Piece, ceiling: int, rules: OrderRules, work: int) -> PieceOrder:
    effort = Effort.of(Budget(work))
    return finish_search(start_search(piece, 0, ceiling, rules, effort), effort)


@pytest.mark.parametrize("work", [100, 1_000, 10_000, 50_000, 200_000, 1_000_000])
@pytest.mark.parametrize("rules", [ALL_RULES, OrderRules(flow_bound=False), OrderRules(probe=False)])
def test_whenever_the_work_is_done_the_answer_is_honest(work: int, rules: OrderRules) -> None:
    graph = tangle(60, 3, 25, 1)
    optimum = minimal_peak_order(graph)
    assert optimum.optimal
    units = unit_graph(graph)
    merge_units(units)
    pieces = compile_pieces(units, forced_sets(units))
    piece = max(pieces, key=lambda p: len(p.ops))
    result = solve(piece, peak(graph), rules, work)
    assert result.bound <= optimum.peak <= result.peak <= peak(graph)
    if result.units is not None:
        assert peak_of_units(piece, result.units) <= result.peak
        assert sorted(result.units) == list(range(len(piece.ops)))


def test_guessing_finds_a_good_order_long_before_the_proof() -> None:
    graph = tangle(100, 3, 40, 2)
    units = unit_graph(graph)
    merge_units(units)
    piece = max(compile_pieces(units, forced_sets(units)), key=lambda p: len(p.ops))
    found = {probe: solve(piece, peak(graph), OrderRules(probe=probe), 1_000_000) for probe in (True, False)}
    assert found[False].peak == peak(graph)
    assert found[True].bound < found[True].peak < 0.8 * peak(graph)


def test_a_search_takes_its_share_of_the_work_and_no_clock_has_a_say() -> None:
    graph, budget = tangle(100, 3, 40, 2), Budget(2_000_000)
    first = minimal_peak_order(graph, Effort.of(budget, 0.25))
    assert not first.optimal and not budget.braked
    assert 1_400_000 < budget.left < 1_600_000
    assert minimal_peak_order(graph, Effort.of(Budget(2_000_000), 0.25)).order == first.order


def test_a_brake_ends_the_search_and_is_remembered() -> None:
    budget = Budget(seconds=0.0)
    assert not minimal_peak_order(tangle(100, 3, 40, 2), Effort.of(budget)).optimal
    assert budget.braked
