"""The first blocks as one, where that turns out to need less when they are placed.

A block that reads the model's input may lie over what is spent of it. The search counts whole rows of that, and so
finds nothing in models of one row; what is really needed is known when the block is placed.

Which point of the front: what the user asked for, by what the candidates next to the limit really need.

The front's RAM is an estimate of the working sets. What counts is the arena after reordering and planning, so the
candidates next to the limit are rewritten, put in order and placed, and the best real one wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from tflite_fuse.errors import BlockError, LimitError
from tflite_fuse.ir.block import BlockChoice
from tflite_fuse.model.operators import operator_label
from tflite_fuse.passes.fusing.candidate import Candidate, Site
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.options import TOO_MUCH_EXPECTED
from tflite_fuse.search.front import Front, Point
from tflite_fuse.search.fusion_front import LEAST_GAIN, SearchOptions
from tflite_fuse.search.schemes import Scheme


def with_first_blocks_joined(site: Site, options: SearchOptions, least: Candidate) -> Candidate:
    """The first block and the next one as one, and so on as long as that needs less; else the same candidate.

    Blocks in strips stay as they are: what they recompute is theirs.
    """
    if options.scheme is not Scheme.AUTO or not options.overlap:
        return least
    while (joined := _joined(least.point, min(options.chunks))) is not None:
        try:
            found = site.realise(joined)
        except BlockError:  # no block holds both
            return least
        if found.arena >= least.arena or found.macs > least.macs:
            return least
        least = found
    return least


def _joined(point: Point, chunk: int) -> Point | None:
    """The point with one block for its first two, in runs of ``chunk`` pixels; None where they do not follow."""
    if len(point.blocks) < 2:
        return None
    first, second, *others = point.blocks
    follows = second.operators[0] == first.operators[-1] + 1
    if not follows or {first.scheme, second.scheme} != {"line-buffers"}:
        return None
    block = BlockChoice(
        (*first.operators, *second.operators),
        replace(second.config, chunk=chunk),
        first.scratch_bytes + second.scratch_bytes,
        first.work + second.work,
        first.extra_work + second.extra_work,
        second.scheme,
    )
    return replace(point, blocks=(block, *others))


CANDIDATES = 4
"""Points of the front that are rewritten and placed to find the best real arena."""

PLACED = 12
"""Points that are placed at most as long as the next one expects less than any placed one needs."""

BEYOND = 4
"""Points whose estimate is above a RAM limit that are tried none the less: blocks often need a little less."""

PATIENCE = 40
"""Points that are tried before a RAM limit is refused."""

NEAR = 16
"""Points are tried if their estimate exceeds a RAM limit by up to one part in this many."""

BANDED = 8
"""Points with bands of strips that are tried one by one: what their blocks share with each other often cannot all be
placed."""

LOADED = 4
"""Searches for what is easier to load."""


@dataclass(frozen=True)
class Chooser:
    """Picks the candidate that meets a goal.

    Attributes:
        goal: what to reach.
        site: the model to fuse.
        options: what was searched, and is searched again with other runs.
    """

    goal: Goal
    site: Site
    options: SearchOptions

    def choose(self, front: Front) -> Candidate:
        """The candidate of a front that meets the goal.

        Raises:
            LimitError: none does, with the nearest.
        """
        points = self._allowed(front)
        if not points:
            raise self._compute_not_reached(front)
        if self.goal.max_ram is not None:
            return self._within_ram(front, points, self.goal.max_ram)
        return self._least(front, points)

    def _least(self, front: Front, points: Sequence[Point]) -> Candidate:
        """The least real arena that keeps the limit on compute. Raises LimitError: there is none."""
        candidates = list(self._worth_placing(front, points))
        if not candidates and self.site.runs_unfused:
            candidates = list(self._kept([self.site.realise(front.unfused)]))
        if not candidates:
            raise self._compute_not_reached(front)
        least = min(candidates, key=lambda candidate: (candidate.arena, candidate.compute))
        least = _with_shorter_runs(self.site, least, min(self.options.chunks))
        return self._with_bands(front, self._easier_to_load(least))

    def _worth_placing(self, front: Front, points: Sequence[Point]) -> Iterator[Candidate]:
        """The first points placed, more while one expects less than what is placed, and the first without recompute.

        What blocks in strips share with each other is a chain that often cannot all be placed.
        """
        least, placed, tried = 0, 0, 0
        for point in points[:PLACED]:
            if placed >= CANDIDATES and point.ram_bytes >= least:
                break
            tried += 1
            for candidate in self._kept([self.site.realise(point)]):
                least, placed = min(least or candidate.arena, candidate.arena), placed + 1
                yield candidate
        yield from self._kept(map(self.site.realise, _plain(points[tried:], front)))

    def _easier_to_load(self, least: Candidate) -> Candidate:
        """The least arena where what the runtime needs while it loads is more than what the model needs then.

        That grows with the number of tensors, which the search does not count; but so does the tail. So working sets
        up to somewhere between what there is and what loading leaves room for count as equal, and the least tail wins.
        """
        if not least.loading:
            return least
        peak = least.point.ram_bytes - least.point.tail_bytes
        found = {least.point.blocks: least}
        for part in range(1, LOADED + 1):
            options = replace(self.options, floor=peak + least.loading * part // LOADED)
            front = self.site.front(options)
            points = self._allowed(front)
            for point in (*points[:1], *_plain(points, front)):
                candidates = () if point.blocks in found else self._kept([self.site.realise(point)])
                found.update((point.blocks, candidate) for candidate in candidates)
        return min(found.values(), key=lambda candidate: candidate.arena)

    def _allowed(self, front: Front) -> list[Point]:
        """The points the search expects to keep the limit on compute, or nearly if it expects rather too much."""
        limit = self.goal.compute_limit
        if limit is None:
            return list(front.points)
        slack = 1.0 if self.options.target is None else TOO_MUCH_EXPECTED
        return [point for point in front.points if point.work <= limit * slack * front.unfused.work]

    def _kept(self, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
        """The candidates that really keep it: predicted instructions to a thousandth, which is less than they tell."""
        limit, slack = self.goal.compute_limit, 1 if self.site.target is None else 1 + LEAST_GAIN
        most = None if limit is None else limit * slack * self.site.unfused_compute
        return (each for each in candidates if most is None or each.compute <= most)

    def _with_bands(self, front: Front, least: Candidate) -> Candidate:
        """The least arena when strips may run in bands, which computes more, or ``least``."""
        points = self._banded(front)
        firsts = list({_bands(point): point for point in reversed(points)}.values())
        others = [point for point in points if point not in firsts]
        for point in [*firsts, *others][:BANDED]:
            if point.ram_bytes - least.spare < least.arena:
                for candidate in self._kept([self.site.realise(point)]):
                    least = candidate if candidate.arena < least.arena else least
        return least

    def _banded(self, front: Front) -> list[Point]:
        """Points with bands of strips, RAM ascending.

        Args:
            front: the one without.
        """
        options, limit = self.options, self.goal.compute_limit
        recomputes = limit is None or limit > 1 or _skips(front)
        if not recomputes or options.scheme is not Scheme.AUTO or not options.overlap & options.strips:
            return []
        banded = self.site.front(replace(options, bands=True))
        return [point for point in self._allowed(banded) if _bands(point)]

    def _within_ram(self, front: Front, points: Sequence[Point], max_ram: int) -> Candidate:
        """The fewest MACs whose real arena fits: from the cheapest points that may fit towards less RAM."""
        unfused = self.site.realise(front.unfused) if self.site.runs_unfused else None
        unfused = unfused if unfused is not None and unfused.arena <= max_ram else None
        if unfused is not None and (self.options.target is None or unfused.compute <= front.points[-1].work):
            return unfused
        fitting = sum(point.ram_bytes <= max_ram for point in points)
        plain = map(self.site.realise, reversed(points[: fitting + BEYOND]))
        fit = self._best_fit(plain, max_ram)
        if fit is not None and fit.point.work <= front.points[-1].work and not _skips(front):
            return fit
        banded = [point for point in self._banded(front) if point.ram_bytes <= max_ram + max_ram // NEAR]
        cheaper = [point for point in banded if fit is None or point.work < fit.compute]
        better = self._best_fit(_cheapest_first(self.site, cheaper, max_ram), max_ram)
        fits = [candidate for candidate in (unfused, fit, better) if candidate is not None]
        if fits:
            return min(fits, key=lambda candidate: candidate.compute)
        return self._last_resort([*points, *banded], self._least(front, points), max_ram)

    def _last_resort(self, points: Iterable[Point], least: Candidate, max_ram: int) -> Candidate:
        """Estimates may have hidden what fits: the least arena, or else any point that does. Raises LimitError."""
        near = (point for point in points if point.ram_bytes <= max_ram + max_ram // NEAR)
        likely = sorted(near, key=lambda point: point.ram_bytes)[:PATIENCE]
        candidates = self._kept(map(self.site.realise, likely)) if least.arena > max_ram else ()
        for candidate in candidates:
            least = candidate if candidate.arena < least.arena else least
            if least.arena <= max_ram:
                break
        if least.arena > max_ram:
            raise self._ram_not_reached(least, max_ram)
        return least

    def _best_fit(self, candidates: Iterable[Candidate], max_ram: int) -> Candidate | None:
        """A candidate that fits, or None.

        Candidates come by MACs, so that the first that fits has the fewest; by expected instructions it need not.
        """
        fits = (candidate for candidate in self._kept(candidates) if candidate.arena <= max_ram)
        some = islice(fits, 1 if self.options.target is None else CANDIDATES)
        return min(some, key=lambda fit: fit.compute, default=None)

    def _compute_not_reached(self, front: Front) -> LimitError:
        least = self.site.realise(front.points[-1]).compute / max(front.unfused.work, 1)
        digits = 2 if least > 1.1 else 4
        return LimitError(
            f"a compute factor of at most {self.goal.compute_limit:g} cannot be reached with the scheme "
            f"{self.options.scheme.value} and {self.site.maker.mode.value} inputs: the least is {least:.{digits}f}"
        )

    def _ram_not_reached(self, nearest: Candidate, max_ram: int) -> LimitError:
        ends = (nearest.point.largest[0], nearest.point.largest[-1]) if nearest.point.largest else ()
        culprits = " to ".join(dict.fromkeys(operator_label(self.site.maker.model, index) for index in ends))
        factor = nearest.compute / max(self.site.unfused_compute, 1)
        bound = "" if self.goal.max_compute is None else f" at a compute factor of at most {self.goal.max_compute:g}"
        return LimitError(
            f"an arena of {max_ram:,} bytes cannot be reached{bound}: the nearest point needs {nearest.arena:,} bytes "
            f"at a compute factor of {factor:.2f}, because of {culprits}"
        )


def _with_shorter_runs(site: Site, least: Candidate, chunk: int) -> Candidate:
    """The same blocks in the shortest runs where placing needs more than expected.

    Blocks below the peak have runs as long as keep them there. But what they then take can be missing where chains of
    blocks share memory with each other.
    """
    if least.arena <= least.point.ram_bytes or site.target is not None:
        return least
    blocks = tuple(replace(block, config=replace(block.config, chunk=chunk)) for block in least.point.blocks)
    shorter = site.realise(replace(least.point, blocks=blocks))
    return shorter if shorter.arena < least.arena else least


def _plain(points: Sequence[Point], front: Front) -> list[Point]:
    """The first point that computes nothing twice, if there is one: its blocks can turn out to need least."""
    return [point for point in points if point.work <= front.unfused.work][:1]


def _skips(front: Front) -> bool:
    """Whether blocks skip work of the model, so that others may recompute without more work in all."""
    return front.points[-1].work < front.unfused.work


def _bands(point: Point) -> int:
    """How many blocks run in bands of strips."""
    return sum(block.scheme == "tiles" for block in point.blocks)


def _cheapest_first(site: Site, points: Sequence[Point], max_ram: int) -> Iterator[Candidate]:
    """Candidates towards less RAM: the cheapest points one by one, then where a bisection finds the limit and behind.

    Args:
        points: RAM ascending.
    """
    low, high = 0, max(0, len(points) - BANDED)
    yield from map(site.realise, reversed(points[high:]))
    found: list[Candidate] = []
    while low < high:
        middle = (low + high) // 2
        found.append(site.realise(points[middle]))
        low, high = (middle + 1, high) if found[-1].arena <= max_ram else (low, middle)
    found += map(site.realise, points[low + 1 : min(low + BANDED, max(0, len(points) - BANDED))])
    yield from sorted(found, key=lambda candidate: candidate.compute)
