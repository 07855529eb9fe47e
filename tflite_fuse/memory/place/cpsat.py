"""Placement by Google's CP-SAT solver (extra ``optimal``): proves optimality where it can in the time given."""

from __future__ import annotations

from typing import Any

from tflite_fuse.errors import RuntimeUnavailableError
from tflite_fuse.memory.place.fit import Offsets, height
from tflite_fuse.memory.place.problem import Problem, Rule

_DETERMINISTIC_SECONDS = 10.0


def solve(problem: Problem, offsets: Offsets, *, time_limit: float | None, seed: int) -> tuple[Offsets, int]:
    """A placement at least as good as the one given, and a proven lower bound, both in units.

    Args:
        problem: what to place.
        offsets: a placement to start from.
        time_limit: seconds; None for a fixed amount of the solver's own work, the same on every machine.
        seed: of the solver.

    Raises:
        RuntimeUnavailableError: ``ortools`` is not installed.
    """
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise RuntimeUnavailableError(
            "the optimal placement needs OR-Tools (pip install 'tflite-fuse[optimal]')"
        ) from error
    known = height(problem, offsets)
    model = cp_model.CpModel()
    top = model.new_int_var(problem.lower_bound, known, "height")
    starts = [model.new_int_var(0, known - size, f"start_{item}") for item, size in enumerate(problem.sizes)]
    for item, size in enumerate(problem.sizes):
        model.add(starts[item] + size <= top)
        model.add_hint(starts[item], offsets[item])
        for rule in problem.rules[item]:
            if rule.other < item:
                _add_rule(model, starts[item], starts[rule.other], rule)
    model.minimize(top)
    solver = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = _DETERMINISTIC_SECONDS
    if time_limit is not None:
        solver.parameters.max_time_in_seconds = max(0.1, time_limit)
    solver.parameters.random_seed = seed
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return offsets, problem.lower_bound
    bound = max(problem.lower_bound, round(solver.best_objective_bound))
    return [int(solver.value(start)) for start in starts], bound


def _add_rule(model: Any, start: Any, other: Any, rule: Rule) -> None:
    choices = [model.new_bool_var(""), model.new_bool_var("")]
    model.add(start <= other + rule.below).only_enforce_if(choices[0])
    model.add(start >= other + rule.above).only_enforce_if(choices[1])
    if rule.same_start:
        choices.append(model.new_bool_var(""))
        model.add(start == other).only_enforce_if(choices[2])
    model.add_bool_or(choices)
