from __future__ import annotations

import pytest

from scripts.graphs import tangle
from tflite_fuse.ir.liveness import peak
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.order.least_peak import minimal_peak_order
from tflite_fuse.tuning import TUNING, Tuning


@pytest.mark.parametrize("work", [100, 1_000, 10_000, 50_000, 200_000, 1_000_000])
@pytest.mark.parametrize("tuning", [TUNING, Tuning(order_guesses=0)])
def test_whenever_the_work_is_done_the_answer_is_honest(work: int, tuning: Tuning) -> None:
    graph = tangle(60, 3, 25, 1)
    optimum = minimal_peak_order(graph)
    assert optimum.optimal
    result = minimal_peak_order(graph, Budget(work), tuning=tuning)
    assert result.lower_bound <= optimum.peak <= result.peak <= peak(graph)
    assert peak(graph.reordered(result.order)) == result.peak


def test_guessing_finds_a_good_order_long_before_the_proof() -> None:
    graph = tangle(100, 3, 40, 2)
    found = {n: minimal_peak_order(graph, Budget(1_000_000), tuning=Tuning(order_guesses=n)) for n in (8, 0)}
    assert found[0].peak == peak(graph)
    assert found[8].lower_bound < found[8].peak < 0.8 * peak(graph)


def test_a_search_is_limited_by_work_and_not_by_a_clock() -> None:
    graph, budget = tangle(100, 3, 40, 2), Budget(2_000_000)
    first = minimal_peak_order(graph, budget.part(0.25))
    assert not first.optimal and not budget.braked
    assert 1_400_000 < budget.left < 1_600_000
    assert minimal_peak_order(graph, Budget(2_000_000).part(0.25)).order == first.order


def test_a_brake_ends_the_search_and_is_remembered() -> None:
    budget = Budget(seconds=0.0)
    assert not minimal_peak_order(tangle(100, 3, 40, 2), budget).optimal
    assert budget.braked
