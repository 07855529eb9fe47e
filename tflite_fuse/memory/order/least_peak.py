"""Exact search for an order of operators with the least peak memory.

Over all topological orders, the largest working set is minimised. The problem is NP-hard, but the structure of networks
makes it tractable:

1. chains that are copies of each other get a fixed relative order (``twins``);
2. a search from both ends raises a proven bound until an order fits under it (``two_ended_search``);
3. if the budget of step 2 ends first, orders are searched under guessed bounds: an order found lowers the ceiling, an
infeasible guess raises the bound.

Each search uses at most half of the remaining budget. Finally the order is moved as close to the default order as its
peak permits.

Source: Liberis & Lane (2019, Neural networks on microcontrollers: saving memory at inference via operator reordering)
state the problem and a memoised recursion over sets of operators. Each module proves the rules that it uses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tflite_fuse.ir.liveness import bytes_before_start, in_place_saving, working_sets
from tflite_fuse.ir.program import Program
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.order.problem import OrderProblem, order_problem
from tflite_fuse.memory.order.two_ended_search import ALL_RULES, OrderRules, OrderSearch
from tflite_fuse.tuning import TUNING, Tuning


@dataclass(frozen=True)
class OrderResult:
    """An order with its peak and a lower bound.

    Attributes:
        order: operator indices of the graph in execution order; the default order if no other has a smaller peak.
        peak: largest working set of that order in bytes.
        lower_bound: proven lower bound in bytes over all orders.
        optimal: whether ``peak`` equals ``lower_bound``. False only if the budget ran out.
        states: number of states expanded.
        seconds: time taken.
    """

    order: tuple[int, ...]
    peak: int
    lower_bound: int
    optimal: bool
    states: int
    seconds: float


def minimal_peak_order(
    graph: Program,
    budget: Budget | None = None,
    *,
    in_place: bool = False,
    rules: OrderRules = ALL_RULES,
    tuning: Tuning = TUNING,
) -> OrderResult:
    """Return an order with the least peak memory.

    The default order is returned if it is optimal. Otherwise operators keep their default positions as far as swaps of
    neighbours within the peak allow. Operators flagged ``ordered`` and operators on resident or rewritten tensors keep
    their relative order.

    Args:
        graph: operators and tensors; sizes count as given, so the caller rounds them up to the arena's alignment.
        budget: work of the search; None to search until the optimum is proven. When it runs out, the best order found
            (never worse than the default one) and the proven lower bound are returned.
        in_place: whether outputs may share memory with inputs that die, for the pairs that the operators list.
        rules: pruning rules; the optimum is the same with all of them.
        tuning: rules of thumb.
    """
    begin, operators = time.perf_counter(), len(graph.steps)
    start = bytes_before_start(graph)
    default, default_peak = tuple(range(operators)), max(start, *working_sets(graph, in_place=in_place), 0)
    floor = max(start, _largest_operator(graph, in_place))
    if default_peak == floor or (budget is not None and budget.is_over()):
        return OrderResult(default, default_peak, floor, default_peak == floor, 0, time.perf_counter() - begin)
    problem = order_problem(graph, in_place=in_place, twins=rules.twins)
    search = OrderSearch(problem, floor, default_peak, rules)
    states = _search(search, budget, tuning)
    order, peak = default, default_peak
    if search.order is not None and search.ceiling < default_peak:
        peak = search.ceiling
        order = nearer_to_default(problem, search.order, peak, _steps(budget, operators))
    return OrderResult(order, peak, search.bound, search.bound >= peak, states, time.perf_counter() - begin)


def _largest_operator(graph: Program, in_place: bool) -> int:
    """Return the largest sum in bytes of one operator's own and the resident tensors: a lower bound for all orders."""
    most = 0
    for op in graph.steps:
        own = sum(graph.sizes[tensor] for tensor in {*op.inputs, *op.outputs, *graph.resident})
        most = max(most, own - (in_place_saving(graph.sizes, op.in_place) if in_place else 0))
    return most


def _steps(budget: Budget | None, steps: int) -> Callable[[], bool]:
    """Return a function that spends ``steps`` and reports whether the budget is used up."""
    return (lambda: False) if budget is None else lambda: not budget.spend(steps)


def _search(search: OrderSearch, budget: Budget | None, tuning: Tuning) -> int:
    """Search until the end or until the budget is used up; return the number of states expanded.

    Stores in ``search`` the best order, if it improves on the earlier one, with its peak as the ceiling.
    """
    steps = len(search.problem.preds)
    ended = search.run(_steps(budget and budget.part(0.5), steps))
    states, best, low = search.states, search.order, search.bound
    if ended or budget is None:
        search.ceiling = search.bound
        return states
    for _ in range(tuning.order_guesses):
        guess = (low + search.ceiling) // 2
        if guess >= search.ceiling:
            break
        probe = OrderSearch(search.problem, guess, guess + 1, search.rules)
        ended = probe.run(_steps(budget.part(0.5), steps))
        states += probe.states
        if probe.order is not None:
            best, search.ceiling = probe.order, peak_of(search.problem, probe.order)
        else:
            low = guess + 1
            search.bound = low if ended else search.bound
    search.order = best
    return states


def peak_of(problem: OrderProblem, order: Sequence[int]) -> int:
    """Return the peak in bytes of an order of a problem's operators."""
    state, live, peak = 0, problem.start, 0
    for op in order:
        rise, delta = problem.effect(op, state)
        peak = max(peak, live + rise)
        live += delta
        state |= 1 << op
    return peak


def nearer_to_default(
    problem: OrderProblem, order: Sequence[int], peak: int, out_of_time: Callable[[], bool]
) -> tuple[int, ...]:
    """Restore the default order of neighbours by swaps, as long as the peak stays within ``peak`` bytes.

    A swap changes the working sets of the two swapped operators only.
    """
    result: list[int] = []
    states, lives = [0], [problem.start]
    for op in order:
        if out_of_time():
            return (*result, *order[len(result) :])
        place = _lowest_place(problem, result, states, lives, op, peak)
        result.insert(place, op)
        del states[place + 1 :], lives[place + 1 :]
        for moved in result[place:]:
            lives.append(lives[-1] + problem.effect(moved, states[-1])[1])
            states.append(states[-1] | 1 << moved)
    return tuple(result)


def _lowest_place(
    problem: OrderProblem, result: Sequence[int], states: Sequence[int], lives: Sequence[int], op: int, peak: int
) -> int:
    """Return the lowest position to which an operator may move, ahead of operators that follow it by default."""
    place = len(result)
    while place:
        other, state, live = result[place - 1], states[place - 1], lives[place - 1]
        if other < op or problem.preds[op] >> other & 1:
            break
        rise, delta = problem.effect(op, state)
        rise_other, _ = problem.effect(other, state | 1 << op)
        if live + rise > peak or live + delta + rise_other > peak:
            break
        place -= 1
    return place
