"""The order of operators with the least peak memory usage, exactly.

The problem: over all topological orders, minimise the largest working set. It is NP-hard, but networks are kind to
it:

1. chains that are copies of each other are lined up (``units``), and operators that may as well run back to back are
   merged into units (``merging``);
2. a search from both ends raises a proven bound until an order fits under it (``two_ended_search``);
3. where that takes too long, orders are searched under guessed bounds: an order found is kept, a guess proven
   impossible raises the bound.

Each of these steps takes at most half of the work that is left. The result is brought nearer to the default order.

Sources: the problem and a memoised recursion over sets of operators are in Liberis & Lane (2019, Neural networks on
microcontrollers: saving memory at inference via operator reordering); hill-valley segments in Liu (1987) and, for
series-parallel graphs, Kayaaslan, Lambert, Marchal & Ucar (2018). The proofs of the rules used here are in the
modules.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tflite_fuse.ir.liveness import bytes_before_start, in_place_saving, working_sets
from tflite_fuse.ir.program import Program
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.order.merging import merge_units
from tflite_fuse.memory.order.problem import OrderProblem, compile_units
from tflite_fuse.memory.order.two_ended_search import ALL_RULES, OrderRules, OrderSearch
from tflite_fuse.memory.order.units import topological, unit_graph
from tflite_fuse.tuning import TUNING, Tuning


@dataclass(frozen=True)
class OrderResult:
    """An order and what is known about it.

    Attributes:
        order: operator indices of the graph in the order to run them; the default order where nothing is better.
        peak: largest working set of that order in bytes.
        lower_bound: proven: no order has a smaller peak, in bytes.
        optimal: whether ``peak`` equals ``lower_bound``. False only if the budget was spent.
        states: states the search expanded.
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
    """Find an order of least peak.

    The default order wins ties: if it is optimal, it is returned as it is. Otherwise operators keep their places in it
    as far as swaps of neighbours allow. Operators flagged ``ordered``, and those on resident or rewritten tensors, keep
    their relative order.

    Args:
        graph: operators and tensors; the sizes count as they are (round them up to what the arena pays beforehand).
        budget: what the search may take; None to go on until the optimum is proven. When it is spent, the best order
            found (never worse than the default one) and the proven lower bound are returned.
        in_place: let outputs share memory with dying inputs for the pairs that the operators list.
        rules: which pruning rules to use; all of them give the same optimum.
        tuning: rules of thumb.
    """
    begin, operators = time.perf_counter(), len(graph.steps)
    start = bytes_before_start(graph)
    default, default_peak = tuple(range(operators)), max(start, *working_sets(graph, in_place=in_place), 0)
    floor = max(start, _largest_operator(graph, in_place))
    if default_peak == floor or (budget is not None and budget.is_over()):
        return OrderResult(default, default_peak, floor, default_peak == floor, 0, time.perf_counter() - begin)
    units = unit_graph(graph, in_place=in_place, twins=rules.twins)
    if rules.merge:
        merge_units(units, _steps(budget and budget.part(0.5), operators))
    search = OrderSearch(compile_units(units, topological(units)), floor, default_peak, rules)
    states = _search(search, budget, tuning)
    order, peak = default, default_peak
    if search.order is not None and search.ceiling < default_peak:
        order = tuple(op for unit in search.order for op in search.problem.ops[unit])
        peak = search.ceiling
        order = nearer_to_default(graph, order, peak, _steps(budget, operators), in_place=in_place)
    return OrderResult(order, peak, search.bound, search.bound >= peak, states, time.perf_counter() - begin)


def _largest_operator(graph: Program, in_place: bool) -> int:
    """The most bytes that one operator's own tensors, with the resident ones, take: no order avoids them."""
    most = 0
    for op in graph.steps:
        own = sum(graph.sizes[tensor] for tensor in {*op.inputs, *op.outputs, *graph.resident})
        most = max(most, own - (in_place_saving(graph.sizes, op.in_place) if in_place else 0))
    return most


def _steps(budget: Budget | None, steps: int) -> Callable[[], bool]:
    """Return a function that takes so many steps and says whether the budget is spent."""
    return (lambda: False) if budget is None else lambda: not budget.spend(steps)


def _search(search: OrderSearch, budget: Budget | None, tuning: Tuning) -> int:
    """Search until the end, or as far as a budget goes; returns the states expanded.

    Leaves in ``search`` the best order found, if any is better than the one known, with its peak as the ceiling.
    """
    steps = len(search.problem.ops)
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
            best, search.ceiling = probe.order, peak_of_units(search.problem, probe.order)
        else:
            low = guess + 1
            search.bound = low if ended else search.bound
    search.order = best
    return states


def peak_of_units(problem: OrderProblem, units: Sequence[int]) -> int:
    """Return the largest working set in bytes of an order of a problem's units."""
    state, live, peak = 0, problem.start, 0
    for unit in units:
        rise, delta = problem.effect(unit, state)
        peak = max(peak, live + rise)
        live += delta
        state |= 1 << unit
    return peak


def nearer_to_default(
    graph: Program, order: Sequence[int], peak: int, out_of_time: Callable[[], bool], *, in_place: bool = False
) -> tuple[int, ...]:
    """Swap neighbours that the graph's own order has the other way round, as long as ``peak`` bytes are enough.

    A swap changes the working sets of the two swapped operators only.
    """
    problem = compile_units(unit_graph(graph, in_place=in_place), range(len(graph.steps)))
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
    """How far an operator may move ahead of operators that come after it in the default order."""
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
