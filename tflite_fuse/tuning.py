"""The rules of thumb that steer searches: every number in one place, with its unit, its trade and its off switch.

None of them changes what a rewritten model computes. ``scripts/bench_tuning.py`` switches each off and prints what gets
worse on a set of models; a rule that buys nothing there is deleted.
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
        trades: what more of it costs, and what it brings.
    """
    return field(default=default, metadata={"off": off, "unit": unit, "trades": trades})


@dataclass(frozen=True)
class Tuning:
    """Numbers that steer searches. Fields carry ``off``, ``unit`` and ``trades`` in their metadata."""

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
    exact_placement: int = rule(
        500_000, off=0, unit="pairs of tensors", trades="time for a proof that spares the local searches"
    )
    local_searches: int = rule(
        20, off=0, unit="searches of orders to place in", trades="time for less arena where no fixed order is best"
    )
    local_search_work: int = rule(
        2_000_000, off=0, unit="pairs of tensors", trades="the same: what all of these searches take together"
    )
    promotion: float = rule(
        8.0, off=1.0, unit="places in an order", trades="small steps of a local search for new placements"
    )

    # Splits over several devices (split).
    split_span: int = rule(
        6, off=1, unit="cuts of the model", trades="rows computed twice at seams for values that need not travel"
    )
    split_beam: int = rule(48, off=1, unit="ways to a cut", trades="time of the search for ways that end better")
    split_alike: int = rule(
        6, off=1, unit="ways after which devices hold the same", trades="variety of the beam for ways that end better"
    )
    split_beaten: int = rule(
        12, off=0, unit="ways", trades="time of the search for ways that take less than is expected of them"
    )
    split_plans: int = rule(16, off=1, unit="plans", trades="time of measuring for what estimates do not tell")
    split_searches: int = rule(
        4, off=1, unit="searches", trades="time for plans found within a little less flash, where it is limited"
    )


TUNING = Tuning()
"""The values used unless a caller gives others."""
