"""An order brought nearer to the default one, as far as its peak allows by swapping neighbours.

The order of operators with the least peak memory usage, exactly.

The problem: over all topological orders, minimise the largest working set. It is NP-hard, but networks are kind to
it:

1. operators that may as well run back to back are merged into units (``merging``), and chains that are copies of
   each other are lined up (``twins``);
2. the order is cut where every order must pass, and each piece is solved by itself (``pieces``);
3. a search from both ends of a piece raises a proven bound until an order fits under it (``two_ended_search``);
4. minimum cuts give lower bounds for pieces that do not yield at once (``min_cut_bounds``).

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
from tflite_fuse.ir.memory_graph import MemoryGraph
from tflite_fuse.memory.order.pieces import ALL_RULES, OrderRules, Piece, compile_pieces, forced_sets, merge_units
from tflite_fuse.memory.order.units import topological, unit_graph
from tflite_fuse.memory.order.within_budget import Effort, PieceOrder, finish_search, start_search


def nearer_to_default(
    graph: MemoryGraph, order: Sequence[int], peak: int, out_of_time: Callable[[], bool], *, in_place: bool = False
) -> tuple[int, ...]:
    """Swap neighbours that the graph's own order has the other way round, as long as ``peak`` bytes are enough.

    A swap changes the working sets of the two swapped operators only.
    """
    (piece,) = compile_pieces(unit_graph(graph, in_place=in_place), [range(len(graph.ops))])
    result: list[int] = []
    states, lives = [0], [piece.start]
    for op in order:
        if out_of_time():
            return (*result, *order[len(result) :])
        place = _lowest_place(piece, result, states, lives, op, peak)
        result.insert(place, op)
        del states[place + 1 :], lives[place + 1 :]
        for moved in result[place:]:
            lives.append(lives[-1] + piece.effect(moved, states[-1])[1])
            states.append(states[-1] | 1 << moved)
    return tuple(result)


def _lowest_place(
    piece: Piece, result: Sequence[int], states: Sequence[int], lives: Sequence[int], op: int, peak: int
) -> int:
    """How far an operator may move ahead of operators that come after it in the default order."""
    place = len(result)
    while place:
        other, state, live = result[place - 1], states[place - 1], lives[place - 1]
        if other < op or piece.preds[op] >> other & 1:
            break
        rise, delta = piece.effect(op, state)
        rise_other, _ = piece.effect(other, state | 1 << op)
        if live + rise > peak or live + delta + rise_other > peak:
            break
        place -= 1
    return place


_MERGE_SHARE = 0.25


@dataclass(frozen=True)
class OrderResult:
    """An order and what is known about it.

    Attributes:
        order: operator indices of the graph in the order to run them; the default order where nothing is better.
        peak: largest working set of that order in bytes.
        lower_bound: proven: no order has a smaller peak, in bytes.
        optimal: whether ``peak`` equals ``lower_bound``. False only if the effort was spent.
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
    graph: MemoryGraph,
    effort: Effort | None = None,
    *,
    in_place: bool = False,
    rules: OrderRules = ALL_RULES,
) -> OrderResult:
    """Find an order of least peak.

    The default order wins ties: if it is optimal, it is returned as it is. Otherwise pieces of it that need no change
    keep it. Operators flagged ``ordered``, and those on resident or rewritten tensors, keep their relative order.

    Args:
        graph: operators and tensors; the sizes count as they are (round them up to what the arena pays beforehand).
        effort: what the search may take; None to go on until the optimum is proven. When it is spent, the best order
            found (never worse than the default one) and the proven lower bound are returned.
        in_place: let outputs share memory with dying inputs for the pairs that the operators list.
        rules: which pruning rules to use; all of them give the same optimum.
    """
    begin, effort = time.perf_counter(), effort or Effort(None)
    default = working_sets(graph, in_place=in_place)
    start = bytes_before_start(graph)
    default_peak = max(start, *default, 0)
    floor = max(start, _largest_operator(graph, in_place))
    if default_peak == floor:
        return OrderResult(tuple(range(len(graph.ops))), floor, floor, True, 0, time.perf_counter() - begin)
    pieces = [] if effort.is_over() else _pieces(graph, in_place, rules, effort)
    if effort.is_over():
        default_order = tuple(range(len(graph.ops)))
        return OrderResult(default_order, default_peak, floor, False, 0, time.perf_counter() - begin)
    known = _known_peaks(graph, pieces, in_place)
    solved, bound = _solve(pieces, [min(peak, default_peak) for peak in known], floor, rules, effort)
    peak = max(start, *(result.peak for result in solved))
    if peak >= default_peak:
        peak = default_peak
        order = tuple(range(len(graph.ops)))
    else:
        parts = zip(pieces, solved, known, strict=True)
        order = tuple(op for piece, result, least in parts for op in _chosen(piece, result, least, peak))
        order = nearer_to_default(graph, order, peak, effort.passed(1.0, len(graph.ops)), in_place=in_place)
    states = sum(result.states for result in solved)
    return OrderResult(order, peak, min(bound, peak), bound >= peak, states, time.perf_counter() - begin)


