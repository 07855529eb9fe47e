"""The Pareto front of RAM and work whose points are placed exactly as a rewrite places them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tflite_fuse.claim import Claim
from tflite_fuse.emit.insert_blocks import BlockMaker
from tflite_fuse.ir.program import program_of
from tflite_fuse.model.schema import Model
from tflite_fuse.passes.fusing.candidate import Candidate
from tflite_fuse.passes.fusing.explore import explore
from tflite_fuse.passes.fusing.fuse import Fuse
from tflite_fuse.passes.fusing.fusion_claim import fusion_claim
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.options import FuseOptions
from tflite_fuse.passes.pipeline import prepared

FACTORS = (1.0, 1.1, 1.3, 1.5)
"""Compute factors for each of which the least arena is searched."""

SPREAD = 8
"""Number of further points that are placed, evenly spaced on the front of estimates."""


@dataclass(frozen=True)
class PlacedFront:
    """Points that no other placed point dominates, arena ascending, compute descending.

    Attributes:
        model: the model whose operator numbers the blocks use.
        points: the points.
        unfused: the model without blocks, its inputs resident.
        claim: the proven bound on the point of the least arena.
    """

    model: Model
    points: tuple[Candidate, ...]
    unfused: Candidate
    claim: Claim


def placed_front(model: Model, options: FuseOptions, given: Model | None = None) -> PlacedFront:
    """Return the non-dominated points among those placed for the usual goals.

    Args:
        model: without an offline plan.
        options: of fusing; their goal is ignored.
        given: the model whose work is compute factor 1; default: ``model``.

    Raises:
        LimitError: no input can leave the arena.
        BudgetError: the model is too large to be searched.
        ModelError: an arena tensor has a dynamic shape or elements without a size.
    """
    site, pool = Fuse(replace(options, goal=Goal(least_ram=True)), given=given).site(model), list[Candidate]()
    explore(site, Goal(least_ram=True), pool)
    for factor in FACTORS:
        explore(site, Goal(max_compute=factor), pool)
    for limit in common_limits([point.arena for point in _unbeaten(pool)]):
        explore(site, Goal(max_ram=limit), pool)
    pool += map(site.realise, site.front.points[:: max(1, len(site.front.points) // SPREAD)])
    points = tuple(_unbeaten(pool))
    claim = fusion_claim(points[0], options)
    resident = replace(site, maker=BlockMaker(site.maker.model), fronts={}, placed={})
    return PlacedFront(site.maker.model, points, resident.realise(site.front.unfused), claim)


def keeps_states(front: PlacedFront) -> bool:
    """Return whether blocks keep states between runs; then the prepared model cannot run without them."""
    return any(block.plan.block.keeps_state for point in front.points for block in point.blocks)


def as_it_was(model: Model, options: FuseOptions) -> tuple[int, int]:
    """Return (arena bytes, compute) of a model without blocks. Raises: as ``placed_front``."""
    given, model = model, prepared(model)
    plain = replace(options, goal=Goal(least_ram=True), stream_time=None, stream_axis=None)
    site = Fuse(plain, given=given).site(model)
    return site.arena(program_of(model)).needed, site.own_compute


def common_limits(arenas: Sequence[int]) -> tuple[int, ...]:
    """Return the common RAM limits in bytes (powers of two from 8 KiB on) within a front's range."""
    sizes = (1024 * 2**power for power in range(3, 12))
    return tuple(size for size in sizes if arenas and min(arenas) <= size < max(arenas))


def _unbeaten(pool: Sequence[Candidate]) -> Iterator[Candidate]:
    """Yield the candidates that no other dominates in arena and compute, arena ascending."""
    least: int | None = None
    for each in sorted(pool, key=lambda each: (each.arena, each.compute)):
        if least is None or each.compute < least:
            least = each.compute
            yield each
