"""Speed for a little RAM: what takes the fewest predicted instructions near the least arena that meets a goal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tflite_fuse.emit.insert_blocks import InsertedBlock
from tflite_fuse.errors import LimitError
from tflite_fuse.passes.fusing.candidate import Candidate, Site
from tflite_fuse.passes.fusing.choose import CANDIDATES, NEAR
from tflite_fuse.passes.fusing.own_runs import OwnRuns
from tflite_fuse.passes.goal import NOTHING_RECOMPUTED, Goal, Share
from tflite_fuse.search.front import Point
from tflite_fuse.search.fusion_front import SearchOptions
from tflite_fuse.search.schemes import Scheme

TRIED = 16
"""Points that are placed one after the other until one of them fits."""

FAR_ABOVE = 4
"""Speed is not looked for in blocks that surely exceed a RAM limit by more than one part in so many."""

FAIR_PRICE = 2 / 3
"""Unasked, an arena grows by at most so many times the share of instructions that saves: 512 bytes are half of the
smallest arenas, and five hundredths of them are not worth two hundredths of the time."""

WORTH_SAYING = 1 / 10
"""Share of the predicted instructions worth a word about the RAM that would save them."""


@dataclass(frozen=True)
class Speed:
    """Looks for fewer instructions once the least arena is known.

    Attributes:
        goal: what to reach.
        site: the model to fuse.
        options: what was searched for the least arena.
    """

    goal: Goal
    site: Site
    options: SearchOptions

    def answer(self, least: Candidate) -> Candidate:
        """The least arena that meets the goal, with what it leaves spent on speed."""
        return self.with_own_runs(self.with_fewer_instructions(least), least)

    def better(self, found: Sequence[Candidate], least: Candidate) -> Candidate:
        """The least arena, or more where that is worth its time beside ``least``."""
        if self.goal.wants_every_byte:
            return min(found, key=lambda each: (each.arena, each.instructions))
        return self._least_that_is_fast(self._fair(found, least))

    def with_fewer_instructions(self, least: Candidate) -> Candidate:
        """The fewest predicted instructions within what the goal leaves above the least arena, be it nothing.

        Longer runs of pixels and other cuts take RAM and save instructions.
        """
        limit = self.limit(least)
        is_full = self.goal.max_ram is not None and limit == least.arena
        if self.options.scheme is not Scheme.AUTO or not least.blocks or is_full:
            return least
        fitting = [least]
        for cuts in self._cuts(least):
            if fitting[1:] and min(map(_instructions, fitting)) <= (1 + WORTH_SAYING) * sum(self.site.alone):
                break
            points = self._by_speed(limit, cuts)
            near = [point for point in points if point.ram_bytes <= limit + limit // NEAR]
            fitting += self._fitting(near, limit, least)
        return self._least_that_is_fast(self._fair(self._not_twice_for_little(fitting), least))

    def _least_that_is_fast(self, found: Sequence[Candidate]) -> Candidate:
        """The least arena of those that take about as few instructions as any."""
        enough = min(map(_instructions, found)) / (1 - self.goal.worth_ram)
        fast = (each for each in found if each.instructions <= enough)
        return min(fast, key=lambda each: (each.arena, each.instructions))

    def with_own_runs(self, chosen: Candidate, least: Candidate) -> Candidate:
        """The same blocks, stages in runs of their own; in more RAM only where that clearly saves instructions."""
        own, limit = OwnRuns(self.site), self.limit(least)
        found = [own.with_own_runs(chosen)]
        if self.options.scheme is not Scheme.AUTO:
            return found[0]
        roomy = (each for each in (chosen, least) if limit - each.arena > limit * self.goal.worth_ram)
        found += [own.with_own_runs(each, limit - each.arena) for each in roomy]
        return self._least_that_is_fast(self._fair(found, found[0]))

    def limit(self, least: Candidate) -> int:
        """Bytes of arena that may be taken, given the least that meets the goal otherwise."""
        return self.goal.longest(least.arena, self.site.share)

    def _fitting(self, points: Sequence[Point], limit: int, least: Candidate) -> list[Candidate]:
        """Of the first few points those that fit, and where none does the next one: estimates can be low.

        Where all of many are too large the rest is halved again and again: what takes more instructions needs less.
        """
        found: list[Candidate] = []
        for number, point in enumerate(points[:TRIED]):
            if number >= CANDIDATES and found:
                break
            found += self._within(point, limit, least)
        begin, end = TRIED, 0 if found else len(points)
        while begin < end:
            middle = (begin + end) // 2
            fitting = self._within(points[middle], limit, least)
            begin, end = (begin, middle) if fitting else (middle + 1, end)
            found += fitting
        return found

    def _within(self, point: Point, limit: int, least: Candidate) -> list[Candidate]:
        candidate = self.site.realise(point)
        return [candidate] if candidate.arena <= limit and self._allows(candidate, least) else []

    def _fair(self, found: Sequence[Candidate], least: Candidate) -> list[Candidate]:
        """Candidates that are fair beside the next smaller one that is, too: the last bytes must be worth it as well.

        A window that became a stream did so to take less time: there it is enough to be fair beside the least.
        """
        if self.site.share is Share.CALLS:
            return [each for each in found if self._is_fair(each, least)]
        smallest, *others = sorted(found, key=lambda each: (each.arena, each.instructions))
        fair = [smallest]
        for each in others:
            if self._is_fair(each, fair[-1]):
                fair.append(each)
        return fair

    def _is_fair(self, found: Candidate, least: Candidate) -> bool:
        """Whether what a candidate saves is worth the RAM it takes beyond the least; what was asked for always is."""
        saved = 1 - found.instructions / max(least.instructions, 1)
        return self.goal != NOTHING_RECOMPUTED or found.arena <= least.arena * (1 + FAIR_PRICE * max(saved, 0.0))

    def _not_twice_for_little(self, found: Sequence[Candidate]) -> list[Candidate]:
        """Unasked, pixels are computed twice only where that clearly saves instructions.

        Shorter line buffers can pay for longer runs. Otherwise nobody who did not ask for it is to find more
        multiply-accumulates in his model.
        """
        most = max(found[0].macs, self.site.graph.work)
        plain = [each for each in found if each.macs <= most]
        if self.goal.max_compute is not None or len(plain) == len(found):
            return list(found)
        clearly = (1 - WORTH_SAYING) * min(map(_instructions, plain))
        return [each for each in found if each.instructions <= clearly] or plain

    def faster_with_more(self, least: Candidate, chosen: Candidate) -> Candidate | None:
        """What clearly fewer instructions would cost, if not much more RAM than ``chosen``; None where nothing does.

        Args:
            least: what ``chosen`` was chosen after: the same front is looked at.
        """
        most = chosen.arena + chosen.arena // FAR_ABOVE
        if self.options.scheme is not Scheme.AUTO or not chosen.blocks:
            return None
        limit = self.limit(least)
        for point in reversed(self._by_speed(limit, self._cuts(least)[0])):
            if point.ram_bytes <= most and point.work <= (1 - WORTH_SAYING) * chosen.instructions:
                found = self.site.realise(point)
                saves = found.instructions <= (1 - WORTH_SAYING) * chosen.instructions
                return found if saves and chosen.arena < found.arena <= most else None
        return None

    def _cuts(self, least: Candidate) -> tuple[_Cuts, ...]:
        """What to look at: strips and bands at once where there are some, else where full width leaves much to save."""
        if not self.options.strips:
            return (_Cuts.NONE,)
        if any(block.choice.config.tile_height < _height(block) for block in least.blocks):
            return (_Cuts.BANDS,)
        recomputes = any(block.choice.extra_work for block in least.blocks)
        return (_Cuts.STRIPS,) if recomputes else (_Cuts.NONE, _Cuts.STRIPS)

    def _by_speed(self, limit: int, cuts: _Cuts) -> list[Point]:
        """Points of the front of instructions, the fewest first; blocks much too large for the limit are left out."""
        most = limit + limit // FAR_ABOVE
        strips, bands = cuts is not _Cuts.NONE, cuts is _Cuts.BANDS
        options = replace(
            self.options, target=self.site.core, most_ram=most, most_compute=None, strips=strips, bands=bands
        )
        try:
            return list(reversed(self.site.front(options).points))
        except LimitError:  # No such blocks read an input that is to leave the arena.
            return []

    def _allows(self, found: Candidate, least: Candidate) -> bool:
        """Whether a candidate keeps the goal's limit on compute, if there is one."""
        limit = self.goal.max_compute
        return limit is None or found.compute <= max(least.compute, limit * self.site.unfused_compute)


class _Cuts(Enum):
    """How the driven tensors of blocks may be cut."""

    NONE = "whole"
    STRIPS = "strips"
    BANDS = "strips in bands"


def _height(block: InsertedBlock) -> int:
    """Rows of the tensor a block computes tile by tile."""
    return block.plan.block.tensors[block.plan.schedule.driven].height


def _instructions(candidate: Candidate) -> int:
    return candidate.instructions
