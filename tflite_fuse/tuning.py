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


TUNING = Tuning()
"""The values used unless a caller gives others."""
