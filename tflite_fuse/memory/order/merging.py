"""Merging of operators that an optimal order may run back to back.

Both rules keep at least one optimal order. A tensor is freed by its last reader, so a unit frees at least as much
memory the later it runs: ``live(T + x) - live(T) <= live(S + x) - live(S)`` for S inside T, where ``live(S)`` is the
bytes live after the units of S have run.

- *At once*: y is ready as soon as x has run, its working set right behind x never exceeds that of x, and it never
  increases the live bytes. In any order, y may move to right behind x: the units between find no more live bytes than
  before.
- *Delayed*: every successor of x is y or follows y, x never reduces the live bytes, and its working set right before y
  never exceeds that of y. In any order, x may move to right before y: the units between find no more live bytes than
  before. (The test that x never reduces the live bytes counts as freed by x a tensor that a unit between could
  overwrite after x: the saving lost is no larger than the saving by the delay.)

On a linear chain the two rules leave the hill-valley decomposition of Liu (1987, An application of generalized tree
pebbling to sparse matrix factorization): ever deeper valleys behind ever higher hills, then the mirror image.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from tflite_fuse.memory.order.units import Dies, Phase, UnitGraph, relatives, settle_phases, topological

_MOST_OPEN = 5
"""Largest number of tensors with an unknown last reader for which a rule enumerates all cases."""


def merge_units(graph: UnitGraph, out_of_time: Callable[[], bool] = lambda: False) -> None:
    """Merge units in place until no rule applies (see the module) or ``out_of_time`` returns True."""
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
    """Return all cases of tensors that die in x and then in y, run after ``done`` and before ``later``.

    The list is empty if too many tensors are shared with units that may run before or after.
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
