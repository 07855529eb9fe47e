"""The fusion pass: search the front of blocks, pick the point the user asked for, replace operators by blocks.

The front's RAM is an estimate of the working sets. What counts is the arena after reordering and planning, so the
candidates next to the limit are rewritten, put in order and placed, and the best real one wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import ClassVar

from tflite_fuse.errors import LimitError, UsageError
from tflite_fuse.fusion.front import Front, Point
from tflite_fuse.fusion.in_model import block_overlaps
from tflite_fuse.fusion.instruction_costs import Target, prediction_error
from tflite_fuse.fusion.outside import inputs_to_move
from tflite_fuse.fusion.schemes import Scheme
from tflite_fuse.fusion.search import SearchOptions, fusion_front
from tflite_fuse.memory.from_model import memory_graph
from tflite_fuse.memory.offline_plan import has_plan, remove_plan
from tflite_fuse.memory.placement import place
from tflite_fuse.memory.tail import loading_bytes, predict_tail
from tflite_fuse.model.operators import operator_label
from tflite_fuse.model.outside import InputMode
from tflite_fuse.model.schema import Model
from tflite_fuse.passes.base import Pass, PassResult
from tflite_fuse.passes.insert_blocks import InsertedBlock, insert_blocks

CANDIDATES = 4
"""Points of the front that are rewritten and placed to find the best real arena."""

BEYOND = 2
"""Points whose estimate is above a RAM limit that are tried none the less: blocks often need a little less."""


BANDED = 8
"""Points with bands of strips that are tried: what their blocks share with each other often cannot all be placed."""


@dataclass(frozen=True)
class Goal:
    """What the user wants of fusion. With nothing set: nothing recomputed, and of that nearly the least RAM.

    Attributes:
        max_ram: arena bytes (head + tail, 32-bit target) that must not be exceeded; the fewest MACs within it are
            taken.
        max_compute: MACs over those of the unfused model that must not be exceeded; the least RAM within it is taken.
        least_ram: the least RAM at any compute.
    """

    max_ram: int | None = None
    max_compute: float | None = None
    least_ram: bool = False

    def __post_init__(self) -> None:
        if self.least_ram and (self.max_ram is not None or self.max_compute is not None):
            raise UsageError("the least RAM at any compute leaves no room for a limit: drop one of the two")
        if self.max_compute is not None and isnan(self.max_compute):
            raise UsageError("the compute factor is no number: give one of at least 1")
        if self.max_compute is not None and self.max_compute < 1:
            raise LimitError(f"a compute factor of at most {self.max_compute:g} cannot be reached: 1 is no recompute")

    def longest(self, arena: int) -> int:
        """Bytes an arena may have for the sake of longer runs, given the least that meets the goal otherwise.

        Without a goal a small share of RAM goes to speed: 1/32, at least 512 bytes.
        """
        if self.max_ram is not None:
            return max(self.max_ram, arena)
        return arena if self.least_ram or self.max_compute is not None else arena + max(arena // 32, 512)

    @property
    def compute_limit(self) -> float | None:
        """The largest allowed compute factor, None for any."""
        if self.max_compute is not None:
            return self.max_compute
        return None if self.least_ram or self.max_ram is not None else 1.0


@dataclass(frozen=True)
class FuseResult(PassResult):
    """What fusion did: the blocks in execution order, the point they are, the whole front."""

    blocks: tuple[InsertedBlock, ...] = ()
    point: Point | None = None
    front: Front | None = None


@dataclass(frozen=True)
class _Candidate:
    point: Point
    model: Model
    blocks: tuple[InsertedBlock, ...]
    arena: int

    @property
    def spare(self) -> int:
        """Bytes of the estimate that were not needed; other points of the same model have about as many."""
        return max(0, self.point.ram_bytes - self.arena)


@dataclass(frozen=True)
class _Site:
    """A model about to be fused, and which of its inputs leave the arena."""

    model: Model
    mode: InputMode
    moved: tuple[int, ...]
    overlap: bool
    count_tail: bool
    order: Pass | None

    def realise(self, point: Point) -> _Candidate:
        """Insert a point's blocks, put the operators in order and place the tensors."""
        rewritten, blocks = insert_blocks(self.model, point.blocks, self.mode, self.moved)
        if self.order is not None:
            rewritten = self.order.run(rewritten).model
        overlaps = block_overlaps(rewritten) if self.overlap else ()
        arena = place(memory_graph(rewritten), overlaps).height
        if self.count_tail:
            arena = max(arena + predict_tail(rewritten).total, loading_bytes(rewritten))
        return _Candidate(point, rewritten, blocks, arena)