def _largest_operator(graph: MemoryGraph, in_place: bool) -> int:
    """The most bytes that one operator's own tensors, with the resident ones, take: no order avoids them."""
    most = 0
    for op in graph.ops:
        own = sum(graph.sizes[tensor] for tensor in {*op.inputs, *op.outputs, *graph.resident})
        most = max(most, own - (in_place_saving(graph.sizes, op.in_place) if in_place else 0))
    return most


def _pieces(graph: MemoryGraph, in_place: bool, rules: OrderRules, effort: Effort) -> list[Piece]:
    units = unit_graph(graph, in_place=in_place, twins=rules.twins)
    if rules.merge:
        merge_units(units, effort.passed(_MERGE_SHARE, len(graph.ops)))
    groups = forced_sets(units) if rules.split else [topological(units)]
    return compile_pieces(units, groups)


def _known_peaks(graph: MemoryGraph, pieces: list[Piece], in_place: bool) -> list[int]:
    """The peak of each piece with its operators in the default order.

    That is not always a part of the graph's default order, which may run an operator of a later piece early: merging
    units makes sets forced that are not forced without.
    """
    order = [op for piece in pieces for op in _default_order(piece)]
    needed = iter(working_sets(graph.reordered(order), in_place=in_place))
    return [max(next(needed) for ops in piece.ops for _ in ops) for piece in pieces]


def _default_order(piece: Piece) -> list[int]:
    return sorted(op for ops in piece.ops for op in ops)


def _solve(
    pieces: list[Piece], peaks: list[int], floor: int, rules: OrderRules, effort: Effort
) -> tuple[list[PieceOrder], int]:
    """Solve the pieces whose default order (of peak ``peaks``) is not good enough; returns them and the bound proven.

    A piece need not get below what another one needs for sure.
    """
    solved = [PieceOrder(None, peak, 0, 0) for peak in peaks]
    bound = floor
    searches = {}
    for index in sorted(range(len(pieces)), key=lambda index: -peaks[index]):
        if peaks[index] <= bound:
            break
        searches[index] = start_search(pieces[index], bound, peaks[index], rules, effort)
        bound = max(bound, searches[index].bound)
    for place, (index, search) in enumerate(searches.items()):
        search.raise_bound(bound)
        waiting = sum(not other.ended for other in list(searches.values())[place:])
        solved[index] = finish_search(search, effort.part(1 / max(waiting, 1)))
        bound = max(bound, solved[index].bound)
    return solved, bound


def _chosen(piece: Piece, result: PieceOrder, default_peak: int, peak: int) -> list[int]:
    """A piece's operators in their default order where that is good enough, else in the order found."""
    if result.units is None or default_peak <= peak:
        return _default_order(piece)
    return [op for unit in result.units for op in piece.ops[unit]]
