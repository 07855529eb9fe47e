"""The loop for every goal: estimates propose points, points are realised, the objective selects.

``rewrite``, ``pareto``, ``sweep`` and the advice of reports all use this loop, so the same rule applies to all of them.
The default goal is always explored first; its candidates take part if they keep the caller's limits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from tflite_fuse.errors import LimitError
from tflite_fuse.ir.block import BlockChoice
from tflite_fuse.ir.program import FUSED_OPERATOR
from tflite_fuse.model.operators import operator_label, operator_name
from tflite_fuse.model.schema import Model
from tflite_fuse.passes.fusing.candidate import Candidate, Site
from tflite_fuse.passes.fusing.objective import Objective, objective_of
from tflite_fuse.passes.fusing.propose import (
    every_path,
    faster,
    in_one_tile,
    in_own_runs,
    in_shortest_runs,
    joined,
    smallest,
    within_ram,
)
from tflite_fuse.passes.goal import NOTHING_RECOMPUTED, Goal


def solve(site: Site, goal: Goal) -> Candidate:
    """Return the candidate that meets a goal best.

    Raises:
        NotReachedError: no candidate meets it; the message has the nearest one.
    """
    pool: list[Candidate] = []
    explore(site, NOTHING_RECOMPUTED, pool)
    objective = objective_of(site, goal)
    if goal.max_ram is not None and objective.least(pool) is None:  # the least RAM may be the best within the limit
        explore(site, replace(goal, max_ram=None, least_ram=goal.max_compute is None), pool)
    if not goal.is_default:
        explore(site, goal, pool)
    chosen = objective.select(pool)
    if chosen is None:
        raise _not_reached(site, goal, objective, pool)
    return chosen


def explore(site: Site, goal: Goal, pool: list[Candidate]) -> None:
    """Add promising candidates for a goal to a pool: small ones of every form of the model, then fast ones.

    Fast ones are those of the form with the least arena, and of others in the RAM that may be used: of all within a
    limit on RAM, or with about the least arena if every byte counts, else of those whose operators take clearly
    fewer instructions.
    """
    _add_small(site, goal, pool)
    objective = objective_of(site, goal)
    if (least := objective.least(pool)) is None:
        return
    most = least.arena * (1 + site.tuning.near) if goal.wants_every_byte else objective.ceiling(least.arena)
    kept = [least, *(each for each in pool if each.arena <= most and objective.keeps(each))]
    all_forms = goal.wants_every_byte or goal.max_ram is not None
    most_time = (1 - site.tuning.speed_tolerance) * sum(least.site.alone)
    for form in {id(each.site): each.site for each in kept}.values():
        if all_forms or form is least.site or sum(form.alone) <= most_time:
            _add_fast(form, goal, pool)
    if site.target is not None and goal.max_compute is not None and goal.max_ram is None:
        _explore_less_ram(site, objective, pool)


def _explore_less_ram(site: Site, objective: Objective, pool: list[Candidate]) -> None:
    """Add candidates in less RAM than the least one that keeps a limit on instructions, and fast ones in its RAM.

    Individual run lengths bring candidates within the limit whose estimates exceed it, so the bytes from the least
    arena of all candidates on are bisected.
    """
    too_small = min(each.arena for each in pool) - 1
    while (least := objective.least(pool)) is not None:
        most = int(least.arena * (1 - site.tuning.speed_tolerance))
        limit = (too_small + 1 + most) // 2 if too_small < most else least.arena
        explore(site, Goal(max_ram=limit), pool)
        if limit == least.arena:
            return
        if not any(each.arena <= limit and objective.keeps(each) for each in pool):
            too_small = limit


def _add_small(site: Site, goal: Goal, pool: list[Candidate]) -> None:
    """Add candidates towards the least arena within a goal's limits, of a form and of its other forms."""
    objective, candidates = objective_of(site, goal), [each for each in pool if each.site is site]
    count = len(candidates)
    candidates += smallest(site, objective)
    if goal.max_ram is not None:
        candidates += within_ram(site, objective, goal.max_ram)
    least = _least(site, objective, candidates)
    if least is not None and goal.max_ram is None:
        candidates += joined(site, least)
    if least is not None and goal.max_ram is None and not goal.is_default:
        candidates += every_path(site, objective, objective.least(candidates) or least)
    pool += candidates[count:]
    for form in site.forms:
        least = objective.least(pool)
        if (least is None or least.arena > form.least_bytes) and (other := form.site()) is not None:
            _add_small(other, goal, pool)


