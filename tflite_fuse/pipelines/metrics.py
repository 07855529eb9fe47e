"""Metrics of a rewrite as flat numbers, for programs that evaluate many models.

``exact`` is a rewrite, proven and not run. ``estimate`` takes the figures from the estimated front in
multiply-accumulates: no tensor is placed, no file written, no runtime started.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace

from tflite_fuse.cost.instructions import Target
from tflite_fuse.cost.priced_program import WorkUnit
from tflite_fuse.emit.in_model import block_overlaps, executed_macs
from tflite_fuse.errors import LimitError
from tflite_fuse.ir.program import program_of
from tflite_fuse.memory.arena import with_given_offsets
from tflite_fuse.memory.budget import Budget
from tflite_fuse.memory.checker import why_untouchable
from tflite_fuse.memory.tflm.head_requests import arena_requests
from tflite_fuse.memory.tflm.offline_plan import ALIGNMENT, read_plan, remove_plan
from tflite_fuse.memory.tflm.struct_sizes import ARM
from tflite_fuse.memory.tflm.tail import planning_bytes, predict_tail
from tflite_fuse.model.file import serialize_model
from tflite_fuse.model.outside import InputMode
from tflite_fuse.model.schema import Model
from tflite_fuse.model.types import tensor_nbytes
from tflite_fuse.passes.fusing.candidate import Site
from tflite_fuse.passes.fusing.fuse import Fuse
from tflite_fuse.passes.goal import Goal
from tflite_fuse.passes.int8_borders import Int8Borders
from tflite_fuse.passes.options import FuseOptions, MetricsOptions, RewriteOptions
from tflite_fuse.passes.pipeline import prepared
from tflite_fuse.pipelines.flat import figures_metrics, report_metrics, shortfalls
from tflite_fuse.rewriting.figures import expected_instructions, figures
from tflite_fuse.rewriting.rewrite import rewrite_model
from tflite_fuse.search.front import Point
from tflite_fuse.search.schemes import Scheme
from tflite_fuse.units import round_up

_PREPARED_BYTES = 544
"""Bytes that the runtime needs temporarily, on Arm, while it prepares a block with its input, constants and scratch."""


def model_metrics(model: Model, data: bytes, options: MetricsOptions) -> dict[str, float]:
    """Return the metrics of a rewrite under these options, or of the nearest one with its shortfalls.

    Args:
        model: as loaded.
        data: its file.
        options: of the rewrite, and the effort.

    Raises:
        ModelError: the model is damaged.
    """
    return (_exact if options.effort == "exact" else _estimated)(model, data, options)


def _exact(model: Model, data: bytes, options: MetricsOptions) -> dict[str, float]:
    """Return the metrics of the first rewrite that is possible, with fewer and fewer requirements."""
    passed = {each.name: getattr(options, each.name) for each in fields(FuseOptions)}
    for attempt in _attempts(RewriteOptions(**passed, verify=False)):
        try:
            report = rewrite_model(model, data, attempt)[1]
        except LimitError:
            continue
        metrics = report_metrics(report)
        metrics.setdefault("instructions", float(expected_instructions(model, Target(options.target))))
        counted = None if options.cost is WorkUnit.MACS else report.prediction
        factor = report.compute_factor if counted is None else counted.factor
        kept = _kept_inside(model) if attempt.input_mode is not options.input_mode else 0
        met = attempt.goal == options.goal
        return (
            metrics
            | shortfalls(metrics, options.effective_goal, options.max_flash, 0.0 if met else factor, kept)
            | {"exact": 1.0}
        )
    raise AssertionError("the last attempt has no limit")


def _attempts(options: RewriteOptions) -> Iterator[RewriteOptions]:
    """Yield the options, then with fewer and fewer of the requirements that may be out of reach."""
    yield options
    goal = options.effective_goal
    if goal.max_ram is not None:
        yield replace(options, goal=Goal(max_compute=goal.max_compute, least_ram=goal.max_compute is None))
    yield replace(options, goal=Goal(least_ram=True))
    yield replace(options, goal=Goal(least_ram=True), input_mode=InputMode.RESIDENT)
    yield RewriteOptions(
        verify=False,
        passes=("reorder", "plan"),
        in_place=options.in_place,
        time_limit=options.time_limit,
        runtime=options.runtime,
    )


def _estimated(model: Model, data: bytes, options: MetricsOptions) -> dict[str, float]:
    """Return metrics of the point of the estimated front that the goal selects, or of the model as it is if better."""
    before = with_given_offsets(program_of(model), block_overlaps(model), options.arena(), read_plan(model))
    macs = sum(executed_macs(model))
    changed = remove_plan(model)
    changed = Int8Borders().run(changed).model if options.int8_io else changed
    changed = prepared(changed, states=options.scheme is Scheme.AUTO)
    options = replace(options, cost=WorkUnit.MACS)
    site, kept = (None, 0) if why_untouchable(model) else _start(changed, options, model)
    chosen = None if site is None else _chosen(site, options.effective_goal)
    used, loading, tail, blocks, fused, executed = before.total, before.while_loading, before.tail, 0, 0, macs
    if chosen is not None and (chosen.ram_bytes < used or chosen.work < executed):
        used, tail, executed = min(used, chosen.ram_bytes), chosen.tail_bytes, chosen.work
        blocks, fused = len(chosen.blocks), _fused(chosen)
        loading = min(loading, _loading(changed, chosen))
    factor = round(executed / macs, 6) if macs else 1.0
    left = sum(executed_macs(changed))  # constant channels are gone already
    numbers = {
        "arena_bytes": round_up(max(used, loading), ALIGNMENT),
        "arena_used_bytes": used,
        "head_bytes": max(0, used - tail),
        "tail_bytes": tail,
        "loading_bytes": loading,
        "peak_bytes": max(0, used - tail),
        "file_bytes": len(serialize_model(changed)),
        "macs": executed,
        "operators": len(changed.main.operators) - fused + blocks,
        "compute_factor": factor,
        "blocks": blocks,
        "verified_inputs": 0,
        "instructions": expected_instructions(changed, Target(options.target)) * (executed / left if left else 1.0),
    }
    unchanged = figures_metrics(figures(model, data, before, options.runtime), "before_")
    metrics = unchanged | {name: float(value) for name, value in numbers.items()}
    return metrics | shortfalls(metrics, options.effective_goal, options.max_flash, factor, kept) | {"exact": 0.0}


def _start(model: Model, options: FuseOptions, original: Model) -> tuple[Site | None, int]:
    """Return the estimated front, and the bytes of inputs that should leave the arena and cannot."""
    kept_inside = 0 if options.input_mode is InputMode.RESIDENT else _kept_inside(model)
    if "fuse" not in options.passes:
        return None, 0
    for mode in dict.fromkeys((InputMode(options.input_mode), InputMode.RESIDENT)):
        with suppress(LimitError):
            budget = Budget(options.tuning.quick_order)
            site = Fuse(replace(options, input_mode=mode), budget, original=original).site(model)
            return site, 0 if mode is options.input_mode else kept_inside
    return None, kept_inside


def _chosen(site: Site, goal: Goal) -> Point:
    """Return the point that a rewrite would place first, or the nearest to the goal."""
    limit, points = goal.compute_limit, site.front.points
    allowed = [point for point in points if limit is None or point.work <= limit * site.own_macs]
    allowed = allowed or list(points[-1:])
    if goal.max_ram is not None:
        allowed = [point for point in allowed if point.ram_bytes <= goal.max_ram][-1:] or allowed
    return allowed[0]


def _loading(model: Model, chosen: Point) -> int:
    """Return the approximate bytes for loading on Arm: blocks have scratch and one constant, and no inner tensors."""
    blocks, fused = len(chosen.blocks), _fused(chosen)
    left = len(model.main.operators) - fused
    outside = sum(bool(model.buffers[tensor.buffer].data) for tensor in model.main.tensors) * left
    program = program_of(model)
    buffers = len(arena_requests(program).buffers) - fused + 2 * blocks
    tensors = buffers + blocks + outside // max(len(model.main.operators), 1)
    preparing = max(planning_bytes(ARM, 1, tensors, 0, buffers), _PREPARED_BYTES)
    return preparing + round_up(chosen.tail_bytes - predict_tail(program).edges, ALIGNMENT)


def _fused(point: Point) -> int:
    return sum(len(block.operators) for block in point.blocks)


def _kept_inside(model: Model) -> int:
    return sum(tensor_nbytes(model.main.tensors[index]) for index in model.main.inputs)
