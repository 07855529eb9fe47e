"""Heuristic parameters of the searches, each with its unit, its trade-off and its off value.

None of them changes the values that a rewritten model computes. ``scripts/bench_tuning.py`` switches each off and
prints the loss on a set of models; a rule without a loss is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


def rule(default: Any, *, off: Any, unit: str, trades: str) -> Any:
    """Return a field of ``Tuning``.

    Args:
        default: its value.
        off: the value that switches the rule off.
        unit: of both.
        trades: cost and benefit of a larger value.
    """
    return field(default=default, metadata={"off": off, "unit": unit, "trades": trades})


@dataclass(frozen=True)
class Tuning:
    """Heuristic parameters of the searches. Fields have ``off``, ``unit`` and ``trades`` in their metadata."""

    # The order of operators and their tensors' places (memory).
    order_share: float = rule(
        0.25, off=1.0, unit="share of the work left", trades="work that one order search may take from placements"
    )
    order_guesses: int = rule(
        8, off=0, unit="bounds guessed", trades="proofs for good orders where the search of orders cannot end"
    )
    quick_order: int = rule(
        1_000_000, off=0, unit="steps", trades="time of pages and metrics for fronts in an order of less peak"
    )
    placement_work: int = rule(
        500_000, off=0, unit="pairs of tensors", trades="time of an exact search for places, and of all local ones"
    )
    local_searches: int = rule(
        20, off=0, unit="searches of orders to place in", trades="time for less arena where no fixed order is best"
    )
    promotion: float = rule(
        8.0, off=1.0, unit="places in an order", trades="small steps of a local search for new placements"
    )
    orders: int = rule(
        6_000, off=0, unit="squares of operators", trades="time for blocks of operators that few orders have together"
    )
    # Which candidate is returned (passes/fusing/objective).
    slack: int = rule(24, off=2**31, unit="one part of the least arena in so many", trades="RAM for instructions")
    slack_streamed: int = rule(
        16, off=2**31, unit="one part of the least arena in so many", trades="the same where inputs are streamed"
    )
    slack_calls: int = rule(
        8, off=2**31, unit="one part of the least arena in so many", trades="the same for a window made a stream"
    )
    slack_recomputing: int = rule(
        100, off=2**31, unit="one part of the least arena in so many", trades="the same where recompute is allowed"
    )
    slack_bytes: int = rule(512, off=0, unit="bytes", trades="RAM of small models for instructions")
    slack_cycles: int = rule(1024, off=512, unit="bytes", trades="the same for cycles, where these are predicted")
    speed_tolerance: float = rule(
        1 / 100, off=0.0, unit="share of instructions", trades="instructions that are given up for less RAM"
    )
    fair_price: float = rule(
        2 / 3, off=1e9, unit="share of RAM per share of instructions", trades="the most RAM paid for instructions"
    )
    clear_gain: float = rule(
        1 / 10, off=0.0, unit="share of instructions", trades="what recompute must save where it was not allowed"
    )
    # Which points of the estimated fronts are placed (passes/fusing/propose).
    placed_first: int = rule(4, off=1, unit="points", trades="time for arenas and run lengths that estimates hide")
    near: float = rule(
        1 / 16, off=0.0, unit="share above a limit", trades="time for points whose estimate exceeds a limit"
    )
    every_path: int = rule(
        8, off=0, unit="operators", trades="time for arenas of small models that estimates hide, if a goal is set"
    )
    offered: int = rule(
        4, off=2**31, unit="one part of the arena in so many", trades="time for notes that offer speed for RAM"
    )
    fast_tried: int = rule(16, off=4, unit="points", trades="time for fast points that may not fit")
    # How long the runs of stages are (passes/fusing/own_runs).
    run_gain: float = rule(
        1 / 200, off=0.0, unit="share of instructions", trades="time for blocks whose longer runs save little"
    )
    runs_followed: int = rule(
        4_000_000, off=0, unit="runs of stages", trades="time for fewer instructions; the largest models take a sixth"
    )
    run_room: int = rule(
        32, off=0, unit="bytes", trades="time for longer runs that placement fits into bytes which seem to be in use"
    )
    longest_run: int = rule(
        48, off=8, unit="pixels", trades="RAM for fewer runs on wide maps; kernels take them in parts that fit a table"
    )
    # Splits over several devices (split).
    split_span: int = rule(
        6, off=1, unit="cuts of the model", trades="rows computed twice at seams for values that need not travel"
    )
    split_beam: int = rule(48, off=1, unit="ways to a cut", trades="time of the search for ways that end better")
    split_plans: int = rule(16, off=1, unit="plans", trades="time of measuring for what estimates do not tell")
    split_few: int = rule(
        4,
        off=2**31,
        unit="plans, workers or searches",
        trades="time where buffers of all plans would be placed, and for plans in a little less flash than there is",
    )
    split_many: int = rule(
        16, off=2**31, unit="workers", trades="time for all groups of workers; of more, fewer groups share an edge"
    )


TUNING = Tuning()
"""The default values."""
