"""The objective of a goal: the rule by which it selects among one model's realised candidates.

Constraints come first, then the minimised value, then slack of RAM that is traded for speed. Candidates have exact
needs, so the selected candidate is not dominated by another one in the pool.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tflite_fuse.cost.instructions import LEAST_GAIN
from tflite_fuse.passes.fusing.candidate import Candidate, Site
from tflite_fuse.passes.goal import Goal
from tflite_fuse.tuning import Tuning


@dataclass(frozen=True)
class Objective:
    """Rule for selecting among the candidates of one model.

    Attributes:
        max_ram: largest arena in bytes; None for no limit.
        max_compute: largest work; None for no limit.
        in_macs: whether work is multiply-accumulates, not the instructions or cycles that the goal limits.
        limits_compute: whether the caller set that limit: then no candidate may exceed it for speed.
        slack: divisor n: least arena / n bytes may be spent on speed; None for no slack.
        slack_bytes: bytes that may be spent on speed in any case.
        fair: whether the share of instructions saved must be in proportion to the RAM spent.
        tuning: rules of thumb.
    """

    max_ram: int | None
    max_compute: int | None
    in_macs: bool
    limits_compute: bool
    slack: int | None
    slack_bytes: int
    fair: bool
    tuning: Tuning

    def select(self, pool: Collection[Candidate]) -> Candidate | None:
        """Return the best candidate, or None if none keeps the constraints."""
        least = self.least(pool)
        if least is None:
            return None
        return self._fast(self._fairly(self._without_useless_recompute(self._roomy(pool, least), least)))

    def favourites(self, pool: Collection[Candidate]) -> list[Candidate]:
        """Return the best candidate first, then others whose individual run lengths may make them the best.

        These are the fastest ones in the RAM that may be used, or a few bytes more, and the fastest ones in less RAM.
        """
        best, least = self.select(pool), self.least(pool)
        if best is None or least is None:
            return []
        searched = [each for each in pool if not each.has_own_runs]
        roomy = self._roomy(searched, least, self.tuning.run_room)
        fast = sorted(roomy, key=lambda each: (each.time, each.arena))
        small = [each for at, each in enumerate(fast) if all(each.arena < other.arena for other in fast[:at])]
        chosen = best, *fast[: self.tuning.placed_first], *small
        return [*{(each.point.blocks, each.point.order): each for each in chosen}.values()]

    def _roomy(self, pool: Collection[Candidate], least: Candidate, more: int = 0) -> Sequence[Candidate]:
        """Return the candidates in the RAM that may be used and ``more`` bytes, within the limit on compute."""
        ceiling = self.ceiling(least.arena) + more
        return [each for each in pool if each.arena <= ceiling and self._may_compute(each, least)]

    def least(self, pool: Collection[Candidate]) -> Candidate | None:
        """Return the best candidate before slack is spent, or None if none keeps the constraints."""
        return min((each for each in pool if self.keeps(each)), key=self._first, default=None)

    def compute(self, candidate: Candidate) -> int:
        """Return the work of a candidate in the unit of the limit."""
        return candidate.macs if self.in_macs else candidate.time

    def keeps(self, candidate: Candidate) -> bool:
        """Return whether a candidate keeps the limits on RAM and on compute."""
        compute, ram = self.max_compute, self.max_ram
        return (ram is None or candidate.arena <= ram) and (compute is None or self.compute(candidate) <= compute)

    def ceiling(self, least: int) -> int:
        """Return the largest arena in bytes that may be used for speed, given the least arena in bytes."""
        if self.max_ram is not None:
            return max(self.max_ram, least)
        return least if self.slack is None else least + max(least // self.slack, self.slack_bytes)

    def ceilings(self, least: int) -> list[int]:
        """Return the ceiling, and a lower one where bytes are added to the slack, in ascending order.

        Runs that fill all of the slack can save too little for it, and those that fill half of it enough.
        """
        half = replace(self, slack_bytes=min(self.slack_bytes, self.tuning.slack_bytes))
        return sorted({half.ceiling(least), self.ceiling(least)})

    def _first(self, candidate: Candidate) -> tuple[float, ...]:
        needs = candidate.arena, self.compute(candidate)
        return (*(needs if self.max_ram is None else needs[::-1]), candidate.time)

    def _may_compute(self, candidate: Candidate, least: Candidate) -> bool:
        limit = self.max_compute if self.limits_compute else None
        return limit is None or self.compute(candidate) <= max(self.compute(least), limit)

    def _without_useless_recompute(self, candidates: Sequence[Candidate], least: Candidate) -> Sequence[Candidate]:
        """Drop candidates that recompute pixels without a clear gain, unless the caller allowed compute.

        Shorter line buffers can make room for longer runs. Without a clear gain, the multiply-accumulates of the model
        must not increase without permission.
        """
        most = max(least.macs, least.site.own_macs)
        plain = [each for each in candidates if each.macs <= most]
        if self.limits_compute or len(plain) == len(candidates):
            return candidates
        most_time = (1 - self.tuning.clear_gain) * min(each.time for each in plain)
        return [each for each in candidates if each.time <= most_time] or plain

    def _fairly(self, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
        """Keep candidates that save instructions in proportion to the RAM they need beyond the next smaller one."""
        if not self.fair:
            return candidates
        smallest, *rest = sorted(candidates, key=lambda each: (each.arena, each.time))
        kept = [smallest]
        for each in rest:
            saved = 1 - each.time / max(kept[-1].time, 1)
            if saved > 0 and each.arena <= kept[-1].arena * (1 + self.tuning.fair_price * saved):
                kept.append(each)
        return kept

    def _fast(self, candidates: Sequence[Candidate]) -> Candidate:
        """Return the least arena among candidates with about the fewest instructions."""
        most_time = min(each.time for each in candidates) / (1 - self.tuning.speed_tolerance)
        fast = [each for each in candidates if each.time <= most_time] if self.slack is not None else candidates
        return min(fast, key=lambda each: (each.arena, each.time))


def objective_of(site: Site, goal: Goal) -> Objective:
    """Return the objective of a goal for a model."""
    factor, limits_compute = goal.compute_limit, goal.max_compute is not None
    in_macs = site.target is None or goal.is_default
    own, tolerance = (site.own_macs, Fraction(1)) if in_macs else (site.own_time, Fraction(1 + LEAST_GAIN))
    slack = site.tuning.slack_recomputing if limits_compute else site.slack
    return Objective(
        max_ram=goal.max_ram,
        max_compute=None if factor is None else int(Fraction(factor) * tolerance * own),
        in_macs=in_macs,
        limits_compute=limits_compute,
        slack=None if goal.wants_every_byte else slack,
        slack_bytes=0 if limits_compute else site.slack_bytes,
        fair=goal.is_default,
        tuning=site.tuning,
    )
