"""Offsets of tensors in the arena: solvers in order of increasing effort, until one reaches the lower bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tflite_fuse.ir.program import Overlap, Program
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.place.fit import Choice, Offsets, fit, height, search
from tflite_fuse.memory.place.pair_search import settle
from tflite_fuse.memory.place.problem import Problem, build_problem
from tflite_fuse.tuning import TUNING, Tuning
from tflite_fuse.units import round_up


@dataclass(frozen=True)
class Placement:
    """A plan of the arena.

    Attributes:
        offsets: bytes from the start of the arena, one per tensor of the graph; -1 for residents, tensors of size 0 and
            unused tensors.
        height: bytes of the arena.
        lower_bound: lower bound in bytes over all plans for this order of operators.
        optimal: whether ``height`` is proven to be the least, as it is if it equals ``lower_bound``.
        method: name of the solver that found the plan.
    """

    offsets: tuple[int, ...]
    height: int
    lower_bound: int
    optimal: bool
    method: str


def place(
    graph: Program,
    overlaps: Sequence[Overlap] = (),
    *,
    alignment: int = 16,
    budget: Budget | None = None,
    seed: int = 0,
    tuning: Tuning = TUNING,
) -> Placement:
    """Return an arena plan for operators in their given order.

    First and best fit in several orders come first, then an exact search, which is limited to small graphs, then a
    local search over orders. Each stage runs only if the previous one did not reach the lower bound.

    Args:
        graph: operators in execution order. Outputs may share memory with inputs by ``Step.in_place``.
        overlaps: further permissions to share memory.
        alignment: bytes; offsets are multiples of it and sizes are rounded up to it.
        budget: work of the searches; None for a new default budget.
        seed: seed of the searches.
        tuning: rules of thumb.

    Raises:
        PlanError: an overlap joins tensors that are not input and output of one operator.
    """
    budget = Budget() if budget is None else budget
    problem = build_problem(graph, overlaps, alignment)
    best, bound = _exactly(problem, _by_order(problem, budget), budget, tuning)
    if best.top > bound:
        best = _by_search(problem, best, budget, seed, tuning)
    offsets = [-1] * len(graph.sizes)
    for item, tensor in enumerate(problem.tensors):
        offsets[tensor] = best.offsets[item] * alignment
    return Placement(tuple(offsets), best.top * alignment, bound * alignment, best.top == bound, best.method)


def rounded(graph: Program, alignment: int = 16) -> Program:
    """Return the graph with sizes in bytes rounded up to the alignment, as they are in an arena."""
    return replace(graph, sizes=tuple(round_up(size, alignment) for size in graph.sizes))


@dataclass(frozen=True)
class _Candidate:
    top: int
    offsets: Offsets
    method: str
    order: tuple[int, ...]
    choice: Choice


def _exactly(problem: Problem, best: _Candidate, budget: Budget, tuning: Tuning) -> tuple[_Candidate, int]:
    """Return the best placement after an exact search limited by ``tuning``, and the proven lower bound in units."""
    decisions = tuning.placement_work // max(problem.pairs, 1)
    if best.top <= problem.lower_bound or not decisions:
        return best, problem.lower_bound
    offsets, proven = settle(problem, best.offsets, budget, nodes=decisions)
    if (top := height(problem, offsets)) < best.top:
        best = _Candidate(top, offsets, "exact search", best.order, best.choice)
    return best, best.top if proven else problem.lower_bound


def _by_order(problem: Problem, budget: Budget) -> _Candidate:
    """Return the best placement of a few fixed orders."""
    best: _Candidate | None = None
    for share in (False, True) if problem.shares else (False,):
        for name, key in _orders(problem).items():
            order = tuple(sorted(range(len(problem.sizes)), key=key))
            for choice in Choice:
                offsets = fit(problem, order, choice, share=share)
                top = height(problem, offsets)
                if best is None or top < best.top:
                    best = _Candidate(top, offsets, f"{choice.value}, {name}", order, choice)
                if top <= problem.lower_bound:
                    return best
                if not budget.spend(problem.pairs):
                    break
    assert best is not None
    return best


def _orders(problem: Problem) -> dict[str, Callable[[int], tuple[int, ...]]]:
    sizes, lives = problem.sizes, problem.lives
    pressure = _pressure(problem)
    return {
        "largest first": lambda i: (-sizes[i], lives[i][0] - lives[i][1], i),
        "tightest moment first": lambda i: (-pressure[i], -sizes[i], i),
        "largest area first": lambda i: (-sizes[i] * (lives[i][1] - lives[i][0] + 1), i),
        "longest life first": lambda i: (lives[i][0] - lives[i][1], -sizes[i], i),
        "first born first": lambda i: (lives[i][0], -lives[i][1], -sizes[i], i),
        "last used first": lambda i: (-lives[i][1], lives[i][0], -sizes[i], i),
    }


def _pressure(problem: Problem) -> list[int]:
    """Return for each item the largest sum of sizes live at once during its lifetime, in units."""
    if not problem.sizes:
        return []
    end = max(last for _, last in problem.lives)
    alive = [0] * (end + 2)
    for size, (first, last) in zip(problem.sizes, problem.lives, strict=True):
        for moment in range(first, last + 1):
            alive[moment + 1] += size
    return [max(alive[first + 1 : last + 2]) for first, last in problem.lives]


def _by_search(problem: Problem, start: _Candidate, budget: Budget, seed: int, tuning: Tuning) -> _Candidate:
    """Return the best placement of several short local searches with different rules and seeds."""
    best = start
    for turn in range(tuning.local_searches):
        # The lower bound may be unattainable: half of the searches only aim below the least height so far.
        offsets = search(
            problem,
            start.order,
            target=problem.lower_bound if turn % 4 < 2 else best.top - 1,
            steps=max(1, tuning.placement_work // (problem.pairs * tuning.local_searches)),
            seed=seed + turn,
            budget=budget,
            choice=tuple(Choice)[turn % len(Choice)] if turn else start.choice,
            share=problem.shares and turn % 2 == 0,
            moved=tuning.promotion,
        )
        if (top := height(problem, offsets)) < best.top:
            best = _Candidate(top, offsets, "local search", start.order, start.choice)
        if best.top <= problem.lower_bound or budget.is_over():
            break
    return best
