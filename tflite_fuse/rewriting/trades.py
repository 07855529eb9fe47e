"""The Pareto front of RAM and work, or of a fast memory and traffic with a slow one, as a report."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from math import inf

from tflite_fuse.claim import Claim
from tflite_fuse.cost.instructions import Core, Cycles, prediction_error
from tflite_fuse.cost.priced_program import WorkUnit
from tflite_fuse.emit.in_model import block_overlaps
from tflite_fuse.emit.outside import copies_of
from tflite_fuse.errors import BudgetError, LimitError
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.memories import Memories
from tflite_fuse.model.operators import labelled, operator_label
from tflite_fuse.model.outside import InputMode
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import tensor_nbytes
from tflite_fuse.passes.fusing.candidate import Candidate, Site
from tflite_fuse.passes.fusing.explore import explore, written_outside
from tflite_fuse.passes.fusing.fuse import Fuse
from tflite_fuse.passes.fusing.fusion_claim import fusion_claim
from tflite_fuse.passes.fusing.in_memories import front_in_memories
from tflite_fuse.passes.goal import NOTHING_RECOMPUTED, Goal
from tflite_fuse.passes.int8_borders import Int8Borders
from tflite_fuse.passes.options import FuseOptions
from tflite_fuse.passes.pipeline import prepared
from tflite_fuse.passes.plan import Plan
from tflite_fuse.passes.preparing.spell_out import spell_out
from tflite_fuse.passes.sliding.stream import to_stream
from tflite_fuse.report.front import FrontReport, FrontRow
from tflite_fuse.rewriting.figures import memory_report
from tflite_fuse.search.schemes import Scheme

FACTORS = (1.0, 1.1, 1.3, 1.5)
"""Compute factors for each of which the least arena is searched."""

SPREAD = 8
"""Number of further points that are placed, evenly spaced on the front of estimates."""


@dataclass(frozen=True)
class PlacedFront:
    """Points that no other placed point dominates, arena ascending, compute descending.

    Attributes:
        points: the points.
        unfused: the model without blocks, its inputs resident.
        claim: the proven bound on the point of the least arena.
    """

    points: tuple[Candidate, ...]
    unfused: Candidate
    claim: Claim


def placed_front(model: Model, options: FuseOptions, original: Model | None = None) -> PlacedFront:
    """Return the non-dominated points among those placed for the usual goals.

    Args:
        model: without an offline plan.
        options: of fusing; their goal is ignored.
        original: the model whose work is compute factor 1; default: ``model``.

    Raises:
        LimitError: no input can leave the arena.
        BudgetError: the model is too large to be searched.
        ModelError: an arena tensor has a dynamic shape or elements without a size.
    """
    fuse, spelled = Fuse(replace(options, goal=Goal(least_ram=True)), original=original), spell_out(model)
    pool, site, failure = list[Candidate](), None, None
    try:
        site = fuse.site(model)
        pool += _explored(site)
    except LimitError as error:
        if isinstance(error, BudgetError) or not spelled.replaced:
            raise
        failure = error
    if spelled.replaced:
        with contextlib.suppress(LimitError):
            pool += _explored(fuse.site(spelled.model), frozenset[str]().union(*spelled.replaced.values()))
    points = tuple(_unbeaten(pool))
    if failure is not None and not points:
        raise failure
    if site is None or copies_of(site.maker.model):  # the file has no copies of its inputs
        site = replace(fuse, options=replace(fuse.options, input_mode=InputMode.RESIDENT)).site(model)
    return PlacedFront(points, site.unfused, fusion_claim(points[0], options))


def _explored(site: Site, inside: Set[str] = frozenset()) -> Iterator[Candidate]:
    """Yield the candidates of a form for the usual goals, in which blocks write all tensors of the names ``inside``."""
    pool = list[Candidate]()
    for goal in (NOTHING_RECOMPUTED, Goal(least_ram=True), *(Goal(max_compute=factor) for factor in FACTORS)):
        explore(site, goal, pool)
    for limit in common_limits([point.arena for point in _unbeaten(pool)]):
        explore(site, Goal(max_ram=limit), pool)
    pool += map(site.realise, site.front.points[:: max(1, len(site.front.points) // SPREAD)])
    for each in pool:
        if inside.isdisjoint(written_outside(site.maker.model, each.point.blocks)):
            yield each


def figures_without_blocks(model: Model, options: FuseOptions) -> tuple[int, int]:
    """Return (arena bytes, compute) of a model without blocks. Raises: as ``placed_front``."""
    original, model = model, prepared(model)
    plain = replace(options, goal=Goal(least_ram=True), stream_time=None, stream_axis=None)
    site = Fuse(plain, original=original).site(model)
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


def trades(model: Model, options: FuseOptions, name: str) -> FrontReport:
    """Return the front of a model as loaded. Raises: as ``api.pareto``.

    Args:
        model: the model.
        options: of fusing; their goal is ignored.
        name: of the model.
    """
    if options.memory is not None:
        return _in_memories(model, options, options.memory, name)
    return _trades(model, options, name)[0]


def trades_as_written(model: Model, options: FuseOptions, name: str) -> tuple[FrontReport, tuple[Model, ...]]:
    """Return a front's report, and for each of its rows the model that a rewrite writes. Raises: as ``api.pareto``."""
    report, front = _trades(model, options, name)
    plan = Plan(options.arena(), block_overlaps)
    models = (point.site.maker.emit(point.program, point.blocks) for point in front.points)
    return report, tuple(labelled(plan.run(each).model) for each in models)


