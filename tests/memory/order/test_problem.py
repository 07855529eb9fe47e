from __future__ import annotations

from hypothesis import given, settings

from tests.memory.order.order_graphs import small_graphs
from tflite_fuse.ir.program import Program
from tflite_fuse.memory.order.problem import OrderProblem, compile_units
from tflite_fuse.memory.order.units import topological, unit_graph


def states(problem: OrderProblem) -> list[int]:
    closed = []
    for state in range(problem.full + 1):
        members = [unit for unit in range(len(problem.ops)) if state >> unit & 1]
        if all(problem.preds[unit] & ~state == 0 for unit in members):
            closed.append(state)
    return closed


def live(problem: OrderProblem, state: int) -> int:
    """Bytes live after a state, by running its units."""
    total, done = problem.start, 0
    while done != state:
        for unit in range(len(problem.ops)):
            if (state & ~done) >> unit & 1 and problem.preds[unit] & ~done == 0:
                total += problem.effect(unit, done)[1]
                done |= 1 << unit
    return total


@settings(max_examples=80)
@given(small_graphs())
def test_live_bytes_are_submodular(graph: Program) -> None:
    """The property that every pruning rule rests on."""
    units = unit_graph(graph)
    problem = compile_units(units, topological(units))
    closed = states(problem)[:24]
    lives = {state: live(problem, state) for state in closed}
    for a in closed:
        for b in closed:
            if a | b in lives and a & b in lives:
                assert lives[a | b] + lives[a & b] <= lives[a] + lives[b]