def _add_fast(site: Site, goal: Goal, pool: list[Candidate]) -> None:
    """Add candidates of few instructions near the least arena of a form."""
    objective, candidates = objective_of(site, goal), [each for each in pool if each.site is site]
    count = len(candidates)
    if (least := objective.least(candidates)) is not None:
        candidates += faster(site, objective, least)
        least = _least(site, objective, candidates) or least
        candidates += in_own_runs(site, objective, [*objective.favourites(candidates), least])
    pool += candidates[count:]


def _least(site: Site, objective: Objective, pool: list[Candidate]) -> Candidate | None:
    """Return the least candidate of a pool, which gets the same one in the shortest runs, and in one tile."""
    if (least := objective.least(pool)) is not None:
        pool += [in_shortest_runs(site, least), *in_one_tile(site, least)]
    return objective.least(pool)


def faster_with_more(site: Site, chosen: Candidate) -> Candidate | None:
    """Return a candidate with clearly fewer instructions in slightly more RAM than the selected one, or None.

    Only fronts that were searched for the goal are used.
    """
    most, most_time = chosen.arena + chosen.arena // site.tuning.offered, (1 - site.tuning.clear_gain) * chosen.time
    fast = [front for options, front in site.fronts.items() if options.target == site.core]
    points = [point for front in fast for point in front.points if point.ram_bytes <= most and point.work <= most_time]
    if not chosen.blocks or not points:
        return None
    faster = site.realise(min(points, key=lambda point: point.ram_bytes))
    return faster if faster.time <= most_time and chosen.arena < faster.arena <= most else None


class NotReachedError(LimitError):
    """No candidate keeps the caller's limits.

    ``outside`` has the names of tensors that are written outside of the nearest one's blocks; None where the limit on
    compute is missed.
    """

    outside: frozenset[str | None] | None = None


def _not_reached(site: Site, goal: Goal, objective: Objective, pool: Collection[Candidate]) -> NotReachedError:
    """Return an error with the limit that no candidate keeps, and the nearest value reached."""
    nearest = replace(objective, max_ram=None).least(pool)
    if nearest is None or goal.max_ram is None:
        own = max(site.own_compute, 1)
        least = min(each.compute for each in pool or [site.realise(site.front.points[-1])])
        factor = least / own
        digits = 2 if factor > 1.1 else 4
        return NotReachedError(
            f"a compute factor of at most {goal.compute_limit:g} cannot be reached with the scheme "
            f"{site.options.scheme.value} and {site.maker.mode.value} inputs: the least is {factor:.{digits}f}",
            limit=goal.compute_limit,
            reached=factor,
        )
    factor = nearest.compute / max(nearest.site.own_compute, 1)
    bound = "" if goal.max_compute is None else f" at a compute factor of at most {goal.max_compute:g}"
    culprits = " to ".join(_largest(nearest))
    error = NotReachedError(
        f"an arena of {goal.max_ram:,} bytes cannot be reached{bound}: the nearest point needs {nearest.arena:,} bytes "
        f"at a compute factor of {factor:.2f}, because of {culprits}",
        limit=goal.max_ram,
        reached=nearest.arena,
        operator=culprits,
    )
    error.outside = written_outside(nearest.site.maker.model, nearest.point.blocks)
    return error


def written_outside(model: Model, blocks: Sequence[BlockChoice] = ()) -> frozenset[str | None]:
    """Return the names of tensors that operators write outside of the blocks in a model and of those to come."""
    inside = {operator for block in blocks for operator in block.operators}
    plain = (op for index, op in enumerate(model.main.operators) if index not in inside)
    written = (op.outputs or () for op in plain if operator_name(model, op) != FUSED_OPERATOR)
    return frozenset(model.main.tensors[tensor].name for outputs in written for tensor in outputs)


def _largest(candidate: Candidate) -> Iterator[str]:
    """Yield labels of the first and the last operator of the largest working set."""
    operators = candidate.point.largest
    ends = dict.fromkeys((operators[0], operators[-1])) if operators else ()
    yield from (operator_label(candidate.site.maker.model, index) for index in ends)
