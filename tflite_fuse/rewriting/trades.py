"""The Pareto front of RAM and work, or of a fast memory and traffic with a slow one, as a report."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from tflite_fuse.cost.instructions import Core, Cycles, prediction_error
from tflite_fuse.cost.priced_program import WorkUnit
from tflite_fuse.emit.in_model import block_overlaps
from tflite_fuse.emit.insert_blocks import BlockMaker
from tflite_fuse.memory.tflm.offline_plan import remove_plan
from tflite_fuse.model.memories import Memories
from tflite_fuse.model.operators import operator_label
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import tensor_nbytes
from tflite_fuse.passes.fusing.candidate import Candidate
from tflite_fuse.passes.fusing.fuse import Fuse
from tflite_fuse.passes.fusing.in_memories import front_in_memories
from tflite_fuse.passes.int8_borders import Int8Borders
from tflite_fuse.passes.options import FuseOptions
from tflite_fuse.passes.pipeline import prepared
from tflite_fuse.passes.plan import Plan
from tflite_fuse.passes.sliding.stream import to_stream
from tflite_fuse.report.front import FrontReport, FrontRow
from tflite_fuse.rewriting.figures import memory_report
from tflite_fuse.rewriting.placed_front import (
    FACTORS,
    PlacedFront,
    as_it_was,
    common_limits,
    keeps_states,
    placed_front,
)
from tflite_fuse.search.schemes import Scheme


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
    report, found = _trades(model, options, name)
    plan = Plan(options.arena(), block_overlaps)
    models = (point.site.maker.emit(point.program, point.blocks) for point in found.points)
    return report, tuple(plan.run(each).model for each in models)


def _trades(model: Model, options: FuseOptions, name: str) -> tuple[FrontReport, PlacedFront]:
    model = _without_plan(model, options)
    meant = _as_stream(model, options)
    found = placed_front(prepared(meant, states=options.scheme is Scheme.AUTO), options, meant)
    as_it_is = as_it_was(model, options) if keeps_states(found) else None
    return replace(front_report(name, found, options.counted, as_it_is), runtime=options.runtime), found


def _without_plan(model: Model, options: FuseOptions) -> Model:
    model = remove_plan(model)
    return Int8Borders().run(model).model if options.int8_io else model


def _as_stream(model: Model, options: FuseOptions) -> Model:
    return model if options.stream is None else to_stream(model, options.stream).model


def _in_memories(model: Model, options: FuseOptions, memories: Memories, name: str) -> FrontReport:
    """Return the front of bytes in the fast memory against traffic with the slow one, then work."""
    meant = _as_stream(_without_plan(model, options), options)
    site = Fuse(options, given=meant).site(prepared(meant, states=True))
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
    resident = replace(site, maker=BlockMaker(site.maker.model), fronts={}, placed={})
    plain = resident.realise(site.front.unfused).arena
    report = FrontReport(name, plain, unfused, tuple(rows), None, runtime=options.runtime)
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
