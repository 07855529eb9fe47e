"""Where every tensor goes in the arena: the solvers, from the quickest to the strongest, until one meets the bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tflite_fuse.ir.memory_graph import MemoryGraph, Overlap
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.place.branch_and_bound import prove
from tflite_fuse.memory.place.fit import Choice, Offsets, fit, height, search
from tflite_fuse.memory.place.pair_search import settle
from tflite_fuse.memory.place.problem import Problem, build_problem
from tflite_fuse.units import round_up

_SEARCH_WORK = 2_000_000
_STEPS_PER_ITEM = 16
_SEARCHES = 20
_PATIENCE = 8
"""Searches in a row that may find nothing better, where there are few items: in 16 such problems of three public models
none that did was more than three behind the one before."""
_STARTS = 4


@dataclass(frozen=True)
class Placement:
    """A plan of the arena.

    Attributes:
        offsets: bytes from the start of the arena, one per tensor of the graph; -1 for tensors that have no place in
            it: residents, those of size 0 and those nothing touches.
        height: bytes the arena needs.
        lower_bound: bytes that no plan for this order of operators can go below.
        optimal: whether ``height`` is proven to be the least. True wherever it equals ``lower_bound``.
        method: which solver found the plan.
    """

    offsets: tuple[int, ...]
    height: int
    lower_bound: int
    optimal: bool
    method: str


def place(
    graph: MemoryGraph,
    overlaps: Sequence[Overlap] = (),
    *,
    alignment: int = 16,
    budget: Budget | None = None,
    seed: int = 0,
    thorough: bool = True,
) -> Placement:
    """Plan the arena for operators in their given order.

    Orders of first and best fit come first, then a local search over orders, then exact searches, which end soon on
    small graphs only; each stage runs only if the one before did not meet the lower bound.

    Args:
        graph: operators in execution order. Outputs may share memory with inputs by ``MemoryOp.in_place``.
        overlaps: further permissions to share memory.
        alignment: bytes; offsets are multiples of it and sizes round up to it.
        budget: what the searches take their work from; None for one of its own.
        seed: of the searches.
        thorough: whether an exact search behind the others may take more work than they do.

    Raises:
        PlanError: an overlap joins tensors that are not input and output of one operator.
    """
    budget = Budget() if budget is None else budget
    problem = build_problem(graph, overlaps, alignment)
    starts = _by_order(problem, budget)
    best, bound = _exactly(problem, starts[0], budget, _first_nodes(problem))
    if best.top > bound:
        best = min(best, _by_search(problem, starts, budget, seed), key=lambda candidate: candidate.top)
        best, bound = _exactly(
            problem, best, budget, _NODES if thorough else min(_SEARCH_WORK // problem.pairs, _NODES)
        )
    return _placement(graph, problem, best, bound, alignment)


def rounded(graph: MemoryGraph, alignment: int = 16) -> MemoryGraph:
    """The graph with every size rounded up to the alignment: what its tensors occupy in an arena."""
    return replace(graph, sizes=tuple(round_up(size, alignment) for size in graph.sizes))


_MOST_SETTLED = 120
"""Items up to which problems that share memory are worth an exact search."""
_NODES, _POSITIONS = 4_000, 20_000
"""Decisions of an exact search behind the others, and positions of the one that needs more of them."""
_FIRST_PAIRS, _FIRST_SHARED_PAIRS = 40_000, 500_000
"""Pairs of items that an exact search may look at before anything else is tried. It may look at many where items share
memory, because there it proves in some milliseconds that a bound is out of reach for which the local search would look
in vain for half a second (28 items, 117 decisions)."""


@dataclass(frozen=True)
class _Candidate:
    top: int
    offsets: Offsets
    method: str
    order: tuple[int, ...]
    choice: Choice


def _placement(graph: MemoryGraph, problem: Problem, best: _Candidate, bound: int, alignment: int) -> Placement:
    offsets = [-1] * len(graph.sizes)
    for item, tensor in enumerate(problem.tensors):
        offsets[tensor] = best.offsets[item] * alignment
    return Placement(tuple(offsets), best.top * alignment, bound * alignment, best.top == bound, best.method)


def _first_nodes(problem: Problem) -> int:
    """Decisions of the exact search that comes before any other."""
    return min((_FIRST_SHARED_PAIRS if problem.shares else _FIRST_PAIRS) // max(problem.pairs, 1), _NODES)


def _exactly(problem: Problem, best: _Candidate, budget: Budget, nodes: int) -> tuple[_Candidate, int]:
    """The best placement after an exact search of at most so many decisions, and the least height proven."""
    if best.top <= problem.lower_bound or (problem.shares and len(problem.sizes) > _MOST_SETTLED):
        return best, problem.lower_bound
    solve_exactly, most = (settle, _NODES) if problem.shares else (prove, _POSITIONS)
    offsets, proven = solve_exactly(problem, best.offsets, budget, nodes=nodes * most // _NODES)
    if height(problem, offsets) < best.top:
        best = _Candidate(height(problem, offsets), offsets, "exact search", best.order, best.choice)
    return best, best.top if proven else problem.lower_bound


def _by_order(problem: Problem, budget: Budget) -> list[_Candidate]:
    """The best placements of a few fixed orders, best first."""
    candidates: list[_Candidate] = []
    for share in (False, True) if problem.shares else (False,):
        for name, key in _orders(problem).items():
            order = tuple(sorted(range(len(problem.sizes)), key=key))
            for choice in Choice:
                offsets = fit(problem, order, choice, share=share)
                method = f"{choice.value}, {name}"
                candidates.append(_Candidate(height(problem, offsets), offsets, method, order, choice))
                if candidates[-1].top <= problem.lower_bound:
                    return [candidates[-1]]
                if not budget.spend(problem.pairs):
                    break
    return sorted(candidates, key=lambda candidate: candidate.top)[:_STARTS]


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
    """For each item, the largest number of units alive at once during its life."""
    if not problem.sizes:
        return []
    end = max(last for _, last in problem.lives)
    alive = [0] * (end + 2)
    for size, (first, last) in zip(problem.sizes, problem.lives, strict=True):
        for moment in range(first, last + 1):
            alive[moment + 1] += size
    return [max(alive[first + 1 : last + 2]) for first, last in problem.lives]


def _by_search(problem: Problem, starts: Sequence[_Candidate], budget: Budget, seed: int) -> _Candidate:
    """Many short local searches: from different orders, with different ways to place, each with its own seed."""
    best, idle = starts[0], 0
    patience = _SEARCHES if len(problem.sizes) > _MOST_SETTLED else _PATIENCE
    steps = max(1, min(_STEPS_PER_ITEM * len(problem.sizes), _SEARCH_WORK // (problem.pairs * _SEARCHES)))
    choices = tuple(Choice)
    for turn in range(_SEARCHES):
        start = starts[turn % len(starts)]
        choice = start.choice if turn < len(starts) else choices[turn % len(choices)]
        share = problem.shares and turn % 2 == 0
        # The lower bound may be out of reach: every other search only tries to beat the best height known.
        target = problem.lower_bound if turn % 4 < 2 else best.top - 1
        offsets = search(
            problem,
            start.order,
            target=target,
            steps=steps,
            seed=seed + turn,
            budget=budget,
            choice=choice,
            share=share,
        )
        idle += 1
        if height(problem, offsets) < best.top:
            best, idle = _Candidate(height(problem, offsets), offsets, "local search", start.order, choice), 0
        if best.top <= problem.lower_bound or idle == patience or budget.is_over():
            break
    return best