@dataclass(frozen=True)
class Fuse:
    """Replace operators by fused blocks.

    Attributes:
        goal: what to reach.
        scheme: which blocks and configurations are allowed.
        tiles: tile height and width of the inverted-residual scheme.
        input_mode: where the model's inputs are from now on.
        overlap: let blocks write their output over input they need no more. Needs the plan pass to come true.
        strips: let blocks run in strips that compute some columns twice; without, every block runs over its full width.
            For the scheme ``auto``.
        count_tail: whether RAM is the whole arena or its head alone, for comparisons with figures that count no more.
        order: what puts the operators in order once blocks are in; None leaves them as they come.
        target: the core whose predicted instructions count as compute; None counts MACs.
    """

    goal: Goal = Goal()
    scheme: Scheme = Scheme.AUTO
    tiles: tuple[int, int] | None = None
    input_mode: InputMode = InputMode.RESIDENT
    overlap: bool = True
    strips: bool = True
    count_tail: bool = True
    order: Pass | None = None
    target: Target | None = None

    name: ClassVar[str] = "fuse"

    def run(self, model: Model) -> FuseResult:
        """Fuse a model.

        Raises:
            LimitError: the goal cannot be reached, with the nearest point and the operator that blocks it; or no input
                can leave the arena, with the reason.
            ModelError: an arena tensor has a dynamic shape or elements without a size.
        """
        bare = remove_plan(model) if has_plan(model) else model
        moved, why_not = inputs_to_move(bare, self.input_mode)
        options = self.search_options(moved)
        front = fusion_front(bare, options)
        site = _Site(bare, self.input_mode, moved, self.overlap, self.count_tail, self.order)
        chosen = self._with_longer_runs(site, options, self._choose(site, front))
        notes = (*_done(bare, chosen), *why_not, *front.explain(chosen.point), *self._prediction(chosen.point))
        if not chosen.point.blocks:
            return FuseResult(model, False, notes, front.optimal, "fusion", (), chosen.point, front)
        return FuseResult(chosen.model, True, notes, front.optimal, "fusion", chosen.blocks, chosen.point, front)

    def _prediction(self, point: Point) -> tuple[str, ...]:
        if self.target is None:
            return ()
        took = f"{point.macs:,} instructions of {self.target.label} expected, {point.compute_factor:.3f} times"
        return (f"{took} the unfused model's; predictions were {prediction_error(self.target)}",)

    def search_options(self, moved: Sequence[int] = ()) -> SearchOptions:
        """What is searched: RAM is the whole arena; a published scheme gets none of this package's own ideas."""
        own = self.scheme is Scheme.AUTO
        return SearchOptions(
            scheme=self.scheme,
            tiles=self.tiles,
            alignment=16,
            input_mode=self.input_mode,
            moved=frozenset(moved),
            overlap=own and self.overlap,
            strips=self.strips,
            single_operators=own,
            count_tail=self.count_tail,
            target=self.target,
        )

    def _choose(self, site: _Site, front: Front) -> _Candidate:
        limit = self.goal.compute_limit
        points = [p for p in front.points if limit is None or p.macs <= limit * front.unfused.macs]
        if not points:
            least = front.points[-1].compute_factor
            raise LimitError(
                f"a compute factor of at most {limit:g} cannot be reached with the scheme {self.scheme.value} and "
                f"{self.input_mode.value} inputs: the least is {least:.2f}"
            )
        if self.goal.max_ram is None:
            candidates = [site.realise(point) for point in points[:CANDIDATES]]
            return self._with_bands(site, min(candidates, key=lambda c: (c.arena, c.point.macs)), limit)
        return self._within_ram(site, front, points, self.goal.max_ram)

    def _with_bands(self, site: _Site, least: _Candidate, limit: float | None) -> _Candidate:
        """The least arena when strips may run in bands, which computes more, or ``least``."""
        if limit == 1.0:
            return least
        for point in self._banded(site, limit):
            if point.ram_bytes - least.spare < least.arena:
                candidate = site.realise(point)
                least = candidate if candidate.arena < least.arena else least
        return least

    def _banded(self, site: _Site, limit: float | None) -> list[Point]:
        """Points with bands of strips: of every number of blocks in bands the one that expects least RAM, then more."""
        if not (self.scheme is Scheme.AUTO and self.overlap and self.strips):
            return []
        front = fusion_front(site.model, replace(self.search_options(site.moved), bands=True))
        points = [p for p in front.points if _bands(p) and (limit is None or p.macs <= limit * front.unfused.macs)]
        firsts = list({_bands(point): point for point in reversed(points)}.values())
        return [*firsts, *(point for point in points if point not in firsts)][:BANDED]

    def _with_longer_runs(self, site: _Site, options: SearchOptions, least: _Candidate) -> _Candidate:
        """What the goal chooses when blocks compute more pixels in one go, if there is RAM for that and no more work.

        A stage spends fewer instructions on each pixel of a longer run.
        """
        limit = self.goal.longest(least.arena)
        if self.scheme is not Scheme.AUTO or not least.blocks or limit == least.arena:
            return least
        strips = options.strips and any(block.choice.extra_macs for block in least.blocks)
        for shortest in sorted(options.chunks, reverse=True)[:-1]:
            longer = tuple(chunk for chunk in options.chunks if chunk >= shortest)
            try:
                front = fusion_front(site.model, replace(options, chunks=longer, strips=strips))
                candidate = self._choose(site, front)
            except LimitError:
                continue
            if candidate.arena <= limit and candidate.point.macs <= least.point.macs:
                return candidate
        return least

    def _within_ram(self, site: _Site, front: Front, points: Sequence[Point], max_ram: int) -> _Candidate:
        """The fewest MACs whose real arena fits: from the cheapest points that may fit towards less RAM."""
        if not site.moved and (unfused := site.realise(front.unfused)).arena <= max_ram:
            return unfused
        fitting = sum(point.ram_bytes <= max_ram for point in points)
        nearest: _Candidate | None = None
        for point in reversed(points[: fitting + BEYOND]):
            candidate = site.realise(point)
            if candidate.arena <= max_ram:
                return candidate
            nearest = candidate if nearest is None or candidate.arena <= nearest.arena else nearest
        nearest = nearest or site.realise(points[0])
        for point in self._banded(site, self.goal.max_compute):
            if point.ram_bytes - nearest.spare <= max_ram:
                candidate = site.realise(point)
                if candidate.arena <= max_ram:
                    return candidate
                nearest = candidate if candidate.arena < nearest.arena else nearest
        culprits = " to ".join(dict.fromkeys(operator_label(site.model, i) for i in _ends(nearest.point.largest)))
        bound = "" if self.goal.max_compute is None else f" at a compute factor of at most {self.goal.max_compute:g}"
        raise LimitError(
            f"an arena of {max_ram:,} bytes cannot be reached{bound}: the nearest point needs {nearest.arena:,} bytes "
            f"at a compute factor of {nearest.point.compute_factor:.2f}, because of {culprits}"
        )


def _bands(point: Point) -> int:
    """How many blocks run in bands of strips."""
    return sum(block.scheme == "tiles" for block in point.blocks)


def _ends(indices: Sequence[int]) -> tuple[int, ...]:
    return (indices[0], indices[-1]) if indices else ()


def _done(model: Model, chosen: _Candidate) -> Iterator[str]:
    for block in chosen.blocks:
        labels = [operator_label(model, index) for index in _ends(block.choice.operators)]
        where = f"{labels[0]} to {labels[-1]}" if labels[0] != labels[-1] else f"{labels[0]} alone"
        height, width = block.choice.config.tile_height, block.choice.config.tile_width
        shape = f"tiles of {height} x {width}" if block.choice.scheme == "tiles" else f"strips {width} columns wide"
        how = "without recompute" if block.choice.extra_macs == 0 else f"in {shape}"
        yield f"{where} fused {how}: {block.schedule.scratch_bytes:,} B of scratch instead of whole inner tensors"
