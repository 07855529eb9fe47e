from __future__ import annotations

import pytest

from tests.memory.order.order_graphs import tangle
from tflite_fuse.memory.order.least_peak import minimal_peak_order
from tflite_fuse.memory.order.merging import merge_units
from tflite_fuse.memory.order.pieces import Piece, compile_pieces, forced_sets
from tflite_fuse.memory.order.rules import ALL_RULES, OrderRules
from tflite_fuse.memory.order.units import unit_graph
from tflite_fuse.memory.order.within_time import Clock, PieceOrder, finish_search, peak_of_units, start_search
from tflite_fuse.memory.working_set import peak


class SteppingClock(Clock):
    """A clock that moves on whenever it is read, so that tests do not depend on the machine."""

    def __init__(self, limit: float, step: float) -> None:
        super().__init__(limit)
        self._now = 0.0
        self._step = step

    def elapsed(self) -> float:
        self._now += self._step
        return self._now


def solve(piece: Piece, ceiling: int, rules: OrderRules, step: float) -> PieceOrder:
    clock = SteppingClock(1.0, step)
    return finish_search(start_search(piece, 0, ceiling, rules, clock), clock)


@pytest.mark.parametrize("step", [1e-2, 1e-3, 2e-4, 5e-5, 1e-5])
@pytest.mark.parametrize("rules", [ALL_RULES, OrderRules(flow_bound=False), OrderRules(probe=False)])
def test_whenever_the_time_is_over_the_answer_is_honest(step: float, rules: OrderRules) -> None:
    graph = tangle(60, 3, 25, 1)
    optimum = minimal_peak_order(graph)
    assert optimum.optimal
    units = unit_graph(graph)
    merge_units(units)
    pieces = compile_pieces(units, forced_sets(units))
    piece = max(pieces, key=lambda p: len(p.ops))
    result = solve(piece, peak(graph), rules, step)
    assert result.bound <= optimum.peak <= result.peak <= peak(graph)
    if result.units is not None:
        assert peak_of_units(piece, result.units) <= result.peak
        assert sorted(result.units) == list(range(len(piece.ops)))


def test_guessing_finds_a_good_order_long_before_the_proof() -> None:
    graph = tangle(100, 3, 40, 2)
    units = unit_graph(graph)
    merge_units(units)
    piece = max(compile_pieces(units, forced_sets(units)), key=lambda p: len(p.ops))
    found = {probe: solve(piece, peak(graph), OrderRules(probe=probe), 1e-4) for probe in (True, False)}
    assert found[False].peak == peak(graph)
    assert found[True].bound < found[True].peak < 0.8 * peak(graph)