def _trades(model: Model, options: FuseOptions, name: str) -> tuple[FrontReport, PlacedFront]:
    model = _without_plan(model, options)
    intended = _as_stream(model, options)
    front = placed_front(prepared(intended, states=options.scheme is Scheme.AUTO), options, intended)
    # Where blocks keep states between runs, the prepared model cannot run without them.
    states = any(block.plan.block.keeps_state for point in front.points for block in point.blocks)
    without_blocks = figures_without_blocks(model, options) if states else None
    return replace(front_report(name, front, options.counted, without_blocks), runtime=options.runtime), front


def _without_plan(model: Model, options: FuseOptions) -> Model:
    model = remove_plan(model)
    return Int8Borders().run(model).model if options.int8_io else model


def _as_stream(model: Model, options: FuseOptions) -> Model:
    return model if options.stream is None else to_stream(model, options.stream).model


def _in_memories(model: Model, options: FuseOptions, memories: Memories, name: str) -> FrontReport:
    """Return the front of bytes in the fast memory against traffic with the slow one, then work."""
    intended = _as_stream(_without_plan(model, options), options)
    site = Fuse(options, original=intended).site(prepared(intended, states=True))
    core = None if options.cost is WorkUnit.MACS else options.core
    unfused = site.own_macs if core is None else site.own_time
    rows, best = list[FrontRow](), (inf, inf)
    for room, point in front_in_memories(site, memories):
        emitted = site.maker.emit(point.program, point.blocks)
        within = replace(memories, fast=replace(memories.fast, nbytes=room))
        counted = replace(point, compute=point.macs if core is None else point.time)
        marks = () if point.program.slow else (f"nothing in {memories.slow.name}",)
        row, used = _front_row(counted, unfused, marks), memory_report(emitted, point.arena, within)
        if (used.cycles, row.work) < best:
            rows.append(replace(row, memories=used))
            best = used.cycles, row.work
    report = FrontReport(name, site.unfused.arena, unfused, tuple(rows), None, runtime=options.runtime)
    if core is None:
        return report
    return replace(report, target=core.value, error=prediction_error(core), in_cycles=isinstance(core, Cycles))


def front_report(
    name: str, front: PlacedFront, target: Core | None = None, as_it_is: tuple[int, int] | None = None
) -> FrontReport:
    """Return the report of a front, with the points that meet common goals marked.

    Args:
        name: of the model.
        front: the points.
        target: the core whose instructions or cycles are counted.
        as_it_is: (arena bytes, compute) of the model itself, if the search ran on a form of it that keeps its states.
    """
    marks: dict[int, list[str]] = {0: ["least RAM"]}
    ram, whole = as_it_is or (front.unfused.arena, front.unfused.site.own_compute)
    trimmed = front.unfused.compute
    for factor in reversed(FACTORS) if as_it_is is None else ():
        allowed = [at for at, point in enumerate(front.points) if point.compute <= factor * whole]
        # A scheme that always recomputes may have no point this cheap.
        if allowed:
            plain = factor == 1.0 and target is None and front.points[allowed[0]].compute <= trimmed
            marks.setdefault(allowed[0], []).insert(0, "no recompute" if plain else f"F <= {factor:g}")
    for limit in common_limits([point.arena for point in front.points]):
        fitting = [at for at, point in enumerate(front.points) if point.arena <= limit]
        marks.setdefault(fitting[-1], []).append(f"RAM <= {limit // 1024} KiB")
    rows = tuple(_front_row(point, whole, tuple(marks.get(at, ()))) for at, point in enumerate(front.points))
    core, error = (None, None) if target is None else (target.value, prediction_error(target))
    program = front.points[0].program
    state = sum(
        tensor_nbytes(t)
        for each, t in enumerate(program.origin[1].tensors)
        if t.is_variable and each not in program.absent
    )
    cycles = isinstance(target, Cycles)
    return FrontReport(name, ram, whole, rows, front.claim, core, error, state, trimmed_work=trimmed, in_cycles=cycles)


def _rounded_up(factor: float) -> float:
    """Return a compute factor of six digits that is no less than the exact one."""
    short = round(factor, 6)
    return short if short >= factor else round(short + 1e-6, 6)


def _front_row(point: Candidate, unfused: int, marks: tuple[str, ...]) -> FrontRow:
    model = point.site.maker.model
    blocks = tuple(
        (
            operator_label(model, block.operators[0]),
            operator_label(model, block.operators[-1]),
            len(block.operators),
            block.config.tile_width,
        )
        for block in point.point.blocks
    )
    factor = point.compute / unfused if unfused else 1.0
    return FrontRow(point.arena, point.compute, _rounded_up(factor), blocks, marks)
