from __future__ import annotations

from hypothesis import given, settings

from tests.memory.order.order_graphs import small_graphs
from tflite_fuse.ir.program import Program
from tflite_fuse.memory.order.problem import OrderProblem, order_problem


def states(problem: OrderProblem) -> list[int]:
    closed = []
    for state in range(problem.full + 1):
        members = [op for op in range(len(problem.preds)) if state >> op & 1]
        if all(problem.preds[op] & ~state == 0 for op in members):
            closed.append(state)
    return closed


def live(problem: OrderProblem, state: int) -> int:
    """Bytes live after a state, by running its operators."""
    total, done = problem.start, 0
    while done != state:
        for op in range(len(problem.preds)):
            if (state & ~done) >> op & 1 and problem.preds[op] & ~done == 0:
                total += problem.effect(op, done)[1]
                done |= 1 << op
    return total


@settings(max_examples=80)
@given(small_graphs())
def test_live_bytes_are_submodular(graph: Program) -> None:
    """The property that every pruning rule rests on."""
    problem = order_problem(graph)
    closed = states(problem)[:24]
    lives = {state: live(problem, state) for state in closed}
    for a in closed:
        for b in closed:
            if a | b in lives and a & b in lives:
                assert lives[a | b] + lives[a & b] <= lives[a] + lives[b]
