"""Operators that an optimal order may run back to back, merged into units.

Both rules keep at least one optimal order. They rest on this: a tensor is freed by its
last reader, so the later a unit runs, the more it frees; ``live(T + x) - live(T) <= live(S + x) - live(S)`` for S
inside T, where ``live(S)`` is what is live after the units of S have run.

- *At once*: y can run as soon as x has, never needs more right behind x than x has just needed, and never leaves more
  live than before it. In any order move y to right behind x: what runs between finds no more live than before.
- *Delayed*: whatever follows x follows y too (or is y), x never lowers what is live, and never needs more right
  before y than y needs. In any order move x to right before y: what runs between finds no more live than before. (A
  tensor that an operator between could overwrite, had x read it earlier, was counted as freed by x when testing that
  x never lowers what is live: the saving lost is no larger than what delaying x saves.)

On a linear chain the two leave the hill-valley decomposition of Liu (1987, An application of generalized tree
pebbling to sparse matrix factorization): first ever deeper valleys behind ever higher hills, then the mirror image.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from tflite_fuse.memory.order.units import Dies, Phase, UnitGraph, relatives, settle_phases, topological

_MOST_OPEN = 5
"""Tensors whose last reader is unknown, of which a rule looks at all cases."""


def merge_units(graph: UnitGraph, out_of_time: Callable[[], bool] = lambda: False) -> None:
    """Merge units in place until no rule applies (see the module's text) or the time is over."""
    while True:
        before, after = relatives(graph)
        merged = 0
        for unit in topological(graph):
            while unit in graph.units and not out_of_time():
                succs = sorted(graph.units[unit].succs)
                partner = next((succ for succ in succs if _mergeable(graph, unit, succ, before, after)), None)
                if partner is None:
                    break
                _merge(graph, unit, partner, before, after)
                merged += 1
        if not merged or out_of_time():
            return


def _mergeable(graph: UnitGraph, x: int, y: int, before: dict[int, int], after: dict[int, int]) -> bool:
    return _at_once(graph, x, y, before, after) or _delayed(graph, x, y, before, after)


def _at_once(graph: UnitGraph, x: int, y: int, before: dict[int, int], after: dict[int, int]) -> bool:
    done = before[x] | graph.units[x].mask
    if any(graph.units[pred].mask & ~done for pred in graph.units[y].preds):
        return False
    cases = _cases(graph, x, y, before[x], after[x])
    for first, second in cases:
        (rise_x, delta_x), (rise_y, delta_y) = graph.profile(x, first), graph.profile(y, second)
        if delta_y > 0 or delta_x + rise_y > rise_x:
            return False
    return bool(cases)


def _delayed(graph: UnitGraph, x: int, y: int, before: dict[int, int], after: dict[int, int]) -> bool:
    later = after[y] | graph.units[y].mask
    if any(graph.units[succ].mask & ~later for succ in graph.units[x].succs):
        return False
    _, delta_x = graph.profile(x, lambda t: not graph.other_readers(t, x) & later)
    if delta_x < 0:
        return False
    cases = _cases(graph, x, y, before[x] | before[y], after[y])
    for first, second in cases:
        (rise_x, delta_x), (rise_y, _) = graph.profile(x, first), graph.profile(y, second)
        if rise_x > delta_x + rise_y:
            return False
    return bool(cases)


def _cases(graph: UnitGraph, x: int, y: int, done: int, later: int) -> list[tuple[Dies, Dies]]:
    """All cases of which tensors die when x and then y run, at a moment when ``done`` has run and ``later`` has not.

    None at all where too many tensors are shared with units that may run before or after.
    """
    reads_y = graph.units[y].reads
    open_ = []
    alive = []
    for tensor in sorted(graph.units[x].reads | reads_y):
        others = graph.other_readers(tensor, x) & ~graph.units[y].mask
        if others & later:
            alive.append(tensor)
        elif others & ~done:
            open_.append(tensor)
    if len(open_) > _MOST_OPEN:
        return []
    choices = [{*alive, *some} for count in range(len(open_) + 1) for some in combinations(open_, count)]
    return [(_all_but(kept | reads_y), _all_but(kept)) for kept in choices]


def _all_but(alive: set[int]) -> Dies:
    return lambda tensor: tensor not in alive


def _merge(graph: UnitGraph, x: int, y: int, before: dict[int, int], after: dict[int, int]) -> None:
    """Append unit y to unit x."""
    first, second = graph.units[x], graph.units.pop(y)
    shared = second.reads
    first.phases = [
        Phase(
            phase.rise,
            phase.delta,
            tuple(t for t in phase.frees if t not in shared),
            tuple(pair for pair in phase.sharing if pair[0] not in shared),
        )
        for phase in first.phases
    ] + second.phases
    first.ops += second.ops
    first.mask |= second.mask
    first.reads |= second.reads
    for pred in second.preds - {x}:
        graph.units[pred].succs.discard(y)
        graph.units[pred].succs.add(x)
    for succ in second.succs:
        graph.units[succ].preds.discard(y)
        graph.units[succ].preds.add(x)
    first.preds = (first.preds | second.preds) - {x}
    first.succs = (first.succs | second.succs) - {y}
    for tensor in second.reads:
        graph.readers[tensor].discard(y)
        graph.readers[tensor].add(x)
    before[x] = (before[x] | before[y]) & ~first.mask
    after[x] = (after[x] | after[y]) & ~first.mask
    settle_phases(graph, x)
